package fulldisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
)

// write makes znodes, each of which must be taken, and returns them.
func write(t *testing.T, c *zk.Conn, parent string, count, bytes int) (paths []string) {
	t.Helper()
	return writeOn(t, c, parent, count, bytes, false)
}

// writeOn is write that tries again what is refused, if patient.
func writeOn(t *testing.T, c *zk.Conn, parent string, count, bytes int, patient bool) (paths []string) {
	t.Helper()
	awaitRoom(t, c, parent, 0)
	for n := range count {
		path := fmt.Sprintf("%s/%08d", parent, n)
		err := persist(t, "write", func() error {
			_, err := c.Create(path, make([]byte, bytes), 0, zk.WorldACL(zk.PermAll))
			switch {
			case errors.Is(err, zk.ErrNodeExists): // the attempt before, whose reply was lost
				return nil
			case patient && refused(err):
				return zk.ErrNoServer
			}
			return err
		})
		if err != nil {
			t.Fatalf("write %s: %v", path, err)
		}
		paths = append(paths, path)
	}
	return paths
}

// beside is the file of something that is no zkd, and takes the room on a disk.
const beside = "beside"

// fillBeside takes what is free in a directory of a server but for a few blocks: at once, so that the reserve, which is
// given back then, is not taken as well.
func fillBeside(t *testing.T, dir string) {
	t.Helper()
	const left = 64 << 10
	file, err := os.Create(filepath.Join(dir, beside))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // its content means nothing
	most := freeBytes(t, dir)
	// Again, if the server has taken some meanwhile; but without the reserve that it may give back then.
	if why := ensemble.Await(within, func() (bool, string) {
		err := syscall.Fallocate(int(file.Fd()), 0, 0, min(most, freeBytes(t, dir))-left)
		return err == nil, fmt.Sprint(err)
	}); why != "" {
		t.Fatalf("fill %s: %s", dir, why)
	}
}

// freeBytes is what is left on the disk of a directory.
func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var usage syscall.Statfs_t
	if err := syscall.Statfs(dir, &usage); err != nil {
		t.Fatal(err)
	}
	return int64(usage.Bavail) * usage.Bsize
}

// takeAll takes all that is free in a directory, and what is given back meanwhile, until the server has ended, or
// answers although nothing is left.
func takeAll(t *testing.T, s *ensemble.Server, dir string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, beside), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // its content means nothing
	if why := ensemble.Await(within, func() (bool, string) {
		for chunk := int64(1 << 20); chunk >= 4<<10; {
			info, err := file.Stat()
			if err != nil {
				return false, err.Error()
			}
			if syscall.Fallocate(int(file.Fd()), 0, info.Size(), chunk) != nil {
				chunk /= 2
			}
		}
		_, err := os.Stat(filepath.Join(dir, reserve))
		return !s.Running() || errors.Is(err, os.ErrNotExist) && freeBytes(t, dir) == 0, "there is something left"
	}); why != "" {
		t.Fatalf("take all of %s: %s", dir, why)
	}
}

// freeBeside ends fillBeside and takeAll.
func freeBeside(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, beside)); err != nil {
		t.Fatal(err)
	}
}

// oneFullBytes is the size of the disks where one is full: the others keep what it lacks.
const oneFullBytes = 256 << 20

// TestOneDiskFull fills the disks of a follower, of the leader and of an observer in turn: writes go on, who has no
// room says so, and comes back by itself.
func TestOneDiskFull(t *testing.T) {
	e := prepare(t, ensemble.Options{DiskBytes: oneFullBytes, Observers: 1})
	observer := e.Servers[len(e.Servers)-1]
	for _, role := range []string{"follower", "leader", "observer"} {
		for _, s := range e.Servers {
			awaitReserve(t, s, s.DataDir())
		}
		full := observer
		switch role {
		case "follower":
			full = e.Followers()[0]
		case "leader":
			full = e.AwaitLeader()
		}
		t.Logf("server %d, %s, is filled", full.ID, role)
		oneFull(t, e, full, "/"+role, role == "leader")
	}
}

// lowLine is in the log of a server whose disk has become low.
const lowLine = `msg="disk space low"`

// oneFull fills the disk of one server while others write. One that leads may refuse until another one has taken over.
func oneFull(t *testing.T, e *ensemble.Ensemble, full *ensemble.Server, under string, leads bool) {
	t.Helper()
	var others []string
	for _, s := range e.Servers {
		if s != full {
			others = append(others, s.Addr)
		}
	}
	c := connect(t, others...)
	before := write(t, c, under+"-before", 10, 100_000)
	told := strings.Count(full.Log(), lowLine)
	fillBeside(t, full.DataDir())
	// A slow machine may make it the leader for a moment.
	paths := writeOn(t, c, under+"-while", 30, 100_000, true)
	if leads {
		if why := ensemble.Await(within, func() (bool, string) {
			leader := e.Leader()
			return leader != nil && leader != full, "the server whose disk is full leads"
		}); why != "" {
			t.Fatalf("after %v: %s", within, why)
		}
	}
	paths = append(paths, writeOn(t, c, under+"-then", 70, 100_000, true)...)
	if why := ensemble.Await(within, func() (bool, string) { // one that stands aside answers no mntr
		return strings.Count(full.Log(), lowLine) > told, "it does not say so"
	}); why != "" {
		t.Fatalf("the disk of server %d is full, and after %v: %s", full.ID, within, why)
	}
	alive(t, e)
	freeBeside(t, full.DataDir())
	e.AwaitServing(e.Servers...)
	own := connect(t, full.Addr)
	if err := persist(t, "sync", func() error {
		_, err := own.Sync("/")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(before, paths)
	wantAll(t, own, all, 100_000)
	awaitReserve(t, full, full.DataDir())
	removeAll(t, c, all)
	alive(t, e)
}

// TestDisksFilledBeside has something else fill the disks of all servers, and take its files away again; then take the
// reserves as well.
func TestDisksFilledBeside(t *testing.T) {
	e := prepare(t, ensemble.Options{DiskBytes: smallDiskBytes})
	for _, s := range e.Servers {
		awaitReserve(t, s, s.DataDir())
	}
	c := connect(t, e.Addrs()...)
	before := write(t, c, "/before", 20, 100<<10)
	victim := write(t, c, "/victim", 1, 0)[0]
	for _, s := range e.Servers {
		fillBeside(t, s.DataDir())
	}
	wantRefused(t, c)
	removeAll(t, c, before[1:])
	alive(t, e)
	kill(e)
	wantAll(t, c, before[:1], 100<<10)
	for _, s := range e.Servers {
		takeAll(t, s, s.DataDir())
	}
	removed := make(chan error, 1)
	go func() { removed <- c.Delete(victim, -1) }()
	if why := ensemble.Await(within, func() (bool, string) {
		select {
		case err := <-removed:
			t.Logf("a delete without a byte left: %v", err)
			return true, ""
		default:
		}
		return slices.ContainsFunc(e.Servers, func(s *ensemble.Server) bool { return !s.Running() }), "nothing happens"
	}); why != "" {
		t.Fatalf("a delete without a byte left: %s", why)
	}
	for _, s := range e.Servers {
		t.Logf("server %d runs without a byte left: %v", s.ID, s.Running())
		if !s.Running() && !strings.Contains(s.LogTail(20), "no space left on device") {
			t.Errorf("server %d has ended, and does not say why:\n%s", s.ID, s.LogTail(20))
		}
		freeBeside(t, s.DataDir())
	}
	kill(e) // one that runs may be about to end: its store has failed
	wantAll(t, c, before[:1], 100<<10)
	after := write(t, c, "/after", 20, 100<<10)
	awaitAmple(t, e)
	wantAll(t, c, after, 100<<10)
	alive(t, e)
}

// wantRefused writes until something is refused for want of room.
func wantRefused(t *testing.T, c *zk.Conn) {
	t.Helper()
	n := 0
	if why := ensemble.Await(within, func() (bool, string) {
		n++
		_, err := c.Create(fmt.Sprintf("/refused%d", n), make([]byte, 1000), 0, zk.WorldACL(zk.PermAll))
		return refused(err), fmt.Sprint(err)
	}); why != "" {
		t.Fatalf("full disks are answered %s, want %s", why, refusal)
	}
}

// TestSeparateDisks fills the disk of the log, and that of the state, where each has its own.
func TestSeparateDisks(t *testing.T) {
	e := prepare(t, ensemble.Options{DiskBytes: smallDiskBytes, LogDiskBytes: smallDiskBytes})
	for _, s := range e.Servers {
		awaitReserve(t, s, s.DataDir())
		awaitReserve(t, s, s.LogDir())
	}
	c := connect(t, e.Addrs()...)
	for _, which := range []struct {
		store string
		dir   func(s *ensemble.Server) string
	}{{"raftlog", (*ensemble.Server).LogDir}, {"state", (*ensemble.Server).DataDir}} {
		under := "/" + which.store
		before := write(t, c, under, 20, 100<<10)
		for _, s := range e.Servers {
			fillBeside(t, which.dir(s))
		}
		wantRefused(t, c)
		for _, s := range e.Servers {
			awaitLow(t, s, which.store)
		}
		removeAll(t, c, before[1:])
		alive(t, e)
		kill(e)
		wantAll(t, c, before[:1], 100<<10)
		for _, s := range e.Servers {
			freeBeside(t, which.dir(s))
		}
		awaitAmple(t, e)
		after := write(t, c, under+"-after", 20, 100<<10)
		wantAll(t, c, after, 100<<10)
		for _, s := range e.Servers {
			awaitReserve(t, s, which.dir(s))
		}
		alive(t, e)
	}
}
