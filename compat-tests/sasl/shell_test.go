package sasl_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
)

// asked is what zkd cli says to a command with a file of logins: its lines, sorted, or what went wrong.
func asked(t *testing.T, addr, logins string, command ...string) string {
	t.Helper()
	args := append([]string{"cli", "-q", "-timeout", "20000", "-server", addr, "--jaas",
		target.WriteFile(t, "client.conf", logins)}, command...)
	cmd := exec.CommandContext(t.Context(), target.ZkdBinary(t), args...)
	cmd.Env = append(os.Environ(), "ZKD_CLI_RC=")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return strings.TrimSpace(string(exit.Stderr))
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// TestShell logs in with zkd cli by DIGEST-MD5.
func TestShell(t *testing.T) {
	addr := start(t, map[string]string{"sessionRequireClientSASLAuth": "true"}).Addr
	as := func(section string) string { return strings.ReplaceAll(clientLogins, section+" {", "Client {") }
	if got := asked(t, addr, as("Bob"), "whoami"); got != "Auth scheme: User, ip: 127.0.0.1, sasl: bob" {
		t.Errorf("bob is %s", got)
	}
	for _, section := range []string{"Wrong", "Nobody"} {
		got := asked(t, addr, as(section), "ls", "/")
		want := addr + ": SASL login failed: sessionClosedRequireSASLAuth\nKeeperErrorCode = AuthFailed for /"
		if got != want {
			t.Errorf("%s is told %s, want %s", section, got, want)
		}
	}
	if got := asked(t, addr, clientLogins, "whoami"); !strings.Contains(got, "has no section Client") {
		t.Errorf("without a section: %s", got)
	}
}

// TestShellKerberos logs in with zkd cli by GSSAPI.
func TestShellKerberos(t *testing.T) {
	target.Require(t, kdc.Tool)
	k := kdc.Start(t)
	config := jvmFlag("java.security.krb5.conf", k.Config)
	logins := target.WriteFile(t, "server.conf", k.Logins(map[string]string{"Server": kdc.Server}))
	s := target.Start(t, target.Options{Config: map[string]string{providerKey: provider},
		JVMFlags: []string{config, jvmFlag("java.security.auth.login.config", logins)}})
	t.Setenv("KRB5_CONFIG", k.Config)
	got := asked(t, "localhost:"+s.Port(), k.Logins(map[string]string{"Client": kdc.Bob}), "whoami")
	if want := "Auth scheme: User, ip: 127.0.0.1, sasl: " + kdc.Bob; got != want {
		t.Errorf("bob is %s, want %s", got, want)
	}
}
