package acl_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/wire"
)

// dialWithin bounds a TLS handshake. A guess: some milliseconds, many times that on a busy machine.
const dialWithin = time.Minute

// secured is a server's port for TLS, and the authority that it trusts.
type secured struct {
	ca   *authority.Authority
	addr string
}

// certificate connects to the port for TLS with a certificate of a subject; nil: without any.
func (s *secured) certificate(subject *pkix.Name) proof {
	return func(t *testing.T, _ string) *wire.Conn {
		t.Helper()
		var own *authority.Identity
		if subject != nil {
			own = s.ca.Issue(*subject, nil)
		}
		config := s.ca.Config(own)
		c, err := wire.Open(wire.Options{Addr: s.addr, Dial: func(addr string) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: dialWithin}, "tcp", addr, config)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Cut)
		return c
	}
}
