package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/backup"
	"zkd/server/instance"
	statebackup "zkd/storage/backup"
	"zkd/storage/schema"
)

// superDigest is super:secret.
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

// Sizes of the load under which backups are taken.
const (
	accounts = 12
	deposit  = 1000 // of each account at the beginning
	tellers  = 4
)

// startInstance starts a server in this process, until the test ends.
func startInstance(t *testing.T, cfg string) *instance.Instance {
	t.Helper()
	i, _ := runInstance(t, cfg)
	return i
}

// runInstance starts a server in this process; stop ends it before the test does.
func runInstance(t *testing.T, cfg string) (i *instance.Instance, stop func()) {
	t.Helper()
	config, err := conf.Load(conf.Sources{Text: []byte(cfg), Environ: []string{noAdmin}, ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	i, err = instance.Open(t.Context(), config, realWorld(logger), instance.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, i.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return i, stop
}

// serveBackups serves the backups of an instance over HTTP.
func serveBackups(t *testing.T, i *instance.Instance) string {
	t.Helper()
	registry, err := auth.New(auth.Options{SuperDigest: superDigest})
	if err != nil {
		t.Fatal(err)
	}
	source := func(
		ctx context.Context, scratch string, o statebackup.Options, w io.Writer,
	) (schema.Summary, error) {
		return statebackup.WriteMachine(ctx, i.Machine(), scratch, o, w)
	}
	h, err := backup.New(backup.Options{Source: source, Registry: registry, FS: vfs.Default, Clock: clock.Real(),
		ScratchDir: filepath.Join(t.TempDir(), "scratch"), Logger: slog.New(slog.DiscardHandler), Writer: "zkd test"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// connect returns a session.
func connect(t *testing.T, addresses ...string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(addresses, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	deadline := time.Now().Add(scriptDeadline)
	for { // the client waits between its attempts
		_, _, err := c.Exists("/")
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("no session with %v: %v", addresses, err)
		}
	}
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// zkd runs a command in this process, and returns what it has written to stdout.
func zkd(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.Execute()
	return stdout.String(), err
}

// mustZkd runs a command that succeeds, and decodes its JSON.
func mustZkd[T any](t *testing.T, args ...string) T {
	t.Helper()
	out, err := zkd(t, append(args, "--output", "json")...)
	if err != nil {
		t.Fatalf("zkd %s: %v", strings.Join(args, " "), err)
	}
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("zkd %s: %v in %s", strings.Join(args, " "), err, out)
	}
	return v
}

// isLost tells whether it is not known what became of a request: its connection has ended, as it may on a machine so
// slow that an election takes longer than the servers wait for it.
func isLost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrSessionExpired)
}

// must makes a request, again as long as its connection is lost.
func must(t *testing.T, request func() error) {
	t.Helper()
	deadline := time.Now().Add(scriptDeadline)
	err := request()
	again := false
	for ; isLost(err) && time.Now().Before(deadline); err = request() { // the client waits between its attempts
		again = true
	}
	if err != nil && !(again && errors.Is(err, zk.ErrNodeExists)) {
		t.Fatal(err)
	}
}

// mustCreate makes a znode.
func mustCreate(t *testing.T, c *zk.Conn, path string, data []byte) {
	t.Helper()
	must(t, func() error {
		_, err := c.Create(path, data, 0, zk.WorldACL(zk.PermAll))
		return err
	})
}

// mustGet reads a znode.
func mustGet(t *testing.T, c *zk.Conn, path string) (data string) {
	t.Helper()
	must(t, func() error {
		got, _, err := c.Get(path)
		data = string(got)
		return err
	})
	return data
}

// account names an account.
func account(i int) string { return fmt.Sprintf("/accounts/%d", i) }

// transfer moves money between two accounts, unless somebody else was faster.
func transfer(c *zk.Conn, r *rand.Rand) error {
	from, to := r.IntN(accounts), r.IntN(accounts)
	if from == to {
		return nil
	}
	has, fromStat, err := c.Get(account(from))
	if err != nil {
		return err
	}
	gets, toStat, err := c.Get(account(to))
	if err != nil {
		return err
	}
	a, errA := strconv.Atoi(string(has))
	b, errB := strconv.Atoi(string(gets))
	amount := r.IntN(100)
	_, err = c.Multi(
		&zk.SetDataRequest{Path: account(from), Data: []byte(strconv.Itoa(a - amount)), Version: fromStat.Version},
		&zk.SetDataRequest{Path: account(to), Data: []byte(strconv.Itoa(b + amount)), Version: toStat.Version})
	if errors.Is(err, zk.ErrBadVersion) {
		err = nil
	}
	return errors.Join(err, errA, errB)
}

// sum is what all accounts hold.
func sum(t *testing.T, c *zk.Conn) int {
	t.Helper()
	total := 0
	for i := range accounts {
		n, err := strconv.Atoi(mustGet(t, c, account(i)))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// startEnsemble starts three servers, and returns their client addresses and where they serve backups.
func startEnsemble(t *testing.T) (addresses, backups []string) {
	t.Helper()
	ports := target.FreePorts(t, 9)
	var lines strings.Builder
	for n := range 3 {
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", n+1, ports[3*n], ports[3*n+1], ports[3*n+2])
	}
	for n := range 3 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		i := startInstance(t, fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\n%s", dir,
			lines.String()))
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", ports[3*n+2]))
		backups = append(backups, serveBackups(t, i))
	}
	return addresses, backups
}

// TestBackupUnderLoad takes backups from each server of an ensemble while money moves between accounts, and restores
// each: it is a state that existed, so no money is missing, and none is there twice.
func TestBackupUnderLoad(t *testing.T) {
	addresses, backups := startEnsemble(t)
	c := connect(t, addresses...)
	mustCreate(t, c, "/accounts", nil)
	for i := range accounts {
		mustCreate(t, c, account(i), []byte(strconv.Itoa(deposit)))
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for n := range tellers {
		teller := connect(t, addresses...)
		load.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := transfer(teller, r); err != nil && !isLost(err) { // a lost one is whole, or not there
					t.Errorf("teller %d: %v", n, err)
					return
				}
			}
		})
	}
	t.Setenv(credentialsVariable, "super:secret")
	dir := t.TempDir()
	var taken []backupJSON
	for n, from := range backups {
		must(t, func() error {
			_, err := c.Sync("/")
			return err
		})
		file := filepath.Join(dir, fmt.Sprintf("backup-%d", n))
		taken = append(taken, mustZkd[backupJSON](t, "backup", "--from", from, file))
	}
	close(stop)
	load.Wait()
	if t.Failed() {
		return
	}
	for n, b := range taken {
		restoreAndCheck(t, &b, filepath.Join(dir, fmt.Sprintf("restored-%d", n)))
	}
}

// restoreAndCheck restores a backup into a new directory, starts a server there, and counts the money.
func restoreAndCheck(t *testing.T, b *backupJSON, dir string) {
	t.Helper()
	got := mustZkd[backupJSON](t, "restore", b.File, "--data-dir", dir)
	if got.Zxid != b.Zxid || got.Digest != b.Digest || got.Znodes != b.Znodes || got.Sessions != b.Sessions ||
		b.Sessions < tellers || strings.Trim(got.ClusterID, "0") != "" || strings.Trim(b.ClusterID, "0") == "" {
		t.Errorf("backup %+v, restored %+v", b, got)
	}
	i := startInstance(t, fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\n", dir))
	if zxid := fmt.Sprintf("%#x", int64(i.Machine().LastZxid())); zxid != b.Zxid {
		t.Errorf("the restored server begins at zxid %s, the backup is of %s", zxid, b.Zxid)
	}
	if total := sum(t, connect(t, i.ClientAddr().String())); total != accounts*deposit {
		t.Errorf("the accounts hold %d in all at zxid %s, want %d", total, b.Zxid, accounts*deposit)
	}
}

// backedUp starts a server that has the znode /kept, and backs it up to a file.
func backedUp(t *testing.T) (old *instance.Instance, file string) {
	t.Helper()
	old = startInstance(t, fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\n", t.TempDir()))
	c := connect(t, old.ClientAddr().String())
	mustCreate(t, c, "/kept", []byte("value"))
	t.Setenv(credentialsVariable, "super:secret")
	file = filepath.Join(t.TempDir(), "backup")
	mustZkd[backupJSON](t, "backup", "--from", serveBackups(t, old), file)
	return old, file
}

// TestRestoredServerBecomesAnEnsemble goes the way of docs/operations.md: a backup is restored into one server, and two
// with empty directories join it by reconfig and get the state.
func TestRestoredServerBecomesAnEnsemble(t *testing.T) {
	old, file := backedUp(t)

	ports := target.FreePorts(t, 9)
	var lines, addresses []string
	for n := range 3 {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d;127.0.0.1:%d", n+1, ports[3*n], ports[3*n+1],
			ports[3*n+2]))
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", ports[3*n+2]))
	}
	start := func(n int, more string) *instance.Instance {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			mustZkd[backupJSON](t, "restore", file, "--data-dir", dir)
		}
		return startInstance(t, fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\n"+
			"standaloneEnabled=false\nreconfigEnabled=true\nDigestAuthenticationProvider.superDigest=%s\n%s", dir,
			superDigest, more))
	}
	start(1, lines[0])
	first := connect(t, addresses[0])
	if err := first.AddAuth("digest", []byte("super:secret")); err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		joined := start(n, strings.Join(lines[:n], "\n")+"\nzkd.join=true")
		addMember(t, first, lines[n-1])
		got := connect(t, addresses[n-1])
		if data := mustGet(t, got, "/kept"); data != "value" {
			t.Errorf("server %d has %q", n, data)
		}
		if joined.Machine().ClusterID() == old.Machine().ClusterID() {
			t.Errorf("server %d is of the cluster that was backed up", n)
		}
	}
	s := mustZkd[ensembleStatus](t, "status", "--timeout", "60s", "--server", addresses[0])
	if len(s.Servers) != 3 || *s.Servers[2].ID != 3 {
		t.Errorf("%+v", s)
	}
}

// TestRestoredServerFoundsAlone starts three servers with the same server lines, one of them restored, all at once: it
// founds the ensemble, and the others, which have no data, get its.
func TestRestoredServerFoundsAlone(t *testing.T) {
	old, file := backedUp(t)
	ports := target.FreePorts(t, 9)
	var lines strings.Builder
	for n := range 3 {
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", n+1, ports[3*n], ports[3*n+1], ports[3*n+2])
	}
	var servers [3]*instance.Instance
	for n := range servers {
		dir := t.TempDir()
		if n == 1 {
			mustZkd[backupJSON](t, "restore", file, "--data-dir", dir)
		}
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		servers[n] = startInstance(t, fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\n%s", dir,
			lines.String()))
	}
	for n, s := range servers {
		got := connect(t, fmt.Sprintf("127.0.0.1:%d", ports[3*n+2]))
		if data := mustGet(t, got, "/kept"); data != "value" {
			t.Errorf("server %d has %q", n+1, data)
		}
		id := s.Machine().ClusterID()
		if id != servers[1].Machine().ClusterID() || id == old.Machine().ClusterID() || id == [16]byte{} {
			t.Errorf("server %d is of cluster %x", n+1, id)
		}
	}
}

// addMember adds a server, which the others may not have heard of yet: until then they are no quorum with it.
func addMember(t *testing.T, c *zk.Conn, line string) {
	t.Helper()
	const newConfigNoQuorum = "unknown error: -13" // the client has no name for it
	deadline := time.Now().Add(scriptDeadline)
	for {
		_, err := c.IncrementalReconfig([]string{line}, nil, -1)
		if err == nil {
			return
		}
		if err.Error() != newConfigNoQuorum && !isLost(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestBackupOverTLS has a process make the backup on the TLS port of its admin server.
func TestBackupOverTLS(t *testing.T) {
	end, _, _ := pemStores(t)
	dir := t.TempDir()
	_, url := startOperated(t, dir, "admin.forceHttps=true", "ssl.quorum.keyStore.location="+end.KeyStore.Location,
		"ssl.quorum.trustStore.location="+end.TrustStore.Location)
	address := strings.TrimPrefix(url, "http://")
	t.Setenv(credentialsVariable, "super:secret")
	file := filepath.Join(dir, "backup")
	for from, want := range map[string]string{ // any order: independent cases
		"http://" + address: "", "https://" + address: "certificate",
	} {
		if _, err := zkd(t, "backup", "--from", from, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s without its certificate: %v", from, err)
		}
	}
	b := mustZkd[backupJSON](t, "backup", "--from", "https://"+address, "--ca-file", end.TrustStore.Location, file)
	if got := mustZkd[backupJSON](t, "restore", file, "--data-dir", filepath.Join(dir, "new")); got.Zxid != b.Zxid {
		t.Errorf("backup %+v, restored %+v", b, got)
	}
}

// TestBackupIsForTheSuperuser asks without, and with wrong credentials.
func TestBackupIsForTheSuperuser(t *testing.T) {
	i := startInstance(t, fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\n", t.TempDir()))
	from := serveBackups(t, i)
	file := filepath.Join(t.TempDir(), "backup")
	for credentials, want := range map[string]string{ // any order: independent cases
		"": "gives a backup to its superuser only", "super:wrong": "403", "other:secret": "403", "nobody": "403",
	} {
		t.Setenv(credentialsVariable, credentials)
		_, err := zkd(t, "backup", "--from", from, file)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("as %q: %v", credentials, err)
		}
	}
	if names, err := os.ReadDir(filepath.Dir(file)); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("super:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := zkd(t, "backup", "--from", from, "--credentials-file", secret, file); err != nil {
		t.Error(err)
	}
	if _, err := zkd(t, "backup", "--from", from, "--credentials-file", secret, file); err == nil {
		t.Error("a second backup has replaced the first")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := zkd(t, "restore", "--check", file); err != nil {
		t.Error(err)
	}
}
