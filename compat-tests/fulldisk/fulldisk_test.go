package fulldisk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// Sizes of the file systems and of what is written. Small ones keep the test short; what zkd keeps in reserve scales.
const (
	smallDiskBytes = 96 << 20
	within         = 90 * time.Second
)

// silent keeps go-zookeeper quiet.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// sizeEnv names the size of the file systems in MiB; with it the tests take their long forms (make fulldisk).
const sizeEnv = "ZKD_FULLDISK_MIB"

// sizeGiven is what sizeEnv says, in bytes; 0: nothing.
func sizeGiven(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv(sizeEnv)
	if text == "" {
		return 0
	}
	mib, err := strconv.ParseInt(text, 10, 32)
	if err != nil || mib <= 0 {
		t.Fatalf("%s is %q: give a number of MiB", sizeEnv, text)
	}
	return mib << 20
}

func TestMain(m *testing.M) { os.Exit(target.Main(m, "fulldisk")) }

// diskBytes is the size of the file systems.
func diskBytes(t *testing.T) int64 {
	t.Helper()
	return cmp.Or(sizeGiven(t), smallDiskBytes)
}

// rounds is how often is removed and written anew.
func rounds(t *testing.T) int {
	t.Helper()
	if sizeGiven(t) == 0 {
		return 1
	}
	return 4
}

// prepare starts servers that have disks of their own, three if nothing else is asked for.
func prepare(t *testing.T, o ensemble.Options) *ensemble.Ensemble {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given")
	}
	if target.Selected(t) != target.Zkd {
		t.Skip("Apache ZooKeeper does not survive this")
	}
	if err := ensemble.Mountable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	o.Config = map[string]string{
		"tickTime": "500", "initLimit": "20", "syncLimit": "10", "4lw.commands.whitelist": "*",
	}
	return ensemble.Start(t, o)
}

// reserve is the file that a server keeps in a directory.
const reserve = "ZKD-RESERVE"

// usedBytes is what a server has on its disk, without the reserve.
func usedBytes(t *testing.T, s *ensemble.Server) int64 {
	t.Helper()
	var usage syscall.Statfs_t
	if err := syscall.Statfs(s.DataDir(), &usage); err != nil {
		t.Fatal(err)
	}
	bytes := int64(usage.Blocks-usage.Bfree) * usage.Bsize
	if info, err := os.Stat(filepath.Join(s.DataDir(), reserve)); err == nil {
		bytes -= info.Size()
	}
	return bytes
}

// monitored is a figure of mntr, -1 if it is not there.
func monitored(s *ensemble.Server, name string) int64 {
	answer, err := s.FourLetterWord("mntr")
	if err != nil {
		return -1
	}
	_, rest, found := strings.Cut(answer, "zk_"+name+"\t")
	if !found {
		return -1
	}
	line, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return -1
	}
	return value
}

// levelLow is what mntr says of a disk that is low.
const levelLow = 2

// awaitLow returns once a server says that the disk of a store is low, or worse.
func awaitLow(t *testing.T, s *ensemble.Server, store string) {
	t.Helper()
	if why := ensemble.Await(within, func() (bool, string) {
		level := monitored(s, store+"_zkd_disk_level")
		return level >= levelLow, fmt.Sprintf("the level of the %s of server %d is %d", store, s.ID, level)
	}); why != "" {
		t.Fatalf("after %v: %s", within, why)
	}
}

// awaitReserve returns once a server has its reserve in a directory.
func awaitReserve(t *testing.T, s *ensemble.Server, dir string) {
	t.Helper()
	if why := ensemble.Await(within, func() (bool, string) {
		info, err := os.Stat(filepath.Join(dir, reserve))
		return err == nil && info.Size() > 0, fmt.Sprint(err)
	}); why != "" {
		t.Fatalf("server %d has no reserve after %v: %s", s.ID, within, why)
	}
}

// refusal is what a write that grows is answered when the disks are full; go-zookeeper has no name for it.
const refusal = "unknown error: -1"

// refused tells whether err is the refusal.
func refused(err error) bool { return err != nil && err.Error() == refusal }

// awaitAmple returns once all servers have their reserves, and say that there is room.
func awaitAmple(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	for _, s := range e.Servers {
		awaitReserve(t, s, s.DataDir())
	}
	if why := ensemble.Await(within, func() (bool, string) {
		for _, s := range e.Servers {
			if level := monitored(s, "zkd_low_space"); level != 0 {
				return false, fmt.Sprintf("zkd_low_space of server %d is %d", s.ID, level)
			}
		}
		return true, ""
	}); why != "" {
		t.Fatalf("after %v: %s", within, why)
	}
}

// connect returns a client of the servers that ends with the test.
func connect(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// again tells whether a call that failed with err is to be made once more: its connection broke, the server did not
// serve then, or that took so long that the client has begun another session.
func again(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrSessionExpired)
}

// persist calls do until it answers something else than that the connection broke.
func persist(t *testing.T, what string, do func() error) error {
	t.Helper()
	var last error
	if why := ensemble.Await(within, func() (bool, string) {
		last = do()
		return !again(last), fmt.Sprint(last)
	}); why != "" {
		t.Fatalf("%s: after %v: %s", what, within, why)
	}
	return last
}

// alive fails the test if a server has ended.
func alive(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	for _, s := range e.Servers {
		if !s.Running() {
			t.Fatalf("server %d has ended; the end of its log:\n%s", s.ID, s.LogTail(20))
		}
	}
}

// readsMax bounds how many znodes wantAll reads.
const readsMax = 2000

// wantAll fails the test unless each znode is there with its data; of many some are looked at, the last in any case.
func wantAll(t *testing.T, c *zk.Conn, paths []string, bytes int) {
	t.Helper()
	step := max(len(paths)/readsMax, 1)
	for n := len(paths) - 1; n >= 0; n -= step {
		var data []byte
		err := persist(t, "read", func() (err error) {
			data, _, err = c.Get(paths[n])
			return err
		})
		if err != nil || len(data) != bytes {
			t.Fatalf("read %s, which was acknowledged: %d bytes, %v", paths[n], len(data), err)
		}
	}
}

// removeAll removes znodes.
func removeAll(t *testing.T, c *zk.Conn, paths []string) {
	t.Helper()
	for batch := range slices.Chunk(paths, 100) {
		var deletes []any
		for _, path := range batch {
			deletes = append(deletes, &zk.DeleteRequest{Path: path, Version: -1})
		}
		err := persist(t, "remove", func() error {
			_, err := c.Multi(deletes...)
			if errors.Is(err, zk.ErrNoNode) { // the attempt before, whose reply was lost
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatalf("remove %s from a full disk: %v", batch[0], err)
		}
	}
}

// awaitRoom makes one znode, trying until it is taken.
func awaitRoom(t *testing.T, c *zk.Conn, path string, bytes int) {
	t.Helper()
	if why := ensemble.Await(within, func() (bool, string) {
		_, err := c.Create(path, make([]byte, bytes), 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists), fmt.Sprint(err)
	}); why != "" {
		t.Fatalf("write after room was made: after %v: %s", within, why)
	}
}
