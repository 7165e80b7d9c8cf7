package sasl

import (
	"errors"
	"slices"

	"zkd/jute"
	"zkd/server/auth"
)

// Mechanism is one way to prove a name. It is used by many connections at once.
type Mechanism interface {
	// Name returns the registered name, such as "DIGEST-MD5".
	Name() string
	// Begin starts an exchange.
	Begin() Exchange
}

// Exchange is the tokens of one client. It is for one goroutine.
type Exchange interface {
	// Respond takes the client's next token, which it must not keep, and returns the answer. A name that is not empty
	// is proven, and the exchange is over. Errors are final; ErrBroken is among them where a token is beyond what 3.9.5
	// has an answer to.
	Respond(token []byte) (answer []byte, name string, err error)
}

// ErrBroken means a token at which 3.9.5 ends the connection without any reply.
var ErrBroken = errors.New("token cannot be read")

// errOver means a token after the end of the dialogue, good or bad.
var errOver = errors.New("the dialogue is over")

// Options sets up a Server. Mechanism and Names are needed.
type Options struct {
	Mechanism Mechanism
	Names     *Names
	// SuperUsers are the identities that are super, too (zookeeper.superUser and zookeeper.superUser.N).
	SuperUsers []string
	// AnyUser is the id in ACLs that every SASL user satisfies (zookeeper.letAnySaslUserDoX); "" is none.
	AnyUser string
	// AllowFailed keeps the connection of a client whose dialogue has failed, without an identity
	// (zookeeper.allowSaslFailedClients). It does not count where SASL is enforced.
	AllowFailed bool
}

// Server is SASL as one server offers it. Immutable after New.
type Server struct {
	options Options
}

// New returns a server.
func New(o Options) *Server {
	o.SuperUsers = slices.Clone(o.SuperUsers)
	return &Server{options: o}
}

// Mechanism returns the name of the mechanism.
func (s *Server) Mechanism() string { return s.options.Mechanism.Name() }

// AllowFailed reports whether a client whose dialogue has failed may stay.
func (s *Server) AllowFailed() bool { return s.options.AllowFailed }

// Begin starts a dialogue.
func (s *Server) Begin() *Dialogue {
	return &Dialogue{server: s, exchange: s.options.Mechanism.Begin()}
}

// Dialogue is the SASL of one connection. It is for one goroutine.
type Dialogue struct {
	server   *Server
	exchange Exchange // nil once it is over
}

// Respond takes a token in and returns the answer to it, and the identities that are now proven, none before the end.
// token is a view of the frame that is not kept. Errors are final, and so is success: 3.9.5 fails what comes after
// either.
func (d *Dialogue) Respond(token []byte) (answer []byte, ids []jute.ID, err error) {
	if d.exchange == nil {
		return nil, nil, errOver
	}
	answer, name, err := d.exchange.Respond(token)
	if err == nil && name == "" {
		return answer, nil, nil
	}
	d.exchange = nil
	if err != nil {
		return nil, nil, err
	}
	if ids, err = d.server.identities(name); err != nil {
		return nil, nil, err
	}
	return answer, ids, nil
}

// identities returns what a proven name is worth (ZooKeeperServer.processSasl).
func (s *Server) identities(name string) ([]jute.ID, error) {
	id, err := s.options.Names.identity(name)
	if err != nil {
		return nil, err
	}
	ids := []jute.ID{{Scheme: auth.SchemeSASL, ID: id}}
	if id != "" && slices.Contains(s.options.SuperUsers, id) {
		ids = append(ids, jute.ID{Scheme: auth.SchemeSuper})
	}
	if s.options.AnyUser != "" {
		ids = append(ids, jute.ID{Scheme: auth.SchemeSASLAny, ID: s.options.AnyUser})
	}
	return ids, nil
}
