package tls_test

import (
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
)

// TestStatus has zkd status look at a server through its port for TLS, as flags say and as its zoo.cfg says; it opens a
// session to find the other members.
func TestStatus(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	s, addr := secured(t, map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
	})
	own := ca.Named("operator").PEM("operator.pem")
	for _, args := range [][]string{
		{"--server", addr, "--ca-file", ca.Trust(), "--cert-file", own}, {s.ConfigPath()},
	} {
		argv := append([]string{target.ZkdBinary(t), "status", "--tls", "--timeout", "60s"}, args...)
		out, err := target.Client{Argv: argv, Within: 5 * time.Minute}.Run(t)
		if err != nil || !strings.Contains(out, addr+"  standalone") {
			t.Errorf("zkd status %q: %v\n%s", args, err, out)
		}
	}
}
