package proof

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Sizes of what is said of a secret.
const (
	callBytes          = 8 + 8 + 1
	keyBytes           = 32 // of an ephemeral public key of X25519, a proof, and a key of AES-256
	secretOpeningBytes = callBytes + keyBytes
)

// What is made of what both sides know, for each use.
const (
	labelTranscript    = "zkd quorum secret 1"
	labelDialingProof  = "proof of the dialing side"
	labelAcceptProof   = "proof of the accepting side"
	labelDialingKey    = "key of the dialing side"
	labelAcceptingKey  = "key of the accepting side"
	labelChannelExport = "EXPORTER-zkd-quorum-secret"
)

// Why a secret is not taken. The other side is not told.
var (
	errOtherSecret = errors.New("the other server has another secret, or somebody is in between")
	errNoSecret    = errors.New("the other server has no secret: set zkd.quorum.secretFile there, or " +
		"zkd.quorum.secretRequired=false here until it is set everywhere")
)

// SecretOptions says what a Secret consists of. Lines and Random are needed.
type SecretOptions struct {
	// Lines are the secrets: the first one is proven to others, and any of them is taken.
	Lines [][]byte
	// Demand has nobody pass without it.
	Demand bool
	// Random gives the ephemeral keys: crypto/rand.Reader outside tests.
	Random io.Reader
}

// Secret is what all servers of an ensemble know.
type Secret struct {
	lines  [][]byte
	demand bool
	random io.Reader
}

// NewSecret returns a secret.
func NewSecret(o SecretOptions) (*Secret, error) {
	if len(o.Lines) == 0 || o.Random == nil {
		return nil, errors.New("secret options: Lines and Random must be given")
	}
	return &Secret{lines: o.Lines, demand: o.Demand, random: o.Random}, nil
}

// draw returns an ephemeral key.
func (s *Secret) draw() (*ecdh.PrivateKey, error) {
	var raw [keyBytes]byte
	if _, err := io.ReadFull(s.random, raw[:]); err != nil {
		return nil, fmt.Errorf("draw a key: %w", err)
	}
	return ecdh.X25519().NewPrivateKey(raw[:])
}

// shared are both sides' keys and proofs, for one secret.
type shared struct{ base []byte }

// sharedBy is what a secret makes of what was said, and of what both sides have agreed on without saying it.
func sharedBy(secret, agreed, opening, answer, channel []byte) shared {
	said := sha256.New()
	for _, part := range [...][]byte{[]byte(labelTranscript), opening, answer, channel} {
		_, _ = said.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // short; cannot fail
		_, _ = said.Write(part)
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write(said.Sum(nil))
	_, _ = mac.Write(agreed)
	return shared{mac.Sum(nil)}
}

// of returns what is used as label says.
func (s shared) of(label string) []byte {
	mac := hmac.New(sha256.New, s.base)
	_, _ = mac.Write([]byte(label))
	return mac.Sum(nil)
}

// seal returns the connection on which all is protected that follows: conn itself within TLS, which does.
func (s shared) seal(conn net.Conn, own, other string) (net.Conn, error) {
	if _, ok := conn.(*tls.Conn); ok {
		return conn, nil
	}
	return newSealedConn(conn, s.of(own), s.of(other))
}

// channel is what only both ends of a connection of TLS know, nil without TLS. One that is handed on between two
// connections is not the same on both sides.
func channel(conn net.Conn) ([]byte, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil
	}
	state := secure.ConnectionState()
	return state.ExportKeyingMaterial(labelChannelExport, nil, keyBytes)
}

// agree makes of an ephemeral key and the other side's what both know.
func agree(own *ecdh.PrivateKey, other []byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPublicKey(other)
	if err != nil {
		return nil, fmt.Errorf("%w: key: %w", errMalformed, err)
	}
	agreed, err := own.ECDH(key)
	if err != nil {
		return nil, fmt.Errorf("%w: key: %w", errMalformed, err)
	}
	return agreed, nil
}

// dial proves the first secret, and has the other side prove it.
func (s *Secret) dial(conn net.Conn, c Call) (net.Conn, error) {
	own, err := s.draw()
	if err != nil {
		return nil, err
	}
	body := binary.BigEndian.AppendUint64(nil, c.From)
	body = append(binary.BigEndian.AppendUint64(body, c.To), c.Purpose)
	body = append(body, own.PublicKey().Bytes()...)
	if _, err := conn.Write(openingOf(methodSecret, body)); err != nil {
		return nil, hungUp(err)
	}
	status, answer, err := readTurn(conn, keyBytes)
	switch {
	case err != nil:
		return nil, hungUp(err)
	case status == turnNone && !s.demand:
		return conn, nil
	case status == turnNone:
		return nil, errNoSecret
	}
	agreed, err := agree(own, answer)
	if err != nil {
		return nil, err
	}
	binding, err := channel(conn)
	if err != nil {
		return nil, err
	}
	both := sharedBy(s.lines[0], agreed, body, answer, binding)
	if err := writeTurn(conn, turnOn, both.of(labelDialingProof)); err != nil {
		return nil, err
	}
	status, answer, err = readTurn(conn, keyBytes)
	switch {
	case errors.Is(err, errRefused):
		return nil, errOtherSecret
	case err != nil:
		return nil, err
	case status != turnDone || !hmac.Equal(answer, both.of(labelAcceptProof)):
		return nil, errOtherSecret
	}
	return both.seal(conn, labelDialingKey, labelAcceptingKey)
}

// hungUp tells a connection that was ended at the opening.
func hungUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	return err
}

// accept has the dialing side prove one of the secrets, and proves the same one.
func (s *Secret) accept(a *Accepted, opening []byte) error {
	if len(opening) != secretOpeningBytes {
		return fmt.Errorf("%w: an opening of %d bytes, want %d", errMalformed, len(opening), secretOpeningBytes)
	}
	own, err := s.draw()
	if err != nil {
		return err
	}
	agreed, err := agree(own, opening[callBytes:])
	if err != nil {
		return err
	}
	binding, err := channel(a.Conn)
	if err != nil {
		return err
	}
	answer := own.PublicKey().Bytes()
	if err := writeTurn(a.Conn, turnOn, answer); err != nil {
		return err
	}
	status, proven, err := readTurn(a.Conn, keyBytes)
	if err != nil {
		return err
	}
	if status != turnOn {
		return fmt.Errorf("%w: turn %d", errMalformed, status)
	}
	both := shared{}
	for _, line := range s.lines {
		each := sharedBy(line, agreed, opening, answer, binding)
		if hmac.Equal(proven, each.of(labelDialingProof)) {
			both = each
		}
	}
	if both.base == nil {
		_ = writeTurn(a.Conn, turnRefused, nil) // the connection ends anyway
		return errOtherSecret
	}
	if err := writeTurn(a.Conn, turnDone, both.of(labelAcceptProof)); err != nil {
		return err
	}
	a.Call = &Call{From: binary.BigEndian.Uint64(opening), To: binary.BigEndian.Uint64(opening[8:]),
		Purpose: opening[16]}
	a.Conn, err = both.seal(a.Conn, labelAcceptingKey, labelDialingKey)
	return err
}

// Bounds on a file of secrets. lineBytesMin is that of a random text of 96 bits in base64.
const (
	lineBytesMin = 16
	lineBytesMax = 1 << 10
	linesMax     = 8
)

// ParseSecrets reads a file of secrets, one a line, without the end of the line; empty lines do not count. Its error
// names the line, and never a part of it.
func ParseSecrets(text []byte) ([][]byte, error) {
	var lines [][]byte
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			continue
		case len(line) < lineBytesMin || len(line) > lineBytesMax:
			return nil, fmt.Errorf("line %d has %d bytes, want %d to %d: make one with openssl rand -base64 32",
				number, len(line), lineBytesMin, lineBytesMax)
		case len(lines) == linesMax:
			return nil, fmt.Errorf("line %d is one too many: at most %d secrets are taken", number, linesMax)
		}
		lines = append(lines, bytes.Clone(line))
	}
	if len(lines) == 0 {
		return nil, errors.New("holds no secret: make one with openssl rand -base64 32")
	}
	return lines, nil
}
