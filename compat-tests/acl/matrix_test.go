package acl_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

var update = flag.Bool("update", false, "record the table from the real server")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "acl")) }

// rootPath is the parent of all znodes.
const rootPath = "/m"

// anyone grants everything to everyone.
var anyone = []jute.ACL{{Perms: jute.PermAll, ID: id("world", "anyone")}}

// letters stand for the codes of errors.
var letters = map[jute.Code]outcome{
	jute.OK: allowed, jute.NoAuth: 'x', jute.NoNode: 'n', jute.NodeExists: 'e', jute.NoWatcher: 'w',
	jute.InvalidACL: 'i', jute.BadArguments: 'b', jute.NotEmpty: 'f', jute.Unimplemented: 'u', jute.BadVersion: 'v',
	jute.ReconfigDisabled: 'r',
}

// probe asks for one operation on one znode.
type probe struct {
	t       *testing.T
	admin   *client.Conn // the superuser
	owner   *client.Conn // who makes the znode
	subject *client.Conn // who asks
	grant   jute.ID
	perms   jute.Perms
	path    string
	told    []string // paths of the events that have come to the subject
}

// reply is a server's answer.
type reply struct {
	jute.ReplyHeader
	body []byte // valid until the connection is used again
}

// TestMatrix runs the table.
func TestMatrix(t *testing.T) {
	s := target.Start(t, target.Options{Config: map[string]string{"forceSync": "no"}})
	target.Golden(t, "matrix", matrix(t, s, identities), *update)
}

// TestMatrixSkipACL runs a part of it with ACLs that nobody looks at.
func TestMatrixSkipACL(t *testing.T) {
	s := target.Start(t, target.Options{Config: map[string]string{"forceSync": "no", "skipACL": "yes"}})
	some := slices.DeleteFunc(slices.Clone(identities), func(i identity) bool {
		return i.name != "digest: nobody" && i.name != "super"
	})
	target.Golden(t, "skipacl", matrix(t, s, some), *update)
}

// matrix returns the table of some identities.
func matrix(t *testing.T, s *target.Server, who []identity) string {
	t.Helper()
	var b strings.Builder
	admin := super(t, s.Addr)
	base := &probe{t: t, admin: admin}
	base.must(admin, jute.OpCreate, (&jute.CreateRequest{Path: rootPath, ACL: anyone}).Append)
	for n, i := range who {
		p := *base
		p.grant, p.owner = i.grant, admin
		if i.owner != nil {
			p.owner = i.owner(t, s.Addr)
		}
		fmt.Fprintf(&b, "%s\n", i.name)
		p.subject = i.who(t, s.Addr)
		p.subject.OnEvent = func(_ jute.Zxid, e *jute.WatcherEvent) { p.told = append(p.told, strings.Clone(e.Path)) }
		for m, op := range operations {
			fmt.Fprintf(&b, "  %-34s", op.name)
			name := func(perms jute.Perms) string { return fmt.Sprintf("%s/%d-%d-%02d", rootPath, n, m, perms) }
			p.makeAll(name, op.leaf)
			for perms := range jute.PermAll + 1 {
				p.perms, p.path, p.told = perms, name(perms), nil
				b.WriteByte(byte(op.ask(&p)))
			}
			p.do(p.subject, jute.OpRemoveWatches,
				(&jute.WatcherTypeRequest{Path: rootPath, Type: jute.WatcherAny}).Append)
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %-34s%s\n", "whoAmI", users(&p))
		reserved(&b, &p)
	}
	return b.String()
}

// makeAll makes the znodes with all sets of permissions, and their children.
func (p *probe) makeAll(name func(jute.Perms) string, leaf bool) {
	p.t.Helper()
	creates := func(below string, list func(jute.Perms) []jute.ACL) func([]byte) []byte {
		return func(b []byte) []byte {
			for perms := range jute.PermAll + 1 {
				b = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(b)
				b = (&jute.CreateRequest{Path: name(perms) + below, Data: []byte("old"), ACL: list(perms)}).Append(b)
			}
			return jute.AppendMultiEnd(b)
		}
	}
	p.must(p.owner, jute.OpMulti, creates("", p.list))
	if !leaf {
		p.must(p.admin, jute.OpMulti, creates("/c", func(jute.Perms) []jute.ACL { return anyone }))
	}
}

// list is the ACL in question.
func (p *probe) list(perms jute.Perms) []jute.ACL { return []jute.ACL{{Perms: perms, ID: p.grant}} }

// heard looks whether an event about the znode has come.
func (p *probe) heard() outcome {
	p.t.Helper()
	if err := p.subject.Alive(); err != nil {
		p.t.Fatal(err)
	}
	if slices.ContainsFunc(p.told, func(path string) bool { return strings.HasPrefix(path, p.path) }) {
		return allowed
	}
	return silent
}

// do makes a request.
func (p *probe) do(c *client.Conn, op jute.Op, record func([]byte) []byte) reply {
	p.t.Helper()
	header, body, err := c.Do(op, record)
	if err != nil {
		p.t.Fatalf("%s with permissions %d: %v", p.path, p.perms, err)
	}
	return reply{header, body}
}

// must makes a request that succeeds.
func (p *probe) must(c *client.Conn, op jute.Op, record func([]byte) []byte) {
	p.t.Helper()
	if r := p.do(c, op, record); r.Err != jute.OK {
		p.t.Fatalf("%v of %s with permissions %d: %v", op, p.path, p.perms, r.Err)
	}
}

// code is the letter of a code.
func (p *probe) code(c jute.Code) outcome {
	letter, ok := letters[c]
	if !ok {
		p.t.Errorf("%s with permissions %d: %v, which has no letter", p.path, p.perms, c)
		return '?'
	}
	return letter
}

// cutDigest parts an identity of the scheme digest into the user and what else it has.
func cutDigest(of jute.ID) (user, digest string, ok bool) {
	if of.Scheme != "digest" {
		return "", "", false
	}
	return strings.Cut(of.ID, ":")
}

// users is what whoAmI answers.
func users(p *probe) string {
	var answer jute.WhoAmIResponse
	r := p.do(p.subject, jute.OpWhoAmI, nil)
	d := jute.NewDecoder(r.body)
	answer.Decode(&d)
	var list []string
	for _, i := range answer.ClientInfo {
		list = append(list, i.AuthScheme+":"+i.User)
	}
	return strings.Join(list, " ")
}

// reserved asks for changes of what the server keeps for itself.
func reserved(b *strings.Builder, p *probe) {
	for _, node := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		p.path = node
		for _, op := range []operation{
			{name: "getData", ask: on(jute.OpGetData, look)},
			{name: "getACL", ask: on(jute.OpGetACL, path)},
			{name: "setData", ask: on(jute.OpSetData, setData)},
			{name: "setACL", ask: on(jute.OpSetACL, setACLToAuth)},
			{name: "create below", ask: on(jute.OpCreate, create("/n", jute.ModePersistent))},
			{name: "create below, ephemeral", ask: on(jute.OpCreate, create("/e", jute.ModeEphemeral))},
			{name: "delete below", ask: on(jute.OpDelete, version("/n"))},
			{name: "multi: create below", ask: multi(jute.OpCreate, create("/n", jute.ModePersistent))},
			{name: "delete itself", ask: on(jute.OpDelete, version(""))},
		} {
			fmt.Fprintf(b, "  %-52s%c\n", node+": "+op.name, op.ask(p))
			for _, child := range []string{"/n", "/e"} { // whoever could make it
				p.do(p.admin, jute.OpDelete, version(child)(p))
			}
			list := anyone
			if node == "/zookeeper/config" {
				list = []jute.ACL{{Perms: jute.PermRead, ID: id("world", "anyone")}}
			}
			p.do(p.admin, jute.OpSetACL, (&jute.SetACLRequest{Path: node, ACL: list, Version: -1}).Append)
		}
	}
}

// TestLettersAreDistinct: no two codes look the same in the table.
func TestLettersAreDistinct(t *testing.T) {
	seen := map[outcome]bool{hidden: true, silent: true}
	for _, code := range slices.Sorted(maps.Keys(letters)) {
		if seen[letters[code]] {
			t.Errorf("the letter of %v is taken", code)
		}
		seen[letters[code]] = true
	}
}
