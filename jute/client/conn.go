package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"zkd/jute"
)

// Limits of a connection.
const (
	// MaxReplyBytes is the longest reply that is taken: the children of a znode under which a long create load ran.
	MaxReplyBytes = 16 << 20
	// firstBufferBytes is what an idle connection holds. It grows when replies are longer or pipelined.
	firstBufferBytes = 512
	// readBytes is the room offered to the kernel for pipelined replies, once a connection reads any.
	readBytes = 64 << 10
)

// callWithin bounds a handshake, and a request and its reply. A guess: a snapshot of ZooKeeper holds writes up for some
// seconds, and a server that starts on a busy machine is slow.
const callWithin = 60 * time.Second

// ErrRefused means that the server ended the connection before the session was there: it is full (maxClientCnxns in
// its zoo.cfg), not serving yet, or not a ZooKeeper server.
var ErrRefused = errors.New("connection closed during the handshake; raise maxClientCnxns if the server is up")

// ErrExpired means that the servers have ended the session.
var ErrExpired = errors.New("session expired")

// ErrOutOfOrder means that a reply did not answer the oldest outstanding request.
var ErrOutOfOrder = errors.New("reply out of order")

// ErrTooLong means a reply that is longer than MaxReplyBytes. The connection is of no use any more.
var ErrTooLong = errors.New("longer than a reply may be")

// usualTimeout is the longest that the defaults of ZooKeeper give a session.
const usualTimeout = 40 * time.Second

// DialFunc makes a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Options say where to connect, and how. Addr, Now and Dial are needed.
type Options struct {
	Addr    string
	Now     func() time.Time // the clock, from which deadlines are counted
	Timeout time.Duration    // of the session that is asked for; default 40 s
	Dial    DialFunc         // as net.Dialer.DialContext and tls.Dialer.DialContext are
	// ReadOnly takes a server that has no quorum, too.
	ReadOnly bool
	// MaxReplyBytes is the longest reply that is taken; default the constant of this name.
	MaxReplyBytes int
}

// Conn is one connection with a session. It belongs to one goroutine at a time, but for Ping, Write and WriteWithin,
// which may be called by one goroutine while another reads with ReadReply, and Cut, which any may call.
type Conn struct {
	Session jute.SessionID
	Timeout time.Duration // as the server has negotiated it
	// ReadOnly says that the server has no quorum. It knows no sessions, and has given one that is valid there alone.
	ReadOnly bool
	Within   time.Duration // bounds a request and its reply: a minute, but whoever knows better may set it
	// OnEvent is told the watch events that come before a reply that is awaited, with the zxid of the change or -1;
	// nil: they are passed over. The event is valid until it returns.
	OnEvent func(zxid jute.Zxid, event *jute.WatcherEvent)

	options Options
	passwd  []byte    // of the session
	zxid    jute.Zxid // the latest that a reply has borne

	nc   net.Conn
	from *stampedReader // of nc; nil: nc itself is read
	in   []byte         // buffer of what was read
	r, w int            // in[r:w] has not been handed out
	out  []byte         // scratch of Do and Pipeline
	xid  jute.Xid
}

// Dial connects and asks for a new session; all of it is over by ctx's deadline. It fails with ErrRefused, wrapped,
// when the server closes the connection instead of answering.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	return dial(ctx, &Conn{Timeout: cmp.Or(o.Timeout, usualTimeout), passwd: make([]byte, 16), options: o})
}

// Reattach connects to addr with the session of old, which is cut. It fails with ErrExpired, wrapped, if the session
// is gone.
func Reattach(ctx context.Context, addr string, old *Conn) (*Conn, error) {
	old.Cut()
	o := old.options
	o.Addr = addr
	return dial(ctx, &Conn{Session: old.Session, Timeout: old.Timeout, passwd: old.passwd, zxid: old.zxid, options: o})
}

// dial connects c, which has what the handshake asks for.
func dial(ctx context.Context, c *Conn) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	nc, err := c.options.Dial(ctx, "tcp", c.options.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.options.Addr, err)
	}
	c.Within, c.nc, c.from = callWithin, nc, newStampedReader(nc, c.options.Now)
	deadline, _ := ctx.Deadline() // set above, or an earlier one of the caller
	if err := c.handshake(deadline); err != nil {
		_ = nc.Close() // the handshake's error says more
		return nil, fmt.Errorf("open a session on %s: %w", c.options.Addr, err)
	}
	return c, nil
}

func (c *Conn) handshake(deadline time.Time) error {
	if err := c.nc.SetDeadline(deadline); err != nil {
		return err
	}
	request := jute.ConnectRequest{
		LastZxidSeen:  c.zxid,
		TimeoutMillis: int32(min(c.Timeout.Milliseconds(), 1<<30)), //nolint:gosec // bounded
		SessionID:     c.Session, Passwd: c.passwd, HasReadOnly: true,
		ReadOnly: c.options.ReadOnly,
	}
	frame, mark := jute.BeginFrame(nil)
	if err := c.Write(jute.EndFrame(request.Append(frame), mark)); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	payload, err := c.ReadFrame()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	d := jute.NewDecoder(payload)
	var response jute.ConnectResponse
	response.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("read the connect response: %w", d.Err())
	}
	if response.TimeoutMillis <= 0 && c.Session != 0 {
		return ErrExpired
	}
	if response.TimeoutMillis <= 0 {
		return ErrRefused
	}
	c.Session, c.passwd, c.ReadOnly = response.SessionID, slices.Clone(response.Passwd), response.ReadOnly
	c.Timeout = time.Duration(response.TimeoutMillis) * time.Millisecond
	return c.nc.SetDeadline(time.Time{})
}

// SetDeadline makes every read and write fail that is not done within d from now.
func (c *Conn) SetDeadline(d time.Duration) error { return c.nc.SetDeadline(c.options.Now().Add(d)) }

// Write sends frames. It keeps nothing of b.
func (c *Conn) Write(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// WriteWithin is Write with a deadline of its own.
func (c *Conn) WriteWithin(b []byte, d time.Duration) error {
	if err := c.nc.SetWriteDeadline(c.options.Now().Add(d)); err != nil {
		return err
	}
	return c.Write(b)
}

// LastZxid is the latest that a reply has borne.
func (c *Conn) LastZxid() jute.Zxid { return c.zxid }

// Ping sends a ping; its reply has the xid jute.XidPing and comes among the others.
func (c *Conn) Ping() error {
	var b [12]byte
	return c.Write(appendPing(b[:0]))
}

// PingWithin is Ping with a deadline of its own: that of the last WriteWithin may be over.
func (c *Conn) PingWithin(d time.Duration) error {
	var b [12]byte
	return c.WriteWithin(appendPing(b[:0]), d)
}

// appendPing appends a frame with a ping.
func appendPing(b []byte) []byte {
	header := jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing}
	frame, mark := jute.BeginFrame(b)
	return jute.EndFrame(header.Append(frame), mark)
}

// Buffered reports whether a whole frame can be read without waiting.
func (c *Conn) Buffered() bool {
	n := c.w - c.r
	return n >= jute.FrameHeaderBytes &&
		n-jute.FrameHeaderBytes >= int(int32(binary.BigEndian.Uint32(c.in[c.r:]))) //nolint:gosec // the wire's sign
}

// ReadFrame returns the payload of the next frame, valid until the next call.
func (c *Conn) ReadFrame() ([]byte, error) {
	if err := c.fill(jute.FrameHeaderBytes); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(c.in[c.r:])) //nolint:gosec // the wire's sign
	if n < 0 || int(n) > cmp.Or(c.options.MaxReplyBytes, MaxReplyBytes) {
		return nil, fmt.Errorf("frame of %d bytes: %w", n, ErrTooLong)
	}
	if err := c.fill(jute.FrameHeaderBytes + int(n)); err != nil {
		return nil, err
	}
	payload := c.in[c.r+jute.FrameHeaderBytes : c.r+jute.FrameHeaderBytes+int(n)]
	c.r += jute.FrameHeaderBytes + int(n)
	return payload, nil
}

// ReadReply reads the next frame's reply header. body is valid until the next call.
func (c *Conn) ReadReply() (header jute.ReplyHeader, body []byte, err error) {
	payload, err := c.ReadFrame()
	if err != nil {
		return header, nil, err
	}
	d := jute.NewDecoder(payload)
	header.Decode(&d)
	if header.Xid >= 0 { // an event is told before what else has happened at its zxid
		c.zxid = max(c.zxid, header.Zxid)
	}
	return header, d.Remaining(), d.Err()
}

// fill reads until n bytes are buffered.
func (c *Conn) fill(n int) error {
	for c.w-c.r < n {
		if c.r == c.w {
			c.r, c.w = 0, 0
		}
		if c.w == len(c.in) || len(c.in)-c.r < n {
			c.makeRoom(n)
		}
		read, err := c.receive(c.in[c.w:])
		c.w += read
		if err != nil && c.w-c.r < n {
			return err
		}
	}
	return nil
}

// receive is one read from the server.
func (c *Conn) receive(b []byte) (int, error) {
	if c.from == nil {
		return c.nc.Read(b)
	}
	return c.from.Read(b)
}

// Lag returns how long ago the latest of the bytes that were read had come to this machine, by the kernel's stamp: what
// the reader has waited since then is not the server's doing. Where nothing stamps it is 0.
func (c *Conn) Lag() time.Duration {
	if c.from == nil {
		return 0
	}
	return c.from.lag()
}

// makeRoom moves what is buffered to the front, of a larger buffer if n bytes or a full one ask for it.
func (c *Conn) makeRoom(n int) {
	into := c.in
	switch {
	case c.in == nil:
		into = make([]byte, max(n, firstBufferBytes))
	case n > len(c.in) || len(c.in) < readBytes && c.w-c.r > len(c.in)/2:
		into = make([]byte, max(n, readBytes))
	}
	c.w = copy(into, c.in[c.r:c.w])
	c.r, c.in = 0, into
}

// NextXid returns the xid for the next request.
func (c *Conn) NextXid() jute.Xid {
	c.xid++
	if c.xid <= 0 {
		c.xid = 1
	}
	return c.xid
}

// Request appends one framed request to b; body appends the record, and may be nil.
func Request(b []byte, xid jute.Xid, op jute.Op, body func([]byte) []byte) []byte {
	b, mark := jute.BeginFrame(b)
	header := jute.RequestHeader{Xid: xid, Op: op}
	b = header.Append(b)
	if body != nil {
		b = body(b)
	}
	return jute.EndFrame(b, mark)
}

// Do sends one request and waits for its reply. Pings are passed over, and events told to OnEvent. body is valid until
// the next read.
func (c *Conn) Do(op jute.Op, record func([]byte) []byte) (header jute.ReplyHeader, body []byte, err error) {
	return c.DoAs(c.NextXid(), op, record)
}

// DoAs is Do with an xid of the caller's: those of the protocol are below 0.
func (c *Conn) DoAs(xid jute.Xid, op jute.Op, record func([]byte) []byte) (jute.ReplyHeader, []byte, error) {
	if err := c.SetDeadline(c.Within); err != nil {
		return jute.ReplyHeader{}, nil, err
	}
	c.out = Request(c.out[:0], xid, op, record)
	if err := c.Write(c.out); err != nil {
		return jute.ReplyHeader{}, nil, fmt.Errorf("send %v: %w", op, err)
	}
	header, body, err := c.Await(xid)
	if err != nil {
		return header, nil, fmt.Errorf("await the reply to %v: %w", op, err)
	}
	c.clearDeadline()
	return header, body, nil
}

// clearDeadline takes back what SetDeadline has set, once all replies are there. It fails if the server has closed the
// connection since, as it does after an authentication that failed: what it said before counts, and the next request
// finds out.
func (c *Conn) clearDeadline() { _ = c.nc.SetDeadline(time.Time{}) }

// Await reads up to the reply to xid. Pings are passed over, and events told to OnEvent. body is valid until the next
// read.
func (c *Conn) Await(xid jute.Xid) (jute.ReplyHeader, []byte, error) {
	for {
		header, body, err := c.ReadReply()
		if err != nil {
			return header, body, err
		}
		if header.Xid == xid {
			return header, body, nil
		}
		switch header.Xid {
		case jute.XidNotification:
			if err := c.tell(header.Zxid, body); err != nil {
				return header, nil, err
			}
		case jute.XidPing:
		default:
			return header, nil, fmt.Errorf("%w: got xid %d for %d", ErrOutOfOrder, header.Xid, xid)
		}
	}
}

// tell hands an event to OnEvent.
func (c *Conn) tell(zxid jute.Zxid, body []byte) error {
	if c.OnEvent == nil {
		return nil
	}
	var event jute.WatcherEvent
	d := jute.NewDecoder(body)
	event.Decode(&d)
	if d.Err() == nil {
		c.OnEvent(zxid, &event)
	}
	return d.Err()
}

// Auth proves an identity and returns what the server says of it.
func (c *Conn) Auth(scheme, data string) (jute.Code, error) {
	packet := jute.AuthPacket{Scheme: scheme, Auth: []byte(data)}
	header, _, err := c.DoAs(jute.XidAuth, jute.OpAuth, packet.Append)
	return header.Err, err
}

// Alive pings and waits for the answer: all events before it have come then.
func (c *Conn) Alive() error {
	_, _, err := c.DoAs(jute.XidPing, jute.OpPing, nil)
	return err
}

// Pipeline sends the requests 0 to n-1, which encode appends framed with the given xid, with at most window of them
// outstanding, and hands each reply's code to reply in order. It stops at the first error and when ctx ends.
func (c *Conn) Pipeline(ctx context.Context, n, window int,
	encode func(b []byte, i int, xid jute.Xid) []byte, reply func(i int, code jute.Code) error,
) error {
	first := c.xid
	for sent, got := 0, 0; got < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.SetDeadline(c.Within); err != nil {
			return err
		}
		c.out = c.out[:0]
		for ; sent < n && sent-got < window; sent++ {
			c.out = encode(c.out, sent, c.NextXid())
		}
		if err := c.Write(c.out); err != nil {
			return fmt.Errorf("send requests: %w", err)
		}
		for more := true; more && got < n; more = c.Buffered() {
			header, _, err := c.Await(first + jute.Xid(got) + 1) //nolint:gosec // n is far below 2^31
			if err != nil {
				return fmt.Errorf("await replies: %w", err)
			}
			if err := reply(got, header.Err); err != nil {
				return err
			}
			got++
		}
	}
	c.clearDeadline()
	return nil
}

// Close closes the session, so that the server need not wait for its expiry, and the connection. It reports whether the
// server was asked to: not on a connection that is broken, or was cut.
func (c *Conn) Close() (asked bool) {
	if err := c.SetDeadline(time.Second); err == nil {
		c.out = Request(c.out[:0], c.NextXid(), jute.OpCloseSession, nil)
		if asked = c.Write(c.out) == nil; asked {
			_, _, _ = c.Await(c.xid) // the session expires by itself if this fails
		}
	}
	_ = c.nc.Close() // nothing is lost with it
	return asked
}

// CloseSession closes the session of a connection that was cut, through another one to the same server.
func CloseSession(ctx context.Context, old *Conn) error {
	c, err := Reattach(ctx, old.options.Addr, old)
	if err == nil {
		c.Close()
	}
	return err
}

// Cut closes the connection and leaves the session to its expiry.
func (c *Conn) Cut() { _ = c.nc.Close() }
