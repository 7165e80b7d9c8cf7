package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/liveness"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/server/watch"
	"zkd/storage/acl"
	"zkd/storage/entry"
)

// conn is one client connection. Its reader goroutine runs serve; the apply goroutine calls WatchFired, and the Applied
// of its writes.
type conn struct {
	server *Server
	port   *Port // it came by; immutable
	remote netip.AddrPort
	socket.Pair
	login   login
	watch   watch.Holder
	hearers *hearers       // of the write that is being told; owned by the apply goroutine
	account limits.Account // what of the memory of clients is its
	share   *limits.Share  // what its address has under way; set before it is served

	// Set by the reader when the session is there, before it is bound; immutable afterwards.
	session     jute.SessionID
	established jute.Millis

	live    atomic.Pointer[liveness.Session]
	former  atomic.Pointer[conn] // of the session, until its writes are over; nil: none. bind sets it
	timeout atomic.Int64         // negotiated, a time.Duration
	closing atomic.Bool          // the client has asked to close: what follows is dropped

	turn       sync.Mutex // held by the reader while it proposes a write
	superseded bool       // guarded by turn: the client has come back, and no write is proposed any more

	flags      connFlags // owned by the reader
	linearized bool      // a barrier was asked for after the input buffer was filled last; owned by the reader

	epoch atomic.Uint64 // availability.word at the ConnectRequest; 0 before it

	held        held // by the present read
	counts      connCounts
	metered     metered
	gathered    gathered
	present     request       // the one that is answered; owned by the reader
	req         records       // owned by the reader
	now         time.Duration // when the requests in the input buffer came; owned by the reader
	date        jute.Millis   // the time of day then; 0 until it is asked for; owned by the reader
	queueWait   time.Duration // how long the present one has waited for its turn; owned by the reader
	barrierWait time.Duration // and for a barrier; owned by the reader

	admitter admitter
	queries  queries
	writes   writes
	auditor  *auditor // nil without an audit log; immutable
}

// errClose ends a connection without anything to report.
var errClose = errors.New("connection is over")

// newConn returns a connection that came by p, before it has a socket.
func newConn(s *Server, p *Port, remote netip.AddrPort) *conn {
	c := &conn{server: s, port: p, remote: remote}
	c.login.conn, c.admitter.conn, c.queries.conn, c.writes.conn = c, c, c, c
	c.queries.making.account = &c.account
	c.metered.conn, c.gathered.conn = c, c
	c.metered.Init(s.traffic, &c.metered)
	c.auditor = newAuditor(c)
	if s.opts.LinearizableReads {
		c.flags = flagLinearizable
	}
	return c
}

// serve makes the connection a session's, and has another goroutine serve it: this one's stack has grown, and most
// connections wait from here on. Both are the reader goroutine.
func (c *conn) serve() {
	err := c.secure()
	if err == nil {
		err = c.handshake()
	}
	if err != nil {
		c.end(err)
		return
	}
	c.server.spawn(c.run)
}

// rareAfter is how long nothing must have come for a request to be a rare one, such as a ping: who sends those only
// waits, and its stack of two KiB, which an answer may double for good, is worth a new goroutine.
const rareAfter = time.Second

// run takes and answers requests until the connection ends, or another goroutine is to wait for it.
func (c *conn) run() {
	for {
		before := c.now
		if err := c.step(); err != nil {
			c.end(err)
			return
		}
		if c.now-before >= rareAfter {
			c.server.spawn(c.run)
			return
		}
	}
}

// end is the end of the connection, for that reason.
func (c *conn) end(err error) {
	c.metered.Flush()
	c.gathered.add()
	c.logEnd(err)
	if errors.Is(err, io.EOF) {
		c.server.metrics.drops.Add(1)
	}
	if c.session == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !c.server.draining() {
		c.server.metrics.sessionless.Add(1)
	}
	if c.session == 0 {
		c.server.churn.Ended(c.server.elapsed())
	}
	// Writes that were taken are answered even though nothing more is read.
	c.Out.AwaitSettled(maxInt)
	// A client that does not read has this long; an error means that it is gone.
	_ = c.Net().SetWriteDeadline(c.server.opts.Clock.Now().Add(c.server.opts.HandshakeTimeout))
	c.Out.FlushLast()
	c.server.forget(c)
	if errors.Is(err, errClose) || errors.Is(err, errTLS) || c.session != 0 && c.server.draining() {
		c.Linger(c.server.opts.Clock)
	}
	c.Out.Close()
}

// maxInt is no limit.
const maxInt = int(^uint(0) >> 1)

// step takes and answers one request; before it waits for the client, it writes what there is.
func (c *conn) step() error {
	waits := !c.In.HasFrame()
	if waits {
		c.metered.Flush()
		c.gathered.add()
		c.Out.Flush()
		c.In.Release()
	}
	frame, err := c.In.Frame()
	if err != nil {
		return err
	}
	if waits {
		c.server.metrics.bytesReceived.Add(c.In.Taken())
		c.now, c.date, c.admitter.waited, c.linearized = c.server.elapsed(), 0, 0, false
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
	c.gathered.received++
	if c.closing.Load() {
		return nil
	}
	c.present = request{xid: h.Xid, op: h.Op, body: d.Remaining()}
	err = c.dispatch(&c.present)
	c.present.body = nil // the buffer it is in may be given back
	return err
}

// errShortRequest means a frame without a whole request header.
var errShortRequest = errors.New("request is shorter than its header")

// logEnd says why the connection ended, if an operator can do something about it.
func (c *conn) logEnd(err error) {
	switch {
	case errors.Is(err, errClose), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, os.ErrDeadlineExceeded) && c.server.draining():
	case errors.Is(err, limits.ErrFrameLength), errors.Is(err, errShortRequest), errors.Is(err, errHandshake):
		c.server.bad.Warn("closed connection: malformed request", slog.String("peer", c.remote.String()),
			session(c.session), slog.Any("err", err))
	case errors.Is(err, errTLS), errors.Is(err, errNoTLS):
		c.server.bad.Warn("closed connection: TLS handshake failed", slog.String("peer", c.remote.String()),
			slog.Any("err", err))
	case errors.Is(err, socket.ErrAnswers):
		c.server.bad.Warn("closed connection: TLS answers not read",
			slog.String("peer", c.remote.String()), session(c.session))
	case errors.Is(err, socket.ErrMemory): // heldMost has said so
	case errors.Is(err, errTooManyTokens):
		c.server.bad.Warn("closed connection: too many login attempts",
			slog.String("peer", c.remote.String()), session(c.session))
	case errors.Is(err, limits.ErrLargeRequests), errors.Is(err, limits.ErrStale), errors.Is(err, errWatches),
		errors.Is(err, batcher.ErrTooLarge):
		c.server.bad.Warn("closed connection: request limit exceeded",
			slog.String("peer", c.remote.String()), session(c.session), slog.Any("err", err))
	default:
		c.server.opts.Logger.Debug("connection ended", slog.String("peer", c.remote.String()), session(c.session),
			slog.Any("err", err))
	}
}

// session is the log attribute of a session.
func session(id jute.SessionID) slog.Attr { return slog.String("session", jute.Hex(id)) }

// reply appends a reply without a body. For the reader.
func (c *conn) reply(xid jute.Xid, zxid jute.Zxid, code jute.Code) {
	c.gathered.add()
	c.Out.Lock()
	c.appendReplyLocked(xid, zxid, code)
	c.Out.Unlock()
	c.answered(xid, zxid)
}

// answerShort answers a request that the state is not needed for, without a body, and counts it.
func (c *conn) answerShort(r *request, code jute.Code) {
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), code)
	now := c.server.elapsed()
	c.latency(r.op, c.now, now)
	c.metered.tally(r, replyHeadBytes, code, now-c.now)
}

// replyAside appends a reply without a body and a zxid that cons does not know: of auth.
func (c *conn) replyAside(r *request) {
	c.Out.Lock()
	c.appendReplyLocked(r.xid, 0, jute.OK)
	c.Out.Unlock()
	c.sent(1)
	c.metered.tally(r, replyHeadBytes, jute.OK, c.server.elapsed()-c.now)
}

// appendReplyLocked appends a reply without a body.
func (c *conn) appendReplyLocked(xid jute.Xid, zxid jute.Zxid, code jute.Code) {
	b, mark := c.beginLocked(xid, zxid, code)
	c.Out.EndLocked(b, mark)
}

// beginLocked begins a reply; its body is appended to b before EndLocked.
func (c *conn) beginLocked(xid jute.Xid, zxid jute.Zxid, code jute.Code) (b []byte, mark int) {
	b, mark = jute.BeginFrame(c.Out.OpenLocked())
	h := jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}
	return h.Append(b), mark
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

// notified counts events to the client, of so many bytes with the headers of their frames.
func (c *conn) notified(bytes, events int) {
	c.sent(int64(events))
	c.server.metrics.watchBytes.Add(int64(bytes - events*jute.FrameHeaderBytes))
	c.metered.Noticed(events, bytes)
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

// Proven returns what decides of which events the connection hears.
func (c *conn) Proven() *acl.Proven {
	if c.server.opts.Flags&entry.FlagSkipACL != 0 {
		return nil
	}
	return c.login.ids.Proven()
}

// allowed reports whether the connection has the permission (ZooKeeperServer.checkACL).
func (c *conn) allowed(list []jute.ACL, perm jute.Perms) bool {
	return c.server.opts.Flags&entry.FlagSkipACL != 0 || len(list) == 0 ||
		c.login.ids.Proven().Allowed(list, perm)
}

// WatchFired appends a watch event. The apply goroutine calls it.
func (c *conn) WatchFired(_ *watch.Event, notice []byte) {
	frames := [1][]byte{notice}
	c.push(socket.Pushed{Frames: frames[:]}, 1)
}

// push appends watch events, so many as these are.
func (c *conn) push(p socket.Pushed, events int) {
	bytes, cut, wake := c.Out.Push(p, c.server.memory.unreadMax(c.server.opts.MaxUnreadBytes))
	if bytes == 0 {
		return
	}
	c.server.memory.looksOver() // with the notice: there may be none after it
	c.notified(bytes, events)
	if cut {
		c.server.bad.Warn("closed connection: watch events not read",
			slog.String("peer", c.remote.String()), session(c.session))
	}
	if wake {
		c.server.flusher.Add(&c.Out)
	}
}

// heldMost ends a connection that holds more than any other, when all hold too much. Any goroutine calls it.
func (c *conn) heldMost(held int64) {
	attrs := []any{slog.String("peer", c.remote.String()), slog.Int64("bytes", held)}
	if c.counts.bound.Load() {
		attrs = append(attrs, session(c.session))
	}
	c.server.hoarders.Warn("closed connection: client memory used up", attrs...)
	c.Out.Close()
}
