package hostile_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"zkd/compat-tests/hostile"
	"zkd/compat-tests/target"
)

// startTLS starts a server with a port for TLS, where handshakes begin with nothing, a part of a ClientHello, or a
// whole one, for which the server computes its answer.
func startTLS(t *testing.T) flooded {
	t.Helper()
	secure := fmt.Sprint(target.FreePort(t))
	keyStore, _ := target.SelfSigned(t, "localhost")
	s := target.Start(t, target.Options{Config: map[string]string{
		"secureClientPort": secure, "secureClientPortAddress": "127.0.0.1", "ssl.clientAuth": "none",
		"ssl.keyStore.location": keyStore,
		"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
	}})
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server's certificate is the test's own
	hello := hostile.ClientHello(t, config)
	p := flooded{server: s, addr: net.JoinHostPort("127.0.0.1", secure),
		begun: [][]byte{nil, hello[:len(hello)/2], hello, hello[:1]},
		dial:  (&tls.Dialer{NetDialer: &net.Dialer{Timeout: closeWithin}, Config: config}).DialContext}
	for deadline := time.Now().Add(closeWithin); ; { // ZooKeeper opens it after the other
		nc, err := p.dial(t.Context(), "tcp", p.addr)
		if err == nil {
			_ = nc.Close() // nothing was said
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("the port for TLS: %v", err)
		}
		if _, err := s.FourLetterWord("ruok"); err != nil { // takes a moment, too
			t.Fatal(err)
		}
	}
}
