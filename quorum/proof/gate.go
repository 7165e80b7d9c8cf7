package proof

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// magicBytes is how many bytes tell an opening from the handshake that follows, which has as many.
const magicBytes = 8

// magic begins an opening.
var magic = [magicBytes]byte{0xF5, 'z', 'k', 'd', 'a', 'u', 't', 'h'}

// Methods of proof. The numbers are on the wire.
const (
	methodSecret uint8 = 1
	methodLogin  uint8 = 2
)

// What a turn says beside its body. The numbers are on the wire.
const (
	turnOn      uint8 = 0 // it goes on
	turnDone    uint8 = 1 // the proof is taken
	turnRefused uint8 = 2 // it is not
	turnNone    uint8 = 3 // this side has nothing configured that could take it
)

// Sizes.
const (
	openingHeadBytes = magicBytes + 4 // version, method, length
	turnHeadBytes    = 3              // status, length
	bodyBytesMax     = 1<<16 - 1
	version          = 1
)

// Why a proof fails.
var (
	// ErrHungUp means a server that has ended the connection at the opening: one that knows of no proofs does.
	ErrHungUp = errors.New("it hung up where it was to prove that it belongs to the ensemble: it is no zkd server's " +
		"port for servers, or an older one, or one that wants TLS")
	// ErrUnproven means a caller that has proven nothing, where this server demands it.
	ErrUnproven = errors.New("no proof of belonging to the ensemble came")

	errMalformed = errors.New("malformed proof")
	errTwice     = errors.New("a proof came twice")
	errRefused   = errors.New("the other server refuses the proof")
)

// Call says what a connection is for.
type Call struct {
	From, To uint64 // ids of the dialing server and of the one that is meant
	Purpose  uint8
}

// Gate is what a server proves to others, and wants proven. The zero Gate proves nothing, and wants nothing. Its
// methods may be called by any goroutine.
type Gate struct {
	Secret *Secret // nil: none
	Login  *Login  // nil: none
}

// Demands tells whether nobody passes without a proof.
func (g *Gate) Demands() bool {
	return g.Secret != nil && g.Secret.demand || g.Login != nil && g.Login.Demand
}

// Offers tells whether a connection that is made begins with an opening.
func (g *Gate) Offers() bool { return g.Secret != nil || g.Login != nil && g.Login.Dial != nil }

// MayOmit tells whether a server that knows of no proofs may be called without one.
func (g *Gate) MayOmit() bool {
	return (g.Secret == nil || !g.Secret.demand) && (g.Login == nil || g.Login.Dial == nil)
}

// Dial proves what this server has on a connection that it has made to host, and has the other side prove the same. All
// that follows goes over the connection that it returns.
func (g *Gate) Dial(ctx context.Context, conn net.Conn, c Call, host string) (net.Conn, error) {
	if g.Secret != nil {
		var err error
		if conn, err = g.Secret.dial(conn, c); err != nil {
			return nil, fmt.Errorf("zkd.quorum.secretFile: %w", err)
		}
	}
	if g.Login != nil && g.Login.Dial != nil {
		if err := g.Login.dial(ctx, conn, host); err != nil {
			return nil, fmt.Errorf("SASL: %w", err)
		}
	}
	return conn, nil
}

// Accepted is an accepted connection behind its proofs.
type Accepted struct {
	net.Conn       // where all goes that follows
	Call     *Call // that was proven with the secret; nil: none was
	Name     string
}

// Accept takes the proofs that come, proves the secret, and returns at the first bytes of something else, which are
// unread. With ErrUnproven the connection is returned, too: its caller may be told.
func (g *Gate) Accept(conn net.Conn) (*Accepted, error) {
	a := &Accepted{Conn: conn}
	secret, login := false, false
	for {
		var head [magicBytes]byte
		n, err := io.ReadFull(a.Conn, head[:])
		if n > 0 && (err != nil || head != magic) {
			a.Conn = Unread(a.Conn, bytes.Clone(head[:n]))
		}
		if err != nil || head != magic {
			break // who reads on says what is wrong
		}
		method, opening, err := readOpening(a.Conn)
		if err != nil {
			return nil, err
		}
		switch {
		case method == methodSecret && secret, method == methodLogin && login:
			return nil, errTwice
		case method == methodSecret && g.Secret != nil:
			if err := g.Secret.accept(a, opening); err != nil {
				return nil, fmt.Errorf("zkd.quorum.secretFile: %w", err)
			}
			secret = true
		case method == methodLogin && g.Login != nil && g.Login.Begin != nil:
			if a.Name, err = g.Login.accept(a.Conn, opening); err != nil {
				return nil, fmt.Errorf("SASL: %w", err)
			}
			login = true
		default:
			if err := writeTurn(a.Conn, turnNone, nil); err != nil {
				return nil, err
			}
			secret, login = secret || method == methodSecret, login || method == methodLogin
		}
	}
	if g.Secret != nil && g.Secret.demand && !secret {
		return a, fmt.Errorf("%w: set zkd.quorum.secretFile there", ErrUnproven)
	}
	if g.Login != nil && g.Login.Demand && !login {
		return a, fmt.Errorf("%w: set quorum.auth.enableSasl and quorum.auth.learnerRequireSasl there", ErrUnproven)
	}
	return a, nil
}

// openingOf returns an opening.
func openingOf(method uint8, body []byte) []byte {
	b := append(bytes.Clone(magic[:]), version, method)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body))) //nolint:gosec // ours, and short
	return append(b, body...)
}

// readOpening reads an opening behind its magic.
func readOpening(r io.Reader) (method uint8, body []byte, err error) {
	var head [openingHeadBytes - magicBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("read the opening of a proof: %w", err)
	}
	if head[0] != version {
		return 0, nil, fmt.Errorf("%w: version %d, want %d", errMalformed, head[0], version)
	}
	const openingBytesMax = 512
	length := int(binary.BigEndian.Uint16(head[2:]))
	if length > openingBytesMax {
		return 0, nil, fmt.Errorf("%w: an opening of %d bytes", errMalformed, length)
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("read the opening of a proof: %w", err)
	}
	return head[1], body, nil
}

// writeTurn sends a turn.
func writeTurn(w io.Writer, status uint8, body []byte) error {
	b := binary.BigEndian.AppendUint16([]byte{status}, uint16(len(body))) //nolint:gosec // callers bound it
	_, err := w.Write(append(b, body...))
	return err
}

// readTurn reads a turn that goes on or is done, of at most bytesMax.
func readTurn(r io.Reader, bytesMax int) (status uint8, body []byte, err error) {
	var head [turnHeadBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("read a turn of the proof: %w", err)
	}
	length := int(binary.BigEndian.Uint16(head[1:]))
	switch {
	case head[0] == turnRefused:
		return 0, nil, errRefused
	case head[0] > turnNone || length > bytesMax:
		return 0, nil, fmt.Errorf("%w: turn %d of %d bytes", errMalformed, head[0], length)
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("read a turn of the proof: %w", err)
	}
	return head[0], body, nil
}

// Unread returns a connection that reads again what was read of it, which is handed over.
func Unread(conn net.Conn, read []byte) net.Conn { return &prefixedConn{Conn: conn, prefix: read} }

// prefixedConn is a connection of which some bytes were read already.
type prefixedConn struct {
	net.Conn
	prefix []byte // owned by the reader
}

// Read returns the bytes that were read already, then the others.
func (c *prefixedConn) Read(b []byte) (int, error) {
	if len(c.prefix) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.prefix)
	c.prefix = c.prefix[n:]
	return n, nil
}
