package cclient_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "cclient")) }

// TestTranscript makes every call with Debian's library, through a proxy that it can cut, and compares what is printed.
func TestTranscript(t *testing.T) {
	target.Require(t, target.CZk)
	server := target.Start(t, target.Options{})
	calls(t, compile(t, "calls", "-DTHREADED"), server.Addr)
}

// TestTranscriptOverTLS makes the same calls over TLS, with the library built from source; the same is printed. The
// client has no certificate that the server asks for: it would be an identity more.
func TestTranscriptOverTLS(t *testing.T) {
	requireLibrary(t)
	ca := authority.New(t, "ca")
	_, addr := target.StartSecure(t, target.Options{Config: map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.clientAuth": "none",
	}})
	calls(t, compile(t, "calls", library(t)...), addr, files(ca, ca.Named("client")))
}

// calls runs the program that makes every call.
func calls(t *testing.T, program, addr string, certificates ...string) {
	t.Helper()
	proxy, doomed := target.StartProxy(t, addr), target.StartProxy(t, addr)
	argv := []string{program, addr, proxy.Addr, proxy.CutServer(t), doomed.Addr, doomed.CloseServer(t)}
	out, err := target.Client{Argv: append(argv, certificates...), Within: 6 * time.Minute}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	target.Golden(t, "transcript", out, *update)
}
