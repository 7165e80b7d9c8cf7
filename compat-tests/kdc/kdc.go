package sasl_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// kdcTool is MIT Kerberos' server. It is installed where a user's PATH may not lead.
var kdcTool = target.Tool{
	Name: "MIT Kerberos (KDC and kinit)",
	Probe: []string{"sh", "-c",
		"PATH=$PATH:/usr/sbin; command -v krb5kdc && command -v kadmin.local && command -v kinit"},
	Install: "krb5-kdc krb5-admin-server krb5-user",
}

// kdcRealm is the realm of the KDC.
const kdcRealm = "ZKD.TEST"

// kdcWithin bounds each step of the setting up.
const kdcWithin = time.Minute

// kdc is a KDC on the loopback address with a few principals.
type kdc struct {
	dir    string
	config string // its krb5.conf
}

// startKDC makes a realm and starts its KDC, which ends with the test.
func startKDC(t *testing.T) *kdc {
	t.Helper()
	k := &kdc{dir: t.TempDir()}
	k.config = filepath.Join(k.dir, "krb5.conf")
	addr := fmt.Sprintf("127.0.0.1:%d", target.FreePorts(t, 1)[0])
	k.write(t, "krb5.conf", `[libdefaults]
 default_realm = `+kdcRealm+`
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 `+kdcRealm+` = {
  kdc = `+addr+`
 }
`)
	k.write(t, "kdc.conf", `[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = `+addr+`
[realms]
 `+kdcRealm+` = {
  database_name = `+k.dir+`/principal
  key_stash_file = `+k.dir+`/stash
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }
[logging]
 kdc = FILE:`+k.dir+`/kdc.log
`)
	k.run(t, "kdb5_util", "create", "-s", "-r", kdcRealm, "-P", "of the test")
	for _, principal := range []string{"zookeeper/localhost", "bob", "alice/client"} {
		principal += "@" + kdcRealm
		k.run(t, "kadmin.local", "-r", kdcRealm, "-q", "addprinc -randkey "+principal)
		k.run(t, "kadmin.local", "-r", kdcRealm, "-q", "ktadd -k "+k.keytab(principal)+" "+principal)
	}
	k.serve(t, addr)
	return k
}

// write writes a file of the KDC.
func (k *kdc) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// env is the environment of everything that uses the KDC.
func (k *kdc) env() []string {
	return []string{
		"KRB5_CONFIG=" + k.config, "KRB5_KDC_PROFILE=" + filepath.Join(k.dir, "kdc.conf"),
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin",
	}
}

// keytab is the file with the keys of a principal.
func (k *kdc) keytab(principal string) string {
	return filepath.Join(k.dir, strings.NewReplacer("/", "-", "@", "-").Replace(principal)+".keytab")
}

// run runs one of Kerberos' commands.
func (k *kdc) run(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kdcWithin)
	defer cancel()
	if err := target.Execute(ctx, "", "env", append(append(k.env(), name), args...)...); err != nil {
		t.Fatal(err)
	}
}

// serve starts the KDC and waits until it listens.
func (k *kdc) serve(t *testing.T, addr string) {
	t.Helper()
	cmd := exec.Command("env", append(k.env(), "krb5kdc", "-n", "-r", kdcRealm)...) //nolint:gosec // ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // a killed process has an error here
		if text, err := os.ReadFile(filepath.Join(k.dir, "kdc.log")); t.Failed() && err == nil {
			t.Logf("log of the KDC:\n%s", text)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), kdcWithin)
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
			t.Fatalf("the KDC does not listen on %s", addr)
		}
	}
}
