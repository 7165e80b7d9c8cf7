package instance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zkd/conf"
)

// Sections of a JAAS file for servers.
const (
	digestServer  = `QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk="s3cret"; };`
	digestLearner = `QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required
		username="zk" password="s3cret"; };`
	kerberosLearner = `QuorumLearner { com.sun.security.auth.module.Krb5LoginModule required
		useKeyTab=true keyTab="none.keytab" principal="learner/a@B"; };`
)

// TestQuorumLogins: what a JAAS file must have for servers that log in at each other, and which of both sides does.
func TestQuorumLogins(t *testing.T) {
	for name, c := range map[string]struct { // order: each for itself
		jaas           string
		dials, demands bool
		refusal        string
	}{
		"accepts alone":        {jaas: digestServer + digestLearner},
		"logs in, too":         {jaas: digestServer + digestLearner, dials: true},
		"demands it":           {jaas: digestServer + digestLearner, dials: true, demands: true},
		"no file":              {refusal: "needs java.security.auth.login.config"},
		"no section to accept": {jaas: digestLearner, refusal: "no section QuorumServer"},
		"no section to log in": {jaas: digestServer, refusal: "no section QuorumLearner"},
		"two mechanisms":       {jaas: digestServer + kerberosLearner, refusal: errOtherMechanism.Error()},
		"no user": {jaas: `QuorumServer { ` + digestModule + `; };` + digestLearner,
			refusal: "user_<name>"},
		"no password":         {jaas: digestServer + `QuorumLearner { ` + digestModule + `; };`, refusal: "username="},
		"another module":      {jaas: `QuorumServer { a.B required; };` + digestLearner, refusal: "a.B is unknown"},
		"no such keytab":      {jaas: kerberosServer + kerberosLearner, refusal: "none.keytab"},
		"no list of sections": {jaas: "QuorumServer", refusal: "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &conf.Config{}
			config.Ensemble.Distributed = true
			config.Auth = conf.Auth{QuorumSASL: true, QuorumLearnerRequireSASL: c.dials,
				QuorumServerRequireSASL: c.demands, QuorumServerSection: "QuorumServer",
				QuorumLearnerSection: "QuorumLearner", KerberosConfig: "none"}
			if c.jaas != "" {
				config.Auth.JAASFile = filepath.Join(t.TempDir(), "jaas.conf")
				if err := os.WriteFile(config.Auth.JAASFile, []byte(c.jaas), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w := realWorld()
			login, err := newQuorumLogin(config, &w)
			if c.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), c.refusal) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want one with %q", err, c.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if login.Mechanism != "DIGEST-MD5" || (login.Dial != nil) != c.dials || login.Demand != c.demands {
				t.Errorf("got %+v", login)
			}
			if c.dials {
				if _, err := login.Dial(context.Background(), "host"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

const (
	digestModule   = `org.apache.zookeeper.server.auth.DigestLoginModule required`
	kerberosServer = `QuorumServer { com.sun.security.auth.module.Krb5LoginModule required
		useKeyTab=true keyTab="none.keytab" principal="zkquorum/a@B"; };`
)

func TestServicePrincipal(t *testing.T) {
	for in, want := range map[string]string{ // order: each for itself
		"zkquorum/localhost": "zkquorum/localhost", "zkquorum/_HOST": "zkquorum/zk1.example",
		"zkquorum/_HOST@B": "zkquorum/zk1.example@B", "zkquorum": "zkquorum", "zkquorum/_HOSTS": "zkquorum/_HOSTS",
	} {
		if got := servicePrincipal(in, "ZK1.example"); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
