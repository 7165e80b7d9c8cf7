package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// Errors of a Session.
var (
	// ErrLost means that the connection ended before the reply: the request may have been applied, or may be later.
	ErrLost = errors.New("connection lost before the reply")
	// ErrExpired means that the servers have ended the session.
	ErrExpired = client.ErrExpired

	errCut = errors.New("the client has cut it")
)

// dialWithin bounds one attempt to connect, connectWithin all of them together. Guesses: no fault that the nemesis
// makes lasts as long as the second.
const (
	dialWithin    = time.Second
	connectWithin = 60 * time.Second
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
	// Fired counts the events that came of those.
	Fired int
	// Standing are the persistent watches, in the order of their setting: they are set again on each new connection.
	// Told is asked first about each event, with the zxid of its change, and says whether it was theirs.
	Standing []Standing
	Told     func(zxid jute.Zxid, event *jute.WatcherEvent) bool
	// Acked is when the last write was sent that the servers took, or found of the wrong version, in nanoseconds of
	// the run's clock.
	Acked int64

	o        SessionOptions
	conn     *client.Conn // the latest; nil before the first
	up       bool         // conn can be used
	lastZxid jute.Zxid
	// Connects counts connections.
	Connects int
}

// Watch names a one-shot watch.
type Watch struct {
	Path  string
	Child bool // of getChildren, not of getData
}

// Standing is a persistent watch.
type Standing struct {
	Path      string
	Recursive bool
}

// Identity is a name with its proof, of scheme digest.
type Identity struct{ User, Password string }

// SessionOptions are what a Session needs.
type SessionOptions struct {
	Addrs    []string
	Timeout  time.Duration
	Rand     *rand.Rand // the order of the servers that it tries; owned by the session
	Now      func() int64
	Violated func(format string, args ...any) // is told at once what must not be; any goroutine
	Stop     <-chan struct{}                  // ends Connect
	Dial     client.DialFunc                  // nil: over the machine's network
	// Identities are asserted on each new connection.
	Identities []Identity
	// Rests is asked before each step of a client; true has it leave the step out. nil: it never does.
	Rests func() bool
}

// rests tells whether the client leaves its next step out.
func (o *SessionOptions) rests() bool { return o.Rests != nil && o.Rests() }

// stopped tells whether the run is over.
func (o *SessionOptions) stopped() bool {
	select {
	case <-o.Stop:
		return true
	default:
		return false
	}
}

// dialer is what connects, within dialWithin.
func (o *SessionOptions) dialer() client.DialFunc {
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialWithin)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

// Open opens a new session on any of the servers.
func Open(o SessionOptions) (*Session, error) {
	s := &Session{o: o, Watching: map[Watch]jute.Zxid{}}
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
	if s.up {
		s.conn.Cut()
		s.up = false
	}
}

// Connected reports whether a request can be sent.
func (s *Session) Connected() bool { return s.up }

func (s *Session) attempt(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*dialWithin)
	defer cancel()
	conn, err := s.dial(ctx, addr)
	if err != nil {
		return err
	}
	if s.ID != 0 && conn.Session != s.ID {
		s.o.Violated("session %#x: the server gave session %#x back", s.ID, conn.Session)
	}
	conn.OnEvent, conn.Within = s.event, conn.Timeout*2/3
	s.conn, s.up, s.Addr, s.ID, s.Timeout = conn, true, addr, conn.Session, conn.Timeout
	s.Connects++
	err = s.identify()
	if err == nil {
		err = s.setWatches()
	}
	if err != nil {
		s.Drop()
	}
	return err
}

// identify asserts the identities, as every client does first on a new connection.
func (s *Session) identify() error {
	for _, i := range s.o.Identities {
		reply, err := s.AddAuth("digest", i.User+":"+i.Password)
		if err != nil {
			return err
		}
		if reply.Err != jute.OK {
			s.o.Violated("session %#x: the identity of %s on %s was answered with %v", s.ID, i.User, s.Addr, reply.Err)
		}
	}
	return nil
}

// dial opens the session, or takes it up again.
func (s *Session) dial(ctx context.Context, addr string) (*client.Conn, error) {
	if s.conn != nil {
		return client.Reattach(ctx, addr, s.conn)
	}
	return client.Dial(ctx, client.Options{Addr: addr, Timeout: s.o.Timeout, Now: time.Now, Dial: s.o.dialer()})
}

// setWatches sets what has not fired again, as every client does then on a new connection.
func (s *Session) setWatches() error {
	if len(s.Watching) == 0 && len(s.Standing) == 0 {
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
	op, record := jute.OpSetWatches, request.Append
	if len(s.Standing) > 0 {
		op, record = jute.OpSetWatches2, s.standing(&request).Append
	}
	reply, err := s.exchange(jute.XidSetWatches, op, record)
	if err == nil && reply.Err != jute.OK {
		s.o.Violated("session %#x: %v on %s was answered with %v", s.ID, op, s.Addr, reply.Err)
	}
	return err
}

// standing adds the persistent watches to the others.
func (s *Session) standing(r *jute.SetWatchesRequest) *jute.SetWatches2Request {
	all := &jute.SetWatches2Request{RelativeZxid: r.RelativeZxid, Data: r.Data, Exist: r.Exist, Child: r.Child,
		Persistent: []string{}, PersistentRecursive: []string{}}
	for _, w := range s.Standing {
		if w.Recursive {
			all.PersistentRecursive = append(all.PersistentRecursive, w.Path)
		} else {
			all.Persistent = append(all.Persistent, w.Path)
		}
	}
	return all
}

// Do sends one request and returns its reply. After ErrLost there is no connection: call Connect.
func (s *Session) Do(op jute.Op, record func([]byte) []byte) (Reply, error) {
	if !s.up {
		return Reply{}, ErrLost
	}
	return s.exchange(s.conn.NextXid(), op, record)
}

// insistMost bounds Insist. A guess: a machine on which as many connections end one after the other does nothing else.
const insistMost = 100

// Insist makes a request until it is answered, over other connections if need be: it may have been done before. It
// fails as Connect does.
func (s *Session) Insist(request func() (Reply, error)) (reply Reply, err error) {
	for range insistMost {
		if reply, err = request(); err == nil {
			return reply, nil
		}
		if err := s.Connect(); err != nil {
			return reply, err
		}
	}
	return reply, err
}

func (s *Session) exchange(xid jute.Xid, op jute.Op, record func([]byte) []byte) (Reply, error) {
	if !s.up {
		return Reply{}, ErrLost
	}
	reply := Reply{Call: s.o.Now()}
	header, body, err := s.conn.DoAs(xid, op, record)
	if err != nil {
		return reply, s.lost(err)
	}
	reply.ReplyHeader, reply.Body, reply.Ret = header, slices.Clone(body), s.o.Now()
	s.seen(op, &reply)
	return reply, nil
}

// lost is the end of a connection.
func (s *Session) lost(err error) error {
	if errors.Is(err, client.ErrOutOfOrder) || errors.Is(err, jute.ErrShort) {
		s.o.Violated("session %#x: %v", s.ID, err)
	}
	s.Drop()
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// Request is one of several that are under way together.
type Request struct {
	Op     jute.Op
	Record func([]byte) []byte
}

// Pipe sends requests at once, and hands each reply to answered, in the order of the requests; if that returns false
// the connection is cut, and the rest is lost.
func (s *Session) Pipe(requests []Request, answered func(i int, reply Reply) (more bool)) error {
	if !s.up {
		return ErrLost
	}
	if err := s.conn.SetDeadline(s.conn.Within); err != nil {
		return s.lost(err)
	}
	var frames []byte
	xids := make([]jute.Xid, len(requests))
	for i, r := range requests {
		xids[i] = s.conn.NextXid()
		frames = client.Request(frames, xids[i], r.Op, r.Record)
	}
	call := s.o.Now()
	if err := s.conn.Write(frames); err != nil {
		return s.lost(err)
	}
	for i, xid := range xids {
		header, body, err := s.conn.Await(xid)
		if err != nil {
			return s.lost(err)
		}
		reply := Reply{ReplyHeader: header, Body: slices.Clone(body), Call: call, Ret: s.o.Now()}
		s.seen(requests[i].Op, &reply)
		if !answered(i, reply) {
			return s.lost(errCut)
		}
	}
	return nil
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
	case jute.OpSetData, jute.OpCreate, jute.OpDelete, jute.OpMulti, jute.OpCreateContainer, jute.OpCreateTTL:
		s.Acked = reply.Call
	}
}

func (s *Session) event(zxid jute.Zxid, event *jute.WatcherEvent) {
	if s.Told != nil && s.Told(zxid, event) {
		return
	}
	watch := Watch{Path: strings.Clone(event.Path), Child: event.Type == jute.EventNodeChildrenChanged}
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
	_, err := s.exchange(jute.XidPing, jute.OpPing, nil)
	return err
}

// Close ends the session and reports whether the server has confirmed that.
func (s *Session) Close() (Reply, error) {
	reply, err := s.Do(jute.OpCloseSession, nil)
	s.Drop()
	return reply, err
}
