package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"zkd/storage/disk"
)

// errClosed means that the machine was closed while a call waited.
var errClosed = errors.New("state machine is closed")

// unflushedFactor times FlushBytes, or FlushRequests, may be applied and not durable before Apply waits.
const unflushedFactor = 4

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

	under    bool  // a flush is under way; owned by the apply goroutine, as are the rest
	bytes    int64 // of log, applied since the last flush began
	requests int   // likewise
	before   int64 // bytes that the flush under way covers
}

// flushJob is a flush under way: done is closed when all up to index is durable, or the fault is set.
type flushJob struct {
	index uint64
	done  <-chan struct{}
	fault *disk.Fault // of the store that is flushed
}

// start begins the goroutine that waits for flushes. It may be called again after stop, for another store.
func (f *flusher) start() {
	f.under, f.bytes, f.requests, f.before = false, 0, 0, 0
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
		full := f.before+f.bytes > unflushedFactor*f.m.opts.FlushBytes ||
			f.requests > unflushedFactor*f.m.opts.FlushRequests
		if !full {
			select {
			case <-f.ended:
				f.under, f.before = false, 0
			default:
			}
			return nil
		}
		select {
		case <-f.ended:
			f.under, f.before = false, 0
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
func (f *flusher) note(bytes int64, requests int) error {
	f.bytes += bytes
	f.requests += requests
	return f.begin()
}

// begin begins a flush if enough was applied and none is under way.
func (f *flusher) begin() error {
	if f.under || f.bytes < f.m.opts.FlushBytes && f.requests < f.m.opts.FlushRequests {
		return nil
	}
	done, err := f.m.store.asyncFlush()
	if err != nil {
		return err
	}
	f.under, f.before, f.bytes, f.requests = true, f.bytes, 0, 0
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
