package console

import (
	"context"
	"crypto/x509"
	"net/netip"
	"sync"

	"zkd/server/console/session"
)

// sessions are those that visitors have with the servers of an ensemble. Each visit has one, however many pages it has
// open; who has not signed in shares one with others at his address. A session ends by itself when nobody uses it.
type sessions struct {
	console  *Console
	ensemble *ensemble

	mu     sync.Mutex
	all    map[sessionKey]*opening
	closed bool
}

// sessionKey is whose a session is.
type sessionKey struct {
	identity *identity  // nil: nobody's
	remote   netip.Addr // then
}

// opening is a session that is there or on its way.
type opening struct {
	done    chan struct{} // closed when it is there, or cannot be
	session *session.Session
	err     error
}

func newSessions(c *Console, e *ensemble) *sessions {
	return &sessions{console: c, ensemble: e, all: map[sessionKey]*opening{}}
}

// get returns the visitor's session, which it opens if there is none.
func (s *sessions) get(ctx context.Context, v *visitor) (*session.Session, error) {
	if !v.mayRead() {
		return nil, errClosed
	}
	key := sessionKey{identity: v.identity}
	if v.identity == nil {
		key.remote = v.remote.Addr()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, session.ErrOver
	}
	o := s.all[key]
	if o == nil || o.over() {
		o = &opening{done: make(chan struct{})}
		s.all[key] = o
		s.dropLocked()
		s.mu.Unlock()
		o.session, o.err = s.open(ctx, v)
		close(o.done)
		if o.err == nil {
			s.keepIfOpen(o.session)
		}
		return o.session, o.err
	}
	s.mu.Unlock()
	select {
	case <-o.done:
		if o.err == nil {
			o.session.Use()
		}
		return o.session, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over reports whether another session is needed.
func (o *opening) over() bool {
	select {
	case <-o.done:
	default:
		return false
	}
	if o.err != nil {
		return true
	}
	select {
	case <-o.session.Done():
		return true
	default:
		return false
	}
}

// dropLocked forgets what is over.
func (s *sessions) dropLocked() {
	for key, o := range s.all { // any order: all of them
		if o.over() {
			delete(s.all, key)
		}
	}
}

// keepIfOpen closes a session that was opened while the console was closed.
func (s *sessions) keepIfOpen(opened *session.Session) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		opened.Close()
	}
}

// open opens a session as the visitor, from where he is.
func (s *sessions) open(ctx context.Context, v *visitor) (*session.Session, error) {
	o := session.Options{Dial: s.ensemble.Dial, Addrs: s.ensemble.Addrs, Clock: s.console.opts.Clock,
		Random: s.console.opts.Random}
	if v.identity != nil {
		o.Credential = v.identity.credential
	}
	if here := s.ensemble.Here; here != nil {
		var cert *x509.Certificate
		if v.identity != nil {
			cert = v.identity.certificate
		}
		o.Dial, o.Addrs = here.Connect(v.remote, cert), []string{here.Name}
	} else {
		o.Addrs = s.ensemble.found.addrs(o.Addrs)
	}
	return session.Open(ctx, o)
}

// close ends the session of an identity.
func (s *sessions) close(i *identity) {
	s.mu.Lock()
	o := s.all[sessionKey{identity: i}]
	delete(s.all, sessionKey{identity: i})
	s.mu.Unlock()
	if o != nil && !o.over() {
		<-o.done
		if o.err == nil {
			o.session.Close()
		}
	}
}

// closeAll ends all sessions, and opens no more.
func (s *sessions) closeAll() {
	s.mu.Lock()
	s.closed = true
	var open []*opening
	for _, o := range s.all { // any order: all of them
		open = append(open, o)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, o := range open {
		all.Go(func() {
			<-o.done
			if o.err == nil {
				o.session.Close()
			}
		})
	}
	all.Wait()
}
