package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"zkd/server/auth"
)

// Port says what clients speak on a port. The zero Port is one for plain text.
type Port struct {
	// TLS is the server's side of the handshake; nil: plain text alone. What its VerifyConnection waits for it may wrap
	// in the Await of the ClientHello's connection, so that others go on meanwhile.
	TLS *tls.Config
	// Plain takes plain text as well as TLS: what a connection begins with decides (client.portUnification).
	Plain bool
	// CountPlain counts connections without TLS, for who wants to do without them (non_mtls_local_conn_count and its
	// like in mntr).
	CountPlain bool
	// Secure marks the port that is for TLS alone (secureClientPort). Its connections are counted, and shown by the
	// four-letter commands that come over it, apart from the others.
	Secure bool
	// Identity is the scheme that a client's certificate is an identity of; nil: certificates are none.
	Identity auth.Certifier
	// Certified is for a port within the process: the certificate that a connection's client has proven before to who
	// hands the connection on, nil for none. It is an identity as one of TLS is.
	Certified func(net.Conn) *x509.Certificate
	// DetectionTimeout is how long a connection may take to show what it speaks, with Plain; 0 is HandshakeTimeout.
	DetectionTimeout time.Duration
}
