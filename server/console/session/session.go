package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/jute/client/session"
	"zkd/quorum/clock"
	"zkd/server/auth/sasl"
)

// Schemes of credentials.
const (
	SchemeDigest = "digest"
	SchemeSASL   = "sasl"
	SchemeX509   = "x509" // of the certificate that the connection has
)

// Credential is what a person proves who he is with. The zero one proves nothing: the server sees an address
// alone.
type Credential struct {
	Scheme, User, Password string
}

// IsWhole reports whether it is a name with a password, of a scheme that has them.
func (c *Credential) IsWhole() bool {
	switch c.Scheme {
	case SchemeDigest:
		return c.User != "" && !strings.Contains(c.User, ":")
	case SchemeSASL:
		return c.User != ""
	}
	return false
}

// Times of a session. Guesses: the timeout is what a server's defaults give anybody, and a page that is open asks
// once a second.
const (
	timeout    = 10 * time.Second
	tick       = timeout / 3
	IdleAfter  = time.Minute      // nobody has asked anything: the session is closed
	watchAfter = 15 * time.Second // nobody has looked at a watched path: the watch is removed
	closeAfter = time.Second      // that a server may take to take leave
)

// replyMax bounds what a server answers: the names of some three million children, as one page of them needs all.
const replyMax = 64 << 20

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
	// ErrOver means that the session has ended, or that its connection was lost.
	ErrOver = errors.New("the session with the server has ended")
	// ErrWrongPassword means that the server does not believe a credential.
	ErrWrongPassword = errors.New("the server does not know this name with this password")
)

// CodeOf is the code of what the server has refused; jute.OK for any other error. That nobody has answered is none of
// the server's.
func CodeOf(err error) jute.Code {
	switch code := session.CodeOf(err); code {
	case jute.ConnectionLoss, jute.SessionExpired:
		return jute.OK
	default:
		return code
	}
}

// Lost reports whether an error says that the session, or its connection, is no more.
func Lost(err error) bool {
	code := session.CodeOf(err)
	return errors.Is(err, ErrOver) || code == jute.ConnectionLoss || code == jute.SessionExpired
}

// Session is used by any number of goroutines. What it asks for it asks of the servers as its Session does.
type Session struct {
	*session.Session

	clock clock.Clock
	who   []jute.ClientInfo // immutable after Open
	tasks sync.WaitGroup

	mu struct {
		sync.Mutex
		watches map[string]*watched
		used    time.Time // when somebody asked last
		holders int       // who works with it for longer
		list    *list     // what Names has found last
		trouble error     // the last that a server has caused
	}
}

// Open opens a session with the first of the servers that takes one, and proves the credential. It is over by ctx's
// deadline, which it should have.
func Open(ctx context.Context, o Options) (*Session, error) {
	s := &Session{clock: o.Clock}
	s.mu.watches = map[string]*watched{}
	s.mu.used = o.Clock.Now()
	options := session.Options{Servers: o.Addrs, Timeout: timeout, MaxReplyBytes: replyMax, Dial: o.Dial,
		Now:   o.Clock.Now,
		After: func(d time.Duration) <-chan time.Time { return o.Clock.NewTimer(d).C() },
		OnEvent: func(e session.Event) {
			if e.Kind == session.EventNode || e.Kind == session.EventState && e.State == session.Connected {
				s.changed(e.Path) // what has happened before a connection nobody tells: all may have changed
			}
		},
		OnTrouble: func(_ string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.trouble = err
		},
	}
	switch c := o.Credential; c.Scheme {
	case "", SchemeX509: // the connection has what there is to prove
	case SchemeSASL:
		options.Login = func(string) (session.Login, error) {
			return sasl.DigestLogin{User: c.User, Password: c.Password, Service: saslService, Realm: saslRealm,
				Random: o.Random}.Begin(), nil
		}
	default:
		options.Auth = []jute.AuthPacket{{Scheme: c.Scheme, Auth: []byte(c.User + ":" + c.Password)}}
	}
	var err error
	if s.Session, err = session.Open(options); err != nil {
		return nil, err
	}
	s.who, err = s.WhoAmI(ctx) // fails once each server was tried
	switch code := session.CodeOf(err); {
	case err == nil, code == jute.Unimplemented: // it is too old
		s.tasks.Go(s.keep)
		return s, nil
	case code == jute.AuthFailed:
		err = ErrWrongPassword
	case code == jute.ConnectionLoss:
		s.mu.Lock()
		err = cmp.Or(s.mu.trouble, ErrOver)
		s.mu.Unlock()
	}
	s.Close()
	return nil, err
}

// What clients and servers of ZooKeeper know in SASL without saying it (org.apache.zookeeper.util.SecurityUtils).
const (
	saslService = "zookeeper"
	saslRealm   = "zk-sasl-md5"
)

// Who is whom the server takes the person for; nil from a server that does not tell (before 3.7).
func (s *Session) Who() []jute.ClientInfo { return s.who }

// Close ends the session, which removes its watches, and waits for what it runs.
func (s *Session) Close() {
	s.goodbye()
	s.tasks.Wait()
}

// goodbye ends the session. One that its server does not hear of expires by itself.
func (s *Session) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), closeAfter)
	defer cancel()
	s.Session.Close(ctx)
}

// Use notes that somebody asks.
func (s *Session) Use() {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.used = now
}

// Hold keeps the session from ending for want of use until release is called.
func (s *Session) Hold() (release func()) {
	add := func(n int) {
		s.Use()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.holders += n
	}
	add(1)
	return func() { add(-1) }
}

// keep ends the session when nobody uses it, and removes watches that nobody looks at.
func (s *Session) keep() {
	ticker := s.clock.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.Done():
			return
		case <-ticker.C():
		}
		if s.idle() {
			s.goodbye()
			return
		}
		for _, path := range s.stale() {
			ctx, cancel := context.WithTimeout(context.Background(), tick)
			_ = s.RemoveWatches(ctx, path, jute.WatcherPersistent, true) // else it goes with the session
			cancel()
		}
	}
}

// idle reports whether nobody uses the session.
func (s *Session) idle() bool {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.holders == 0 && now.Sub(s.mu.used) > IdleAfter
}

// stale takes the watches out that nobody looks at.
func (s *Session) stale() (paths []string) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, w := range s.mu.watches { // any order
		if now.Sub(w.looked) > watchAfter {
			paths = append(paths, path)
			delete(s.mu.watches, path)
		}
	}
	return paths
}

// watched is a path that some page shows.
type watched struct {
	changes uint64
	looked  time.Time
}

// watchesMax is how many paths a person looks at at once; a guess.
const watchesMax = 64

// changed counts a change of a watched path; of all for "".
func (s *Session) changed(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, w := range s.mu.watches { // any order: each by itself
		if path == "" || at == path {
			w.changes++
		}
	}
}

// Changes has the path watched, and returns a number that changes when the znode, or the list of its children, does.
// Whoever asks again within watchAfter misses nothing. A server without persistent watches (before 3.6) refuses.
func (s *Session) Changes(ctx context.Context, path string) (uint64, error) {
	now := s.clock.Now()
	s.mu.Lock()
	if w := s.mu.watches[path]; w != nil {
		w.looked = now
		defer s.mu.Unlock()
		return w.changes, nil
	}
	if len(s.mu.watches) >= watchesMax {
		s.mu.Unlock()
		return 0, &session.Error{Code: jute.Throttled, Path: path}
	}
	// The number is of this watch alone: what another one has counted must not be taken for it.
	s.mu.watches[path] = &watched{changes: uint64(now.UnixNano()), looked: now}
	s.mu.Unlock()
	err := s.AddWatch(ctx, path, jute.WatchPersistent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.mu.watches, path)
		return 0, err
	}
	if w := s.mu.watches[path]; w != nil {
		return w.changes, nil
	}
	return 0, nil
}
