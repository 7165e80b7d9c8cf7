package admin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"zkd/compat-tests/leak"
	"zkd/quorum/clock"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// testWithin bounds every wait of a test.
const testWithin = time.Minute

// selfSigned is a certificate for the loopback.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves p on the loopback until the end of the test.
func serve(t *testing.T, p interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testWithin)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// get asks for a page; the status is 0 if there is no answer.
func get(t *testing.T, url string) (status int, h http.Header) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is the test's own
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: testWithin}).Do(r)
	if err != nil {
		return 0, nil
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, resp.Header
}

// TestTLS: a port takes plain HTTP, TLS, or both, by the first byte; and one that says nothing holds up nobody.
func TestTLS(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, MinVersion: tls.VersionTLS12}
	for _, tc := range []struct {
		name       string
		config     *tls.Config
		unified    bool
		plain, tls bool
	}{
		{"plain", nil, true, true, false},
		{"TLS", config, false, false, true},
		{"both", config, true, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(t, standalone())
			o.TLS, o.Unified = tc.config, tc.unified
			s := New(o)
			addr := serve(t, s)
			silent, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = silent.Close() }() // nothing was said
			if status, _ := get(t, "http://"+addr+"/commands/ruok"); (status == http.StatusOK) != tc.plain {
				t.Errorf("plain: %d", status)
			}
			status, h := get(t, "https://"+addr+"/commands/ruok")
			if (status == http.StatusOK) != tc.tls {
				t.Errorf("TLS: %d", status)
			}
			if tc.tls && h.Get("Strict-Transport-Security") == "" {
				t.Errorf("TLS: %v", h)
			}
			v := catalog.New()
			s.SetMetrics(v)
			want := int64(0)
			if tc.config != nil && tc.plain {
				want = 1
			}
			if n, _ := v.Number("insecure_admin_count"); n.Whole != want {
				t.Errorf("%d insecure connections are counted, want %d", n.Whole, want)
			}
		})
	}
}

// TestConnectionsAreBounded: one beyond waits until another ends.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{Listener: l, room: make(chan struct{}, 1), down: make(chan struct{})}
	taken := make(chan net.Conn)
	go func() {
		defer close(taken)
		for {
			c, err := b.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // nothing was said
	}
	first := <-taken
	if n := len(b.room); n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
	_ = first.Close() // nothing was said
	_ = first.Close() // counts once
	second := <-taken
	_ = second.Close() // nothing was said
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if c, ok := <-taken; ok {
		t.Errorf("taken after the end: %v", c)
	}
}

// TestAPortOfItsOwn: the metrics alone.
func TestAPortOfItsOwn(t *testing.T) {
	mux := http.NewServeMux()
	var h stats.Histogram
	mux.Handle("GET /metrics", newPage(t, false, func(v *catalog.Values) { v.SetHistogram("readlatency", &h) }))
	addr := serve(t, NewPort(PortOptions{Handler: mux, Clock: clock.Real(), Logger: slog.New(slog.DiscardHandler),
		IdleTimeout: time.Minute}))
	for path, want := range map[string]int{"/metrics": 200, "/commands": 404} { // any order
		if status, _ := get(t, "http://"+addr+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// TestWhoStopsMidwayIsCutOff: a client that sends a part of a request, or takes a part of an answer, keeps its
// connection no longer than one that says nothing. Else 256 of them were all that the port has.
func TestWhoStopsMidwayIsCutOff(t *testing.T) {
	o := options(t, standalone())
	o.IdleTimeout = 50 * time.Millisecond
	s := New(o)
	addr := serve(t, s)
	for _, request := range []string{
		"GET /commands/ruok HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
		"POST /commands/ruok HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"POST /commands/restore HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
		"GET /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request) // the other side may have ended it before, if this one was slow
		if err := c.SetReadDeadline(time.Now().Add(testWithin)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection stays", request)
		}
		_ = c.Close() // ended by the other side
	}
}

// TestWhoTakesNothingIsCutOff: also where the page does not look at it itself.
func TestWhoTakesNothingIsCutOff(t *testing.T) {
	ended := make(chan error, 8)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for {
			if _, err := w.Write(block); err != nil {
				ended <- err
				return
			}
		}
	})
	addr := serve(t, NewPort(PortOptions{Handler: handler, Clock: clock.Real(), Logger: slog.New(slog.DiscardHandler),
		IdleTimeout: 200 * time.Millisecond}))
	late := time.After(testWithin)
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()                              // nothing was read
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // if it was slow it was ended: there is another
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the answer ended with %v", err)
			}
			return
		case <-time.After(testWithin / 4):
		case <-late:
			t.Error("the server waits for a client that takes nothing")
			return
		}
	}
}
