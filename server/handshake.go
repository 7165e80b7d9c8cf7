package server

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/storage"
)

// errHandshake means a first frame that is no ConnectRequest.
var errHandshake = errors.New("first frame is not a connect request")

// handshakeBytesMax bounds the first frame. A ConnectRequest has 45 bytes, and with a longer password it is refused
// anyway. So nobody has the server keep as much as a request may have for a client that it does not know.
const handshakeBytesMax = 4 << 10

// handshake answers the first frame: a four-letter word, or a ConnectRequest. nil means that the session is there and
// bound.
func (c *conn) handshake() error {
	if err := c.readWithin(c.server.opts.HandshakeTimeout); err != nil {
		return err
	}
	first, err := c.in.peek(jute.FrameHeaderBytes)
	if err != nil {
		return err
	}
	if word, ok := fourletter.Parse([4]byte(first)); ok {
		return c.answerWord(word)
	}
	if n := int32(binary.BigEndian.Uint32(first)); n > handshakeBytesMax {
		return errFrameLength
	}
	frame, err := c.in.frame()
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
	c.now = c.server.elapsed()
	c.counts.received.Add(1)
	c.server.metrics.received.Add(1)
	if err := c.connect(&req); err != nil {
		return err
	}
	err = c.in.net.SetReadDeadline(time.Time{})
	if c.server.draining() { // asked afterwards, so that the deadline of Shutdown is not undone
		err = c.in.net.SetReadDeadline(c.server.started)
	}
	return err
}

// connect makes or takes over the session (ZooKeeperServer.processConnectRequest).
func (c *conn) connect(req *jute.ConnectRequest) error {
	s := c.server
	p := c.enter()
	if p == phaseDown {
		s.metrics.notServing.Add(1)
		peer := slog.String("peer", c.remote.String())
		if s.opts.IdleLeader && s.available.leading.Load() {
			s.bad.Warn("turned a client away: this server leads and leaves clients to the others (leaderServes=no)",
				peer)
		} else {
			s.bad.Warn("turned a client away: this server has no leader, or has not caught up with it yet", peer)
		}
		return errClose
	}
	if !c.welcome(req.SessionID != 0) {
		return errClose
	}
	if p == phaseReadOnly && !req.ReadOnly {
		s.bad.Warn("turned a client away: this server has no leader, and the client cannot do with reads",
			slog.String("peer", c.remote.String()))
		return errClose
	}
	if seen, last := req.LastZxidSeen, s.opts.Machine.LastZxid(); seen > last {
		s.bad.Warn("refused a client that has seen a later zxid than this server: it must try another one",
			slog.String("peer", c.remote.String()), zxidAttr("seen", seen), zxidAttr("zxid", last))
		return errClose
	}
	if req.SessionID == 0 && !c.roomForSession() {
		return errClose
	}
	timeout := min(max(time.Duration(req.TimeoutMillis)*time.Millisecond, s.opts.MinTimeout), s.opts.MaxTimeout)
	if p == phaseReadOnly || s.opts.LocalSessions && (req.SessionID == 0 || s.locals.has(req.SessionID)) {
		return c.connectLocal(req, timeout, p == phaseReadOnly)
	}
	return c.connectGlobal(req, timeout)
}

// connectGlobal makes or takes over a session of the group.
func (c *conn) connectGlobal(req *jute.ConnectRequest, timeout time.Duration) error {
	s := c.server
	p := &storage.Proposal{Op: jute.OpCreateSession, Session: req.SessionID, Server: s.opts.ServerID}
	txn := storage.SessionTxn{TimeoutMillis: int32(timeout.Milliseconds()), Owner: s.opts.ServerID}
	if req.SessionID == 0 {
		password, err := auth.NewPassword(s.opts.Random)
		if err != nil {
			s.opts.Logger.Error("no randomness for a session password", slog.Any("err", err))
			return errClose
		}
		txn.Passwd = storage.Passwd(password)
		p.Session = s.ids.next()
	} else {
		p.Op = storage.OpReattachSession
		if copy(txn.Passwd[:], req.Passwd) != len(txn.Passwd) || len(req.Passwd) != len(txn.Passwd) {
			c.refuse(req.HasReadOnly)
			return errClose
		}
	}
	c.session, c.established = p.Session, s.millis()
	p.Time, p.Flags, p.Body = c.established, s.opts.Flags, txn.Append(nil)
	if s.underWay.gate != nil && p.Op == jute.OpCreateSession {
		c.timeout.Store(int64(timeout)) // by which it may be stale
		if err := s.underWay.gate.enter(c, p.Op); err != nil {
			return err
		}
	} else {
		s.underWay.begin()
	}
	defer s.underWay.end()
	w := &connecting{handover: newHandover(c), hasReadOnly: req.HasReadOnly}
	if err := s.opts.node.Propose(p, w); err != nil {
		return err
	}
	err := w.wait()
	if errors.Is(err, errGone) {
		c.session = 0 // nothing is bound
	}
	return err
}

// welcome reports whether the bucket has tokens for one more session.
func (c *conn) welcome(renewed bool) bool {
	s := c.server
	var missing int64
	if s.newcomers != nil {
		var ok bool
		if missing, ok = s.newcomers.take(s.elapsed(), renewed); !ok {
			s.metrics.rejected.Add(1)
			s.bad.Warn("too many sessions at once: connection_throttle_tokens refuses another",
				slog.String("peer", c.remote.String()))
			return false
		}
	}
	s.metrics.tokenDeficit.Add(missing)
	s.metrics.connections.Add(1)
	return true
}

// connecting waits for the session of a connection.
type connecting struct {
	handover
	hasReadOnly bool
}

// Applied binds the session and answers the client; on the apply goroutine, so that no event can come in between. A
// session whose connection has ended meanwhile stays alone until its timeout.
func (w *connecting) Applied(r *storage.Result) {
	w.do(func(c *conn) error {
		info := r.NewSession
		if info == nil {
			c.refuse(w.hasReadOnly)
			return errClose
		}
		if r.Op == storage.OpReattachSession {
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
	c.latency(jute.OpCreateSession, c.now, c.server.elapsed())
}

// refuse answers that there is no such session, or not with this password.
func (c *conn) refuse(hasReadOnly bool) {
	c.session = 0
	c.answerConnect(&jute.ConnectResponse{Passwd: make([]byte, auth.PasswordBytes), HasReadOnly: hasReadOnly})
}

// answerConnect sends the response to the ConnectRequest.
func (c *conn) answerConnect(resp *jute.ConnectResponse) {
	c.out.mu.Lock()
	b, mark := jute.BeginFrame(c.out.openLocked())
	c.endLocked(resp.Append(b), mark)
	wake := c.queueLocked()
	c.out.mu.Unlock()
	c.sent(1)
	if wake {
		c.server.flusher.add(c)
	}
}

// answerWord answers a four-letter word and ends the connection.
func (c *conn) answerWord(w fourletter.Word) error {
	c.counts.received.Add(1)
	c.server.metrics.received.Add(1)
	argument, err := c.in.peek(jute.FrameHeaderBytes + w.ArgumentBytes())
	if err != nil {
		argument = c.in.buffered() // too short: Answer knows what to say
	}
	if err := c.in.net.SetDeadline(c.server.opts.Clock.Now().Add(c.server.opts.HandshakeTimeout)); err != nil {
		return err
	}
	out := &wordWriter{to: c.out.to}
	info := c.server.info(ofPort(c.port.Secure))
	if err := c.server.opts.Words.Answer(out, w, argument[jute.FrameHeaderBytes:], info); err != nil {
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

// newIDSource returns the source of a server that starts now.
func newIDSource(server uint64, now jute.Millis) *idSource {
	s := &idSource{}
	s.last.Store(int64(uint64(now)<<24>>8) | int64(server<<56))
	return s
}

// next returns an id that no session of this server has had.
func (s *idSource) next() jute.SessionID { return jute.SessionID(s.last.Add(1) - 1) }
