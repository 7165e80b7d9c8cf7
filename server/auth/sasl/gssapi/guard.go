package gssapi

import (
	"errors"
	"time"

	"zkd/quorum/clock"
)

// acceptWithin bounds the wait for a turn, and then the work on a token. A guess: one takes less than a millisecond.
const acceptWithin = time.Second

// Why a token is refused before it is known what it says.
var (
	errBusy  = errors.New("too many tokens are being looked at")
	errSlow  = errors.New("token takes too long to look at")
	errPanic = errors.New("token has the code for Kerberos panic")
)

// GuardOptions set up a guard. All fields are needed.
type GuardOptions struct {
	Clock  clock.Clock
	AtOnce int // tokens that are looked at at a time; at least one
}

// guard bounds what tokens of strangers may cost.
type guard struct {
	acceptor Acceptor
	clock    clock.Clock
	turns    chan struct{} // holds one for each token that is looked at
}

// Guard returns an Acceptor that has a look at few tokens at a time, gives up on those that take too long, and refuses
// those at which a panics. What a does with a token that was given up goes on, and keeps its turn: a token that never
// ends costs one turn, and when all are gone logins are refused, and nothing else.
func Guard(a Acceptor, o GuardOptions) Acceptor {
	return &guard{acceptor: a, clock: o.Clock, turns: make(chan struct{}, max(1, o.AtOnce))}
}

// accepted is what an Acceptor returns.
type accepted struct {
	context Context
	answer  []byte
	err     error
}

// Accept implements Acceptor.
func (g *guard) Accept(token []byte) (Context, []byte, error) {
	timer := g.clock.NewTimer(acceptWithin)
	defer timer.Stop()
	select {
	case g.turns <- struct{}{}:
	case <-timer.C():
		return nil, nil, errBusy
	}
	own := append([]byte(nil), token...) // it may be looked at for longer than the caller waits
	done := make(chan accepted, 1)       // whoever has given up does not take it
	go func() {
		defer func() { <-g.turns }()
		done <- g.look(own)
	}()
	timer.Reset(acceptWithin)
	select {
	case a := <-done:
		return a.context, a.answer, a.err
	case <-timer.C():
		return nil, nil, errSlow
	}
}

// look has the acceptor look at a token.
func (g *guard) look(token []byte) (a accepted) {
	defer func() {
		if recover() != nil { // what was found may hold parts of the token
			a = accepted{err: errPanic}
		}
	}()
	a.context, a.answer, a.err = g.acceptor.Accept(token)
	return a
}
