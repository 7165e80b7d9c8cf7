package hostile_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// secrets are what must not be seen anywhere.
var secrets = map[string]string{
	"DigestAuthenticationProvider.superDigest": target.DigestOf("super", "the secret of super"),
	"ssl.keyStore.password":                    "the secret of the key store",
	"ssl.trustStore.password":                  "the secret of the trust store",
	"ssl.quorum.keyStore.password":             "the secret of the peers",
	"SASLAuthenticationProvider.superPassword": "the secret of SASL",
}

// TestSecretsStaySecret: nothing that the configuration, the clients or the sessions keep secret is in an answer of a
// four-letter word, in the log, in the audit log, or in the command line.
func TestSecretsStaySecret(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("ZooKeeper writes digests into its audit log")
	}
	config := map[string]string{"audit.enable": "true"}
	for key, value := range secrets { // order: it becomes a map again
		config[key] = value
	}
	s := target.Start(t, target.Options{Config: config})
	c, err := client.Dial(t.Context(), client.Options{Addr: s.Addr, Now: time.Now, Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := c.Auth("digest", "bob:the secret of bob"); err != nil || code != jute.OK {
		t.Fatalf("auth: %v, %v", code, err)
	}
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	digest := target.DigestOf("bob", "the secret of bob")
	for _, request := range []func([]byte) []byte{
		(&jute.SetACLRequest{Path: "/n", ACL: []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "digest", ID: digest}}},
			Version: -1}).Append,
		(&jute.SetACLRequest{Path: "/n", ACL: acl, Version: -1}).Append,
	} {
		create := jute.CreateRequest{Path: "/n", Data: []byte("the secret data"), ACL: acl}
		if _, _, err := c.Do(jute.OpCreate, create.Append); err != nil {
			t.Fatal(err)
		}
		if header, _, err := c.Do(jute.OpSetACL, request); err != nil || header.Err != jute.OK {
			t.Fatalf("setACL: %v, %v", header.Err, err)
		}
	}
	var seen strings.Builder
	for _, word := range strings.Fields("conf cons crst dirs dump envi gtmk hash isro lsnp mntr orst ruok srst srvr " +
		"stat wchc wchp wchs") {
		answer, err := s.FourLetterWord(word)
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		seen.WriteString(answer)
	}
	argv, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(s.PID()), "cmdline"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	seen.Write(argv)
	if _, err := c.Auth("digest", "a broken packet with the secret of eve"); err != nil {
		t.Log(err) // it may be closed
	}
	s.Stop()
	seen.WriteString(s.LogTail(10_000))
	_, digest, _ = strings.Cut(digest, ":")
	for _, secret := range append([]string{"secret", digest}, values()...) {
		if at := strings.Index(seen.String(), secret); at >= 0 {
			t.Errorf("%q is seen: %q", secret, seen.String()[max(0, at-100):min(seen.Len(), at+100)])
		}
	}
	if !strings.Contains(seen.String(), "operation=setAcl") {
		t.Error("there is no audit log to look at")
	}
}

// values are the secrets as they are written, and without the name before them.
func values() (list []string) {
	for _, value := range secrets { // order: each is looked for alone
		_, after, _ := strings.Cut(value, ":")
		list = append(list, value)
		if after != "" {
			list = append(list, after)
		}
	}
	return list
}
