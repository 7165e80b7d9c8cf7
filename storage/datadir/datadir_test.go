package datadir

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/storage/crashfs"
	"zkd/storage/disk"
	"zkd/storage/raftlog"
	"zkd/storage/raftlog/logtest"
)

func testDataDirOptions(fs vfs.FS, dir, logDir string) Options {
	return Options{Dir: dir, LogDir: logDir, FS: fs, Logger: slog.New(slog.DiscardHandler)}
}

func openTestDataDir(t testing.TB, fs vfs.FS, dir, logDir string) *Dir {
	t.Helper()
	d, err := Open(testDataDirOptions(fs, dir, logDir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // closing twice is allowed
	return d
}

func TestDataDirOpensItsOwn(t *testing.T) {
	for _, logDir := range []string{"", "elsewhere/logs"} {
		fs := vfs.NewMem()
		for range 3 {
			d := openTestDataDir(t, fs, "a/b/data", logDir)
			for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
				if info, err := fs.Stat(dir); err != nil || !info.IsDir() {
					t.Fatalf("%s: %v", dir, err)
				}
			}
			l := logtest.Open(t, fs, d.RaftLogDir())
			if err := errors.Join(disk.WriteFile(fs, d.StateDir()+"/x", "y"), l.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDataDirRefusals(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(fs vfs.FS) error
		logDir  string
		want    []string
	}{
		{"apache zookeeper data", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data/version-2", 0o755),
				disk.WriteFile(fs, "data/version-2/snapshot.0", ""))
		}, "",
			[]string{"data", "Apache ZooKeeper", "another dataDir"}},
		{"apache zookeeper logs", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("logs/version-2", 0o755), disk.WriteFile(fs, "logs/version-2/log.1", ""))
		}, "logs",
			[]string{"logs", "Apache ZooKeeper"}},
		{"a file", func(fs vfs.FS) error { return disk.WriteFile(fs, "data", "") }, "",
			[]string{"data", "it is a file"}},
		{"newer format", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data", 0o755), disk.WriteFile(fs, "data/ZKD-FORMAT", formatLine(7)))
		}, "", []string{"newer zkd wrote it", "format 7", "knows 1"}},
		{"damaged format", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data", 0o755),
				disk.WriteFile(fs, "data/ZKD-FORMAT", "zkd data directory, fromat 1\n"))
		}, "", []string{"ZKD-FORMAT is damaged", "fromat"}},
		{"empty format", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data", 0o755), disk.WriteFile(fs, "data/ZKD-FORMAT", ""))
		}, "", []string{"ZKD-FORMAT is damaged"}},
		{"lost format", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data/raftlog", 0o755), disk.WriteFile(fs, "data/raftlog/000001.log", ""))
		}, "", []string{"it has raftlog but no file ZKD-FORMAT"}},
		{"state without raft log", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data/state", 0o755), disk.WriteFile(fs, "data/state/MANIFEST-1", ""),
				disk.WriteFile(fs, "data/ZKD-FORMAT", formatLine(1)))
		}, "logs", []string{"it has a state", "no raft log in logs/raftlog", "dataLogDir"}},
		{"raft log left behind", func(fs vfs.FS) error {
			return errors.Join(fs.MkdirAll("data/raftlog", 0o755), disk.WriteFile(fs, "data/raftlog/MANIFEST-1", ""),
				disk.WriteFile(fs, "data/ZKD-FORMAT", formatLine(1)))
		}, "logs", []string{"raft log of its own", "dataLogDir is logs"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fs := vfs.NewMem()
			if err := test.prepare(fs); err != nil {
				t.Fatal(err)
			}
			_, err := Open(testDataDirOptions(fs, "data", test.logDir))
			if !errors.Is(err, ErrDataDir) {
				t.Fatalf("got %v, want ErrDataDir", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

// TestDataDirTakesWhatApacheHasPrepared opens directories as zkServer-initialize.sh, packages and images make them, and
// as a server leaves them that never came to serve.
func TestDataDirTakesWhatApacheHasPrepared(t *testing.T) {
	fs := vfs.NewMem()
	for _, dir := range []string{"data", "logs"} {
		if err := fs.MkdirAll(dir+"/version-2", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"initialize", "myid", "version-2/acceptedEpoch", "version-2/currentEpoch"} {
		if err := disk.WriteFile(fs, "data/"+name, "1\n"); err != nil {
			t.Fatal(err)
		}
	}
	if ImportPending(fs, "data", "logs") {
		t.Error("an import is pending of a directory without data")
	}
	if err := openTestDataDir(t, fs, "data", "logs").Close(); err != nil {
		t.Fatal(err)
	}
}

// TestImportPending looks at directories of which the one or the other holds data.
func TestImportPending(t *testing.T) {
	for _, file := range []string{"data/version-2/snapshot.0", "logs/version-2/log.100000001"} {
		fs := vfs.NewMem()
		err := errors.Join(fs.MkdirAll("data/version-2", 0o755), fs.MkdirAll("logs/version-2", 0o755),
			disk.WriteFile(fs, file, ""))
		if err != nil {
			t.Fatal(err)
		}
		if !ImportPending(fs, "data", "logs") {
			t.Errorf("no import is pending beside %s", file)
		}
	}
}

func TestDataDirTakesMyid(t *testing.T) {
	fs := vfs.NewMem()
	if err := errors.Join(fs.MkdirAll("data", 0o755), disk.WriteFile(fs, "data/myid", "1\n")); err != nil {
		t.Fatal(err)
	}
	openTestDataDir(t, fs, "data", "")
}

func TestDataDirLockedByThisProcess(t *testing.T) {
	for _, fs := range []vfs.FS{vfs.NewMem(), vfs.Default} {
		dir := t.TempDir()
		d := openTestDataDir(t, fs, dir, "")
		_, err := Open(testDataDirOptions(fs, dir, ""))
		want := fmt.Sprintf("%s: another zkd is running on it (process %d)", dir, os.Getpid())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		openTestDataDir(t, fs, dir, "")
	}
}

func TestDataDirFailuresNameTheRemedy(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{syscall.EACCES, "make it writable for user id"},
		{syscall.EROFS, "read-only"},
		{syscall.ENOSPC, "disk is full"},
		{syscall.EIO, "disk is healthy"},
	}
	for _, test := range tests {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpMkdirAll {
				return &os.PathError{Op: "mkdir", Path: op.Path, Err: test.err}
			}
			return nil
		}))
		_, err := Open(testDataDirOptions(fs, "data", ""))
		if !errors.Is(err, ErrDataDir) || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.err, err, test.want)
		}
	}
}

// TestDataDirFirstStartSurvivesACrash crashes the first start at each of its disk operations, with all, none or some
// of the un-synced bytes and names kept: the next start opens the directory by itself.
func TestDataDirFirstStartSurvivesACrash(t *testing.T) {
	for n := int64(0); n < 120; n++ {
		for _, percent := range []int{0, 50, 100} {
			disk := vfs.NewCrashableMem()
			var countdown atomic.Int64
			countdown.Store(n)
			faulty := crashfs.FaultAt(disk, &countdown, syscall.EIO)
			if d, err := Open(testDataDirOptions(faulty, "data", "logs")); err == nil {
				if l, err := raftlog.Open(logtest.Options(faulty, d.RaftLogDir())); err == nil {
					_ = l.Close() // may fail by design
				}
				_ = d.Close() // may fail by design
			}
			clone := disk.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(n), 7)),
			})
			d, err := Open(testDataDirOptions(clone, "data", "logs"))
			if err != nil {
				t.Fatalf("crash at operation %d, %d%% kept: %v", n, percent, err)
			}
			l := logtest.Open(t, clone, d.RaftLogDir())
			logtest.Append(t, l, 1, 10)
			if err := errors.Join(l.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
