package limits

import (
	"runtime"
	"sync/atomic"

	"zkd/storage/state"
)

// Bounds of large reads, by measurement (2026-11, docs/performance.md).
const (
	// scanTurnKeys is how many keys one may read before it needs a turn: what the others do not notice.
	scanTurnKeys = 1024
	// scanYieldKeys is after how many keys one gives its processor to other threads that wait for it: some 0.2 ms.
	scanYieldKeys = 1024
	// BytesPerKey is how much data takes as long as a key. A guess: a tenth of a microsecond for the copies.
	BytesPerKey = 256
)

// ReadTurns bounds how many large reads are made at once. Those of connections, commands and the clean-up are alike.
type ReadTurns struct {
	Turns
	stop  <-chan struct{} // closed when the server is; immutable after Init
	yield func()          // gives the processor to other threads; immutable after Init
}

// Init sets the number of turns. stop is closed when nobody who reads for the server itself is to wait any more.
func (s *ReadTurns) Init(stop <-chan struct{}) {
	s.Turns.Init(PartOfProcessors())
	s.stop, s.yield = stop, yieldProcessor
}

// Scan returns a read for a client, or for the server itself if that is nil. waits is true while it waits for its turn;
// nil: nobody asks.
func (s *ReadTurns) Scan(reads Client, waits *atomic.Bool) Scan {
	return Scan{turns: s, reads: reads, waits: waits}
}

// Scan is one read that may turn out to be large. The zero Scan has read nothing.
type Scan struct {
	turns   *ReadTurns
	reads   Client       // nil if it is not made for a client
	waits   *atomic.Bool // true while it waits; may be nil
	keys    int
	turn    bool
	stopped bool // ended before its end
}

// Ready reports whether the scan is more than the zero one.
func (s *Scan) Ready() bool { return s.turns != nil }

// Expect says that about so many keys will be read; false if the connection has ended before the turn has come that
// they need. The zero Scan needs none: it is of a read that is too short to pause.
func (s *Scan) Expect(keys int) bool { return !s.Ready() || keys <= scanTurnKeys || s.begin() }

// begin waits for the scan's turn; false if the connection has ended. It has its View by then: who has a turn takes no
// Present any more, for which it might wait behind a restore, and that for the Views of all who wait for their turn.
func (s *Scan) begin() bool {
	if !s.turn {
		gone := s.turns.stop
		if s.reads != nil {
			gone = s.reads.Ending()
		}
		if s.waits != nil {
			s.waits.Store(true)
			defer s.waits.Store(false)
		}
		s.turn = s.turns.Begin(gone)
		s.stopped = !s.turn
	}
	return s.turn
}

// Stopped reports whether the read was ended before its end, because the connection has.
func (s *Scan) Stopped() bool { return s.stopped }

// Pace lets others run, now and then, and asks for a turn when the read has become large. False ends the read.
//
// Goroutines of this process are not all that waits: where there are few processors, the thread that is to answer a
// small request is woken and then waits until the kernel takes the processor from the one that reads, 4 ms by its tick.
func (s *Scan) Pace() bool {
	s.keys += state.ScanPace
	if s.keys >= scanTurnKeys && !s.begin() {
		return false
	}
	runtime.Gosched()
	if s.turn && s.keys%scanYieldKeys == 0 {
		s.turns.yield()
	}
	s.stopped = s.reads != nil && s.reads.Ended()
	return !s.stopped
}

// Rest gives the turn back, if there is one, before a wait for anything else; Resume takes another one then.
func (s *Scan) Rest() (rests bool) {
	if rests = s.turn; rests {
		s.turns.End()
		s.turn = false
	}
	return rests
}

// Resume goes on after Rest; false if the connection has ended before the turn has come.
func (s *Scan) Resume() bool { return s.begin() }

// KeysOf is how many keys so many bytes of data count as: those of names of children, with what is around them.
func KeysOf(bytes int) int { return bytes / BytesPerKey }

// End gives the turn back, if there is one.
func (s *Scan) End() {
	if s.turn {
		s.turns.End()
	}
	*s = Scan{}
}
