package gssapi

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"zkd/quorum/clock"
)

// odd is an Acceptor that is stuck at a token "stuck" until it is freed, tells what the token is then, and panics at
// "panic".
type odd struct {
	free chan struct{}
	then chan string
}

func (o odd) Accept(token []byte) (Context, []byte, error) {
	switch string(token) {
	case "stuck":
		<-o.free
		o.then <- string(token)
	case "panic":
		panic(string(token))
	}
	return plainContext("bob"), nil, nil
}

// TestGuard has tokens panic and be stuck: each costs its own login; when none can be looked at any more, logins are
// refused in time, and as soon as one can they go on.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck = 2
		o := odd{free: make(chan struct{}), then: make(chan string, stuck)}
		g := Guard(o, GuardOptions{Clock: clock.Real(), AtOnce: stuck})
		for step, s := range []struct {
			token string
			err   error
			took  time.Duration
		}{
			{"good", nil, 0}, {"panic", errPanic, 0}, {"stuck", errSlow, acceptWithin}, {"panic", errPanic, 0},
			{"good", nil, 0}, {"stuck", errSlow, acceptWithin}, {"good", errBusy, acceptWithin},
		} {
			begun := time.Now()
			token := []byte(s.token)
			c, answer, err := g.Accept(token)
			clear(token) // the next request comes into the buffer
			if !errors.Is(err, s.err) || answer != nil || (c != nil) != (err == nil) || time.Since(begun) != s.took {
				t.Errorf("step %d, %s: %v, %v after %v, want %v after %v", step, s.token, c, err, time.Since(begun),
					s.err, s.took)
			}
		}
		close(o.free)
		synctest.Wait()
		for range stuck {
			if token := <-o.then; token != "stuck" {
				t.Errorf("the token that is looked at has become %q", token)
			}
		}
		if c, _, err := g.Accept([]byte("good")); err != nil || c.Peer() != "bob" {
			t.Errorf("afterwards: %v, %v", c, err)
		}
	})
}

// garbageTokens is how many damaged tokens TestGarbage sends.
const garbageTokens = 5_000

// TestGarbage sends tokens that are good ones damaged: none makes anybody of its sender but who the ticket is of, and a
// good one is taken in the end.
func TestGarbage(t *testing.T) {
	w := newWorld(t)
	g := Guard(w.server, GuardOptions{Clock: clock.Real(), AtOnce: 1})
	good := w.token(usual())
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it is to come again
	for i := range garbageTokens {
		token := append([]byte(nil), good...)
		if i%4 == 0 {
			token = token[:r.IntN(len(token))]
		}
		for range 1 + r.IntN(4) {
			if len(token) > 0 {
				token[r.IntN(len(token))] ^= 1 << r.IntN(8)
			}
		}
		if bytes.Equal(token, good) {
			continue // the same bit twice
		}
		c, _, err := g.Accept(token)
		if err == nil && c.Peer() != "bob@"+realm || err != nil && c != nil {
			t.Fatalf("token %d is taken, %v: %x", i, err, token)
		}
		if err == nil { // a bit that nothing protects, as that of an option; what is sealed was seen now
			good = w.token(usual())
		}
	}
	if _, _, err := g.Accept(w.token(usual())); err != nil {
		t.Errorf("a good token after %d bad ones: %v", garbageTokens, err)
	}
}
