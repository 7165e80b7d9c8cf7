package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs/powercut"
)

// goOn lets a reading go on.
func goOn() error { return nil }

// on returns a file system with the checkpoint in a directory.
func (c *checkpointFiles) on(t *testing.T, dir string) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range c.files { // any order
		writeWhole(t, fs, fs.PathJoin(dir, name), content)
	}
	return fs
}

// writeWhole makes a file.
func writeWhole(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Clone(content))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestVerify damages the files of a checkpoint one after the other: no damage passes for a whole state, none ends the
// process, and nothing is changed.
func TestVerify(t *testing.T) {
	c := makeCheckpoint(t, installEntries)
	fs := c.on(t, "copy")
	got, err := Verify(fs, "copy", discardLogger(), goOn)
	if err != nil || got.Index != c.index || got.Term != c.term {
		t.Fatalf("%+v, %v", got, err)
	}
	if names := powercut.ListSorted(fs, "copy"); len(names) != len(c.files) {
		t.Errorf("%d files were there, now %q", len(c.files), names)
	}
	harmless := 0
	for name, content := range c.files { // order: each damage is alone
		for what, damaged := range map[string][]byte{ // likewise
			"zeros": make([]byte, len(content)+1), "nothing": nil, "half": content[:len(content)/2],
			"turned": turned(content),
		} {
			if bytes.Equal(damaged, content) {
				continue
			}
			fs := c.on(t, "copy")
			writeWhole(t, fs, fs.PathJoin("copy", name), damaged)
			got, err := Verify(fs, "copy", discardLogger(), goOn)
			if err != nil {
				continue
			}
			harmless++
			if got.Index != c.index || got.Term != c.term {
				t.Errorf("%s of %s: verified as %+v", what, name, got)
			}
			m, err := OpenMachine(MachineOptions{Dir: "copy", FS: fs})
			if err != nil {
				t.Fatalf("%s of %s: verified, and does not open: %v", what, name, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if harmless > 2*len(c.files) {
		t.Errorf("%d damages of %d files are not found", harmless, len(c.files))
	}
}

// turned returns content with a bit turned in its middle.
func turned(content []byte) []byte {
	b := bytes.Clone(content)
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
	return b
}

// TestInstallOfZerosGoesBack begins, as a server of before that verified nothing did, the install of a snapshot that is
// one file of zeros, with the power cut at every operation of the start after it: each start has the state before, and
// goes on with it.
func TestInstallOfZerosGoesBack(t *testing.T) {
	zeros := &checkpointFiles{files: map[string][]byte{"000001.sst": make([]byte, 1<<10)}, index: 1 << 40, term: 7}
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprintf("moved %v", moved), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			acked := beginInstall(t, fs, zeros, moved)
			c := powercut.New(fs, 5, 0, 50)
			c.LooksAt = func(int) bool { return !testing.Short() || c.Random.IntN(4) == 0 }
			c.Acknowledge(acked)
			s, err := openStores(c.FS(), "")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.checkWhole(acked, zeros.index), s.close()); err != nil {
				t.Fatal(err)
			}
			for i := range c.Points {
				if err := checkInstalled(&c.Points[i], zeros, ""); err != nil {
					t.Fatalf("%s: %v", &c.Points[i], err)
				}
			}
			t.Logf("%d points", len(c.Points))
		})
	}
}

// beginInstall writes entries, stages a state and notes that its install is under way; moved says that it has taken the
// place of the one before already. It returns the last entry written.
func beginInstall(t *testing.T, fs *vfs.MemFS, from *checkpointFiles, moved bool) uint64 {
	t.Helper()
	s, err := openStores(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	var acked uint64
	for range 3 {
		if acked, err = s.write(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.machine.Flush(context.Background()), s.stage(fs, from), s.mark(from)); err != nil {
		t.Fatal(err)
	}
	staged, state := s.dir.StagingDir(), s.dir.StateDir()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if moved {
		if err := errors.Join(fs.Rename(state, state+".replaced"), fs.Rename(staged, state)); err != nil {
			t.Fatal(err)
		}
		data, err := fs.OpenDir("data")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(data.Sync(), data.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return acked
}
