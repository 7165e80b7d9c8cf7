package firstweek

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "firstweek")) }

// within bounds each wait for a server or a client; a guess for a busy machine.
const within = 90 * time.Second

// longEnv asks for the whole week (make firstweek): the ensemble begins with the version before.
const longEnv = "ZKD_FIRSTWEEK"

// goldenDir has what servers of Apache ZooKeeper have written.
const goldenDir = "../../storage/zkdata/zkdatatest/testdata/zookeeper"

// Sizes of the disks: of each server, and of what is made beside them. All have disks of their own, so that nothing
// which is printed depends on how full the machine's is. What is not written takes no memory.
const (
	diskBytes   = 128 << 20
	besideBytes = 8 << 30
)

// week is what the steps share.
type week struct {
	transcript
	t     *testing.T
	dir   string // of what the operator keeps
	zkd   string // as installed
	e     *ensemble.Ensemble
	lines *lines
	tree  []string // what was in the ensemble before it was backed up
}

// TestFirstWeek goes through the steps; each needs those before.
func TestFirstWeek(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the commands of zkd")
	}
	target.Require(t)
	if err := ensemble.Mountable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	w := &week{t: t, dir: t.TempDir(), lines: newLines(), transcript: transcript{names: map[string]string{}}}
	w.names[w.dir] = "WEEK"
	ensemble.MountDisk(t, w.dir, besideBytes)
	for _, step := range []struct {
		name  string
		do    func(*week, *testing.T)
		lines []calledFor
	}{
		{"install", (*week).install, nil},
		{"import", (*week).imports, nil},
		{"run", (*week).run3, []calledFor{
			{1, unreachable, 0, 2}, {2, unreachable, 0, 2}, {3, unreachable, 0, 2}, // who is there before the others
			{2, empty, 0, 1}, {3, empty, 0, 1},
		}},
		{"roll", (*week).roll, []calledFor{ // the version before does not say that it stops
			{1, disconnected, 0, 4}, {2, disconnected, 0, 4}, {3, disconnected, 0, 4},
		}},
		{"replace", (*week).replace, []calledFor{ // server 1 is killed: it was the leader, which is rolled last
			{2, disconnected, 0, 2}, {3, disconnected, 0, 2}, {2, unreachable, 0, 1}, {3, unreachable, 0, 1},
			{1, empty, 0, 1},
		}},
		{"reconfigure", (*week).reconfigure, []calledFor{
			{4, unreachable, 0, 1}, // it is let in by the reconfig alone
			{4, empty, 0, 1}, {4, "removed from the ensemble: serving clients for a while", 1, 1},
		}},
		{"fill", (*week).fill, []calledFor{ // the disk of server 1, which is started anew on it
			{1, "disk space warning", 1, 1}, {1, "disk space low", 1, 2}, {1, "disk reserve released: disk full", 1, 2},
			{2, unreachable, 0, 1}, {3, unreachable, 0, 1}, // server 1, while it is stopped
		}},
		{"backup", (*week).backup, nil},
		{"restore", (*week).restore, nil},
		{"export", (*week).export, nil},
		{"moveback", (*week).moveBack, nil},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			began := time.Now()
			before := w.lines.call(step.lines)
			step.do(w, t)
			if os.Getenv(longEnv) != "" && (step.name == "run" || step.name == "roll") {
				w.text.Reset() // the version before shows, and has written, something else
			}
			w.compare(t, step.name)
			w.look(t)
			for _, wrong := range w.lines.missing(step.lines, before) {
				t.Error(wrong)
			}
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
		})
		if !ok && !*update {
			break
		}
	}
}

// Messages of servers whose others come or go.
const (
	unreachable  = "peer unreachable"
	disconnected = "peer disconnected"
	empty        = "member quarantined: no data, waiting for admission"
)

// look reads the logs of all servers.
func (w *week) look(t *testing.T) {
	t.Helper()
	if w.e == nil {
		return
	}
	for _, s := range w.e.Servers {
		if _, err := os.Stat(s.LogPath()); err != nil {
			continue // it was not started
		}
		if s.Binary != w.zkd { // the version before has lines of its own
			w.lines.skip(s.LogPath(), s.Log())
			continue
		}
		for _, wrong := range w.lines.look(s.ID, s.LogPath(), s.Log()) {
			t.Error(wrong)
		}
	}
}

// command runs zkd as it was installed.
func (w *week) command(t *testing.T, args ...string) {
	t.Helper()
	w.transcript.run(t, w.zkd, args...)
}

// path is a place among what the operator keeps.
func (w *week) path(name string) string { return filepath.Join(w.dir, name) }

// await waits for a condition.
func await(t *testing.T, ready func() (bool, string)) {
	t.Helper()
	if why := ensemble.Await(within, ready); why != "" {
		t.Fatalf("after %v: %s", within, why)
	}
}

// awaitMonitored waits until mntr of a server has a line.
func awaitMonitored(t *testing.T, s *target.Server, want ...string) {
	t.Helper()
	await(t, func() (bool, string) {
		answer, err := s.FourLetterWord("mntr")
		for _, line := range want {
			if err != nil || !strings.Contains(answer, line+"\n") {
				return false, fmt.Sprintf("mntr has no line %q: %v\n%s", line, err, answer)
			}
		}
		return true, ""
	})
}

// awaitInSync waits until the leader has so many followers and observers, and all of them have what it has.
func (w *week) awaitInSync(t *testing.T, followers int) *ensemble.Server {
	t.Helper()
	leader := w.e.AwaitLeader()
	awaitMonitored(t, leader.Server, fmt.Sprintf("zk_synced_followers\t%d", followers),
		"zk_synced_non_voting_followers\t0")
	return leader
}

// quiet drops a client's log.
type quiet struct{}

// Printf implements zk.Logger.
func (quiet) Printf(string, ...any) {}

// connect returns a client of servers that is the superuser.
func connect(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(addrs, 30*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	persist(t, func() error {
		return c.AddAuth("digest", []byte(target.SuperUser+":"+target.SuperPassword))
	})
	return c
}

// persist does something until it succeeds.
func persist(t *testing.T, do func() error) {
	t.Helper()
	await(t, func() (bool, string) {
		err := do()
		return err == nil, fmt.Sprint(err)
	})
}

// tree is what a server has: a line for each znode but those of /zookeeper.
func tree(t *testing.T, addr string) (lines []string) {
	t.Helper()
	c := connect(t, addr)
	defer c.Close()
	_, err := c.Sync("/")
	must(t, err)
	var visit func(path string)
	visit = func(path string) {
		data, stat, err := c.Get(path)
		must(t, err)
		if path != "/" && stat.EphemeralOwner == 0 { // neither what a server has of its own, nor what ends by itself
			lines = append(lines, fmt.Sprintf("%q %x %x %d %x %q", path, stat.Czxid, stat.Mzxid, stat.Version,
				uint64(stat.EphemeralOwner), data))
		}
		children, _, err := c.Children(path)
		must(t, err)
		slices.Sort(children)
		for _, child := range children {
			if path != "/" || child != "zookeeper" {
				visit(strings.TrimSuffix(path, "/") + "/" + child)
			}
		}
	}
	visit("/")
	return lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
