package firstweek

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
)

// fill takes most, and then all, of the disk of a server that follows, and gives it back.
func (w *week) fill(t *testing.T) {
	w.awaitInSync(t, 2)
	full := w.e.Followers()[0]
	for _, c := range []struct {
		left int64
		line string
	}{
		// Below 15 percent, also when the log has given up its two files that were made ahead, a 128th of the disk
		// each.
		{diskBytes * 13 / 100, "disk space warning"},
		{64 << 10, "disk reserve released: disk full"},
	} {
		take(t, full, c.left)
		awaitLine(t, full, c.line)
		w.status(t)
		w.command(t, "check", full.ConfigPath())
	}
	full.Stop()
	w.command(t, "check", full.ConfigPath())
	full.Launch()
	c := connect(t, w.e.AwaitLeader().Addr)
	persist(t, func() error {
		_, err := c.Set("/week", []byte("beside a full disk"), -1)
		return err
	})
	w.e.AwaitServing(full)
	must(t, os.Remove(filepath.Join(full.DataDir(), beside)))
	await(t, func() (bool, string) { // it has room again, and takes its reserve
		info, err := os.Stat(filepath.Join(full.DataDir(), "ZKD-RESERVE"))
		return err == nil && info.Size() > 0, fmt.Sprint(err)
	})
	w.e.AwaitServing(full)
	w.awaitInSync(t, 2)
	_, err := c.Create("/week/end", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	w.status(t)
	w.noRoom(t)
}

// noRoom has a server begin where nothing at all is free.
func (w *week) noRoom(t *testing.T) {
	none := t.TempDir()
	ensemble.MountDisk(t, none, 32<<10)
	w.names[none] = "NOROOM"
	settings := []string{
		"--data-dir", none, "--set", fmt.Sprintf("clientPort=%d", w.port(t, "CLIENT")),
		"--set", "clientPortAddress=127.0.0.1", "--set", "admin.enableServer=false",
	}
	for _, command := range []string{"check", "serve"} {
		w.command(t, append([]string{command}, settings...)...)
	}
}

// beside is the file of something that is no zkd.
const beside = "beside"

// take has something that is no zkd take what is free on a server's disk but for some bytes.
func take(t *testing.T, s *ensemble.Server, left int64) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(s.DataDir(), beside), os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer file.Close() //nolint:errcheck // its content means nothing
	persist(t, func() error {
		var usage syscall.Statfs_t
		if err := syscall.Statfs(s.DataDir(), &usage); err != nil {
			return err
		}
		info, err := file.Stat()
		if err != nil {
			return err
		}
		return syscall.Fallocate(int(file.Fd()), 0, info.Size(), int64(usage.Bavail)*usage.Bsize-left)
	})
}

// awaitLine waits until a server has logged a message.
func awaitLine(t *testing.T, s *ensemble.Server, message string) {
	t.Helper()
	await(t, func() (bool, string) {
		return strings.Contains(s.Log(), fmt.Sprintf("msg=%q", message)), s.LogTail(20)
	})
}
