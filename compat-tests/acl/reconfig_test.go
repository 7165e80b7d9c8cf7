package acl_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zkd/compat-tests/target"
	"zkd/jute"
)

// configPath is the znode whose ACL says who may reconfigure.
const configPath = "/zookeeper/config"

// TestMatrixReconfig has an ensemble of one changed to what it is, with each set of permissions on its configuration.
func TestMatrixReconfig(t *testing.T) {
	ports := target.FreePorts(t, 3)
	member := fmt.Sprintf("server.1=127.0.0.1:%d:%d:participant;127.0.0.1:%d", ports[0], ports[1], ports[2])
	s := target.New(t, target.Options{Addr: net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[2])),
		Config: map[string]string{
			"forceSync": "no", "reconfigEnabled": "true", "standaloneEnabled": "false", "initLimit": "10",
			"syncLimit": "5", "clientPort": "", "clientPortAddress": "",
			"server.1": strings.TrimPrefix(member, "server.1="),
		}})
	if err := os.MkdirAll(filepath.Join(s.Dir, "data"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "data", "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	admin := super(t, s.Addr)
	var b strings.Builder
	for _, i := range identities {
		if i.owner != nil { // the superuser sets the ACL
			continue
		}
		p := &probe{t: t, admin: admin, subject: i.who(t, s.Addr), grant: i.grant, path: configPath}
		fmt.Fprintf(&b, "%-36s", i.name)
		for p.perms = range jute.PermAll + 1 {
			p.must(admin, jute.OpSetACL, (&jute.SetACLRequest{Path: configPath, ACL: p.list(p.perms),
				Version: jute.AnyVersion}).Append)
			b.WriteByte(byte(p.code(p.do(p.subject, jute.OpReconfig, (&jute.ReconfigRequest{NewMembers: member,
				Nulls: 1 | 2, CurConfigID: -1}).Append).Err)))
		}
		b.WriteByte('\n')
	}
	target.Golden(t, "reconfig", b.String(), *update)
}
