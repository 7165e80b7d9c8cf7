package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"zkd/jute"
)

// Bounds of a Conn. The time is for a server that starts up on a busy machine.
const (
	callWithin = time.Minute
	frameMax   = 64 << 20
)

// ErrRefused means that the server closed the connection, or gave no session, instead of shaking hands.
var ErrRefused = errors.New("the server gave no session")

// Options say where to connect and how. Addr is needed.
type Options struct {
	Addr    string
	Timeout time.Duration                       // of the session that is asked for; default 40 s, as long as is usual
	Dial    func(addr string) (net.Conn, error) // default plain TCP
}

// Conn is one connection with its session.
type Conn struct {
	Session jute.SessionID
	Timeout time.Duration       // as negotiated
	Events  []jute.WatcherEvent // that have come and were not taken away

	nc  net.Conn
	in  *bufio.Reader
	xid jute.Xid
}

// Reply is the answer to one request.
type Reply struct {
	jute.ReplyHeader
	Body []byte // the caller may keep it
}

// Open connects and asks for a new session.
func Open(o Options) (*Conn, error) {
	if o.Dial == nil {
		o.Dial = func(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, callWithin) }
	}
	if o.Timeout == 0 {
		o.Timeout = 40 * time.Second
	}
	nc, err := o.Dial(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Addr, err)
	}
	c := &Conn{nc: nc, in: bufio.NewReader(nc)}
	if err := c.shake(o.Timeout); err != nil {
		_ = nc.Close() // given up
		return nil, fmt.Errorf("open a session on %s: %w", o.Addr, err)
	}
	return c, nil
}

// shake asks for a session.
func (c *Conn) shake(timeout time.Duration) error {
	request := jute.ConnectRequest{TimeoutMillis: int32(timeout.Milliseconds()), Passwd: make([]byte, 16),
		HasReadOnly: true}
	if err := c.Send(request.Append(nil)); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	payload, err := c.Receive()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var response jute.ConnectResponse
	d := jute.NewDecoder(payload)
	response.Decode(&d)
	if d.Err() != nil || response.TimeoutMillis <= 0 {
		return errors.Join(ErrRefused, d.Err())
	}
	c.Session, c.Timeout = response.SessionID, time.Duration(response.TimeoutMillis)*time.Millisecond
	return nil
}

// Send sends one frame with its length.
func (c *Conn) Send(payload []byte) error {
	if err := c.nc.SetDeadline(time.Now().Add(callWithin)); err != nil {
		return err
	}
	b, mark := jute.BeginFrame(nil)
	_, err := c.nc.Write(jute.EndFrame(append(b, payload...), mark))
	return err
}

// Receive returns the next frame, whatever it is.
func (c *Conn) Receive() ([]byte, error) {
	var length [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(c.in, payload)
	return payload, err
}

// Do sends a request and returns its reply. An error means that there is no connection any more.
func (c *Conn) Do(op jute.Op, record func([]byte) []byte) (Reply, error) {
	c.xid++
	return c.do(c.xid, op, record)
}

// do sends a request with an xid and returns its reply.
func (c *Conn) do(xid jute.Xid, op jute.Op, record func([]byte) []byte) (Reply, error) {
	header := jute.RequestHeader{Xid: xid, Op: op}
	payload := header.Append(nil)
	if record != nil {
		payload = record(payload)
	}
	if err := c.Send(payload); err != nil {
		return Reply{}, fmt.Errorf("%v: %w", op, err)
	}
	for {
		payload, err := c.Receive()
		if err != nil {
			return Reply{}, fmt.Errorf("%v: %w", op, err)
		}
		var r Reply
		d := jute.NewDecoder(payload)
		r.Decode(&d)
		switch {
		case d.Err() != nil:
			return r, fmt.Errorf("%v: %w", op, d.Err())
		case r.Xid == jute.XidNotification:
			var event jute.WatcherEvent
			event.Decode(&d)
			c.Events = append(c.Events, event)
		case r.Xid != xid:
			return r, fmt.Errorf("%v: a reply to xid %d, want %d", op, r.Xid, xid)
		default:
			r.Body = slices.Clone(d.Remaining())
			return r, nil
		}
	}
}

// Auth proves an identity and returns the code.
func (c *Conn) Auth(scheme, data string) (jute.Code, error) {
	packet := jute.AuthPacket{Scheme: scheme, Auth: []byte(data)}
	r, err := c.do(jute.XidAuth, jute.OpAuth, packet.Append)
	return r.Err, err
}

// Ping returns when the server has answered a ping: so all events before it have come.
func (c *Conn) Ping() error {
	_, err := c.do(jute.XidPing, jute.OpPing, nil)
	return err
}

// Close ends the session and the connection.
func (c *Conn) Close() error {
	_, err := c.Do(jute.OpCloseSession, nil)
	return errors.Join(err, c.nc.Close())
}

// Cut closes the connection and leaves the session.
func (c *Conn) Cut() { _ = c.nc.Close() } // nothing is sent any more
