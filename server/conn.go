package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
	"zkd/server/stats"
	"zkd/server/watch"
	"zkd/storage"
	"zkd/storage/acl"
)

// conn is one client connection. Its reader goroutine runs serve; the apply goroutine calls Applied and WatchFired.
type conn struct {
	server *Server
	port   *Port // it came by; immutable
	remote netip.AddrPort
	in     input
	out    output
	ids    auth.Identities
	login  *sasl.Dialogue // nil before the first token of SASL; owned by the reader
	watch  watch.Holder

	// Set by the reader when the session is there, before it is bound; immutable afterwards.
	session     jute.SessionID
	established jute.Millis

	live    atomic.Pointer[liveness.Session]
	timeout atomic.Int64 // negotiated, a time.Duration
	closing atomic.Bool  // the client has asked to close: what follows is dropped

	special    special // owned by the reader
	linearized bool    // a barrier was asked for after the input buffer was filled last; owned by the reader

	epoch atomic.Uint64 // availability.word at the ConnectRequest; 0 before it

	counts connCounts
	req    records       // owned by the reader
	now    time.Duration // when the requests in the input buffer came; owned by the reader
	waited time.Duration // how long they have waited in the throttle; owned by the reader
	held   time.Duration // how long the present one has waited for its turn; owned by the reader
	barred time.Duration // and for a barrier; owned by the reader

	auditor  *auditor // nil without an audit log; owned by the reader
	reserved int      // bytes of the large request that the reader is at, unless its write gives them back
}

// connCounts is what the four-letter words cons and stat show of a connection. Atomic.
type connCounts struct {
	received, sent        atomic.Int64
	lastOp                atomic.Int32 // 0 before the first
	lastXid, lastZxid     atomic.Int64
	lastResponse, lastLat atomic.Int64 // milliseconds
	latency               stats.Summary
	bound                 atomic.Bool // the session is there
}

// records are the request records that the reader decodes into, so that decoding allocates nothing.
type records struct {
	create    jute.CreateRequest
	createTTL jute.CreateTTLRequest
	version   jute.PathVersionRequest
	pathWatch jute.PathWatchRequest
	path      jute.PathRequest
	setData   jute.SetDataRequest
	setACL    jute.SetACLRequest
	proposal  storage.Proposal
	children  []string
	decoder   jute.Decoder
}

// request is one request as it stands in the input buffer.
type request struct {
	xid  jute.Xid
	op   jute.Op
	body []byte // a view of the frame
}

// errClose ends a connection without anything to report.
var errClose = errors.New("connection is over")

// serve runs the connection to its end. It is the reader goroutine.
func (c *conn) serve() {
	err := c.secure()
	if err == nil {
		err = c.handshake()
	}
	for err == nil {
		err = c.step()
	}
	c.logEnd(err)
	if errors.Is(err, io.EOF) {
		c.server.metrics.drops.Add(1)
	}
	if c.session == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !c.server.draining() {
		c.server.metrics.sessionless.Add(1)
	}
	// Writes that were taken are answered even though nothing more is read.
	c.out.awaitSettled(maxInt)
	// A client that does not read has this long; an error means that it is gone.
	_ = c.in.net.SetWriteDeadline(c.server.opts.Clock.Now().Add(c.server.opts.HandshakeTimeout))
	c.out.flushLast()
	c.server.forget(c)
	if errors.Is(err, errClose) || errors.Is(err, errTLS) || c.session != 0 && c.server.draining() {
		c.linger()
	}
	c.out.close()
}

// Bounds of linger: guesses, many times what a client has under way.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// linger ends the sending side alone and takes in what the client has under way: closing a socket with unread bytes
// in it resets the connection, which can cost the client the last reply.
func (c *conn) linger() {
	if c.in.tls != nil && c.in.tls.CloseWrite() != nil { // close_notify, which has a deadline of its own
		return
	}
	half, ok := c.in.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.in.net.SetReadDeadline(c.server.opts.Clock.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.in.net, lingerBytes) // whatever ends it, the connection is over
}

// maxInt is no limit.
const maxInt = int(^uint(0) >> 1)

// step takes and answers one request; before it waits for the client, it writes what there is.
func (c *conn) step() error {
	waits := !c.in.hasFrame()
	if waits {
		c.out.flush()
		c.in.release()
	}
	frame, err := c.in.frame()
	if err != nil {
		return err
	}
	if waits {
		c.server.metrics.bytesReceived.Add(c.in.taken())
		c.now, c.waited, c.linearized = c.server.elapsed(), 0, false
		if live := c.live.Load(); live != nil {
			live.Touch()
		}
	}
	if len(frame) < 8 {
		return errShortRequest
	}
	var d jute.Decoder
	var h jute.RequestHeader
	d.Reset(frame)
	h.Decode(&d)
	c.counts.received.Add(1)
	c.server.metrics.received.Add(1)
	if c.closing.Load() {
		return nil
	}
	return c.server.dispatch(c, &request{xid: h.Xid, op: h.Op, body: d.Remaining()})
}

// errShortRequest means a frame without a whole request header.
var errShortRequest = errors.New("request is shorter than its header")

// logEnd says why the connection ended, if an operator can do something about it.
func (c *conn) logEnd(err error) {
	switch {
	case errors.Is(err, errClose), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, os.ErrDeadlineExceeded) && c.server.draining():
	case errors.Is(err, errFrameLength), errors.Is(err, errShortRequest), errors.Is(err, errHandshake):
		c.server.bad.Warn("closed a connection that sent what is no request", slog.String("peer", c.remote.String()),
			session(c.session), slog.Any("err", err))
	case errors.Is(err, errTLS), errors.Is(err, errNoTLS):
		c.server.bad.Warn("closed a connection without a session of TLS", slog.String("peer", c.remote.String()),
			slog.Any("err", err))
	case errors.Is(err, errLargeRequests), errors.Is(err, errStale), errors.Is(err, errWatches):
		c.server.bad.Warn("closed a connection whose request is refused by a limit",
			slog.String("peer", c.remote.String()), session(c.session), slog.Any("err", err))
	default:
		c.server.opts.Logger.Debug("connection ended", slog.String("peer", c.remote.String()), session(c.session),
			slog.Any("err", err))
	}
}

// session is the log attribute of a session.
func session(id jute.SessionID) slog.Attr { return slog.String("session", hex(int64(id))) }

// reply appends a reply without a body.
func (c *conn) reply(xid jute.Xid, zxid jute.Zxid, code jute.Code) {
	c.out.mu.Lock()
	c.appendReplyLocked(xid, zxid, code)
	c.out.mu.Unlock()
	c.answered(xid, zxid)
}

// replyAside appends a reply without a body and a zxid that cons does not know: of auth.
func (c *conn) replyAside(xid jute.Xid) {
	c.out.mu.Lock()
	c.appendReplyLocked(xid, 0, jute.OK)
	c.out.mu.Unlock()
	c.sent(1)
}

// appendReplyLocked appends a reply without a body.
func (c *conn) appendReplyLocked(xid jute.Xid, zxid jute.Zxid, code jute.Code) {
	b, mark := c.beginLocked(xid, zxid, code)
	c.endLocked(b, mark)
}

// beginLocked begins a reply; its body is appended to b before endLocked.
func (c *conn) beginLocked(xid jute.Xid, zxid jute.Zxid, code jute.Code) (b []byte, mark int) {
	b, mark = jute.BeginFrame(c.out.openLocked())
	h := jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}
	return h.Append(b), mark
}

// endLocked ends a reply.
func (c *conn) endLocked(b []byte, mark int) {
	*c.out.buf = jute.EndFrame(b, mark)
	c.out.replies.add(len(b) - mark - jute.FrameHeaderBytes)
	if c.out.closed { // nobody will take it
		giveBuffer(c.out.buf)
		c.out.buf = nil
	}
}

// answered counts a reply. The special xids do not hide the last real one (ServerCnxn.updateStatsForResponse).
func (c *conn) answered(xid jute.Xid, zxid jute.Zxid) {
	if xid >= 0 {
		c.counts.lastXid.Store(int64(xid))
	}
	c.counts.lastZxid.Store(int64(zxid))
	c.sent(1)
}

// sent counts packets to the client.
func (c *conn) sent(packets int64) {
	c.counts.sent.Add(packets)
	c.server.metrics.sent.Add(packets)
}

// notified counts an event to the client, of so many bytes with its frame's header.
func (c *conn) notified(bytes int) {
	c.sent(1)
	c.server.metrics.watchBytes.Add(int64(bytes - jute.FrameHeaderBytes))
}

// latency records how long a request took.
func (c *conn) latency(op jute.Op, arrival, now time.Duration) {
	ms := (now - arrival).Milliseconds()
	n := &c.counts
	n.lastOp.Store(int32(op))
	n.lastLat.Store(ms)
	n.lastResponse.Store(now.Milliseconds())
	n.latency.Add(ms)
	c.server.metrics.latency.Add(ms)
}

// CanRead reports whether an event about a znode with this ACL may be delivered to the connection.
func (c *conn) CanRead(list []jute.ACL) bool { return c.allowed(list, jute.PermRead) }

// allowed reports whether the connection has the permission (ZooKeeperServer.checkACL).
func (c *conn) allowed(list []jute.ACL, perm jute.Perms) bool {
	return c.server.opts.Flags&storage.FlagSkipACL != 0 || len(list) == 0 || acl.Allowed(list, perm, c.ids.Snapshot())
}

// WatchFired appends a watch event. The apply goroutine calls it.
func (c *conn) WatchFired(_ *watch.Event, notice []byte) {
	o := &c.out
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	b := o.openLocked()
	*o.buf = append(b, notice...)
	cut := o.lenLocked() > c.server.opts.MaxUnreadBytes
	if cut {
		o.closeLocked()
	}
	wake := c.queueLocked()
	o.mu.Unlock()
	c.notified(len(notice))
	if cut {
		c.server.bad.Warn("cut off a client that does not read its watch events",
			slog.String("peer", c.remote.String()), session(c.session))
	}
	if wake {
		c.server.flusher.add(c)
	}
}

// queueLocked reports whether the caller must give c to the flusher.
func (c *conn) queueLocked() bool {
	o := &c.out
	if o.closed || o.writing || o.queued {
		return false
	}
	o.queued = true
	return true
}
