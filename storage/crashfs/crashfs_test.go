package crashfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// write makes a file with a content, synced or not.
func write(t *testing.T, fs vfs.FS, name, content string, sync bool) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := io.WriteString(file, content); err != nil {
		t.Error(err)
	}
	if sync {
		if err := file.Sync(); err != nil {
			t.Error(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

// syncDir syncs the root.
func syncDir(t *testing.T, fs vfs.FS) {
	t.Helper()
	dir, err := fs.OpenDir("/")
	if err != nil {
		t.Error(err)
		return
	}
	if err := dir.Sync(); err != nil {
		t.Error(err)
	}
}

func TestACrashTakesWhatWasNotSynced(t *testing.T) {
	fs := New()
	write(t, fs, "synced", "old", true)
	syncDir(t, fs)
	write(t, fs, "lost", "new", true) // its name is not
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if _, err := left.Stat("synced"); err != nil {
		t.Error(err)
	}
	if _, err := left.Stat("lost"); err == nil {
		t.Error("a name that was not synced is there")
	}
	if _, err := fs.Stat("lost"); err != nil {
		t.Errorf("the file system has changed with its crash: %v", err)
	}
}

// TestCrashesAmongWriters crashes while others write, rename and remove: vfs.MemFS alone stands still after some.
func TestCrashesAmongWriters(t *testing.T) {
	fs := New()
	done := make(chan struct{})
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				name := fmt.Sprintf("file-%d-%d", n, i%3)
				write(t, fs, name, "content", i%2 == 0)
				if err := fs.Rename(name, name+"-new"); err != nil {
					t.Error(err)
				}
				if err := fs.Link(name+"-new", name+"-link"); err != nil {
					t.Error(err)
				}
				syncDir(t, fs)
				if err := fs.Remove(name + "-link"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		if _, err := left.List("/"); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	writers.Wait()
}

func TestHooksSeeSyncsAndRenames(t *testing.T) {
	var synced, renamed []string
	fs := New()
	fs.OnSync = func(name string) bool { synced = append(synced, name); return name != "lies" }
	fs.OnRename = func(from, to string) { renamed = append(renamed, from, to) }
	write(t, fs, "true", "content", true)
	write(t, fs, "lies", "content", true)
	if err := fs.Rename("true", "renamed"); err != nil {
		t.Fatal(err)
	}
	syncDir(t, fs)
	if fmt.Sprint(synced, renamed) != "[true lies /] [true renamed]" {
		t.Errorf("synced %v, renamed %v", synced, renamed)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	for name, want := range map[string]int64{"renamed": 7, "lies": 0} { // order: each for itself
		if info, err := left.Stat(name); err != nil || info.Size() != want {
			t.Errorf("%s: %v, %v, want %d bytes", name, info, err, want)
		}
	}
}

// TestARenamedDirectoryComesWhole renames a directory whose files were synced, and whose own name was or was not: a
// power cut leaves it under one of its names, or none, but never in parts.
func TestARenamedDirectoryComesWhole(t *testing.T) {
	const files = 20
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("the old name is synced: %v", named), func(t *testing.T) {
			came := map[string]int{}
			for seed := range uint64(40) {
				mem := vfs.NewCrashableMem()
				if err := mem.MkdirAll("from", 0o750); err != nil {
					t.Fatal(err)
				}
				for i := range files {
					write(t, mem, fmt.Sprintf("from/file-%d.%d", i, i), "content", true)
				}
				if err := syncNames(mem, "from"); err != nil {
					t.Fatal(err)
				}
				if named {
					syncDir(t, mem)
				}
				if err := mem.Rename("from", "to"); err != nil {
					t.Fatal(err)
				}
				write(t, mem, "to/later.x", "content", false)
				moment, err := MomentOf(mem, map[string]string{"/to": "/from", "/gone": "/to"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := moment.Tear(seed, nil); err != nil {
					t.Fatal(err)
				}
				names, err := moment.Synced.List("/")
				if err != nil || len(names) > 1 || named && len(names) == 0 {
					t.Fatalf("seed %d: left are %v, %v", seed, names, err)
				}
				for _, name := range names {
					came[name]++
					for i := range files {
						info, err := moment.Synced.Stat(fmt.Sprintf("%s/file-%d.%d", name, i, i))
						if err != nil || info.Size() != int64(len("content")) {
							t.Fatalf("seed %d: %s is not whole: %v, %v", seed, name, info, err)
						}
					}
				}
			}
			if came["to"] == 0 || came["to"] == 40 || named != (came["from"] > 0) {
				t.Errorf("left were %v", came)
			}
		})
	}
}
