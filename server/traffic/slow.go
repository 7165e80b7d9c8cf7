package traffic

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zkd/jute"
)

// Phases are where the time of a request went, in the order in which it passes them. They add up to what it took.
type Phases struct {
	Queue time.Duration // held back by a limit, or because the client does not read
	Turn  time.Duration // a read behind writes of its own connection
	// Confirm is for the leader to confirm that it leads: of sync and linearizable reads.
	Confirm time.Duration
	// Log is, of a write, until it is on this server's disk, with the time in its batch, and on the way to the leader;
	// Replicate from then on until this server knows that it is committed.
	Log, Replicate time.Duration
	Apply          time.Duration // of a write, behind other entries and with those of its own
	Answer         time.Duration // of a read: looking it up and making the answer
}

// Slow is one of the slowest requests of a window.
type Slow struct {
	At     time.Time // of the answer
	Op     jute.Op
	Path   string // cut if it is long; "" if the request has none, or it is not known
	Failed bool
	Took   time.Duration
	Bytes  int // of the request and the answer
	Client Client
	Phases Phases
}

// slowNotesMax is how many requests a second are looked at because each was slower than those before: while latencies
// only rise that would be every one. Then the next second is waited for.
const slowNotesMax = 256

// slowestMax is how many of the slowest requests of a second are kept, and of a window.
const slowestMax = 16

// pathBytesMax is how much is kept of a path.
const pathBytesMax = 256

// kept is a copy of a path, cut if it is long.
func kept(path string) string {
	if len(path) <= pathBytesMax {
		return strings.Clone(path)
	}
	cut := pathBytesMax - len("…")
	for cut > 0 && !utf8.RuneStart(path[cut]) {
		cut--
	}
	return path[:cut] + "…"
}

// noteSlow takes one of the slowest requests in, if it still is one.
func (r *Recorder) noteSlow(owner Owner, a *Answer, path string, phases *Phases) {
	s := Slow{At: r.opts.Clock.Now(), Op: a.Op, Path: kept(path), Failed: a.Failed, Took: a.Took, Bytes: a.In + a.Out,
		Client: owner.Client(), Phases: *phases}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.mu.frame
	f.slowNotes++
	f.slowest = insertSlow(f.slowest, &s)
	switch {
	case f.slowNotes == slowNotesMax:
		r.shared.slowest.Store(math.MaxInt64)
	case f.slowNotes < slowNotesMax && len(f.slowest) == slowestMax:
		r.shared.slowest.Store(int64(f.slowest[slowestMax-1].Took))
	}
}

// insertSlow adds one to those that are sorted, the slowest first, and leaves out what is one too many.
func insertSlow(sorted []Slow, s *Slow) []Slow {
	at := len(sorted)
	for at > 0 && sorted[at-1].Took < s.Took {
		at--
	}
	if at == slowestMax {
		return sorted
	}
	if len(sorted) == slowestMax {
		sorted = sorted[:slowestMax-1]
	}
	return slices.Insert(sorted, at, *s)
}
