package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// quoted is a text as JavaScript has it.
func quoted(text string) string { return strconv.Quote(text) }

// TestAUserOfSASLSignsIn: with a wrong password he does not; with the right one ACLs are those of his name.
func TestAUserOfSASLSignsIn(t *testing.T) {
	target.Require(t, target.Chromium)
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	text := `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="bobsecret"; };`
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
		"java.security.auth.login.config": jaas})
	acl := []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}
	if _, err := s.Create("/bobs", []byte("of bob"), 0, acl); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.tree("/bobs")
	b.see(".stack", "The ACL does not allow that")
	b.expect("403")
	b.signIn("sasl", "bob", "wrong")
	b.see("[role=alert]", "name or the password is wrong")
	b.signIn("sasl", "bob", "bobsecret")
	b.see(".who", "sasl:bob")
	b.tree("/bobs")
	b.see("pre.value", "of bob")
	b.submit(`a[href*="/tree/edit"]`)
	b.fill("#value", "changed by bob")
	b.submit("main button.primary")
	b.see("pre.value", "changed by bob")
}

// TestASessionOfAFollowerIsEnded at the console of the leader: its ephemeral goes everywhere.
func TestASessionOfAFollowerIsEnded(t *testing.T) {
	target.Require(t, target.Chromium)
	e, ports := threeServers(t)
	leader, follower := e.AwaitLeader(), e.Followers()[0]
	c := connect(t, follower.Addr)
	if _, err := c.Create("/mine", nil, zk.FlagEphemeral, everybody); err != nil {
		t.Fatal(err)
	}
	watching := connect(t, leader.Addr)
	_, _, gone, err := watching.ExistsW("/mine")
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, consoleOf(leader, ports))
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.visit("sessions?filter=" + fmt.Sprintf("0x%x", uint64(c.SessionID())))
	b.see("tbody tr", fmt.Sprintf("%d · ", follower.ID))
	b.agree()
	b.submit(`form[action$="/sessions/end"] button`)
	b.see("main", "has ended")
	if event := <-gone; event.Type != zk.EventNodeDeleted {
		t.Errorf("%+v", event)
	}
	b.visit("top?view=sessions")
	b.see("#live", "127.0.0.1") // of the leader itself
	b.see("main", "all servers")
}
