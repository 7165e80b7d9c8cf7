package crashfs

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestSyncOfWhatWasWritten: after a crash a file has what was synced of it, however it was written.
func TestSyncOfWhatWasWritten(t *testing.T) {
	fs := New()
	file, err := fs.Create("log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if file.(*gated).held == nil {
		t.Fatal("MemFS holds files otherwise than it did")
	}
	other, err := fs.OpenReadWrite("log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		do   func() error
		left string
	}{
		{dir.Sync, ""},
		{func() error { _, err := file.Write([]byte("abc")); return err }, ""},
		{file.Sync, "abc"},
		{func() error { _, err := file.Write([]byte("def")); return err }, "abc"},
		{func() error { _, err := other.WriteAt([]byte("B"), 1); return err }, "abc"},
		{file.Sync, "aBcdef"},
		{func() error { _, err := file.Write([]byte("g")); return err }, "aBcdef"},
		{file.SyncData, "aBcdefg"},
		{func() error { _, err := other.WriteAt([]byte("C"), 2); return err }, "aBcdefg"},
		{func() error { _, err := other.Write([]byte("A")); return err }, "aBcdefg"},
		{other.Sync, "ABCdefg"},
	}
	for i, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		left, err := contents(fs.CrashClone(vfs.CrashCloneCfg{}).MemFS, "log")
		if err != nil || string(left) != step.left {
			t.Errorf("step %d: %q is left, want %q: %v", i, left, step.left, err)
		}
	}
}

// TestWhatIsLeftIsByItself: what the process that has ended still writes is not in what it has left, nor the other way,
// though they share the files.
func TestWhatIsLeftIsByItself(t *testing.T) {
	before := New()
	write(t, before, "synced", "content", true)
	write(t, before, "written", "content", false)
	open := func(fs *FS, name string) vfs.File {
		file, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	change := func(file vfs.File, b string) {
		_, err := file.WriteAt([]byte(b), 0)
		if err == nil {
			_, err = file.WriteAt([]byte(b), 9)
		}
		if err != nil {
			t.Error(err)
		}
	}
	files := map[string]vfs.File{}
	for _, name := range []string{"synced", "written"} {
		files[name] = open(before, name)
		change(files[name], "b")
	}
	var left *FS
	before.Still(func(mem *vfs.MemFS) {
		written, err := WrittenOf(mem)
		if err != nil {
			t.Fatal(err)
		}
		left = Of(written)
	})
	for name, file := range files { // order: each for itself
		change(file, "x")
		after := open(left, name)
		want := func(fs *FS, want string) {
			if is, err := contents(fs.MemFS, name); err != nil || string(is) != want {
				t.Errorf("%s is %q, want %q: %v", name, is, want, err)
			}
		}
		want(left, "bontent\x00\x00b")
		change(after, "l")
		want(before, "xontent\x00\x00x")
		want(left, "lontent\x00\x00l")
		want(left.CrashClone(vfs.CrashCloneCfg{}), "bontent\x00\x00b") // it was on the disk, and is synced
		if err := after.Sync(); err != nil {
			t.Error(err)
		}
		want(left.CrashClone(vfs.CrashCloneCfg{}), "lontent\x00\x00l")
		want(before, "xontent\x00\x00x")
	}
}

// TestSyncOfWhatIsWrittenOver: what a file has is on disk up to its last sync, though a sync copies what was changed
// alone, at whatever places it is written over and extended, and whoever looks at it meanwhile.
func TestSyncOfWhatIsWrittenOver(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		fs := New()
		write(t, fs, "log", "what it was before", true)
		if err := syncNames(fs.MemFS, ""); err != nil {
			t.Fatal(err)
		}
		file, err := fs.OpenReadWrite("log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		is, at := []byte("what it was before"), 0
		synced := slices.Clone(is)
		put := func(at int, b []byte) {
			is = append(is, make([]byte, max(0, at+len(b)-len(is)))...)
			copy(is[at:], b)
		}
		for range 30 {
			b := []byte(strconv.Itoa(random.IntN(1000)))
			switch random.IntN(8) {
			case 0, 1, 2:
				put(at, b)
				at += len(b)
				_, err = file.Write(b) // which may spoil b, as MemFS does with the race detector
			case 3, 4:
				place := random.IntN(len(is) + 3)
				put(place, b)
				_, err = file.WriteAt(b, int64(place))
			case 5, 6:
				err = file.Sync()
				synced = slices.Clone(is)
			case 7:
				fs.Still(func(*vfs.MemFS) {})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for want, percent := range map[string]int{string(synced): 0, string(is): 100} { // order: each by itself
			crash := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random}
			left, err := contents(fs.CrashClone(crash).MemFS, "log")
			if err != nil || string(left) != want {
				t.Fatalf("seed %d: %q is left, want %q: %v", seed, left, want, err)
			}
		}
	}
}
