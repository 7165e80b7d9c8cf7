package sim

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newDisk returns a disk that draws from a seed.
func newDisk(t *testing.T) *volume {
	t.Helper()
	return newVolume(rand.New(rand.NewPCG(1, 2)), 0) //nolint:gosec // a test repeats itself
}

// put writes a file and syncs it with its name.
func put(t *testing.T, fs vfs.FS, name, content string) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(file, content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

// get reads a file.
func get(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	file, err := fs.Open(name)
	if err != nil {
		return err.Error()
	}
	defer file.Close() //nolint:errcheck // it is read only
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// sectors is a content of so many sectors of one letter.
func sectors(n int, letter string) string { return string(bytes.Repeat([]byte(letter), n*512)) }

// TestALyingDiskKeepsWhatItHadBefore: what was synced on a disk that lies is there after a kill and after a power cut,
// until what it has lied about is lost.
func TestALyingDiskKeepsWhatItHadBefore(t *testing.T) {
	v := newDisk(t)
	m := v.open()
	put(t, m, "a", "before")
	v.lie()
	put(t, m, "a", "after")
	put(t, m, "b", "new")
	for _, power := range []bool{false, true} {
		v.crash(power)
		if m = v.open(); get(t, m, "a") != "after" {
			t.Errorf("the disk has lost what it lied about; power: %v", power)
		}
	}
	v.crash(true)
	v.lose(true)
	m = v.open()
	if got := get(t, m, "a"); got != "before" {
		t.Errorf("what was synced on a disk that lies is there: %q", got)
	}
	if _, err := m.Stat("b"); err == nil {
		t.Error("a file that was made on a disk that lies is there")
	}
	put(t, m, "a", "honest")
	v.crash(true)
	if got := get(t, v.open(), "a"); got != "honest" {
		t.Errorf("the disk goes on lying: %q", got)
	}
}

func TestARestoredDiskIsWhatItWas(t *testing.T) {
	v := newDisk(t)
	m := v.open()
	put(t, m, "a", "before")
	copied := v.copied()
	put(t, m, "a", "after")
	v.crash(false)
	v.restore(copied)
	if got := get(t, v.open(), "a"); got != "before" {
		t.Errorf("it holds %q", got)
	}
}

// TestAStrayWriteIsReadElsewhere: a write that goes astray is not where it belongs, and over some of another file.
func TestAStrayWriteIsReadElsewhere(t *testing.T) {
	v := newDisk(t)
	m := v.open()
	put(t, m, "other", sectors(4, "o"))
	put(t, m, "SYNCED", sectors(4, "s"))
	var told string
	v.single(diskFault{stray: &stray{after: 1, tell: func(what string) { told = what }}})
	file, err := m.Create("/1.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range []string{"1", "2", "3"} {
		if _, err := io.WriteString(file, sectors(1, letter)); err != nil {
			t.Fatal(err)
		}
		if v.hasCome() != (letter != "1") {
			t.Errorf("after write %s: has come: %v", letter, v.hasCome())
		}
	}
	if got, want := get(t, m, "/1.log"), sectors(1, "1")+sectors(1, "\x00")+sectors(1, "3"); got != want {
		t.Error("it is where it belongs")
	}
	if got := get(t, m, "other"); len(got) != 4*512 || bytes.Count([]byte(got), []byte("2")) != 512 {
		t.Error("it is not over a sector of the other file")
	}
	if get(t, m, "SYNCED") != sectors(4, "s") || told == "" {
		t.Errorf("it was told: %q", told)
	}
	v.crash(true)
	if got := get(t, v.open(), "/1.log"); len(got) != 3*512 {
		t.Error("the power has taken from a disk that has misdirected a write")
	}
}

// TestTheLastWriteToALogGoesAstray: what is written behind it waits until the disk is mended.
func TestTheLastWriteToALogGoesAstray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newDisk(t)
		m := v.open()
		put(t, m, "other", sectors(1, "o"))
		v.single(diskFault{stray: &stray{last: true, tell: func(string) {}}})
		put(t, m, "1.log", "lost")
		done := make(chan struct{})
		go func() {
			defer close(done)
			put(t, m, "2.log", "behind it")
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("another write to a log was done")
		default:
		}
		if a, b := get(t, m, "1.log"), get(t, m, "other"); a != "\x00\x00\x00\x00" || b != sectors(1, "o") {
			t.Errorf("the log holds %q", a)
		}
		v.set(diskFault{})
		<-done
	})
}

// TestStaleReads: one process reads some sectors as they were, or as zeros; the next one reads what is there.
func TestStaleReads(t *testing.T) {
	v := newDisk(t)
	m := v.open()
	put(t, m, "a", sectors(2, "b"))
	copied := v.copied()
	put(t, m, "a", sectors(4, "a"))
	v.crash(false)
	v.reading = &staleness{before: copied, one: 2, tell: func(string) {}}
	m = v.open()
	was, zeros, right := 0, 0, 0
	for range 200 {
		switch got := []byte(get(t, m, "a")); {
		case len(got) != 4*512:
			t.Fatalf("%d bytes", len(got))
		case bytes.Count(got, []byte("b")) > 0:
			was++
		case bytes.Count(got, []byte("\x00")) > 0:
			zeros++
		default:
			right++
		}
	}
	if was == 0 || zeros == 0 || right == 0 {
		t.Errorf("%d reads had what was there, %d had zeros, %d were right", was, zeros, right)
	}
	v.crash(false)
	if m = v.open(); get(t, m, "a") != sectors(4, "a") {
		t.Error("the next process does not read what is there")
	}
}

// TestASingleOperationFails: the one that was named, and none before or after it.
func TestASingleOperationFails(t *testing.T) {
	v := newDisk(t)
	m := v.open()
	v.single(diskFault{trip: &Trip{Op: Sync, Of: Table, After: 1}})
	for n, want := range []error{nil, syscall.EIO, nil} {
		put(t, m, "1.log", "log")
		file, err := m.Create("1.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Sync(); !errors.Is(err, want) {
			t.Errorf("sync %d: %v, want %v", n, err, want)
		}
		if v.hasCome() != (n > 0) {
			t.Errorf("after sync %d: has come: %v", n, v.hasCome())
		}
	}
}

// TestASingleOperationStalls: until the disk is mended; others are done meanwhile.
func TestASingleOperationStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newDisk(t)
		m := v.open()
		put(t, m, "1.sst", "table")
		v.single(diskFault{trip: &Trip{Op: Remove, Of: Table, Stalls: true}})
		began, done := time.Now(), make(chan time.Duration, 1)
		go func() {
			err := m.Remove("1.sst")
			if err != nil {
				t.Error(err)
			}
			done <- time.Since(began)
		}()
		synctest.Wait()
		put(t, m, "2.sst", "table")
		if err := m.Remove("2.sst"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		v.set(diskFault{})
		if took := <-done; took != time.Hour {
			t.Errorf("it has stalled for %v", took)
		}
	})
}

func TestClassesOfFiles(t *testing.T) {
	for name, want := range map[string]Class{ // order: each for itself
		"/data/raftlog/000012.log": Log, "/data/state/000012.sst": Table, "/data/state/MANIFEST-000001": Manifest,
		"/data/state/marker.manifest.000001.MANIFEST-000001": Marker, "/data/raftlog/SYNCED": Mark,
		"/data/raftlog": Directory, "/data/state": Directory, "/data/ZKD-FORMAT": other,
		"/data/zkd.pid": other, "/data/state/OPTIONS-000003": other,
	} {
		if got := classOf(name); got != want {
			t.Errorf("%s is a %s, want %s", name, got, want)
		}
	}
}
