package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"zkd/storage/disk"
	"zkd/storage/schema"
)

// A scrub reads the whole state as it was at one moment, while the server runs, and compares it with what goes along
// with the entries. A disk that gives back other bytes than it got is found by the checksums of the blocks, a state
// that is wrong in itself by the sums.

// ScrubReport says what a scrub has read.
type ScrubReport struct {
	Index    uint64 // of the last entry in the state that was read
	Znodes   int64
	Sessions int64
	Bytes    int64 // of headers, paths, data and sessions
}

// scrubStepBytes is how much a scrub reads between two calls of its pace.
const scrubStepBytes = 256 << 10

// scrubbing lets the store be replaced while a scrub reads it.
type scrubbing struct {
	running *semaphore.Weighted // of size 1: held by a scrub, and by who replaces the store; taken after copying
	halts   atomic.Int32        // how many wait to replace the store

	mu struct {
		sync.Mutex
		cancel context.CancelFunc // ends the scrub; nil: there is none
	}
}

// begin waits until a scrub may read the store, or until ctx ends: a disk that hangs can hold up who replaces it.
func (s *scrubbing) begin(ctx context.Context) (scrub context.Context, end func(), err error) {
	if err := s.running.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.mu.cancel = cancel
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		s.mu.cancel = nil
		s.mu.Unlock()
		cancel()
		s.running.Release(1)
	}, nil
}

// halt ends the scrub that runs and lets none begin until goOn is called.
func (s *scrubbing) halt() (goOn func()) {
	s.halts.Add(1) // first: a scrub that begins now sees it
	s.mu.Lock()
	if s.mu.cancel != nil {
		s.mu.cancel()
	}
	s.mu.Unlock()
	_ = s.running.Acquire(context.Background(), 1) // which does not end
	s.halts.Add(-1)
	return func() { s.running.Release(1) }
}

// ErrScrubHalted says that the state was replaced while a scrub read it: there is another one to begin with.
var ErrScrubHalted = errors.New("the state was replaced")

// Scrub reads all znodes and sessions, verifies their checksums, and compares their counts, ZooKeeper's digest and the
// sums with those that the state keeps. It holds no lock that Apply or a View waits for. pace is called with what was
// read since the last call; it waits as it likes, ends with its context, and its error ends the scrub, as ctx does.
//
// It fails with disk.ErrDamaged if the state is not what it should be, and with ErrScrubHalted. Any goroutine may call
// it; a second one waits for the first.
func (m *Machine) Scrub(ctx context.Context, pace func(ctx context.Context, bytes int) error) (ScrubReport, error) {
	ctx, end, err := m.scrubbing.begin(ctx)
	if err != nil {
		return ScrubReport{}, fmt.Errorf("scrub of state store %s: %w", m.opts.Dir, err)
	}
	defer end()
	if err := m.err(); err != nil {
		return ScrubReport{}, err
	}
	snapshot := m.store.db.NewSnapshot()
	s := scrub{state: Reader{store: snapshot, dir: m.store.dir}, pause: func(bytes int) error {
		if m.scrubbing.halts.Load() > 0 {
			return ErrScrubHalted
		}
		err := pace(ctx, bytes)
		if err != nil && m.scrubbing.halts.Load() > 0 {
			return ErrScrubHalted
		}
		return err
	}}
	err = s.run()
	return s.report, errors.Join(err, snapshot.Close())
}

// scrub is one scrub.
type scrub struct {
	state  Reader
	pause  func(bytes int) error
	report ScrubReport
	tally  schema.Tally
	sums   summing
	step   int // bytes since the last pause
}

// run reads everything.
func (s *scrub) run() error {
	pos, err := s.state.position()
	if err != nil {
		return err
	}
	s.report.Index = pos.Index
	if err := s.state.Each(s.znode, s.session); err != nil {
		return err
	}
	info := schema.SummaryOf(&pos, nil, int(s.tally.Sessions)) // the sessions are in the sums
	if err := s.tally.Compare(&info); err != nil {
		return fmt.Errorf("%w: state store %s: %w", disk.ErrDamaged, s.state.dir, err)
	}
	kept, found, err := s.state.writtenSums(pos.Index)
	if err != nil {
		return err
	}
	if found && kept != s.sums.Kept {
		return fmt.Errorf("%w: state store %s: the sums are %#x of znodes and %#x of sessions, those that were kept "+
			"%#x and %#x", disk.ErrDamaged, s.state.dir, s.sums.Znodes, s.sums.Sessions, kept.Znodes, kept.Sessions)
	}
	return nil
}

// znode takes a znode.
func (s *scrub) znode(n *schema.Znode, header []byte) error {
	s.tally.Add(n)
	s.sums.znode(n, header)
	s.report.Znodes++
	return s.count(len(header) + len(n.Path) + int(n.DataLen))
}

// session takes a session.
func (s *scrub) session(info *schema.SessionInfo) error {
	s.sums.session(info)
	s.tally.Sessions++
	s.report.Sessions++
	return s.count(1 + 8 + schema.SessionValueBytes)
}

// count counts what was read, and pauses now and then.
func (s *scrub) count(bytes int) error {
	s.report.Bytes += int64(bytes)
	if s.step += bytes; s.step < scrubStepBytes {
		return nil
	}
	bytes, s.step = s.step, 0
	return s.pause(bytes)
}
