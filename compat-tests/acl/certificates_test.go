package acl_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"testing"

	"zkd/compat-tests/authority"
	"zkd/jute/client"
)

// secured is a server's port for TLS, and the authority that it trusts.
type secured struct {
	ca   *authority.Authority
	addr string
}

// certificate connects to the port for TLS with a certificate of a subject; nil: without any.
func (s *secured) certificate(subject *pkix.Name) proof {
	return func(t *testing.T, _ string) *client.Conn {
		t.Helper()
		var own *authority.Identity
		if subject != nil {
			own = s.ca.Issue(*subject, nil)
		}
		return open(t, client.Options{Addr: s.addr, Dial: (&tls.Dialer{Config: s.ca.Config(own)}).DialContext})
	}
}
