package kdc

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// Tool is MIT Kerberos' server. It is installed where a user's PATH may not lead.
var Tool = target.Tool{
	Name: "MIT Kerberos (KDC and kinit)", Programs: []string{"sh", "env", "kinit"},
	Probe: []string{"sh", "-c",
		"PATH=$PATH:/usr/sbin; for p in krb5kdc kdb5_util kadmin.local kinit; do command -v $p || exit 1; done"},
	Install: "krb5-kdc krb5-admin-server krb5-user",
}

// Realm is the realm of the KDC.
const Realm = "ZKD.TEST"

// within bounds each step of the setting up.
const within = time.Minute

// The principals of the realm. The server's is for clients that know it as localhost.
const (
	Server = "zookeeper/localhost@" + Realm
	Bob    = "bob@" + Realm
	Alice  = "alice/client@" + Realm
)

// KDC is a KDC on the loopback address with a few principals.
type KDC struct {
	Dir    string // holds all its files; removed with the test
	Config string // its krb5.conf
}

// Start makes a realm and starts its KDC, which ends with the test.
func Start(tb testing.TB) *KDC {
	tb.Helper()
	target.Uses(tb, "kinit")
	k := &KDC{Dir: tb.TempDir()}
	k.Config = filepath.Join(k.Dir, "krb5.conf")
	addr := fmt.Sprintf("127.0.0.1:%d", target.FreePorts(tb, 1)[0])
	k.write(tb, "krb5.conf", `[libdefaults]
 default_realm = `+Realm+`
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 `+Realm+` = {
  kdc = `+addr+`
 }
`)
	k.write(tb, "kdc.conf", `[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = `+addr+`
[realms]
 `+Realm+` = {
  database_name = `+k.Dir+`/principal
  key_stash_file = `+k.Dir+`/stash
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }
[logging]
 kdc = FILE:`+k.Dir+`/kdc.log
`)
	k.Run(tb, "kdb5_util", "create", "-s", "-r", Realm, "-P", "of the test")
	for _, principal := range []string{Server, Bob, Alice} {
		k.Add(tb, principal)
	}
	k.serve(tb, addr)
	return k
}

// Add makes a principal, and its keytab.
func (k *KDC) Add(tb testing.TB, principal string) {
	tb.Helper()
	k.Run(tb, "kadmin.local", "-r", Realm, "-q", "addprinc -randkey "+principal)
	k.Run(tb, "kadmin.local", "-r", Realm, "-q", "ktadd -k "+k.Keytab(principal)+" "+principal)
}

// write writes a file of the KDC.
func (k *KDC) write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(k.Dir, name), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Env is the environment of everything that uses the KDC.
func (k *KDC) Env() []string {
	return []string{
		"KRB5_CONFIG=" + k.Config, "KRB5_KDC_PROFILE=" + filepath.Join(k.Dir, "kdc.conf"),
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin",
	}
}

// Keytab is the file with the keys of a principal.
func (k *KDC) Keytab(principal string) string {
	return filepath.Join(k.Dir, strings.NewReplacer("/", "-", "@", "-").Replace(principal)+".keytab")
}

// Logins is a JAAS file with the keys of principals, by the names of its sections.
func (k *KDC) Logins(principals map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(principals)) {
		b.WriteString(name + " { com.sun.security.auth.module.Krb5LoginModule required\n" +
			"useKeyTab=true storeKey=true useTicketCache=false\n" +
			"keyTab=\"" + k.Keytab(principals[name]) + "\" principal=\"" + principals[name] + "\"; };\n")
	}
	return b.String()
}

// Ticket takes a ticket for a principal and returns the cache that holds it, as KRB5CCNAME names it.
func (k *KDC) Ticket(tb testing.TB, principal string) string {
	tb.Helper()
	cache := "FILE:" + k.Keytab(principal) + ".cache"
	k.Run(tb, "kinit", "-k", "-t", k.Keytab(principal), "-c", cache, principal)
	return cache
}

// Run runs one of Kerberos' commands.
func (k *KDC) Run(tb testing.TB, name string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	if err := target.Execute(ctx, "", "env", append(append(k.Env(), name), args...)...); err != nil {
		tb.Fatal(err)
	}
}

// serve starts the KDC and waits until it listens.
func (k *KDC) serve(tb testing.TB, addr string) {
	tb.Helper()
	cmd := exec.Command("env", append(k.Env(), "krb5kdc", "-n", "-r", Realm)...) //nolint:gosec // ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // a killed process has an error here
		if text, err := os.ReadFile(filepath.Join(k.Dir, "kdc.log")); tb.Failed() && err == nil {
			tb.Logf("log of the KDC:\n%s", text)
		}
	})
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close() // nothing was sent
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			tb.Fatalf("the KDC does not listen on %s", addr)
		}
	}
}
