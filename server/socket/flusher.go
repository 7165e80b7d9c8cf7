package socket

import "sync"

// Flusher writes the output of connections that the apply goroutine has appended to: one goroutine for all of them,
// which never waits for a client.
type Flusher struct {
	mu      sync.Mutex
	pending []*Output // guarded by mu; each at most once (Output.queued)
	stopped bool      // guarded by mu

	wake chan struct{} // one token: something is pending
	done chan struct{}
	slow func(*Output) // writes to a client that does not take all at once; must not block
}

// NewFlusher returns a flusher whose Run is still to be called.
func NewFlusher(slow func(*Output)) *Flusher {
	return &Flusher{wake: make(chan struct{}, 1), done: make(chan struct{}), slow: slow}
}

// Add has o written soon. The caller has set queued.
func (f *Flusher) Add(o *Output) {
	f.mu.Lock()
	f.pending = append(f.pending, o)
	first := len(f.pending) == 1
	f.mu.Unlock()
	if first {
		f.signal()
	}
}

// signal wakes Run.
func (f *Flusher) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // it has a token already
	}
}

// Run writes until Stop.
func (f *Flusher) Run() {
	defer close(f.done)
	var batch []*Output
	for range f.wake {
		f.mu.Lock()
		batch, f.pending = f.pending, batch[:0]
		stopped := f.stopped
		f.mu.Unlock()
		for i, o := range batch {
			if !o.tryFlush() {
				f.slow(o)
			}
			batch[i] = nil
		}
		if stopped {
			return
		}
	}
}

// Stop writes what is pending and ends Run.
func (f *Flusher) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.signal()
	<-f.done
}
