package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
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
	if s.dir, err = datadir.Open(dirOptions(fs, "data", logDir)); err != nil {
		return err
	}
	if s.log, err = raftlog.Open(logtest.Options(fs, s.dir.RaftLogDir())); err != nil {
		return err
	}
	mark, installing := s.log.Meta(installingMeta)
	finish := s.dir.DiscardInstall
	if installing {
		finish = s.dir.FinishInstall
	}
	if err := finish(); err != nil {
		return err
	}
	s.machine, err = OpenMachine(MachineOptions{
		Dir: s.dir.StateDir(), FS: fs, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, MemTableBytes: 64 << 10,
	})
	if err != nil {
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
	create := createProposal(startPath(index), []byte(startPath(index)), jute.ModePersistent)
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

// crashPoint is what a crash before one operation leaves of the disk.
type crashPoint struct {
	operation int
	op        string
	percent   int // of un-synced bytes and names that were kept
	acked     uint64
	left      *vfs.MemFS
}

func (p *crashPoint) String() string {
	return fmt.Sprintf("power cut before operation %d (%s), %d%% kept, entry %d acknowledged",
		p.operation, p.op, p.percent, p.acked)
}

// crashes takes what a power cut would leave before each operation that changes a disk, and in the middle of each
// write. It is safe for concurrent use.
type crashes struct {
	disk     *vfs.MemFS
	percents []int // of un-synced bytes, names and removals to keep, one point for each
	// looksAt chooses the operations to take points at; nil for all.
	looksAt func(operation int) bool
	killAt  int // the operation before which the process ends; 0 for none
	killed  chan struct{}

	mu         sync.Mutex // held during an operation
	random     *rand.Rand
	acked      uint64
	operations int
	looking    bool // at the operation under way
	locks      map[string]io.Closer
	renamed    map[string]string // directories that were, by their old names
	seen       map[uint64]bool   // what was left at the points taken, hashed: each is taken once
	points     []crashPoint
}

func newCrashes(disk *vfs.MemFS, seed uint64, percents ...int) *crashes {
	return &crashes{
		disk: disk, percents: percents, killed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 11)),
		locks: make(map[string]io.Closer), renamed: make(map[string]string), seen: make(map[uint64]bool),
	}
}

// fs returns the disk to work on.
func (c *crashes) fs() vfs.FS { return crashFS{c.disk, c} }

// do takes the points before an operation, then runs it. The operations of a process that has ended never return.
func (c *crashes) do(op string, run func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations++
	if c.killAt > 0 && c.operations >= c.killAt {
		c.killLocked()
	}
	c.looking = c.looksAt == nil || c.looksAt(c.operations)
	if !c.looking {
		return run()
	}
	for _, percent := range c.percents {
		left := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
		c.removeLocked(left, percent, "")
		c.takeLocked(op, percent, left)
	}
	return run()
}

// killLocked ends the process: its locks are free, and it does nothing more. It never returns.
func (c *crashes) killLocked() {
	if c.operations == c.killAt {
		for _, lock := range c.locks { // order: none matters
			_ = lock.Close() // in memory
		}
		clear(c.locks)
		close(c.killed)
	}
	c.mu.Unlock()
	select {}
}

// removeLocked lets removals that were not synced last, which a crash clone forgets all of. 100 percent of everything
// is what a killed process leaves. The old name of a directory only goes if the new one has come: a rename is atomic.
func (c *crashes) removeLocked(left *vfs.MemFS, percent int, dir string) {
	for _, path := range listSorted(left, dir) {
		if info, err := c.disk.Stat(path); err == nil {
			if info.IsDir() {
				c.removeLocked(left, percent, path)
			}
			continue
		}
		if to, ok := c.renamed[path]; ok && !c.cameLocked(left, to) {
			continue
		}
		if c.random.IntN(100) < percent {
			_ = left.RemoveAll(path) // in memory
		}
	}
}

// cameLocked tells whether a directory that was renamed to a name is what left has under it: there may be an empty one
// from before, whose removal was not synced.
func (c *crashes) cameLocked(left *vfs.MemFS, to string) bool {
	names, err := left.List(to)
	if err != nil {
		return false
	}
	present, err := c.disk.List(to)
	return len(names) > 0 || err == nil && len(present) == 0
}

// tearLocked takes a point where sectors of the last write to path, of some bytes at an offset, are still zeros, and
// one where the file ends in it.
func (c *crashes) tearLocked(path string, offset, bytes int) {
	if len(c.percents) == 0 || bytes == 0 || !c.looking {
		return
	}
	for _, shortened := range []bool{false, true} {
		left := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: c.random})
		c.removeLocked(left, 100, "")
		content, err := left.UnsafeGetFileDataBuffer(path)
		if err != nil {
			return // it has been removed
		}
		content = slices.Clone(content)
		if shortened {
			content = content[:offset+c.random.IntN(bytes)]
		} else {
			c.zeroSectorsLocked(content[:offset+bytes], offset)
		}
		if err := disk.WriteFile(left, path, string(content)); err != nil {
			panic(err) // in memory
		}
		c.takeLocked("torn write of "+path, 100, left)
	}
}

// zeroSectorsLocked makes zeros of the first, or some, of the sectors from an offset on.
func (c *crashes) zeroSectorsLocked(content []byte, from int) {
	for first := true; from < len(content); first = false {
		to := min(len(content), from-from%disk.SectorBytes+disk.SectorBytes)
		if first || c.random.IntN(2) == 0 {
			clear(content[from:to])
		}
		from = to
	}
}

// takeLocked keeps a point unless the like of it was taken.
func (c *crashes) takeLocked(op string, percent int, left *vfs.MemFS) {
	hash := xxhash.New()
	_ = binary.Write(hash, binary.LittleEndian, c.acked) // a hash takes everything
	hashTree(hash, left, "")
	if c.seen[hash.Sum64()] {
		return
	}
	c.seen[hash.Sum64()] = true
	c.points = append(c.points, crashPoint{
		operation: c.operations, op: op, percent: percent, acked: c.acked, left: left,
	})
}

// hashTree writes names and content of what is below dir.
func hashTree(w io.Writer, fs *vfs.MemFS, dir string) {
	for _, path := range listSorted(fs, dir) {
		info, err := fs.Stat(path)
		if err != nil {
			panic(err) // in memory
		}
		fmt.Fprintf(w, "%s %v %d\n", path, info.IsDir(), info.Size())
		if info.IsDir() {
			hashTree(w, fs, path)
			continue
		}
		content, err := fs.UnsafeGetFileDataBuffer(path)
		if err != nil {
			panic(err) // in memory
		}
		_, _ = w.Write(content) // a hash takes everything
	}
}

// listSorted returns the paths of what is in dir.
func listSorted(fs *vfs.MemFS, dir string) []string {
	names, err := fs.List(dir)
	if err != nil {
		panic(err) // in memory
	}
	slices.Sort(names)
	for i := range names {
		names[i] = fs.PathJoin(dir, names[i])
	}
	return names
}

// acknowledge says that entry index was.
func (c *crashes) acknowledge(index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = index
}

// acknowledged returns the last entry that was.
func (c *crashes) acknowledged() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

// runUntilKilled is run for a process that may end; it tells whether run has come to its own end. What is left of the
// process waits for ever, as there is no other way to stop it where it is.
func (c *crashes) runUntilKilled(t *testing.T, logDir string) bool {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.run(logDir) }()
	select {
	case <-c.killed:
		return false
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
}

// run starts on the disk, writes a few entries, flushes, writes another, and stops.
func (c *crashes) run(logDir string) error {
	s, err := openStores(c.fs(), logDir)
	if err != nil {
		return err
	}
	for n := range 3 {
		index, err := s.write()
		if err != nil {
			return errors.Join(err, s.close())
		}
		c.acknowledge(index)
		if n != 1 {
			continue
		}
		if err := s.machine.Flush(context.Background()); err != nil {
			return errors.Join(err, s.close())
		}
	}
	return errors.Join(s.close(), c.do("nothing", func() error { return nil }))
}

// startAgain starts from what a crash left: all that was acknowledged is there, and the server writes. If twice, that
// is there after another crash, too.
func startAgain(p *crashPoint, logDir string, twice bool) error {
	s, err := openStores(p.left, logDir)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	if err := s.check(p.acked); err != nil {
		return errors.Join(err, s.close())
	}
	index, err := s.write()
	if err != nil {
		return errors.Join(err, s.close())
	}
	left := p.left.CrashClone(vfs.CrashCloneCfg{})
	if err := s.close(); err != nil || !twice {
		return err
	}
	if s, err = openStores(left, logDir); err != nil {
		return fmt.Errorf("refused after another crash: %w", err)
	}
	return errors.Join(s.check(max(index, p.acked)), s.close())
}

// checkPoints starts from each point.
func checkPoints(t *testing.T, points []crashPoint, logDir string) {
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
		c := newCrashes(vfs.NewCrashableMem(), 1, 0, 100, 50, 50, 50, 50, 20, 80)
		c.looksAt = func(int) bool { return !testing.Short() || c.random.IntN(4) == 0 }
		if err := c.run(logDir); err != nil {
			t.Fatal(err)
		}
		checkPoints(t, c.points, logDir)
		nested := 0
		for range 12 {
			p := &c.points[c.random.IntN(len(c.points))]
			again := newCrashes(p.left.CrashClone(vfs.CrashCloneCfg{}), c.random.Uint64(), 50)
			again.looksAt = func(int) bool { return again.random.IntN(10) == 0 }
			again.acknowledge(p.acked)
			if err := again.run(logDir); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			checkPoints(t, again.points, logDir)
			nested += len(again.points)
		}
		t.Logf("%d operations, %d points, %d after those", c.operations, len(c.points), nested)
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
			first := newCrashes(vfs.NewCrashableMem(), uint64(at))
			first.killAt = at
			ended = first.runUntilKilled(t, logDir)
			second := newCrashes(first.disk, uint64(at), 0, 40, 40, 40, 40, 40, 40, 40, 40)
			second.looksAt = func(operation int) bool {
				// While it opens the raft log, the second start meets what the first has made and not synced.
				opens := at > 16 && at < 32 && operation > 8 && operation < 20
				return opens && (!testing.Short() || second.random.IntN(4) == 0) || second.random.IntN(200) == 0
			}
			second.acknowledge(first.acknowledged())
			if err := second.run(logDir); err != nil {
				t.Fatalf("killed before operation %d: %v", at, err)
			}
			points += len(second.points)
			for i := range second.points {
				if err := startAgain(&second.points[i], logDir, false); err != nil {
					t.Fatalf("killed before operation %d, then %s: %v", at, &second.points[i], err)
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
		first := newCrashes(vfs.NewCrashableMem(), 2, 0, 50)
		if err := first.run(logDir); err != nil {
			t.Fatal(err)
		}
		last := len(first.points) - 1
		for _, back := range []int{0, 3 + first.random.IntN(10), 13 + first.random.IntN(10)} {
			from := &first.points[last-back]
			if from.acked == 0 {
				t.Fatalf("%s: too early to lose anything", from)
			}
			second := newCrashes(from.left, uint64(back), 0, 100, 50)
			second.looksAt = func(int) bool { return !testing.Short() || second.random.IntN(3) == 0 }
			second.acknowledge(from.acked)
			if err := second.run(logDir); err != nil {
				t.Fatalf("%s: %v", from, err)
			}
			checkPoints(t, second.points, logDir)
			t.Logf("%s: %d operations, %d points", from, second.operations, len(second.points))
		}
	}
}
