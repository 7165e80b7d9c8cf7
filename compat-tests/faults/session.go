package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"zkd/jute"
)

// Errors of a Session.
var (
	// ErrLost means that the connection ended before the reply: the request may have been applied, or may be later.
	ErrLost = errors.New("connection lost before the reply")
	// ErrExpired means that the servers have ended the session.
	ErrExpired = errors.New("session expired")
)

// dialWithin bounds one attempt to connect, connectWithin all of them together. Guesses: no fault that the nemesis
// makes lasts as long as the second.
const (
	dialWithin    = time.Second
	connectWithin = 60 * time.Second
	frameMax      = 64 << 20
)

// Reply is a server's answer to one request.
type Reply struct {
	jute.ReplyHeader
	Body      []byte // valid for good
	Call, Ret int64  // nanoseconds of the run's clock: just before the request was sent, just after the reply was read
}

// Session is a client session over plain frames: one request at a time, and everything in the order in which it came.
// It belongs to one goroutine.
type Session struct {
	ID      jute.SessionID
	Timeout time.Duration
	Addr    string // of the server it is connected to
	// Watching are the one-shot data and child watches that a reply said are set and that have not fired, with the
	// zxid of what was read then.
	Watching map[Watch]jute.Zxid
	// Fired counts the events that came.
	Fired int
	// Acked is when the last write was sent that the servers took, or found of the wrong version, in nanoseconds of
	// the run's clock.
	Acked int64

	o        SessionOptions
	passwd   []byte
	conn     net.Conn
	xid      jute.Xid
	lastZxid jute.Zxid
	// Connects counts connections.
	Connects int
}

// Watch names a one-shot watch.
type Watch struct {
	Path  string
	Child bool // of getChildren, not of getData
}

// SessionOptions are what a Session needs.
type SessionOptions struct {
	Addrs    []string
	Timeout  time.Duration
	Rand     *rand.Rand // the order of the servers that it tries; owned by the session
	Now      func() int64
	Violated func(format string, args ...any) // is told at once what must not be; any goroutine
	Stop     <-chan struct{}                  // ends Connect
}

// Open opens a new session on any of the servers.
func Open(o SessionOptions) (*Session, error) {
	s := &Session{o: o, passwd: make([]byte, 16), Watching: map[Watch]jute.Zxid{}}
	return s, s.Connect()
}

// Connect connects to any of the servers, again and again until one takes the session; then it sets the watches again.
// It fails with ErrExpired, or with ErrLost when no server has taken it in time.
func (s *Session) Connect() error {
	s.Drop()
	deadline := time.NewTimer(connectWithin)
	defer deadline.Stop()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	var last error
	for {
		order := s.o.Rand.Perm(len(s.o.Addrs))
		for _, i := range order {
			err := s.attempt(s.o.Addrs[i])
			if err == nil || errors.Is(err, ErrExpired) {
				return err
			}
			last = err
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("%w: no server took the session within %v: %w", ErrLost, connectWithin, last)
		case <-s.o.Stop:
			return fmt.Errorf("%w: the run is over: %w", ErrLost, last)
		case <-pause.C:
		}
	}
}

// Drop closes the connection and leaves the session.
func (s *Session) Drop() {
	if s.conn != nil {
		_ = s.conn.Close() // nothing is lost that is not lost already
		s.conn = nil
	}
}

// Connected reports whether a request can be sent.
func (s *Session) Connected() bool { return s.conn != nil }

func (s *Session) attempt(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, dialWithin)
	if err != nil {
		return err
	}
	s.conn, s.Addr = conn, addr
	if err := s.handshake(); err != nil {
		s.Drop()
		return fmt.Errorf("handshake with %s: %w", addr, err)
	}
	s.Connects++
	if err := s.setWatches(); err != nil {
		s.Drop()
		return err
	}
	return nil
}

func (s *Session) handshake() error {
	if err := s.conn.SetDeadline(time.Now().Add(2 * dialWithin)); err != nil {
		return err
	}
	request := jute.ConnectRequest{
		LastZxidSeen: s.lastZxid, TimeoutMillis: int32(s.o.Timeout.Milliseconds()), SessionID: s.ID, Passwd: s.passwd,
		HasReadOnly: true,
	}
	if err := s.write(request.Append); err != nil {
		return err
	}
	frame, err := s.read()
	if err != nil {
		return err
	}
	d := jute.NewDecoder(frame)
	var response jute.ConnectResponse
	response.Decode(&d)
	switch {
	case d.Err() != nil:
		return d.Err()
	case response.TimeoutMillis <= 0 && s.ID == 0:
		return errors.New("no session was given")
	case response.TimeoutMillis <= 0:
		return ErrExpired
	case s.ID != 0 && response.SessionID != s.ID:
		s.o.Violated("session %#x: the server gave session %#x back", s.ID, response.SessionID)
	}
	s.ID, s.passwd = response.SessionID, slices.Clone(response.Passwd)
	s.Timeout = time.Duration(response.TimeoutMillis) * time.Millisecond
	return nil
}

// setWatches sets what has not fired again, as every client does first on a new connection.
func (s *Session) setWatches() error {
	if len(s.Watching) == 0 {
		return nil
	}
	request := jute.SetWatchesRequest{RelativeZxid: s.lastZxid, Data: []string{}, Exist: []string{}, Child: []string{}}
	for watch := range s.Watching { // the order is the server's business
		if watch.Child {
			request.Child = append(request.Child, watch.Path)
		} else {
			request.Data = append(request.Data, watch.Path)
		}
	}
	reply, err := s.exchange(jute.XidSetWatches, jute.OpSetWatches, request.Append)
	if err == nil && reply.Err != jute.OK {
		s.o.Violated("session %#x: setWatches on %s was answered with %v", s.ID, s.Addr, reply.Err)
	}
	return err
}

// Do sends one request and returns its reply. After ErrLost there is no connection: call Connect.
func (s *Session) Do(op jute.Op, record func([]byte) []byte) (Reply, error) {
	if s.conn == nil {
		return Reply{}, ErrLost
	}
	s.xid++
	return s.exchange(s.xid, op, record)
}

func (s *Session) exchange(xid jute.Xid, op jute.Op, record func([]byte) []byte) (Reply, error) {
	reply := Reply{Call: s.o.Now()}
	err := s.conn.SetDeadline(time.Now().Add(s.Timeout * 2 / 3))
	if err == nil {
		header := jute.RequestHeader{Xid: xid, Op: op}
		err = s.write(func(b []byte) []byte { return record(header.Append(b)) })
	}
	for err == nil {
		var frame []byte
		if frame, err = s.read(); err != nil {
			break
		}
		d := jute.NewDecoder(frame)
		reply.Decode(&d)
		if reply.Xid == jute.XidNotification {
			s.event(&d)
			continue
		}
		if d.Err() != nil || reply.Xid != xid {
			s.o.Violated("session %#x: reply to xid %d for %d, %v", s.ID, reply.Xid, xid, d.Err())
			break
		}
		reply.Body, reply.Ret = d.Remaining(), s.o.Now()
		s.seen(op, &reply)
		return reply, nil
	}
	s.Drop()
	return reply, fmt.Errorf("%w: %v: %w", ErrLost, op, err)
}

// seen holds a reply's zxid against those before.
func (s *Session) seen(op jute.Op, reply *Reply) {
	if reply.Zxid > 0 {
		if reply.Zxid < s.lastZxid {
			s.o.Violated("session %#x: %v on %s was answered at zxid %#x, after %#x was seen",
				s.ID, op, s.Addr, reply.Zxid, s.lastZxid)
		}
		s.lastZxid = reply.Zxid
	}
	if reply.Err != jute.OK && reply.Err != jute.BadVersion {
		return
	}
	switch op {
	case jute.OpSetData, jute.OpCreate, jute.OpDelete, jute.OpMulti:
		s.Acked = reply.Call
	}
}

func (s *Session) event(d *jute.Decoder) {
	var event jute.WatcherEvent
	event.Decode(d)
	watch := Watch{Path: string([]byte(event.Path)), Child: event.Type == jute.EventNodeChildrenChanged}
	if _, set := s.Watching[watch]; !set {
		s.o.Violated("session %#x: event %d of %s on %s without a watch: it had fired, or was never set",
			s.ID, event.Type, watch.Path, s.Addr)
	}
	delete(s.Watching, watch)
	s.Fired++
}

// view holds what was read against its watch: the event must come before what it tells of. set: the read sets the
// watch if it is not set.
func (s *Session) view(w Watch, zxid jute.Zxid, set bool) {
	noted, isSet := s.Watching[w]
	switch {
	case isSet && zxid > noted:
		s.o.Violated("session %#x: missed: the watch of %v was set at zxid %#x, %#x was read on %s without an event",
			s.ID, w, noted, zxid, s.Addr)
		s.Watching[w] = zxid
	case !isSet && set:
		s.Watching[w] = zxid
	}
}

// Ping keeps the session alive.
func (s *Session) Ping() error {
	if s.conn == nil {
		return ErrLost
	}
	_, err := s.exchange(jute.XidPing, jute.OpPing, func(b []byte) []byte { return b })
	return err
}

// Close ends the session and reports whether the server has confirmed that.
func (s *Session) Close() (Reply, error) {
	reply, err := s.Do(jute.OpCloseSession, func(b []byte) []byte { return b })
	s.Drop()
	return reply, err
}

func (s *Session) write(record func([]byte) []byte) error {
	frame, mark := jute.BeginFrame(nil)
	_, err := s.conn.Write(jute.EndFrame(record(frame), mark))
	return err
}

// read returns the next frame, in memory of its own.
func (s *Session) read() ([]byte, error) {
	var head [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(s.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMax {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(s.conn, frame)
	return frame, err
}
