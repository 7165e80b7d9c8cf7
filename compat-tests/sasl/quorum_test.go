package sasl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
)

// quorumKeys have servers log in at each other.
var quorumKeys = map[string]string{
	"quorum.auth.enableSasl": "true", "quorum.auth.learnerRequireSasl": "true", "quorum.auth.serverRequireSasl": "true",
}

// digestLogins are the logins of servers by DIGEST-MD5, with this password of the learner.
func digestLogins(password string) string {
	return `QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk="among servers"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required
	username="zk" password="` + password + `"; };
`
}

// replace changes what a file of a server says.
func replace(t *testing.T, file, old, next string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, next, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestQuorumDigest: a zoo.cfg whose servers log in at each other starts an ensemble, of zkd and of ZooKeeper, and one
// whose password is wrong stays out. The steps of ZooKeeper's manual lead from an ensemble without to one with logins.
func TestQuorumDigest(t *testing.T) {
	kind := target.Selected(t)
	file := target.WriteFile(t, "jaas.conf", digestLogins("among servers"))
	keys := map[string]string{}
	for key := range quorumKeys { // any order
		keys[key] = "false"
	}
	flags := []string{jvmFlag("java.security.auth.login.config", file), jvmFlag("zookeeper.fips-mode", "false")}
	e := ensemble.Start(t, ensemble.Options{Kind: kind, Config: keys, JVMFlags: flags})
	for _, key := range []string{"enableSasl", "learnerRequireSasl", "serverRequireSasl"} {
		key = "quorum.auth." + key
		for _, s := range e.Servers {
			s.Stop()
			replace(t, s.ConfigPath(), key+"=false", key+"=true")
			s.Launch()
			e.AwaitServing(e.Servers...)
		}
	}
	if kind != target.Zkd {
		return
	}
	follower := e.Followers()[0]
	follower.Stop()
	replace(t, file, digestLogins("among servers"), digestLogins("guessed"))
	follower.Launch()
	awaitLog(t, e.AwaitLeader(), "peer connection rejected", "wrong password")
	if mode := follower.Mode(); mode == "follower" || mode == "leader" {
		t.Errorf("a server with a wrong password serves as %s", mode)
	}
}

// TestQuorumKerberos: servers log in at each other with the tickets of a KDC; one whose principal is of another host
// than the members' stays out.
func TestQuorumKerberos(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the KDC's setting for Java is of clients")
	}
	target.Require(t, kdc.Tool)
	k := kdc.Start(t)
	const server, learner, stranger = "zkquorum/localhost@" + kdc.Realm, "learner/127.0.0.1@" + kdc.Realm,
		"learner/elsewhere@" + kdc.Realm
	for _, principal := range []string{server, learner, stranger} {
		k.Add(t, principal)
	}
	right := k.Logins(map[string]string{"QuorumServer": server, "QuorumLearner": learner})
	wrong := k.Logins(map[string]string{"QuorumServer": server, "QuorumLearner": stranger})
	file := target.WriteFile(t, "jaas.conf", right)
	keys := map[string]string{"java.security.auth.login.config": file, "java.security.krb5.conf": k.Config}
	for key, value := range quorumKeys { // any order
		keys[key] = value
	}
	e := ensemble.Start(t, ensemble.Options{Kind: target.Zkd, Config: keys})
	follower := e.Followers()[0]
	follower.Stop()
	replace(t, file, right, wrong)
	follower.Launch()
	awaitLog(t, e.AwaitLeader(), "peer connection rejected", "none of a member")
	follower.Stop()
	replace(t, file, wrong, right)
	follower.Launch()
	e.AwaitServing(e.Servers...)
}

// awaitLog waits until a line of a server's log has all of these.
func awaitLog(t *testing.T, s *ensemble.Server, texts ...string) {
	t.Helper()
	why := ensemble.Await(time.Minute, func() (bool, string) {
		for line := range strings.Lines(s.LogTail(10_000)) {
			found := true
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				return true, ""
			}
		}
		return false, fmt.Sprintf("no line of %s has %q", filepath.Base(s.Dir), texts)
	})
	if why != "" {
		t.Fatal(why)
	}
}
