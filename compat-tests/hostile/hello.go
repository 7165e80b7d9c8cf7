package hostile

import (
	"crypto/tls"
	"net"
	"testing"
)

// ClientHello returns the bytes that a client of TLS with this configuration begins with, and no more.
func ClientHello(tb testing.TB, config *tls.Config) []byte {
	tb.Helper()
	here, there := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tls.Client(here, config).Handshake() // nobody answers
	}()
	b := make([]byte, 4<<10)
	n, err := there.Read(b)
	if err != nil || n < 100 {
		tb.Fatalf("a ClientHello of %d bytes, %v", n, err)
	}
	_ = there.Close() // ends the handshake
	<-ended
	return b[:n]
}
