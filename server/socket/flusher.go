package socket

import (
	"errors"
	"sync"
	"syscall"
)

// flushTurnBytes is how much of one connection is written before others have their turn: who gets megabytes of events
// does not hold up who gets a short reply. A guess: some ten microseconds.
const flushTurnBytes = 64 << 10

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
		batch = f.take(batch[:0])
		f.turn(batch)
		if f.over() {
			return
		}
	}
}

// take returns what is pending, and has what comes then go to next, which is empty.
func (f *Flusher) take(next []*Output) []*Output {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch := f.pending
	f.pending = next
	return batch
}

// turn gives each of batch a turn, and empties it.
func (f *Flusher) turn(batch []*Output) {
	for i, o := range batch {
		switch o.tryFlush() {
		case flushedPart:
			f.Add(o)
		case flushedFull:
			f.slow(o)
		}
		batch[i] = nil
	}
}

// over reports whether Stop was called and nothing is left.
func (f *Flusher) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped && len(f.pending) == 0
}

// Stop writes what is pending and ends Run.
func (f *Flusher) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.signal()
	<-f.done
}

// flushed is what has become of a tryFlush.
type flushed uint8

const (
	flushedAll  flushed = iota // nothing is left, or somebody else writes it
	flushedPart                // there is more for another turn: o is queued
	flushedFull                // the client does not take all of it: writing is still set
)

// tryFlush writes what there is, flushTurnBytes at most, without waiting. When it returns flushedFull, the caller has
// Drain called on a goroutine that may wait.
func (o *Output) tryFlush() flushed {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queued = false
	if o.writing {
		return flushedAll
	}
	o.writing = true
	for left := flushTurnBytes; !o.closed && o.writableLocked(); {
		switch {
		case o.raw == nil:
			return flushedFull
		case left <= 0:
			o.writing, o.queued = false, true
			o.settled.Broadcast()
			return flushedPart
		}
		p, _ := o.takeLocked()
		b := p.rest()
		b = b[:min(len(b), left)]
		o.mu.Unlock()
		rest, err := o.tryWrite(b)
		o.mu.Lock()
		n := len(b) - len(rest)
		o.wroteLocked(n)
		p.sent += n
		left -= n
		switch {
		case err != nil:
			p.give()
			o.closeLocked()
		case len(p.rest()) > 0:
			o.putBackLocked(p)
		default:
			p.give()
		}
		o.chargeLocked()
		if len(rest) > 0 && !o.closed {
			return flushedFull
		}
	}
	o.doneLocked()
	return flushedAll
}

// Drain is the rest of a tryFlush that returned flushedFull.
func (o *Output) Drain() {
	o.mu.Lock()
	o.drainLocked()
	o.mu.Unlock()
}

// tryWrite makes one write call and returns what the client did not take.
func (o *Output) tryWrite(b []byte) (rest []byte, err error) {
	o.attempt.b = b
	if err := o.raw.Write(o.attempt.try); err != nil {
		return nil, err
	}
	o.attempt.b = nil
	switch {
	case errors.Is(o.attempt.err, syscall.EAGAIN), errors.Is(o.attempt.err, syscall.EINTR):
		return b, nil
	case o.attempt.err != nil:
		return nil, o.attempt.err
	}
	return b[o.attempt.n:], nil
}
