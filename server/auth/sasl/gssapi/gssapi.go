package gssapi

import (
	"errors"
	"fmt"

	"zkd/server/auth/sasl"
)

// Acceptor accepts the security contexts of clients. It is used by many connections at once.
type Acceptor interface {
	// Accept takes the first token of a context. answer is the token for the client, nil if it asked for none. token is
	// not kept.
	Accept(token []byte) (c Context, answer []byte, err error)
}

// Context is an established security context. It is for one goroutine.
type Context interface {
	// Peer returns the client's name, user[/host]@realm.
	Peer() string
	// Wrap protects the integrity of a message.
	Wrap(message []byte) ([]byte, error)
	// Unwrap returns the message of a token from the client, in memory of its own or as a view of the token.
	Unwrap(token []byte) ([]byte, error)
}

// tokenBytesMax is the longest token that is looked at: more than the tickets of Windows have, which carry the groups
// of a user and may be 48,000 bytes long.
const tokenBytesMax = 64 << 10

// Security layers of RFC 4752, section 3.3, and what is offered of them.
const (
	layerNone       = 1
	offeredLayers   = layerNone
	offeredMaxBytes = 0x10000 // of wrapped messages; counts for nothing without a layer, and is what Java says
)

// mechanism is GSSAPI.
type mechanism struct {
	acceptor Acceptor
}

// New returns the mechanism GSSAPI.
func New(a Acceptor) sasl.Mechanism { return mechanism{a} }

// Name returns "GSSAPI".
func (mechanism) Name() string { return "GSSAPI" }

// Begin starts an exchange.
func (m mechanism) Begin() sasl.Exchange { return &exchange{acceptor: m.acceptor} }

// exchange goes through the context's tokens, the offer of layers and the client's choice, as
// com.sun.security.sasl.gsskerb.GssKrb5Server does.
type exchange struct {
	acceptor Acceptor
	context  Context // nil until the client's first token
	offered  bool    // the layers were offered
}

// Why an exchange is refused.
var (
	errLong  = fmt.Errorf("token is longer than %d bytes", tokenBytesMax)
	errEmpty = errors.New("token after the end of the context should be empty")
	errLayer = errors.New("client chose a security layer, and none was offered")
)

// Respond takes a token.
func (e *exchange) Respond(token []byte) (answer []byte, name string, err error) {
	switch {
	case len(token) > tokenBytesMax:
		return nil, "", errLong
	case e.context == nil:
		if e.context, answer, err = e.acceptor.Accept(token); err != nil {
			return nil, "", fmt.Errorf("accept the security context: %w", err)
		}
		if answer == nil {
			answer, err = e.offer()
		}
		return answer, "", err
	case !e.offered:
		if len(token) > 0 {
			return nil, "", errEmpty
		}
		answer, err = e.offer()
		return answer, "", err
	default:
		name, err = e.choice(token)
		return nil, name, err
	}
}

// offer says which layers there are.
func (e *exchange) offer() ([]byte, error) {
	e.offered = true
	return e.context.Wrap([]byte{offeredLayers, offeredMaxBytes >> 16, 0, 0})
}

// choice reads the layer that the client wants, how long messages it takes, and an authorization id. The id counts for
// nothing, as on 3.9.5: a client is who its ticket says.
func (e *exchange) choice(token []byte) (name string, err error) {
	message, err := e.context.Unwrap(token)
	if err != nil {
		return "", fmt.Errorf("read the choice of a security layer: %w", err)
	}
	if len(message) < 4 {
		return "", fmt.Errorf("%w: choice of a security layer has %d bytes, not 4", sasl.ErrBroken, len(message))
	}
	if message[0]&offeredLayers == 0 {
		return "", errLayer
	}
	return e.context.Peer(), nil
}
