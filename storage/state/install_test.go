package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs/powercut"
	"zkd/storage/datadir"
	"zkd/storage/disk"
)

// installingMeta is the blob that says in the raft log that an install is under way; it holds index and term of the
// checkpoint.
const installingMeta = "installing"

// installEntries is how many entries the checkpoint that the tests install holds: what the receiver has, and more.
const installEntries = 12

// checkpointFiles are the files of a checkpoint, by name, and the entry it ends with.
type checkpointFiles struct {
	files       map[string][]byte
	index, term uint64
}

// makeCheckpoint makes the checkpoint of a server that has written so many entries.
func makeCheckpoint(t testing.TB, entries int) *checkpointFiles {
	t.Helper()
	fs := vfs.NewMem()
	s, err := openStores(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	for range entries {
		if _, err := s.write(); err != nil {
			t.Fatal(err)
		}
	}
	c := &checkpointFiles{files: make(map[string][]byte)}
	if c.index, c.term, err = s.machine.Checkpoint(context.Background(), "copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range powercut.ListSorted(fs, "copy") {
		if c.files[fs.PathBase(path)], err = fs.UnsafeGetFileDataBuffer(path); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// stage puts the checkpoint where a receiver does, durably.
func (s *stores) stage(fs vfs.FS, c *checkpointFiles) error {
	dir := s.dir.StagingDir()
	if err := fs.MkdirAll(dir, disk.DirPerm); err != nil {
		return err
	}
	names := slices.Clone(datadir.StagedMarks[:])
	for name := range c.files { // sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := disk.WriteFile(fs, fs.PathJoin(dir, name), string(c.files[name])); err != nil {
			return err
		}
	}
	return errors.Join(disk.SyncDir(fs, dir), disk.SyncDir(fs, fs.PathDir(dir)))
}

// install replaces the state by the staged checkpoint, as a server does.
func (s *stores) install(c *checkpointFiles, committed func()) error {
	if err := s.mark(c); err != nil {
		return err
	}
	mark, _ := s.log.Meta(installingMeta)
	committed()
	if err := s.machine.Install(s.dir.StagingDir()); err != nil {
		return err
	}
	return s.installLog(mark)
}

// mark writes that the install of a checkpoint is under way.
func (s *stores) mark(c *checkpointFiles) error {
	mark := binary.BigEndian.AppendUint64(nil, c.index)
	return s.log.SetMeta(installingMeta, binary.BigEndian.AppendUint64(mark, c.term))
}

// fits tells what is wrong with a state whose install is marked as under way.
func (s *stores) fits(mark []byte) func(dir string) error {
	return func(dir string) error {
		found, err := Verify(s.dir.Opts.FS, dir, s.dir.Opts.Logger, func() error { return nil })
		if err == nil && (found.Index != binary.BigEndian.Uint64(mark) ||
			found.Term != binary.BigEndian.Uint64(mark[8:])) {
			err = fmt.Errorf("the state ends at entry %d of term %d", found.Index, found.Term)
		}
		return err
	}
}

// installLog makes the log fit the checkpoint that was installed.
func (s *stores) installLog(mark []byte) error {
	index, term := binary.BigEndian.Uint64(mark), binary.BigEndian.Uint64(mark[8:])
	meta := map[string][]byte{installingMeta: nil, "members": []byte("m")}
	return s.log.Install(index, term, []byte("installed"), meta)
}

// runInstall starts on the disk, writes entries, installs the checkpoint, writes another entry, and stops.
func runInstall(c *powercut.Disk, from *checkpointFiles, logDir string) error {
	s, err := openStores(c.FS(), logDir)
	if err != nil {
		return err
	}
	if err := s.runInstall(c, from); err != nil {
		return errors.Join(err, s.close())
	}
	return errors.Join(s.close(), c.Do("nothing", func() error { return nil }))
}

func (s *stores) runInstall(c *powercut.Disk, from *checkpointFiles) error {
	for range 2 {
		index, err := s.write()
		if err != nil {
			return err
		}
		c.Acknowledge(index)
	}
	if err := s.machine.Flush(context.Background()); err != nil {
		return err
	}
	index, err := s.write()
	if err != nil {
		return err
	}
	c.Acknowledge(index)
	if err := s.stage(c.FS(), from); err != nil {
		return err
	}
	if err := s.install(from, func() { c.Acknowledge(from.index) }); err != nil {
		return err
	}
	if index, err = s.write(); err != nil {
		return err
	}
	c.Acknowledge(index)
	return nil
}

// checkInstalled starts from what a crash left: the state is the one before the install or the checkpoint's, whole,
// the log goes on where the state ends, and nothing is left over.
func checkInstalled(p *powercut.Point, from *checkpointFiles, logDir string) error {
	s, err := openStores(p.Left, logDir)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	if err := s.checkWhole(p.Acked, from.index); err != nil {
		return errors.Join(err, s.close())
	}
	index, err := s.write()
	if err != nil {
		return errors.Join(err, s.close())
	}
	left := p.Left.CrashClone(vfs.CrashCloneCfg{})
	if err := s.close(); err != nil {
		return err
	}
	if s, err = openStores(left, logDir); err != nil {
		return fmt.Errorf("refused after another crash: %w", err)
	}
	return errors.Join(s.checkWhole(index, from.index), s.close())
}

// checkWhole checks that the state holds the entries up to the applied index and no other, as does the log.
func (s *stores) checkWhole(acked, installed uint64) error {
	applied := s.machine.AppliedIndex()
	if applied != s.log.LastIndex() {
		return fmt.Errorf("the state has applied entry %d, the log ends at %d", applied, s.log.LastIndex())
	}
	if err := s.check(max(acked, applied)); err != nil {
		return err
	}
	view := s.machine.View()
	defer view.Close()
	if _, ok := view.Exists(startPath(applied + 1)); ok || view.SessionCount() != int(applied) {
		return fmt.Errorf("%d sessions after entry %d", view.SessionCount(), applied)
	}
	if _, ok := s.log.Meta(installingMeta); ok {
		return errors.New("the install is still marked as under way")
	}
	if hard, _ := s.log.HardState(); applied == installed && string(hard) != "installed" {
		return fmt.Errorf("hard state %q after an install", hard)
	}
	for _, dir := range []string{s.dir.StagingDir(), s.dir.StateDir() + datadir.ReplacedSuffix} {
		if names, err := s.dir.Opts.FS.List(dir); err == nil {
			return fmt.Errorf("%s is left over, with %q", dir, names)
		}
	}
	return view.Err()
}

// TestInstallSurvivesAPowerCut cuts the power before each operation of the install of a checkpoint, and in the middle
// of each write, with none, some or all of the un-synced bytes, names and removals kept: the next start opens by
// itself and has the old state or the new one, whole, and a log that fits. So does the one after it, if the power is
// cut in that, too.
func TestInstallSurvivesAPowerCut(t *testing.T) {
	from := makeCheckpoint(t, installEntries)
	for _, logDir := range startLogDirs {
		c := powercut.New(vfs.NewCrashableMem(), 3, 0, 100, 50, 50, 20, 80)
		c.LooksAt = func(int) bool { return !testing.Short() || c.Random.IntN(4) == 0 }
		if err := runInstall(c, from, logDir); err != nil {
			t.Fatal(err)
		}
		nested := 0
		for i := range c.Points {
			p := &c.Points[i]
			if i%24 == 0 && p.Acked >= 3 {
				again := powercut.New(p.Left.CrashClone(vfs.CrashCloneCfg{}), c.Random.Uint64(), 0, 50)
				again.LooksAt = func(int) bool { return again.Random.IntN(4) == 0 }
				again.Acknowledge(p.Acked)
				s, err := openStores(again.FS(), logDir)
				if err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				if err := s.close(); err != nil {
					t.Fatal(err)
				}
				for i := range again.Points {
					if err := checkInstalled(&again.Points[i], from, logDir); err != nil {
						t.Fatalf("%s, then %s: %v", p, &again.Points[i], err)
					}
				}
				nested += len(again.Points)
			}
			if err := checkInstalled(p, from, logDir); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
		}
		t.Logf("%d operations, %d points, %d after those", c.Operations, len(c.Points), nested)
	}
}
