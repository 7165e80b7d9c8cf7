package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"zkd/storage/disk"
)

// errClosed means that the machine was closed while a call waited.
var errClosed = errors.New("state machine is closed")

// unflushedFactor times FlushBytes, or FlushReplay, may be applied and not durable before Apply waits.
const unflushedFactor = 4

// What applying entries again takes at a start, by estimate: for each entry, each request in it, and each byte. They
// are the same on every machine, and need not be right: they weigh entries of hundreds of small requests, entries of
// one, and large ones alike. Measured 2026-11 on two busy cores, so that they are high: a setData in an entry of 256
// took 3 µs, a create 10, an entry with one of either 6 to 30, one of 100 KiB 10 ns a byte.
const (
	replayEntry   = 10 * time.Microsecond
	replayRequest = 6 * time.Microsecond
	replayByte    = 3 * time.Nanosecond
)

// load is what applied entries cost as long as they are not durable.
type load struct {
	bytes  int64         // of memory, or of the log if they take more there
	replay time.Duration // to apply them again after a crash, by estimate
}

// loadOf returns what an entry costs that has so many bytes in the log and in memory, and so many requests.
func loadOf(logBytes, memoryBytes int64, requests int) load {
	return load{bytes: max(logBytes, memoryBytes), replay: replayEntry + time.Duration(requests)*replayRequest +
		time.Duration(logBytes)*replayByte}
}

// plus returns the sum of both.
func (l load) plus(o load) load { return load{bytes: l.bytes + o.bytes, replay: l.replay + o.replay} }

// atLeast tells whether l has come to factor times what the options have a flush begin at.
func (l load) atLeast(factor int64, o *MachineOptions) bool {
	return l.bytes >= factor*o.FlushBytes || l.replay >= time.Duration(factor)*o.FlushReplay
}

// flusher paces the flushes of a machine's store, so that little is to be replayed after a crash, and knows what is
// durable.
type flusher struct {
	m       *Machine      // immutable after OpenMachine
	durable atomic.Uint64 // index of the last entry that is on disk
	stopped chan struct{} // replaced by Install under the machine's lock
	running bool          // owned by the apply goroutine, and by Close
	loop    sync.WaitGroup

	// begun takes the flush that note has begun to the goroutine that waits for its end. There is at most one: note
	// begins none before the last one's end.
	begun chan flushJob
	// ended says that the flush under way is durable; of size 1, as there is one at a time.
	ended chan struct{}

	under  bool // a flush is under way; owned by the apply goroutine, as are the rest
	since  load // applied since the last flush began
	before load // that the flush under way covers
}

// flushJob is a flush under way: done is closed when all up to index is durable, or the fault is set.
type flushJob struct {
	index uint64
	done  <-chan struct{}
	fault *disk.Fault // of the store that is flushed
}

// start begins the goroutine that waits for flushes. It may be called again after stop, for another store.
func (f *flusher) start() {
	f.under, f.since, f.before = false, load{}, load{}
	f.stopped = make(chan struct{})
	f.begun = make(chan flushJob, 1)
	f.ended = make(chan struct{}, 1)
	f.running = true
	f.loop.Go(f.run)
}

// run makes the index of each flush durable when the flush ends, until stop.
func (f *flusher) run() {
	for {
		select {
		case job := <-f.begun:
			select {
			case <-job.done:
				if job.fault.Stopped() != nil { // nothing will be durable any more
					return
				}
				f.raise(job.index)
				f.ended <- struct{}{}
			case <-f.stopped:
				return
			}
		case <-f.stopped:
			return
		}
	}
}

// stop ends the goroutine. A flush under way is not waited for. Stopping twice is allowed.
func (f *flusher) stop() {
	if !f.running {
		return
	}
	f.running = false
	close(f.stopped)
	f.loop.Wait()
}

// raise moves the durable index forward.
func (f *flusher) raise(index uint64) {
	for {
		old := f.durable.Load()
		if old >= index || f.durable.CompareAndSwap(old, index) {
			return
		}
	}
}

// wait returns when so little is not durable that another entry may be applied. It also takes note of a flush that
// has ended.
func (f *flusher) wait() error {
	for f.under {
		if !f.before.plus(f.since).atLeast(unflushedFactor, &f.m.opts) {
			select {
			case <-f.ended:
				f.under, f.before = false, load{}
			default:
			}
			return nil
		}
		select {
		case <-f.ended:
			f.under, f.before = false, load{}
		case <-f.m.store.fault.Tripped: // no flush ends any more
			return f.m.store.fault.Stopped()
		case <-f.stopped:
			return errClosed
		}
		if err := f.begin(); err != nil {
			return err
		}
	}
	return nil
}

// note counts an entry that was applied and begins a flush when enough has come together.
func (f *flusher) note(l load) error {
	f.since = f.since.plus(l)
	return f.begin()
}

// begin begins a flush if enough was applied and none is under way.
func (f *flusher) begin() error {
	if f.under || !f.since.atLeast(1, &f.m.opts) {
		return nil
	}
	done, err := f.m.store.asyncFlush()
	if err != nil {
		return err
	}
	f.under, f.before, f.since = true, f.since, load{}
	f.begun <- flushJob{index: f.m.applied.Load(), done: done, fault: &f.m.store.fault}
	return nil
}

// now flushes all that is applied at the call and waits for it, or until Install has replaced it by what is durable.
func (f *flusher) now(ctx context.Context) error {
	f.m.mu.RLock()
	if err := f.m.err(); err != nil {
		f.m.mu.RUnlock()
		return err
	}
	store, stopped, index := f.m.store, f.stopped, f.m.applied.Load()
	if index <= f.durable.Load() {
		f.m.mu.RUnlock()
		return nil
	}
	done, err := store.asyncFlush()
	f.m.mu.RUnlock()
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-stopped:
	case <-store.fault.Tripped:
	case <-ctx.Done():
		return fmt.Errorf("flush of state store %s: %w", store.dir, ctx.Err())
	}
	select {
	case <-stopped: // first: of a store that has been retired since, done says nothing
		f.m.mu.RLock() // until Install is through
		defer f.m.mu.RUnlock()
		if index <= f.durable.Load() {
			return nil
		}
		return errClosed
	default:
	}
	if err := store.fault.Stopped(); err != nil {
		return err
	}
	f.raise(index)
	return nil
}
