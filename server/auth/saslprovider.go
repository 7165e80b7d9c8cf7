package auth

import (
	"net/netip"

	"zkd/jute"
)

// saslProvider is the scheme sasl (org.apache.zookeeper.server.auth.SASLAuthenticationProvider). Its identities come
// from a dialogue (package sasl), never from an auth packet.
type saslProvider struct{}

// NewSASL returns the provider of the scheme sasl, by which ACLs may name SASL users.
func NewSASL() Provider { return saslProvider{} }

// Scheme returns "sasl".
func (saslProvider) Scheme() string { return SchemeSASL }

// Authenticate refuses.
func (saslProvider) Authenticate(netip.Addr, []byte) ([]jute.ID, bool) { return nil, false }

// User returns the id as it is.
func (saslProvider) User(id string) string { return id }
