package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"zkd/quorum/proof"
	"zkd/storage/serverid"
)

// Bounds on accepted connections. Guesses: an ensemble has a handful of servers, on as many hosts or on one.
const (
	handshakesMax        = 64 // at once, of all hosts that are not known to be a peer's
	handshakesPerHostMax = 16 // at once, of one host
	streamsPerPeerMax    = 4  // snapshot streams; a broken one may not be noticed before its successor comes
	acceptPause          = 100 * time.Millisecond
)

// Accept has the transport accept at l, too, and close it at Close or Leave.
func (t *Transport) Accept(l net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = l.Close() // nobody has come yet
		return
	}
	t.listeners = append(t.listeners, l)
	if t.accepting {
		t.goLocked(func() { t.accept(l) })
	}
}

// Leave closes a listener. The connections that it has accepted stay.
func (t *Transport) Leave(l net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.listeners)
	t.listeners = slices.DeleteFunc(t.listeners, func(other net.Listener) bool { return other == l })
	if len(t.listeners) == before {
		return
	}
	if err := l.Close(); err != nil {
		t.opts.Logger.Warn("failed to close listener", slog.Any("err", err))
	}
}

// accepts tells whether l was not left.
func (t *Transport) accepts(l net.Listener) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.listeners, l)
}

// accept takes connections of one listener until the transport is closed.
func (t *Transport) accept(l net.Listener) {
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
			t.admit(raw, l.Addr().String())
		case t.isClosed() || !t.accepts(l):
			return
		case errors.Is(err, net.ErrClosed):
			t.opts.Logger.Error("peer listener failed", slog.Any("err", err))
			return
		default: // out of file descriptors, say
			t.warn.Warn("failed to accept peer connection", slog.Any("err", err))
			pause(t.opts.Clock, acceptPause, t.done, nil)
		}
	}
}

// isClosed says whether Close was called.
func (t *Transport) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// admit shakes hands with a new connection, unless too many do. Strangers cannot take the places of hosts on which this
// server has found a peer.
func (t *Transport) admit(raw net.Conn, at string) {
	host := hostOf(raw.RemoteAddr().String())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.handshakes[host] >= handshakesPerHostMax ||
		t.handshaking >= handshakesMax && !t.isHostOfPeer(host) {
		_ = raw.Close() // refused
		t.warn.Warn("too many peer handshakes", slog.String("remote", host), slog.Int("all", t.handshaking))
		return
	}
	t.handshaking++
	t.handshakes[host]++
	t.goLocked(func() { t.receive(raw, host, at) })
}

// hostOf returns address without its port, if it has one.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// isHostOfPeer tells whether a peer was last found on host.
func (t *Transport) isHostOfPeer(host string) bool {
	for _, p := range *t.peers.Load() { // any order
		if p.isOn(host) {
			return true
		}
	}
	return false
}

// leave ends what admit counted.
func (t *Transport) leave(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handshaking--
	if t.handshakes[host]--; t.handshakes[host] == 0 {
		delete(t.handshakes, host)
	}
}

// acceptedConn is an accepted connection whose caller is known.
type acceptedConn struct {
	peer    *peer
	link    *link
	stream  *stream // for messages; nil for a snapshot
	purpose purpose
}

// receive serves a connection that was accepted at an address to its end.
func (t *Transport) receive(raw net.Conn, host, at string) {
	g, err := t.greet(raw, at)
	t.leave(host)
	if err != nil {
		if g != nil {
			g.leave()
		}
		_ = raw.Close() // given up; twice does no harm
		remote := raw.RemoteAddr().String()
		if !t.isClosed() && !errors.Is(err, errProbed) && !t.joiners.tell(remote, err) {
			t.warn.Warn("peer connection rejected", slog.String("remote", remote), slog.Any("err", err))
		}
		return
	}
	defer g.leave()
	if g.purpose == forSnapshot {
		t.opts.Streams(g.peer.id, &ownedConn{Conn: g.link.conn, link: g.link, peer: g.peer})
		return
	}
	g.peer.wake()
	g.peer.read(g.stream)
}

// greet shakes hands. An accepted connection is returned with some errors, and is then to leave.
func (t *Transport) greet(raw net.Conn, at string) (*acceptedConn, error) {
	ctx, cancel := t.within(context.Background(), t.done, t.opts.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // what waits for it sees the error
	boundSilence(raw, &t.opts)
	conn, err := t.secure(ctx, raw)
	if err != nil {
		return nil, cause(ctx, err)
	}
	proven, err := t.opts.Gate.Accept(conn)
	if errors.Is(err, proof.ErrUnproven) {
		return nil, cause(ctx, t.turnAway(proven, err))
	}
	if err != nil {
		return nil, cause(ctx, err)
	}
	conn = proven.Conn
	h, err := readHello(conn)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if c := proven.Call; c != nil && *c != (proof.Call{From: h.from, To: h.to, Purpose: uint8(h.purpose)}) {
		return nil, fmt.Errorf("the handshake is from server %d to %d for %d, the proof from %d to %d for %d",
			serverid.Number(h.from), serverid.Number(h.to), h.purpose, serverid.Number(c.From), serverid.Number(c.To),
			c.Purpose)
	}
	if err := t.await(ctx, h); err != nil {
		return nil, err
	}
	a := t.newAnswer(h)
	l := &link{raw: raw, conn: conn, address: raw.RemoteAddr().String(), at: at, processID: h.processID, name: h.name,
		cluster: h.cluster, levels: h.levels, version: min(h.newest, versionNewest)}
	g, refusal := t.welcome(h, l)
	switch {
	case refusal != nil:
		a.code, a.text = refusal.Code, refusal.Text
	case !stop(): // from here on the peer's end closes it: who reads the answer may count on the stream
		return g, context.Cause(ctx)
	default:
		a.version = l.version
	}
	a.standing = t.standing()
	_, err = conn.Write(a.encode())
	if h.purpose == forCluster {
		return nil, errProbed
	}
	if refusal != nil {
		return nil, &rejectedError{from: h.from, name: h.name, refusal: refusal}
	}
	return g, err
}

// turnAway tells a caller who has proven nothing that a proof is wanted, and nothing else. What it has said is not
// looked at.
func (t *Transport) turnAway(conn io.ReadWriter, why error) error {
	if _, err := readSealed(conn, make([]byte, helloHeadBytes)); err != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	a := answer{code: Unproven, text: "this port is for those who prove that they belong to the ensemble"}
	_, _ = conn.Write(a.encode()) // it ends anyway
	return why
}

// newAnswer returns an answer with as much as the caller may know. Whoever is not known to be a server of the ensemble
// learns neither its cluster nor its members, only that there is one, which a new server has to know; nor what marks
// this process, by which the others tell its streams from those of an impostor.
func (t *Transport) newAnswer(h *hello) answer {
	a := answer{id: t.opts.ID, name: t.opts.Name, levels: t.levels()}
	if t.tells(h) {
		a.cluster, a.processID, a.founders = t.opts.ClusterID(), t.processID, t.opts.Founders()
	} else if id := t.opts.ClusterID(); id != [16]byte{} {
		a.cluster = t.opts.Disguise(id)
	}
	return a
}

// tells tells whether a caller may know what only servers of the ensemble may: it claims the id of one, and no other
// process with that id is connected.
func (t *Transport) tells(h *hello) bool {
	p := (*t.peers.Load())[h.from]
	if p == nil && (t.opts.Knows == nil || !t.isBegun() || !t.opts.Knows(h.from)) {
		return false
	}
	return p.impostor(h.processID) == nil
}

// secure does TLS as the options say.
func (t *Transport) secure(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if t.opts.TLSServer == nil {
		return raw, nil
	}
	first := make([]byte, 1)
	if err := t.firstByte(raw, first); err != nil {
		return nil, fmt.Errorf("wait for the first byte: %w", err)
	}
	conn := proof.Unread(raw, first)
	const tlsHandshake = 0x16 // TLS 1.3 (RFC 8446, section 5.1): the content type of a ClientHello
	if first[0] != tlsHandshake {
		if t.opts.PortUnification {
			return conn, nil
		}
		return nil, fmt.Errorf("no TLS: the connection began with %#x: set sslQuorum=true there, "+
			"or portUnification=true here", first[0])
	}
	secure := tls.Server(conn, t.opts.TLSServer)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w: do both trust the other's certificate?", err)
	}
	return secure, nil
}

// firstByte reads the first byte of a connection, in bounded time.
func (t *Transport) firstByte(raw net.Conn, first []byte) error {
	if t.opts.PortUnification && t.opts.DetectionTimeout > 0 {
		ctx, cancel := t.within(context.Background(), t.done, t.opts.DetectionTimeout)
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = raw.Close() })() // the read sees the error
	}
	_, err := io.ReadFull(raw, first)
	return err
}

// welcome judges a hello, and makes its connection one of the peer's if all is well.
func (t *Transport) welcome(h *hello, l *link) (*acceptedConn, *RefusalError) {
	if refusal := t.judge(h); refusal != nil {
		return nil, refusal
	}
	l.said = t.standing() // which judge may have changed
	p := (*t.peers.Load())[h.from]
	if p == nil && t.opts.UnknownPeer != nil {
		t.opts.UnknownPeer(h.from)
	}
	if p == nil || !p.hold(l.raw) {
		return nil, &RefusalError{Code: NotMember, Text: fmt.Sprintf("server %d knows no server %d",
			serverid.Number(t.opts.ID), serverid.Number(h.from))}
	}
	p.hear(h.where)
	g := &acceptedConn{peer: p, link: l, purpose: h.purpose}
	var refusal *RefusalError
	if h.purpose == forMessages {
		g.stream, refusal = p.take(l)
	} else {
		refusal = p.enter(l)
	}
	if refusal != nil {
		p.forget(l.raw)
		return nil, refusal
	}
	p.noteLevels(l)
	return g, nil
}

// judge refuses a hello for what it says.
func (t *Transport) judge(h *hello) *RefusalError {
	cluster, impostor := t.opts.ClusterID(), t.impostor(h)
	own, from, to := serverid.Number(t.opts.ID), serverid.Number(h.from), serverid.Number(h.to)
	switch {
	case h.oldest > versionNewest || h.newest < versionOldest:
		return &RefusalError{Code: BadVersion,
			Text: fmt.Sprintf("server %d (%s) speaks versions %d to %d, not %d to %d",
				own, t.opts.Name, versionOldest, versionNewest, h.oldest, h.newest)}
	case h.processID == t.processID:
		return &RefusalError{Code: Itself,
			Text: fmt.Sprintf("an address of server %d leads to server %d itself", to, own)}
	case h.from == t.opts.ID:
		return &RefusalError{Code: SameID, Text: fmt.Sprintf("this is server %d too", own)}
	case h.to != t.opts.ID:
		return &RefusalError{Code: WrongServer, Text: fmt.Sprintf("this is server %d, not %d", own, to)}
	case impostor != nil:
		return impostor
	case clustersDiffer(h.cluster, cluster) && !t.tells(h):
		return &RefusalError{Code: OtherCluster,
			Text: fmt.Sprintf("server %d is of another cluster than %x", own, h.cluster)}
	case clustersDiffer(h.cluster, cluster):
		return &RefusalError{Code: OtherCluster,
			Text: fmt.Sprintf("server %d is of cluster %x, not %x", own, cluster, h.cluster)}
	case h.purpose != forCluster && t.tooOld(h.from, h.levels) != nil:
		return t.tooOld(h.from, h.levels)
	case h.purpose != forCluster && t.differ(h.from, h.cluster, h.founders) != "" && !t.tells(h):
		return &RefusalError{Code: OtherFounders, Text: fmt.Sprintf("server %d is about to found an ensemble with "+
			"other servers, without server %d", own, from)}
	case h.purpose != forCluster && t.differ(h.from, h.cluster, h.founders) != "":
		return &RefusalError{Code: OtherFounders, Text: t.differ(h.from, h.cluster, h.founders)}
	case h.purpose == forCluster && t.opts.Knows != nil && t.isBegun() && t.opts.Knows(h.from):
		return &RefusalError{Code: Known, Text: fmt.Sprintf("server %d knows server %d", own, from)}
	case t.isPeer(h.from) && t.bootstrapConflict(h.from, h.cluster, h.standing) != "":
		return &RefusalError{Code: BootstrapConflict, Text: t.bootstrapConflict(h.from, h.cluster, h.standing)}
	case h.purpose != forMessages && (h.purpose != forSnapshot || t.opts.Streams == nil):
		return &RefusalError{Code: NoStreams,
			Text: fmt.Sprintf("server %d takes no stream of purpose %d", own, h.purpose)}
	}
	return nil
}

// impostor refuses a caller while another process with its id is connected.
func (t *Transport) impostor(h *hello) *RefusalError {
	return (*t.peers.Load())[h.from].impostor(h.processID)
}

// isPeer tells whether a server is a peer of this one.
func (t *Transport) isPeer(id uint64) bool { return (*t.peers.Load())[id] != nil }

// differ returns how the list of another server differs from this one's, while neither knows a cluster.
func (t *Transport) differ(server uint64, cluster [16]byte, founders string) string {
	none := [16]byte{}
	if cluster != none || t.opts.ClusterID() != none || founders == "" || t.opts.Founders() == "" {
		return ""
	}
	return t.opts.Differ(server, founders)
}
