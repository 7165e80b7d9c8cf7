package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// Login is SASL between servers. The dialing side proves who it is, and learns from the mechanism that the other one
// knows it.
type Login struct {
	// Mechanism is its registered name, such as "DIGEST-MD5"; both sides have the same.
	Mechanism string
	// Begin starts a dialogue in which another server logs in here.
	Begin func() Acceptor
	// Dial starts one in which this server logs in at another one, on host; nil: it never does.
	Dial func(ctx context.Context, host string) (Initiator, error)
	// Admits returns what speaks against a name that was proven; any goroutine. nil: nothing does.
	Admits func(name string) error
	// Demand has nobody pass who does not log in; those who fail to never pass.
	Demand bool
}

// Acceptor is the accepting side of a mechanism.
type Acceptor interface {
	// Respond takes the next token, and returns the answer. A name that is not empty is proven, and the dialogue over.
	Respond(token []byte) (answer []byte, name string, err error)
}

// Initiator is the dialing side of a mechanism.
type Initiator interface {
	// Next returns the token that follows a challenge, nil for the first one. done says that the other side has proven
	// itself too, and that no more is needed of it than its word.
	Next(challenge []byte) (token []byte, done bool, err error)
}

// turnsMax bounds a dialogue: more than any mechanism needs.
const turnsMax = 8

// Why a login fails.
var (
	errNoLogin    = errors.New("the other server takes no login: set quorum.auth.enableSasl there")
	errMechanism  = errors.New("the other server logs in by another mechanism")
	errLoginTurns = errors.New("the login has no end")
	errLogin      = errors.New("the other server refuses the login: see its log")
	errHalfProven = errors.New("the other server has not proven that it belongs to the ensemble")
)

// dial logs in.
func (l *Login) dial(ctx context.Context, conn net.Conn, host string) error {
	dialogue, err := l.Dial(ctx, host)
	if err != nil {
		return err
	}
	token, done, err := dialogue.Next(nil)
	if err != nil {
		return err
	}
	if _, err := conn.Write(openingOf(methodLogin, []byte(l.Mechanism))); err != nil {
		return hungUp(err)
	}
	if status, _, err := readTurn(conn, 0); err != nil {
		return loginRefused(hungUp(err))
	} else if status != turnOn {
		return errNoLogin
	}
	for range turnsMax {
		if err := sendToken(conn, turnOn, token); err != nil {
			return err
		}
		status, challenge, err := readTurn(conn, bodyBytesMax)
		if err != nil {
			return loginRefused(err)
		}
		if status == turnDone && done && len(challenge) == 0 {
			return nil
		}
		if done {
			return errHalfProven
		}
		if token, done, err = dialogue.Next(challenge); err != nil {
			return err
		}
		if status == turnDone {
			if !done {
				return errHalfProven
			}
			return nil
		}
	}
	return errLoginTurns
}

// loginRefused says in the words of a login what the other side has said.
func loginRefused(err error) error {
	if errors.Is(err, errRefused) {
		return errLogin
	}
	return err
}

// sendToken sends a token, which may be too long for a turn.
func sendToken(w io.Writer, status uint8, token []byte) error {
	if len(token) > bodyBytesMax {
		return fmt.Errorf("%w: a token of %d bytes", errMalformed, len(token))
	}
	return writeTurn(w, status, token)
}

// accept has the dialing side log in.
func (l *Login) accept(conn net.Conn, mechanism []byte) (name string, err error) {
	defer func() {
		if err != nil {
			_ = writeTurn(conn, turnRefused, nil) // the connection ends anyway
		}
	}()
	if string(mechanism) != l.Mechanism {
		return "", fmt.Errorf("%w than %s", errMechanism, l.Mechanism)
	}
	if err := writeTurn(conn, turnOn, nil); err != nil {
		return "", err
	}
	dialogue := l.Begin()
	for range turnsMax {
		status, token, err := readTurn(conn, bodyBytesMax)
		if err != nil {
			return "", err
		}
		if status != turnOn {
			return "", fmt.Errorf("%w: turn %d", errMalformed, status)
		}
		answer, name, err := dialogue.Respond(token)
		if err != nil {
			return "", err
		}
		if name == "" {
			if err := sendToken(conn, turnOn, answer); err != nil {
				return "", err
			}
			continue
		}
		if l.Admits != nil {
			if err := l.Admits(name); err != nil {
				return "", err
			}
		}
		return name, sendToken(conn, turnDone, answer)
	}
	return "", errLoginTurns
}
