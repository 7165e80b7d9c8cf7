package limits

import (
	"runtime"
	"sync/atomic"
)

// turnsPart is the part of the processors that what takes turns may have, one at least (2026-11, docs/performance.md):
// while all processors are taken, who waits for the network waits for milliseconds.
const turnsPart = 4

// Turns bounds how much of one kind of work is done at once, first come first served. Who waits for a turn is not
// runnable: so what others need waits behind a few goroutines, and not behind as many as there are connections.
type Turns struct {
	turns   chan struct{} // holds one for each that is being done
	total   atomic.Int64  // turns that were taken
	waiting atomic.Int64
}

// Init sets the number of turns, one at least.
func (t *Turns) Init(most int) { t.turns = make(chan struct{}, max(1, most)) }

// PartOfProcessors is how many turns there are of what others are not to notice.
func PartOfProcessors() int { return runtime.GOMAXPROCS(0) / turnsPart }

// Begin waits for a turn; false if gone, unless that is nil, is closed before.
func (t *Turns) Begin(gone <-chan struct{}) bool {
	select {
	case t.turns <- struct{}{}:
	default:
		t.waiting.Add(1)
		defer t.waiting.Add(-1)
		select {
		case t.turns <- struct{}{}:
		case <-gone:
			return false
		}
	}
	t.total.Add(1)
	return true
}

// Taken returns how many turns were taken so far.
func (t *Turns) Taken() int64 { return t.total.Load() }

// InLine returns how many wait for a turn.
func (t *Turns) InLine() int64 { return t.waiting.Load() }

// End gives the turn back.
func (t *Turns) End() { <-t.turns }
