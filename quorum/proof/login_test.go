package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
)

// script is a mechanism whose tokens are known: the sides say these in turn, the dialing one first.
type script struct {
	tokens []string
	at     int
	name   string // that is proven with the last token of the dialing side
	fails  int    // the token at which the accepting side refuses; -1: none
}

var errScript = errors.New("not what is in the script")

// Respond implements Acceptor.
func (s *script) Respond(token []byte) (answer []byte, name string, err error) {
	if s.at >= len(s.tokens) || s.at == s.fails || string(token) != s.tokens[s.at] {
		return nil, "", errScript
	}
	s.at += 2
	if s.at >= len(s.tokens) {
		name = s.name
	}
	if s.at-1 < len(s.tokens) {
		answer = []byte(s.tokens[s.at-1])
	}
	return answer, name, nil
}

// Next implements Initiator: the last token of the accepting side is its proof.
func (s *script) Next(challenge []byte) (token []byte, done bool, err error) {
	if challenge != nil {
		if s.at >= len(s.tokens) || string(challenge) != s.tokens[s.at] {
			return nil, false, errScript
		}
		s.at++
	}
	if s.at < len(s.tokens) {
		token = []byte(s.tokens[s.at])
		s.at++
	}
	return token, s.at == len(s.tokens), nil
}

// login returns a gate whose server accepts by one script and dials by another one; nil: not at all.
func login(accepts, dials []string, demand bool, fails int) *Gate {
	l := &Login{Mechanism: "SCRIPT", Demand: demand}
	if accepts != nil {
		l.Begin = func() Acceptor { return &script{tokens: slices.Clone(accepts), name: "zk", fails: fails} }
	}
	if dials != nil {
		l.Dial = func(_ context.Context, host string) (Initiator, error) {
			if host != "peer" {
				return nil, fmt.Errorf("for %q", host)
			}
			return &script{tokens: slices.Clone(dials), fails: -1}, nil
		}
	}
	return &Gate{Login: l}
}

func TestLogins(t *testing.T) {
	four := []string{"hello", "who", "me", "welcome"}
	three := []string{"hello", "who", "me"}
	other := &Gate{Login: &Login{Mechanism: "OTHER", Begin: func() Acceptor { return deaf{} }}}
	for _, c := range []struct {
		name           string
		from, to       *Gate
		dials, accepts error
		user           string
	}{
		{name: "of four tokens", from: login(nil, four, false, -1), to: login(four, nil, true, -1), user: "zk"},
		{name: "of three tokens", from: login(nil, three, false, -1), to: login(three, nil, true, -1), user: "zk"},
		{name: "refused", from: login(nil, four, false, -1), to: login(four, nil, true, 2), dials: errLogin,
			accepts: errScript},
		{name: "refused, not demanded", from: login(nil, four, false, -1), to: login(four, nil, false, 2),
			dials: errLogin, accepts: errScript},
		{name: "the server proves nothing", from: login(nil, four, false, -1), to: login(three, nil, true, -1),
			dials: errScript, accepts: io.EOF},
		{name: "the server is done too early", from: login(nil, append(four, "more", "end"), false, -1),
			to: login(four, nil, true, -1), dials: errHalfProven, accepts: io.EOF},
		{name: "demanded of one without", from: &Gate{}, to: login(four, nil, true, -1), dials: io.ErrClosedPipe,
			accepts: ErrUnproven},
		{name: "not demanded of one without", from: &Gate{}, to: login(four, nil, false, -1)},
		{name: "at one without", from: login(nil, four, false, -1), to: &Gate{}, dials: errNoLogin, accepts: io.EOF},
		{name: "by another mechanism", from: login(nil, four, false, -1), to: other, dials: errLogin,
			accepts: errMechanism},
		{name: "and the secret", from: both(t, login(nil, four, false, -1)), to: both(t, login(four, nil, true, -1)),
			user: "zk"},
		{name: "without the secret", from: login(nil, four, false, -1), to: both(t, login(four, nil, true, -1)),
			dials: io.ErrClosedPipe, accepts: ErrUnproven},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := meet(t, c.from, c.to, Call{From: 1, To: 2, Purpose: 3}, straight)
			if !errors.Is(m.dialErr, c.dials) || !errors.Is(m.acceptedErr, c.accepts) {
				t.Fatalf("got %v and %v, want %v and %v", m.dialErr, m.acceptedErr, c.dials, c.accepts)
			}
			if c.accepts == nil && m.accepted.Name != c.user {
				t.Errorf("%q has logged in", m.accepted.Name)
			}
		})
	}
}

// both adds a secret to a gate.
func both(t *testing.T, g *Gate) *Gate {
	t.Helper()
	g.Secret = secret(t, true, newSecret).Secret
	return g
}

// TestWhoMayLogIn: a name that is proven may be refused all the same.
func TestWhoMayLogIn(t *testing.T) {
	errNot := errors.New("not this one")
	four := []string{"hello", "who", "me", "welcome"}
	to := login(four, nil, true, -1)
	to.Login.Admits = func(name string) error { return fmt.Errorf("%w: %s", errNot, name) }
	m := meet(t, login(nil, four, false, -1), to, Call{}, straight)
	if !errors.Is(m.dialErr, errLogin) || !errors.Is(m.acceptedErr, errNot) {
		t.Errorf("got %v and %v", m.dialErr, m.acceptedErr)
	}
}
