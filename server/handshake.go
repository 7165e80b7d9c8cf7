package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/server/traffic"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/serverid"
)

// errHandshake means a first frame that is no ConnectRequest.
var errHandshake = errors.New("first frame is not a connect request")

// handshakeBytesMax bounds the first frame. A ConnectRequest has 45 bytes, and with a longer password it is refused
// anyway. So nobody has the server keep as much as a request may have for a client that it does not know.
const handshakeBytesMax = 4 << 10

// errNoTLS means a plain connection to a port that is for TLS alone.
var errNoTLS = errors.New("it does not begin with a TLS handshake: the client must use TLS on this port")

// errTLS means a TLS handshake that failed.
var errTLS = errors.New("TLS handshake failed")

// secure has the connection go on with TLS, if its port or its first byte wants that. It is the first that the reader
// does, and ends in bounded time.
func (c *conn) secure() error {
	p, s := c.port, c.server
	if p.TLS == nil {
		s.metrics.countPlain(c)
		if p.Certified == nil {
			return nil
		}
		return c.login.certify(p.Certified(c.Net()))
	}
	defer s.handshakes.Leave()
	patience := s.opts.HandshakeTimeout
	if p.Plain && p.DetectionTimeout > 0 {
		patience = min(patience, p.DetectionTimeout)
	}
	if err := c.readWithin(patience); err != nil {
		return err
	}
	first, err := c.In.Peek(1)
	switch {
	case err != nil && p.Plain:
		return err
	case err != nil:
		return c.unsuccessful(err)
	case first[0] == socket.RecordHandshake:
		return c.shakeHands()
	case p.Plain:
		s.metrics.countPlain(c)
		return nil
	}
	return c.unsuccessful(errNoTLS)
}

// shakeHands does the TLS handshake, and takes the client's certificate for an identity.
func (c *conn) shakeHands() error {
	s := c.server
	until := s.opts.Clock.Now().Add(s.opts.HandshakeTimeout)
	if err := errors.Join(c.readWithin(s.opts.HandshakeTimeout), c.Net().SetWriteDeadline(until)); err != nil {
		return err
	}
	state, err := c.StartTLS(c.port.TLS, &s.handshakes)
	if err != nil {
		return c.unsuccessful(fmt.Errorf("%w: %w", errTLS, err))
	}
	if err := c.Net().SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return c.login.certify(state.PeerCertificates[0])
}

// readWithin has reads fail after d, or at once when Shutdown has begun.
func (c *conn) readWithin(d time.Duration) error {
	return c.readUntil(c.server.opts.Clock.Now().Add(d))
}

// readUntil has reads fail from then on, never if that is zero, or at once when Shutdown has begun.
func (c *conn) readUntil(at time.Time) error {
	if err := c.Net().SetReadDeadline(at); err != nil {
		return err
	}
	if c.server.draining() { // asked afterwards, so that the deadline of Shutdown is not undone
		return c.Net().SetReadDeadline(passed)
	}
	return nil
}

// unsuccessful counts a handshake that failed (NettyServerCnxnFactory.CertificateVerifier).
func (c *conn) unsuccessful(err error) error {
	c.server.metrics.unsuccessfulHandshakes.Add(1)
	c.server.metrics.authFailed.Add(1)
	return err
}

// handshake answers the first frame: a four-letter command, or a ConnectRequest. nil means that the session is there
// and bound.
func (c *conn) handshake() error {
	if err := c.readWithin(c.server.opts.HandshakeTimeout); err != nil {
		return err
	}
	first, err := c.In.Peek(jute.FrameHeaderBytes)
	if err != nil {
		return err
	}
	if word, ok := fourletter.Parse([4]byte(first)); ok {
		return c.answerCommand(word)
	}
	if n := int32(binary.BigEndian.Uint32(first)); n > handshakeBytesMax {
		return limits.ErrFrameLength
	}
	frame, err := c.In.Frame()
	if err != nil {
		return err
	}
	var d jute.Decoder
	var req jute.ConnectRequest
	d.Reset(frame)
	req.Decode(&d)
	if d.Err() != nil {
		return errors.Join(errHandshake, d.Err())
	}
	c.now, c.metered.greetingIn = c.server.elapsed(), jute.FrameHeaderBytes+len(frame)
	c.counts.received.Add(1)
	c.server.metrics.received.Add(1)
	if err := c.connect(&req); err != nil {
		return err
	}
	return c.readUntil(time.Time{})
}

// connect makes or takes over the session (ZooKeeperServer.processConnectRequest).
func (c *conn) connect(req *jute.ConnectRequest) error {
	s := c.server
	p, err := c.enterFor(req)
	if err != nil {
		return err
	}
	if p == stateDown {
		s.metrics.notServing.Add(1)
		peer := slog.String("peer", c.remote.String())
		if s.opts.IdleLeader && s.available.leading.Load() {
			s.turned.Warn("rejected client: leaderServes=no", peer)
		} else {
			s.turned.Warn("rejected client: not synced with a leader", peer)
		}
		return errClose
	}
	if !c.admitter.welcome(req.SessionID != 0) {
		return errClose
	}
	if p == stateReadOnly && !req.ReadOnly {
		s.turned.Warn("rejected client: client not read-only capable", slog.String("peer", c.remote.String()))
		return errClose
	}
	if seen, last := req.LastZxidSeen, s.opts.Machine.LastZxid(); seen > last {
		s.bad.Warn("rejected client: client zxid ahead of this server",
			slog.String("peer", c.remote.String()), zxidAttr("seen", seen), zxidAttr("zxid", last))
		return errClose
	}
	if req.SessionID == 0 && !c.admitter.roomForSession() {
		return errClose
	}
	if req.SessionID == 0 && c.Out.PeerClosed() { // nobody would have the session, which costs all servers a write
		return errGone
	}
	timeout := min(max(time.Duration(req.TimeoutMillis)*time.Millisecond, s.opts.MinTimeout), s.opts.MaxTimeout)
	if p == stateReadOnly || s.opts.LocalSessions && (req.SessionID == 0 || s.locals.has(req.SessionID)) {
		return c.connectLocal(req, timeout, p == stateReadOnly)
	}
	return c.connectGlobal(req, timeout)
}

// enter is the serving state in which c begins, at its ConnectRequest. When the next epoch begins, c is closed.
func (c *conn) enter() servingState {
	a := &c.server.available
	for {
		word := a.word.Load()
		c.epoch.Store(word)
		if a.replacing.Load() {
			return stateDown
		}
		if a.word.Load() == word { // else the one who closes may have looked at c before the store
			return servingState(word & (1<<stateBits - 1))
		}
	}
}

// enterFor is enter for a ConnectRequest. Who has a session of the group keeps it while there is no leader. Who is to
// get one, or has one that only this server knows, is told nothing before there is a leader again, or the serving state
// is another one: until then neither reads nor writes are certain.
func (c *conn) enterFor(req *jute.ConnectRequest) (servingState, error) {
	s := c.server
	if s.opts.Ensemble == nil || req.SessionID != 0 && !(s.opts.LocalSessions && s.locals.has(req.SessionID)) {
		return c.enter(), nil
	}
	for {
		certain, changed := s.available.certain()
		if certain || s.available.serving() != stateServing {
			return c.enter(), nil
		}
		select {
		case <-changed:
		case <-c.Out.Ending():
			return stateDown, errGone
		case <-s.stop:
			return stateDown, errClose
		}
	}
}

// connectGlobal makes or takes over a session of the group.
func (c *conn) connectGlobal(req *jute.ConnectRequest, timeout time.Duration) (err error) {
	s := c.server
	p := &entry.Proposal{Op: jute.OpCreateSession, Session: req.SessionID, Server: s.opts.ServerID}
	txn := entry.SessionTxn{TimeoutMillis: int32(timeout.Milliseconds()), Owner: s.opts.ServerID}
	if req.SessionID == 0 {
		if txn.Passwd, err = c.newPassword(); err != nil {
			return err
		}
		p.Session = s.ids.next()
	} else {
		p.Op = entry.OpReattachSession
		if copy(txn.Passwd[:], req.Passwd) != len(txn.Passwd) || len(req.Passwd) != len(txn.Passwd) {
			c.refuse(req.HasReadOnly)
			return errClose
		}
		s.supersede(req.SessionID, txn.Passwd)
	}
	c.session, c.established = p.Session, s.millis()
	p.Time, p.Flags, p.Body = c.established, s.opts.Flags, txn.Append(nil)
	if s.inFlight.Gate != nil && p.Op == jute.OpCreateSession {
		c.timeout.Store(int64(timeout)) // by which it may be stale
		if err := c.admitter.enterLine(p.Op); err != nil {
			return err
		}
	} else {
		s.inFlight.Begin()
	}
	defer s.inFlight.End()
	w := &connecting{pendingSession: newPendingSession(c), hasReadOnly: req.HasReadOnly}
	if err := s.opts.node.Propose(p, w); err != nil {
		return err
	}
	err = w.wait()
	if errors.Is(err, errGone) {
		c.session = 0 // nothing is bound
	}
	if err == nil {
		c.awaitFormer()
	}
	return err
}

// newPassword draws the password of a new session. An error, which is logged, ends the connection.
func (c *conn) newPassword() (entry.Passwd, error) {
	password, err := auth.NewPassword(c.server.opts.Random)
	if err != nil {
		c.server.opts.Logger.Error("cannot generate session password", slog.Any("err", err))
		return entry.Passwd{}, errClose
	}
	return entry.Passwd(password), nil
}

// connectLocal makes or takes over a local session. readOnly says that the server is in read-only mode; there a session
// that is not known here is no dead one, and its client is sent away without an answer
// (org.apache.zookeeper.server.quorum.ReadOnlyZooKeeperServer).
func (c *conn) connectLocal(req *jute.ConnectRequest, timeout time.Duration, readOnly bool) (err error) {
	s := c.server
	var passwd entry.Passwd
	id, create := req.SessionID, req.SessionID == 0
	if create {
		if passwd, err = c.newPassword(); err != nil {
			return err
		}
		id = s.ids.next()
	} else {
		copy(passwd[:], req.Passwd)
	}
	known := len(req.Passwd) == len(passwd) || create
	if !known || !s.locals.open(id, passwd, create, readOnly) {
		if !readOnly {
			c.refuse(req.HasReadOnly)
		}
		return errClose
	}
	c.session, c.established = id, s.millis()
	c.flags |= flagLocal
	if readOnly {
		c.flags |= flagReadOnly
	}
	c.timeout.Store(int64(timeout))
	s.bind(c, s.locals.tracker)
	c.awaitFormer()
	c.welcomeSession(&jute.ConnectResponse{TimeoutMillis: int32(timeout.Milliseconds()), SessionID: id,
		Passwd: passwd[:], HasReadOnly: req.HasReadOnly, ReadOnly: readOnly})
	if create {
		c.sessionMade(s.opts.Machine.LastZxid())
	}
	return nil
}

// connecting waits for the session of a connection.
type connecting struct {
	pendingSession
	hasReadOnly bool
}

// Applied binds the session and answers the client; on the apply goroutine, so that no event can come in between. A
// session whose connection has ended meanwhile stays alone until its timeout.
func (w *connecting) Applied(r *apply.Result) {
	w.do(func(c *conn) error {
		info := r.NewSession
		if info == nil {
			c.refuse(w.hasReadOnly)
			return errClose
		}
		if r.Op == entry.OpReattachSession {
			c.server.metrics.revalidated.Add(1)
		}
		c.timeout.Store(int64(info.TimeoutMillis) * int64(time.Millisecond))
		c.server.bind(c, c.server.tracker.Load())
		c.welcomeSession(&jute.ConnectResponse{TimeoutMillis: info.TimeoutMillis, SessionID: info.ID,
			Passwd: info.Passwd[:], HasReadOnly: w.hasReadOnly})
		if r.Op == jute.OpCreateSession {
			c.sessionMade(r.Zxid)
		}
		return nil
	})
}

// welcomeSession answers that c has the session that is bound to it.
func (c *conn) welcomeSession(resp *jute.ConnectResponse) {
	c.watch.Init(c, resp.SessionID)
	c.counts.bound.Store(true)
	c.answerConnect(resp)
}

// sessionMade counts the operation that has made the session, at zxid. A session that is taken over comes without one,
// as in ZooKeeper.
func (c *conn) sessionMade(zxid jute.Zxid) {
	c.counts.lastZxid.Store(int64(zxid))
	now := c.server.elapsed()
	c.latency(jute.OpCreateSession, c.now, now)
	c.metered.AnsweredAside(&traffic.Answer{Op: jute.OpCreateSession, In: c.metered.greetingIn,
		Out: c.metered.greetingOut, Took: now - c.now})
}

// refuse answers that there is no such session, or not with this password.
func (c *conn) refuse(hasReadOnly bool) {
	c.session = 0
	c.answerConnect(&jute.ConnectResponse{Passwd: make([]byte, auth.PasswordBytes), HasReadOnly: hasReadOnly})
}

// answerConnect sends the response to the ConnectRequest.
func (c *conn) answerConnect(resp *jute.ConnectResponse) {
	c.Out.Lock()
	b, mark := jute.BeginFrame(c.Out.OpenLocked())
	b = resp.Append(b)
	c.metered.greetingOut = len(b) - mark
	c.Out.EndLocked(b, mark)
	wake := c.Out.QueueLocked()
	c.Out.Unlock()
	c.sent(1)
	if wake {
		c.server.flusher.Add(&c.Out)
	}
}

// answerCommand answers a four-letter command and ends the connection.
func (c *conn) answerCommand(w fourletter.Command) error {
	c.counts.received.Add(1)
	c.server.metrics.received.Add(1)
	argument, err := c.In.Peek(jute.FrameHeaderBytes + w.ArgumentBytes())
	if err != nil {
		argument = c.In.Buffered() // too short: Answer knows what to say
	}
	if err := c.Net().SetDeadline(c.server.opts.Clock.Now().Add(c.server.opts.HandshakeTimeout)); err != nil {
		return err
	}
	out := &commandWriter{to: c.Out.Writer()}
	info := figures{c.server}.info(ofPort(c.port.Secure))
	if err := c.server.opts.Commands.Answer(out, w, argument[jute.FrameHeaderBytes:], info); err != nil {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	c.sent(out.packets())
	return errClose
}

// idSource makes session ids as ZooKeeper lays them out: the server's id in the top byte, then 40 bits of the time of
// the start, then a counter (SessionTrackerImpl.initializeNextSessionId).
type idSource struct{ last counter }

// makerAlone is the server in the session ids of one that stands alone, whatever is in its file myid
// (ZooKeeperServer.createSessionTrackerServerId).
const makerAlone = 1

// newIDSource returns the source of a server that starts now.
func newIDSource(server uint64, now jute.Millis) *idSource {
	s := &idSource{}
	s.last.Store(int64(uint64(now)<<24>>8 | serverid.SessionBits(server)))
	return s
}

// next returns an id that no session of this server has had.
func (s *idSource) next() jute.SessionID { return jute.SessionID(s.last.Add(1) - 1) }
