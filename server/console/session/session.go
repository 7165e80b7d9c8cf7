package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/quorum/clock"
	"zkd/server/auth/sasl"
)

// Schemes of credentials.
const (
	SchemeDigest = "digest"
	SchemeSASL   = "sasl"
)

// Credential is what a person proves who he is with. The zero one proves nothing: the server sees an address
// alone.
type Credential struct {
	Scheme, User, Password string
}

// Times of a session. Guesses: the timeout is what a server's defaults give anybody, and a page that is open asks
// once a second.
const (
	timeout    = 10 * time.Second
	IdleAfter  = time.Minute      // nobody has asked anything: the session is closed
	watchAfter = 15 * time.Second // nobody has looked at a watched path: the watch is removed
)

// Options says with whom to open a session, and as whom. Dial, Addrs, Clock and Random are needed.
type Options struct {
	Dial       client.DialFunc
	Addrs      []string // tried one after the other
	Clock      clock.Clock
	Random     io.Reader
	Credential Credential
}

// Errors of a session.
var (
	// ErrOver means that the session has ended, or its connection has.
	ErrOver = errors.New("the session with the server has ended")
	// ErrWrongPassword means that the server does not believe a credential.
	ErrWrongPassword = errors.New("the server does not know this name with this password")
)

// RefusedError is the server's no to a request.
type RefusedError struct {
	Op   jute.Op
	Path string
	Code jute.Code
}

// Error names the request and the code.
func (r *RefusedError) Error() string { return fmt.Sprintf("%v %s: %v", r.Op, r.Path, r.Code) }

// CodeOf is the code of a refusal; jute.OK for another error.
func CodeOf(err error) jute.Code {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused.Code
	}
	return jute.OK
}

// Session is used by any number of goroutines.
type Session struct {
	opts  Options
	conn  *client.Conn
	who   []jute.ClientInfo // immutable after Open
	addr  string
	over  chan struct{}
	tasks sync.WaitGroup

	writing sync.Mutex // held while frames are written, so that xids are in order

	mu struct {
		sync.Mutex
		xid     jute.Xid
		waiting map[jute.Xid]chan<- reply
		watches map[string]*watched
		used    time.Time // when somebody asked last
		heard   time.Time // when the server said something last
		list    *list     // what Names has found last
		err     error     // why it is over
	}
}

// reply is what the server has answered. body is the waiter's.
type reply struct {
	header jute.ReplyHeader
	body   []byte
}

// watched is a path that some page shows.
type watched struct {
	changes uint64
	looked  time.Time
}

// Open opens a session with the first of the servers that takes one, and proves the credential. It is over by ctx's
// deadline, which it should have.
func Open(ctx context.Context, o Options) (*Session, error) {
	var errs []error
	for _, addr := range o.Addrs {
		s, err := open(ctx, addr, o)
		if err == nil || errors.Is(err, ErrWrongPassword) {
			return s, err
		}
		errs = append(errs, err)
	}
	return nil, cmp.Or(errors.Join(errs...), ErrOver)
}

func open(ctx context.Context, addr string, o Options) (*Session, error) {
	conn, err := client.Dial(ctx, client.Options{Addr: addr, Now: o.Clock.Now, Timeout: timeout, Dial: o.Dial})
	if err != nil {
		return nil, err
	}
	s := &Session{opts: o, conn: conn, addr: addr, over: make(chan struct{})}
	s.mu.waiting = map[jute.Xid]chan<- reply{}
	s.mu.watches = map[string]*watched{}
	s.mu.used, s.mu.heard = o.Clock.Now(), o.Clock.Now()
	s.tasks.Go(s.read)
	s.tasks.Go(s.keep)
	if err := s.prove(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if s.who, err = s.whoAmI(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Addr is the server's address.
func (s *Session) Addr() string { return s.addr }

// ID is the session's.
func (s *Session) ID() jute.SessionID { return s.conn.Session }

// Who is whom the server takes the person for; nil from a server that does not tell (before 3.7).
func (s *Session) Who() []jute.ClientInfo { return s.who }

// Over is closed when the session is over.
func (s *Session) Over() <-chan struct{} { return s.over }

// Close ends the session, which removes its watches, and waits for what it runs.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _, _ = s.ask(ctx, 0, jute.OpCloseSession, nil) // else the session expires by itself
	s.end(ErrOver)
	s.tasks.Wait()
}

// end makes the session one that is over; the first reason counts.
func (s *Session) end(err error) {
	s.mu.Lock()
	first := s.mu.err == nil
	if first {
		s.mu.err = fmt.Errorf("%w: %w", ErrOver, err)
		s.mu.waiting, s.mu.list = nil, nil
	}
	s.mu.Unlock()
	if first {
		close(s.over)
		s.conn.Cut()
	}
}

// read hands replies to who waits, until the connection ends.
func (s *Session) read() {
	for {
		header, body, err := s.conn.ReadReply()
		if err != nil {
			s.end(err)
			return
		}
		now := s.opts.Clock.Now()
		s.mu.Lock()
		s.mu.heard = now
		waiter := s.mu.waiting[header.Xid]
		delete(s.mu.waiting, header.Xid)
		if header.Xid == jute.XidNotification {
			s.changedLocked(body)
		}
		s.mu.Unlock()
		if waiter != nil {
			waiter <- reply{header, append([]byte(nil), body...)} // it has room for one
		}
	}
}

// changedLocked counts a change of a watched path.
func (s *Session) changedLocked(body []byte) {
	var event jute.WatcherEvent
	d := jute.NewDecoder(body)
	event.Decode(&d)
	if w := s.mu.watches[event.Path]; d.Err() == nil && w != nil {
		w.changes++
	}
}

// keep pings while somebody uses the session, ends it when nobody does, and removes watches that nobody looks at.
func (s *Session) keep() {
	ticker := s.opts.Clock.NewTicker(s.conn.Timeout / 3)
	defer ticker.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-ticker.C():
		}
		now := s.opts.Clock.Now()
		s.mu.Lock()
		idle, silent := now.Sub(s.mu.used), now.Sub(s.mu.heard)
		var stale []string
		for path, w := range s.mu.watches { // any order
			if now.Sub(w.looked) > watchAfter {
				stale = append(stale, path)
				delete(s.mu.watches, path)
			}
		}
		s.mu.Unlock()
		switch {
		case idle > IdleAfter:
			s.goodbye()
			return
		case silent > s.conn.Timeout:
			s.end(errSilent)
			return
		}
		for _, path := range stale {
			request := jute.WatcherTypeRequest{Path: path, Type: jute.WatcherAny}
			_ = s.send(0, jute.OpRemoveWatches, request.Append, nil) // what fails ends the session
		}
		_ = s.send(jute.XidPing, jute.OpPing, nil, nil) // likewise
	}
}

var errSilent = errors.New("the server says nothing any more")

// goodbye closes the session without waiting for the answer, on the goroutine that Close waits for.
func (s *Session) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _, _ = s.ask(ctx, 0, jute.OpCloseSession, nil) // else it expires by itself
	s.end(errIdle)
}

var errIdle = errors.New("nobody has used it")

// send writes a request; who gets the reply, which must have room for one; nil is nobody. xid 0 is the next one.
func (s *Session) send(xid jute.Xid, op jute.Op, record func([]byte) []byte, who chan<- reply) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.mu.err != nil {
		defer s.mu.Unlock()
		return s.mu.err
	}
	if xid == 0 {
		s.mu.xid = max(s.mu.xid+1, 1)
		xid = s.mu.xid
	}
	if who != nil {
		s.mu.waiting[xid] = who
	}
	s.mu.Unlock()
	if err := s.conn.Write(client.Request(nil, xid, op, record)); err != nil {
		s.end(err)
		return ErrOver
	}
	return nil
}

// ask sends a request and waits for its reply. A wait that ctx ends is the end of the session: the server does not
// answer.
func (s *Session) ask(ctx context.Context, xid jute.Xid, op jute.Op, record func([]byte) []byte) (
	[]byte, jute.ReplyHeader, error,
) {
	answer := make(chan reply, 1) // the one reply
	if err := s.send(xid, op, record, answer); err != nil {
		return nil, jute.ReplyHeader{}, err
	}
	return s.await(ctx, answer)
}

// await waits for a reply.
func (s *Session) await(ctx context.Context, answer <-chan reply) ([]byte, jute.ReplyHeader, error) {
	select {
	case r := <-answer:
		return r.body, r.header, nil
	case <-s.over:
		select {
		case r := <-answer: // it came before the end
			return r.body, r.header, nil
		default:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, jute.ReplyHeader{}, s.mu.err
	case <-ctx.Done():
		return nil, jute.ReplyHeader{}, fmt.Errorf("wait for the server's answer: %w", ctx.Err())
	}
}

// use notes that somebody asks.
func (s *Session) use() {
	now := s.opts.Clock.Now()
	s.mu.Lock()
	s.mu.used = now
	s.mu.Unlock()
}

// Do sends a request and returns the body of the reply, which is the caller's. A code of the server is a *RefusedError.
func (s *Session) Do(ctx context.Context, op jute.Op, path string, record func([]byte) []byte) ([]byte, error) {
	s.use()
	body, header, err := s.ask(ctx, 0, op, record)
	if err != nil {
		return nil, err
	}
	if header.Err != jute.OK {
		return body, &RefusedError{op, path, header.Err}
	}
	return body, nil
}

// prove proves the credential.
func (s *Session) prove(ctx context.Context) error {
	c := s.opts.Credential
	switch c.Scheme {
	case "":
		return nil
	case SchemeSASL:
		return s.proveSASL(ctx)
	}
	packet := jute.AuthPacket{Scheme: c.Scheme, Auth: []byte(c.User + ":" + c.Password)}
	_, header, err := s.ask(ctx, jute.XidAuth, jute.OpAuth, packet.Append)
	switch {
	case err != nil:
		return err
	case header.Err != jute.OK:
		return ErrWrongPassword
	}
	return nil
}

// What clients and servers of ZooKeeper know in SASL without saying it (org.apache.zookeeper.util.SecurityUtils).
const (
	saslService = "zookeeper"
	saslRealm   = "zk-sasl-md5"
)

// proveSASL logs in by DIGEST-MD5.
func (s *Session) proveSASL(ctx context.Context) error {
	dialogue := sasl.DigestLogin{User: s.opts.Credential.User, Password: s.opts.Credential.Password,
		Service: saslService, Realm: saslRealm, Random: s.opts.Random}.Begin()
	var challenge []byte
	for {
		token, done, err := dialogue.Next(challenge)
		if done {
			return nil
		}
		if err != nil {
			return fmt.Errorf("log in by SASL: %w", err)
		}
		request := jute.SASLToken{Token: token}
		body, header, err := s.ask(ctx, 0, jute.OpSASL, request.Append)
		switch {
		case errors.Is(err, ErrOver) && challenge != nil, err == nil && header.Err != jute.OK:
			return ErrWrongPassword
		case err != nil:
			return err
		}
		var answer jute.SASLToken
		d := jute.NewDecoder(body)
		answer.Decode(&d)
		if d.Err() != nil || answer.Token == nil {
			return fmt.Errorf("log in by SASL: %w", ErrWrongPassword)
		}
		challenge = answer.Token
	}
}

// whoAmI asks whom the server takes the person for.
func (s *Session) whoAmI(ctx context.Context) ([]jute.ClientInfo, error) {
	body, header, err := s.ask(ctx, 0, jute.OpWhoAmI, nil)
	if err != nil {
		return nil, err
	}
	if header.Err == jute.Unimplemented {
		return nil, nil
	}
	if header.Err != jute.OK {
		return nil, &RefusedError{jute.OpWhoAmI, "", header.Err}
	}
	var response jute.WhoAmIResponse
	d := jute.NewDecoder(body)
	response.Decode(&d)
	return response.ClientInfo, d.Err()
}

// Changes has the path watched, and returns a number that changes when the znode, or the list of its children, does.
// Whoever asks again within watchAfter misses nothing. A server without persistent watches (before 3.6) refuses.
func (s *Session) Changes(ctx context.Context, path string) (uint64, error) {
	s.use()
	now := s.opts.Clock.Now()
	s.mu.Lock()
	if w := s.mu.watches[path]; w != nil {
		w.looked = now
		defer s.mu.Unlock()
		return w.changes, nil
	}
	if s.mu.err == nil && len(s.mu.watches) < watchesMax {
		// The number is of this watch alone: what another one has counted must not be taken for it.
		s.mu.watches[path] = &watched{changes: uint64(now.UnixNano()), looked: now}
	}
	s.mu.Unlock()
	request := jute.AddWatchRequest{Path: path, Mode: jute.WatchPersistent}
	if _, err := s.Do(ctx, jute.OpAddWatch, path, request.Append); err != nil {
		s.mu.Lock()
		delete(s.mu.watches, path)
		s.mu.Unlock()
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.mu.watches[path]; w != nil {
		return w.changes, nil
	}
	return 0, nil
}

// watchesMax is how many paths a person looks at at once; a guess.
const watchesMax = 64
