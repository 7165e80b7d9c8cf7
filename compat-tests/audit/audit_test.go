package audit_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

var update = flag.Bool("update", false, "record the lines from the real server")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "audit")) }

// logback has ZooKeeper write its audit log as the conf/logback.xml that it is shipped with does, but for rolling it.
const logback = `<configuration>
<appender name="A" class="ch.qos.logback.core.FileAppender"><File>%s</File>
<encoder><pattern>%%d{ISO8601} %%p %%c{2}: %%m%%n</pattern></encoder></appender>
<logger name="org.apache.zookeeper.audit.Slf4jAuditLogger" additivity="false" level="INFO">
<appender-ref ref="A"/></logger>
<root level="OFF"/></configuration>
`

// TestAuditLog runs the script and compares the lines of the audit log.
func TestAuditLog(t *testing.T) {
	s, file := start(t)
	r := &run{t: t, addr: s.Addr, names: map[jute.SessionID]string{}}
	r.script()
	s.Stop()
	target.Golden(t, "audit", r.masked(read(t, file)), *update)
}

// logins is a file of logins in which the server has a principal.
const logins = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required
	user_bob="secret" principal="zookeeper/server@EXAMPLE.COM"; };
`

// TestServerLogin: a server that has a login is in its audit log by the principal of it.
func TestServerLogin(t *testing.T) {
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(jaas, []byte(logins), 0o600); err != nil {
		t.Fatal(err)
	}
	s, file := start(t, "-Djava.security.auth.login.config="+jaas)
	r := &run{t: t, addr: s.Addr, names: map[jute.SessionID]string{}, logsIn: true}
	c := r.open()
	r.must(c, jute.OpCreate, create("/e", jute.ModeEphemeral))
	r.end(c)
	s.Stop()
	target.Golden(t, "login", r.masked(read(t, file)), *update)
}

// start starts a server with an audit log.
func start(t *testing.T, flags ...string) (s *target.Server, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "audit.log")
	settings := filepath.Join(dir, "logback.xml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, logback, file), 0o600); err != nil {
		t.Fatal(err)
	}
	return target.Start(t, target.Options{
		Config: map[string]string{
			"audit.enable": "true", "zkd.audit.file": file, "zkd.audit.format": "zookeeper", "tickTime": "500",
			"maxSessionTimeout":                        "60000",
			"DigestAuthenticationProvider.superDigest": target.DigestOf(target.SuperUser, target.SuperPassword),
		},
		JVMFlags: append(flags, "-Dlogback.configurationFile="+settings),
	}), file
}

// read reads the audit log.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run is one run of the script.
type run struct {
	t     *testing.T
	addr  string
	names map[jute.SessionID]string // of the sessions, in the order in which they were opened

	logsIn bool // the server does, so that its user is the same everywhere
}

var (
	timeOfLine = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} `)
	digest     = regexp.MustCompile(`(digest:[a-z]+:)[A-Za-z0-9+/]+=`)
	serverUser = regexp.MustCompile(`user=[^\t]*(\toperation=(?:server|ephemeral))`)
)

// masked replaces what differs between runs. What goes with a session goes in no order with ZooKeeper.
func (r *run) masked(text string) string {
	text = timeOfLine.ReplaceAllString(text, "TIME ")
	text = digest.ReplaceAllString(text, "${1}x")
	if !r.logsIn {
		text = serverUser.ReplaceAllString(text, "user=SERVER$1")
	}
	for id, name := range r.names { // the order does not matter: no id is part of another's line
		text = strings.ReplaceAll(text, fmt.Sprintf("session=%#x\t", uint64(id)), "session="+name+"\t")
	}
	lines := strings.SplitAfter(text, "\n")
	ephemeral := func(line string) bool { return strings.Contains(line, "operation=ephemeral") }
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && ephemeral(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = to
	}
	return strings.Join(lines, "")
}

// open opens a session that does not expire.
func (r *run) open() *client.Conn {
	r.t.Helper()
	return r.openFor(time.Minute)
}

// openFor opens a session.
func (r *run) openFor(timeout time.Duration) *client.Conn {
	r.t.Helper()
	c, err := client.Dial(r.t.Context(), client.Options{Addr: r.addr, Timeout: timeout, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
	if err != nil {
		r.t.Fatal(err)
	}
	r.names[c.Session] = fmt.Sprintf("s%d", len(r.names)+1)
	return c
}

// end ends the session of a connection.
func (r *run) end(c *client.Conn) {
	r.t.Helper()
	r.must(c, jute.OpCloseSession, nil)
	c.Cut()
}

// do makes a request, whatever is answered.
func (r *run) do(c *client.Conn, op jute.Op, record func([]byte) []byte) jute.Code {
	r.t.Helper()
	header, _, err := c.Do(op, record)
	if err != nil {
		r.t.Fatal(err)
	}
	return header.Err
}

// must makes a request that succeeds.
func (r *run) must(c *client.Conn, op jute.Op, record func([]byte) []byte) {
	r.t.Helper()
	if code := r.do(c, op, record); code != jute.OK {
		r.t.Fatalf("%v: %v", op, code)
	}
}

// auth proves an identity.
func (r *run) auth(c *client.Conn, scheme, data string) {
	r.t.Helper()
	if code, err := c.Auth(scheme, data); err != nil || code != jute.OK {
		r.t.Fatalf("auth: %v, %v", code, err)
	}
}

// acl is a list of one entry.
func acl(scheme, id string, perms jute.Perms) []jute.ACL {
	return []jute.ACL{{Perms: perms, ID: jute.ID{Scheme: scheme, ID: id}}}
}

var open = acl("world", "anyone", jute.PermAll)

func create(path string, mode jute.CreateMode) func([]byte) []byte {
	return (&jute.CreateRequest{Path: path, ACL: open, Flags: mode}).Append
}

func createTTL(path string, mode jute.CreateMode) func([]byte) []byte {
	return (&jute.CreateTTLRequest{Path: path, ACL: open, Flags: mode, TTL: 60_000}).Append
}

func setData(path string, version jute.Version) func([]byte) []byte {
	return (&jute.SetDataRequest{Path: path, Data: []byte("x"), Version: version}).Append
}

func remove(path string, version jute.Version) func([]byte) []byte {
	return (&jute.PathVersionRequest{Path: path, Version: version}).Append
}

func setACL(path string, list []jute.ACL, version jute.Version) func([]byte) []byte {
	return (&jute.SetACLRequest{Path: path, ACL: list, Version: version}).Append
}

// part is one operation of a multi.
type part struct {
	op     jute.Op
	record func([]byte) []byte
}

func multi(parts ...part) func([]byte) []byte {
	return func(b []byte) []byte {
		for _, p := range parts {
			b = p.record((&jute.MultiHeader{Type: p.op, Err: -1}).Append(b))
		}
		return jute.AppendMultiEnd(b)
	}
}

// script makes the requests.
func (r *run) script() {
	c := r.open()
	r.creates(c)
	r.changes(c)
	r.multis(c)
	r.users()
	r.refused(c)
	r.ends(c)
	r.end(c)
}

// creates makes znodes of all modes, and some that cannot be made.
func (r *run) creates(c *client.Conn) {
	for i, mode := range []jute.CreateMode{0, 1, 2, 3} {
		r.must(c, jute.OpCreate, create(fmt.Sprintf("/a%d", i), mode))
		r.must(c, jute.OpCreate2, create(fmt.Sprintf("/b%d", i), mode))
	}
	r.must(c, jute.OpCreateContainer, create("/container", jute.ModeContainer))
	r.must(c, jute.OpCreateTTL, createTTL("/ttl", jute.ModePersistentTTL))
	r.must(c, jute.OpCreateTTL, createTTL("/ttl", jute.ModePersistentSequentialTTL))
	r.do(c, jute.OpCreate, create("/a0", jute.ModePersistent))
	r.do(c, jute.OpCreate, create("/none/x", jute.ModePersistentSequential))
	r.do(c, jute.OpCreate, create("/a1/x", jute.ModePersistent)) // below an ephemeral
	r.do(c, jute.OpCreate, create("/bad/", jute.ModePersistent))
	r.do(c, jute.OpCreate, create("", jute.ModePersistent))
	r.do(c, jute.OpCreate, create("/mode", 77))
	r.do(c, jute.OpCreate, (&jute.CreateRequest{Path: "/noacl", ACL: []jute.ACL{}}).Append)
	r.do(c, jute.OpCreate, (&jute.CreateRequest{ACL: open, Nulls: 1}).Append)
	r.do(c, jute.OpCreate, nil)
	r.do(c, jute.OpCreate, short(create("/cut", jute.ModeEphemeral)))
	r.do(c, jute.OpSetData, short(setData("/a0", -1)))
	r.do(c, jute.OpDelete, short(remove("/a0", -1)))
	r.do(c, jute.OpDelete, nil)
	r.do(c, jute.OpSetACL, short(setACL("/a0", open, -1)))
	r.do(c, jute.OpSetACL, nil)
	r.do(c, jute.OpCreateTTL, createTTL("/ttl2", jute.ModePersistent))
	r.do(c, jute.OpCreateTTL, (&jute.CreateTTLRequest{Path: "/ttl3", ACL: open, Flags: 5, TTL: -1}).Append)
}

// changes changes and deletes znodes, and reads, which is in no audit log.
func (r *run) changes(c *client.Conn) {
	r.must(c, jute.OpSetData, setData("/a0", -1))
	r.do(c, jute.OpSetData, setData("/a0", 7))
	r.do(c, jute.OpSetData, setData("/none", -1))
	r.must(c, jute.OpSetACL, setACL("/a0", append(acl("world", "anyone", 31), acl("digest", "u:h=", 5)...), -1))
	r.must(c, jute.OpSetACL, setACL("/a0", acl("ip", "127.0.0.0/8", 31), -1))
	r.must(c, jute.OpSetACL, setACL("/a0", acl("world", "anyone", 255), -1))
	r.do(c, jute.OpSetACL, setACL("/a0", open, 77))
	r.do(c, jute.OpSetACL, setACL("/a0", []jute.ACL{}, -1))
	r.do(c, jute.OpSetACL, setACL("/a0", nil, -1))
	r.do(c, jute.OpSetACL, setACL("/a0", acl("nosuch", "x", 31), -1))
	r.must(c, jute.OpGetData, (&jute.PathWatchRequest{Path: "/a0"}).Append)
	r.must(c, jute.OpSync, (&jute.PathRequest{Path: "/a0"}).Append)
	r.must(c, jute.OpDelete, remove("/b0", -1))
	r.do(c, jute.OpDelete, remove("/b0", -1))
	r.do(c, jute.OpDelete, remove("/a0", 99))
	r.do(c, jute.OpDelete, remove("/", -1))
}

// short is a record without its last byte.
func short(record func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = record(b)
		return b[:len(b)-1]
	}
}

// multis makes multis.
func (r *run) multis(c *client.Conn) {
	r.must(c, jute.OpMulti, multi(
		part{jute.OpCheck, remove("/a0", -1)},
		part{jute.OpCreate, create("/m", 0)},
		part{jute.OpCreate2, create("/m/e", 1)},
		part{jute.OpCreate, create("/m/s", 2)},
		part{jute.OpCreateContainer, create("/m/c", 4)},
		part{jute.OpCreateTTL, createTTL("/m/t", 5)},
		part{jute.OpSetData, setData("/m", -1)},
		part{jute.OpDelete, remove("/m/e", -1)},
		part{jute.OpCreate, create("/m/e", 0)},
	))
	r.must(c, jute.OpMulti, multi())
	r.must(c, jute.OpMulti, multi(part{jute.OpCheck, remove("/a0", -1)}))
	r.do(c, jute.OpMulti, multi(part{jute.OpCreate, create("/n", 0)}, part{jute.OpDelete, remove("/none", -1)}))
	r.do(c, jute.OpMulti, multi(part{jute.OpCheck, remove("/a0", 99)}))
	r.do(c, jute.OpMulti, multi(part{jute.OpSetACL, setACL("/a0", open, -1)}))
	r.do(c, jute.OpMulti, multi(part{jute.OpCreate, create("/n", 77)}))
	r.do(c, jute.OpMulti, nil)
	r.do(c, jute.OpMulti, multi(part{jute.OpCreate, (&jute.CreateRequest{Path: "/n"}).Append}))
}

// users makes requests as different users.
func (r *run) users() {
	c := r.open()
	r.must(c, jute.OpCreate, create("/u", 0))
	r.auth(c, "digest", "bob:secret")
	r.must(c, jute.OpSetData, setData("/u", -1))
	r.must(c, jute.OpSetACL, setACL("/u", acl("auth", "", 31), -1))
	r.auth(c, "digest", "alice:secret")
	r.auth(c, "digest", ":nobody")
	r.auth(c, "digest", " :blank")
	r.must(c, jute.OpSetData, setData("/u", -1))
	r.auth(c, "digest", target.SuperUser+":"+target.SuperPassword)
	r.must(c, jute.OpSetData, setData("/u", -1))
	r.end(c)
}

// refused makes requests that are not allowed.
func (r *run) refused(c *client.Conn) {
	r.do(c, jute.OpSetData, setData("/u", -1))
	r.do(c, jute.OpSetACL, setACL("/u", open, -1))
	r.do(c, jute.OpCreate, create("/u/x", jute.ModeEphemeral))
	r.do(c, jute.OpMulti, multi(part{jute.OpSetData, setData("/u", -1)}))
	r.do(c, jute.OpReconfig, (&jute.ReconfigRequest{JoiningServers: "server.2=127.0.0.1:1:2;3"}).Append)
}

// ends ends a session by its client, and one by its silence, which witness awaits.
func (r *run) ends(witness *client.Conn) {
	c := r.open()
	for _, name := range []string{"/end1", "/end2"} {
		r.must(c, jute.OpCreate, create(name, jute.ModeEphemeral))
	}
	r.end(c)
	quiet := r.openFor(4 * time.Second)
	r.must(quiet, jute.OpCreate, create("/quiet", jute.ModeEphemeral))
	quiet.Cut()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for r.do(witness, jute.OpExists, (&jute.PathWatchRequest{Path: "/quiet"}).Append) == jute.OK {
		select {
		case <-poll.C:
		case <-deadline.C:
			r.t.Fatal("a session of four seconds does not expire")
		}
	}
}
