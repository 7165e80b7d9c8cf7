package state

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/crashfs/powercut"
	"zkd/storage/datadir"
	"zkd/storage/datadir/dirtest"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/raftlog"
	"zkd/storage/raftlog/logtest"
)

// stores is what a server opens at its start.
type stores struct {
	dir     *datadir.Dir
	log     *raftlog.Log
	machine *Machine
}

// openStores opens the stores as a server does, and applies what the state lacks.
func openStores(fs vfs.FS, logDir string) (*stores, error) {
	s := &stores{}
	err := s.open(fs, logDir)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stores) open(fs vfs.FS, logDir string) (err error) {
	if s.dir, err = datadir.Open(dirtest.Options(fs, "data", logDir)); err != nil {
		return err
	}
	if s.log, err = raftlog.Open(logtest.Options(fs, s.dir.RaftLogDir())); err != nil {
		return err
	}
	mark, installing := s.log.Meta(installingMeta)
	if installing {
		if installing, err = s.dir.FinishInstall(s.fits(mark)); err != nil {
			return err
		}
		if !installing {
			if err := s.log.DeleteMeta(installingMeta); err != nil {
				return err
			}
		}
	}
	if !installing {
		if err := s.dir.DiscardInstall(); err != nil {
			return err
		}
	}
	s.machine, err = OpenMachine(MachineOptions{
		Dir: s.dir.StateDir(), FS: fs, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, MemTableBytes: 64 << 10,
	})
	if err != nil {
		return err
	}
	if err := s.dir.ForgetReplaced(); err != nil {
		return err
	}
	if installing {
		if err := s.installLog(mark); err != nil {
			return err
		}
	}
	applied, last := s.machine.AppliedIndex(), s.log.LastIndex()
	if applied > last {
		return fmt.Errorf("the state has applied entry %d, the log ends at %d", applied, last)
	}
	entries, err := s.log.Entries(nil, applied+1, last+1, 1<<40)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.machine.Apply(e.Index, e.Term, e.Data, discard{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stores) close() error {
	var errs []error
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

// startPath is the znode that entry index makes.
func startPath(index uint64) string { return fmt.Sprintf("/entry-%d", index) }

// write appends and applies one entry, and returns its index, which is acknowledged then.
func (s *stores) write() (uint64, error) {
	index := s.log.LastIndex() + 1
	session := &entry.Proposal{Op: jute.OpCreateSession, Session: jute.SessionID(index),
		Body: (&entry.SessionTxn{TimeoutMillis: 10000}).Append(nil)}
	create := entrytest.Create(startPath(index), []byte(startPath(index)), jute.ModePersistent)
	create.Session = session.Session
	data := entry.AppendProposal(entry.AppendProposal(entry.AppendEntryHeader(nil, 1, index), session), create)
	if err := s.log.Append([]raftlog.LogEntry{{Index: index, Term: 1, Data: data}}, []byte("s"), true); err != nil {
		return 0, err
	}
	return index, s.machine.Apply(index, 1, data, discard{})
}

// check looks for the entries up to acked, in the log and in the state.
func (s *stores) check(acked uint64) error {
	if last := s.log.LastIndex(); last < acked {
		return fmt.Errorf("entry %d was acknowledged, the log ends at %d", acked, last)
	}
	view := s.machine.View()
	defer view.Close()
	for index := uint64(1); index <= acked; index++ {
		node, ok := view.Get(startPath(index))
		if !ok || string(node.Data()) != startPath(index) {
			return fmt.Errorf("what entry %d made is not there", index)
		}
	}
	return view.Err()
}

// runUntilKilled is runStart for a process that may end; it tells whether it has come to its own end. What is left of
// the process waits for ever, as there is no other way to stop it where it is.
func runUntilKilled(t *testing.T, c *powercut.Disk, logDir string) bool {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- runStart(c, logDir) }()
	select {
	case <-c.Killed:
		return false
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
}

// runStart starts on the disk, writes a few entries, flushes, writes another, and stops.
func runStart(c *powercut.Disk, logDir string) error {
	s, err := openStores(c.FS(), logDir)
	if err != nil {
		return err
	}
	for n := range 3 {
		index, err := s.write()
		if err != nil {
			return errors.Join(err, s.close())
		}
		c.Acknowledge(index)
		if n != 1 {
			continue
		}
		if err := s.machine.Flush(context.Background()); err != nil {
			return errors.Join(err, s.close())
		}
	}
	return errors.Join(s.close(), c.Do("nothing", func() error { return nil }))
}

// startAgain starts from what a crash left: all that was acknowledged is there, and the server writes. If twice, that
// is there after another crash, too.
func startAgain(p *powercut.Point, logDir string, twice bool) error {
	s, err := openStores(p.Left, logDir)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	if err := s.check(p.Acked); err != nil {
		return errors.Join(err, s.close())
	}
	index, err := s.write()
	if err != nil {
		return errors.Join(err, s.close())
	}
	left := p.Left.CrashClone(vfs.CrashCloneCfg{})
	if err := s.close(); err != nil || !twice {
		return err
	}
	if s, err = openStores(left, logDir); err != nil {
		return fmt.Errorf("refused after another crash: %w", err)
	}
	return errors.Join(s.check(max(index, p.Acked)), s.close())
}

// checkPoints starts from each point.
func checkPoints(t *testing.T, points []powercut.Point, logDir string) {
	t.Helper()
	for i := range points {
		if err := startAgain(&points[i], logDir, i%5 == 0); err != nil {
			t.Fatalf("%s: %v", &points[i], err)
		}
	}
}

// startLogDirs are the dataLogDirs that the tests of starts run with.
var startLogDirs = []string{"", "logs"}

// TestFirstStartSurvivesAPowerCut cuts the power before each operation of the first start, the first writes and the
// first stop included, and in the middle of each write, with none, some or all of the un-synced bytes, names and
// removals kept: the next start opens by itself and has all that was acknowledged. So does the one after it, if the
// power is cut in that, too.
func TestFirstStartSurvivesAPowerCut(t *testing.T) {
	for _, logDir := range startLogDirs {
		c := powercut.New(vfs.NewCrashableMem(), 1, 0, 100, 50, 50, 50, 50, 20, 80)
		c.LooksAt = func(int) bool { return !testing.Short() || c.Random.IntN(4) == 0 }
		if err := runStart(c, logDir); err != nil {
			t.Fatal(err)
		}
		checkPoints(t, c.Points, logDir)
		nested := 0
		for range 12 {
			p := &c.Points[c.Random.IntN(len(c.Points))]
			again := powercut.New(p.Left.CrashClone(vfs.CrashCloneCfg{}), c.Random.Uint64(), 50)
			again.LooksAt = func(int) bool { return again.Random.IntN(10) == 0 }
			again.Acknowledge(p.Acked)
			if err := runStart(again, logDir); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			checkPoints(t, again.Points, logDir)
			nested += len(again.Points)
		}
		t.Logf("%d operations, %d points, %d after those", c.Operations, len(c.Points), nested)
	}
}

// TestFirstStartSurvivesAKillAndAPowerCut ends the process before the operations of the first start, and cuts the
// power in the second, which finds what the first one wrote, but not all of it on the disk.
func TestFirstStartSurvivesAKillAndAPowerCut(t *testing.T) {
	for _, logDir := range startLogDirs {
		ended, points := false, 0
		for at := 1; !ended; at++ {
			if at > 40 && at%4 != 0 {
				continue // the rest repeats itself
			}
			first := powercut.New(vfs.NewCrashableMem(), uint64(at))
			first.KillAt = at
			ended = runUntilKilled(t, first, logDir)
			second := powercut.New(first.Mem, uint64(at), 0, 40, 40, 40, 40, 40, 40, 40, 40)
			second.LooksAt = func(operation int) bool {
				// While it opens the raft log, the second start meets what the first has made and not synced.
				opens := at > 16 && at < 32 && operation > 8 && operation < 20
				return opens && (!testing.Short() || second.Random.IntN(4) == 0) || second.Random.IntN(200) == 0
			}
			second.Acknowledge(first.Acknowledged())
			if err := runStart(second, logDir); err != nil {
				t.Fatalf("killed before operation %d: %v", at, err)
			}
			points += len(second.Points)
			for i := range second.Points {
				if err := startAgain(&second.Points[i], logDir, false); err != nil {
					t.Fatalf("killed before operation %d, then %s: %v", at, &second.Points[i], err)
				}
			}
		}
		t.Logf("%d points", points)
	}
}

// TestSecondStartSurvivesAPowerCut cuts the power before each operation of a start on what is acknowledged: after a
// proper stop, and after power cuts at some of the operations before it.
func TestSecondStartSurvivesAPowerCut(t *testing.T) {
	for _, logDir := range startLogDirs {
		first := powercut.New(vfs.NewCrashableMem(), 2, 0, 50)
		if err := runStart(first, logDir); err != nil {
			t.Fatal(err)
		}
		last := len(first.Points) - 1
		for _, back := range []int{0, 3 + first.Random.IntN(10), 13 + first.Random.IntN(10)} {
			from := &first.Points[last-back]
			if from.Acked == 0 {
				t.Fatalf("%s: too early to lose anything", from)
			}
			second := powercut.New(from.Left, uint64(back), 0, 100, 50)
			second.LooksAt = func(int) bool { return !testing.Short() || second.Random.IntN(3) == 0 }
			second.Acknowledge(from.Acked)
			if err := runStart(second, logDir); err != nil {
				t.Fatalf("%s: %v", from, err)
			}
			checkPoints(t, second.Points, logDir)
			t.Logf("%s: %d operations, %d points", from, second.Operations, len(second.Points))
		}
	}
}
