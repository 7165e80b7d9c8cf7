package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// usualTimeout is zkCli's.
const usualTimeout = 30 * time.Second

// Login is a dialogue of SASL. Next returns the token that follows a challenge, nil for the first one; done says that
// nothing more is to be said, and that the server has proven itself.
type Login interface {
	Next(challenge []byte) (token []byte, done bool, err error)
}

// Options say to whom a session belongs, and how servers are reached. Servers, Dial, Now and After are needed.
type Options struct {
	Servers  []string          // host:port, tried in this order and round again
	Chroot   string            // "" or a path: all paths are below it
	Timeout  time.Duration     // that is asked for; default 30 s
	ReadOnly bool              // whether a server without a quorum will do
	Auth     []jute.AuthPacket // identities that are proven on each connection, besides those of AddAuth
	// MaxReplyBytes bounds a reply; default client.MaxReplyBytes.
	MaxReplyBytes int

	Dial  client.DialFunc
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time // as time.After
	// Login begins a dialogue with the server at address for each connection; nil: no SASL.
	Login func(address string) (Login, error)
	// OnEvent is called on the session's goroutine: it must return soon, and not wait for the session. nil: no events.
	OnEvent func(Event)
	// OnTrouble is told why a connection could not be made, or broke; may be nil. As OnEvent.
	OnTrouble func(address string, err error)
}

// Session is one session. Open makes it.
type Session struct {
	options Options
	stop    context.CancelFunc // ends the session's goroutine
	ended   chan struct{}      // closed with the session's goroutine

	// sending is held while requests are written, so that they go out in the order in which they are pending. It comes
	// before mu, which whoever reads needs: a server that is not read from may stop reading.
	sending sync.Mutex

	mu struct {
		sync.Mutex
		state     State
		changed   chan struct{} // closed and made anew when state changes
		conn      *client.Conn  // nil while there is none that is ready
		pending   []*call       // sent, oldest first
		proving   []*call       // sent auth packets, which have an order of their own
		waiting   []*call       // to be sent when there is a connection
		identity  []jute.AuthPacket
		watches   watches
		closing   bool
		id        jute.SessionID
		timeout   time.Duration
		server    string
		lastHeard time.Time
		proven    time.Time   // when the latest request that was answered had been sent
		pings     []time.Time // when those were sent that have no answer yet
	}
}

// call is a request and who waits for its reply.
type call struct {
	xid    jute.Xid
	sent   time.Time
	op     jute.Op
	record func([]byte) []byte
	path   string // for errors
	done   func(header jute.ReplyHeader, body []byte)
	result chan result // holds one
}

// result is a reply or why there is none.
type result struct {
	header jute.ReplyHeader
	body   []byte
	err    error
}

// Open begins a session. It waits for nothing: Await does.
func Open(o Options) (*Session, error) {
	switch {
	case len(o.Servers) == 0:
		return nil, errors.New("a session needs a server to connect to")
	case o.Chroot != "" && !jute.ValidPath(o.Chroot):
		return nil, errors.New("the chroot is no path: " + o.Chroot)
	}
	if o.Chroot == "/" {
		o.Chroot = ""
	}
	if o.Timeout == 0 {
		o.Timeout = usualTimeout
	}
	ctx, stop := context.WithCancel(context.Background()) // until Close
	s := &Session{options: o, stop: stop, ended: make(chan struct{})}
	s.mu.changed, s.mu.timeout, s.mu.watches = make(chan struct{}), o.Timeout, newWatches()
	s.mu.identity = slices.Clone(o.Auth)
	go s.run(ctx)
	return s, nil
}

// State returns the state of the session.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state
}

// ID is the session's, 0 before the first connection.
func (s *Session) ID() jute.SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.id
}

// Timeout is that of the session, as a server has negotiated it.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.timeout
}

// Server is the address of the server that the session was connected to last.
func (s *Session) Server() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.server
}

// AliveUntil is the time up to which no server can have ended the session for want of a sign of life: its Timeout after
// the latest request that was answered had been sent. Who must stop when the session may be over, stops by then.
func (s *Session) AliveUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.proven.Add(s.mu.timeout)
}

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Await waits for a connection. It fails when ctx ends, and with an *Error when the session does.
func (s *Session) Await(ctx context.Context) error {
	for {
		s.mu.Lock()
		state, changed := s.mu.state, s.mu.changed
		s.mu.Unlock()
		switch {
		case state.Ended():
			return s.endedError("")
		case state != Connecting:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endedError is what a call of an ended session fails with.
func (s *Session) endedError(path string) error {
	if s.State() == AuthFailed {
		return &Error{Code: jute.AuthFailed, Path: path}
	}
	return &Error{Code: jute.SessionExpired, Path: path}
}

// Close ends the session and its ephemeral znodes, and waits until the server has said so, or ctx ends.
func (s *Session) Close(ctx context.Context) {
	s.mu.Lock()
	conn, first := s.mu.conn, !s.mu.closing && !s.mu.state.Ended()
	s.mu.closing = true
	s.mu.Unlock()
	if first && conn != nil {
		_, _ = s.do(ctx, jute.OpCloseSession, "", nil, nil) // if it fails the session expires by itself
	}
	s.stop()
	<-s.ended
}

// setState is called by the session's goroutine; it tells whoever waits.
func (s *Session) setState(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state.Ended() || s.mu.state == state {
		return
	}
	s.mu.state = state
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// tell hands an event out.
func (s *Session) tell(e Event) {
	if s.options.OnEvent != nil {
		s.options.OnEvent(e)
	}
}

// do sends a request and waits for its reply. done, which may be nil, sees the reply on the session's goroutine before
// anything that comes after it.
func (s *Session) do(ctx context.Context, op jute.Op, path string, record func([]byte) []byte,
	done func(jute.ReplyHeader, []byte),
) ([]byte, error) {
	c := &call{op: op, path: path, record: record, done: done, result: make(chan result, 1)}
	if err := s.submit(c); err != nil {
		return nil, err
	}
	select {
	case r := <-c.result:
		if r.err == nil && r.header.Err != jute.OK {
			r.err = &Error{Code: r.header.Err, Path: path}
		}
		return r.body, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// submit sends a call, or has it wait for a connection.
func (s *Session) submit(c *call) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	write, err := s.pend(c)
	if write != nil {
		write()
	}
	return err
}

// pend has a call wait for its reply, and returns what writes it; nil if it waits for a connection.
func (s *Session) pend(c *call) (write func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state.Ended() || s.mu.closing && c.op != jute.OpCloseSession {
		code := jute.SessionExpired
		if s.mu.state == AuthFailed {
			code = jute.AuthFailed
		}
		return nil, &Error{Code: code, Path: c.path}
	}
	if s.mu.conn == nil {
		s.mu.waiting = append(s.mu.waiting, c)
		return nil, nil
	}
	return s.pendLocked(c), nil
}

// pendLocked is pend with the connection, which is there. A call that cannot be written breaks the connection: its
// reader tells. The caller holds sending until it has written.
func (s *Session) pendLocked(c *call) (write func()) {
	c.sent = s.options.Now()
	if c.op == jute.OpAuth {
		c.xid = jute.XidAuth
		s.mu.proving = append(s.mu.proving, c)
	} else {
		c.xid = s.mu.conn.NextXid()
		s.mu.pending = append(s.mu.pending, c)
	}
	conn, timeout := s.mu.conn, s.mu.timeout
	return func() {
		if err := conn.WriteWithin(client.Request(nil, c.xid, c.op, c.record), timeout); err != nil {
			conn.Cut()
		}
	}
}

// AddAuth proves an identity, on this connection and on those to come. It fails with AuthFailed, which ends the
// session, if the server does not know it.
func (s *Session) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	packet := jute.AuthPacket{Scheme: scheme, Auth: auth}
	c := &call{op: jute.OpAuth, record: packet.Append, result: make(chan result, 1)}
	s.sending.Lock()
	s.mu.Lock()
	if s.mu.state.Ended() || s.mu.closing {
		s.mu.Unlock()
		s.sending.Unlock()
		return s.endedError("")
	}
	known := func(p jute.AuthPacket) bool { return p.Scheme == scheme && slices.Equal(p.Auth, auth) }
	if !slices.ContainsFunc(s.mu.identity, known) {
		s.mu.identity = append(s.mu.identity, packet)
	}
	if s.mu.conn == nil { // the next connection begins with all of them
		s.mu.Unlock()
		s.sending.Unlock()
		return s.Await(ctx)
	}
	write := s.pendLocked(c)
	s.mu.Unlock()
	write()
	s.sending.Unlock()
	select {
	case r := <-c.result:
		if r.err == nil && r.header.Err != jute.OK {
			return &Error{Code: r.header.Err}
		}
		return nil // the next connection proves it
	case <-ctx.Done():
		return ctx.Err()
	}
}
