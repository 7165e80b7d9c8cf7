package server

import "sync"

// flusher writes the output of connections that the apply goroutine has appended to: one goroutine for all of them,
// which never waits for a client.
type flusher struct {
	mu      sync.Mutex
	pending []*conn // guarded by mu; each at most once (output.queued)
	stopped bool    // guarded by mu

	wake chan struct{} // one token: something is pending
	done chan struct{}
	slow func(*conn) // writes to a client that does not take all at once; must not block
}

// newFlusher returns a flusher whose run is still to be called.
func newFlusher(slow func(*conn)) *flusher {
	return &flusher{wake: make(chan struct{}, 1), done: make(chan struct{}), slow: slow}
}

// add has c's output written soon. The caller has set queued.
func (f *flusher) add(c *conn) {
	f.mu.Lock()
	f.pending = append(f.pending, c)
	first := len(f.pending) == 1
	f.mu.Unlock()
	if first {
		f.signal()
	}
}

// signal wakes run.
func (f *flusher) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // it has a token already
	}
}

// run writes until stop.
func (f *flusher) run() {
	defer close(f.done)
	var batch []*conn
	for range f.wake {
		f.mu.Lock()
		batch, f.pending = f.pending, batch[:0]
		stopped := f.stopped
		f.mu.Unlock()
		for i, c := range batch {
			if !c.out.tryFlush() {
				f.slow(c)
			}
			batch[i] = nil
		}
		if stopped {
			return
		}
	}
}

// stop writes what is pending and ends run.
func (f *flusher) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.signal()
	<-f.done
}
