package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"zkd/quorum/clock"
)

// Config says what a run is. Everything but Seed may be zero: it is then drawn from the seed.
type Config struct {
	Seed         uint64
	Participants int           // 3 or 5; such a group never has fewer
	Observers    int           // with Participants only
	Small        bool          // one to three voters begin, and there may be one at a time
	Whole        bool          // no write is torn: which are depends on how far Pebble's goroutines are
	Chaos        time.Duration // simulated time with faults
	Ops          int           // operations of clients until the faults stop, about
	Plant        Plant
	Trace        io.Writer // gets a line for each thing that happens; nil: none
}

// Report says what happened in a run.
type Report struct {
	Hash      uint64 // of all that happened, in order: equal runs have equal ones
	Members   int
	Ops       int // of clients: answered
	Unknown   int // of clients: dropped, or under way at a crash
	Entries   int // committed
	Events    int // steps of the simulation
	Crashes   int
	Elections int
	Snapshots int // installed
	Changes   int // of membership, committed
	Watches   int // fired and seen by clients
	Expired   int // sessions
	Simulated time.Duration
	Drawn     tally
}

// The simulated time that a run takes at most after the faults stop, and before it must have its first leader.
const healingMax = 60 * time.Second

// epoch is when simulated time begins.
var epoch = time.UnixMilli(1_700_000_000_000)

// world is one run. Everything in it belongs to the one goroutine that runs it.
type world struct {
	cfg     Config
	profile profile
	rng     *rand.Rand
	clock   *clock.Manual
	now     time.Duration // simulated, since epoch
	moment  int64         // counts observations: no two are made at the same one
	queue   queue
	members []*member
	net     *network
	clients []*client
	ledger  *ledger
	history []*op // of writes and sync+reads, in the order of their calls
	trace   trace
	group   *group
	asked   int  // operations that clients have asked for
	values  int  // data that was drawn
	healing bool // the faults have stopped
	report  Report
	failure error // the first violation
}

// Run simulates one ensemble and says what it did. The error is the first violation that was found, with the seed and
// the state of all members.
func Run(cfg Config) (report Report, err error) {
	w := newWorld(cfg)
	defer w.close()
	defer func() {
		if cause := recover(); cause != nil {
			w.fail("panic: %v\n%s", cause, debug.Stack())
		}
		report, err = w.result()
	}()
	w.play()
	return w.result()
}

// newWorld draws a run.
func newWorld(cfg Config) *world {
	w := &world{
		cfg: cfg, clock: clock.NewManual(epoch),
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0x7a6b64)), //nolint:gosec // a run must repeat
		trace: trace{hash: fnvOffset, out: cfg.Trace},
	}
	w.profile = drawProfile(w)
	w.ledger = newLedger(w)
	w.net = newNetwork(w)
	w.makeMembers()
	w.group = newGroup(w)
	w.makeClients()
	return w
}

// play is the run: faults, healing, and the last checks.
func (w *world) play() {
	w.startFounders()
	for _, c := range w.clients {
		c.think()
	}
	w.plague()
	w.run(w.profile.chaos, func() bool { return false })
	w.heal()
	end := w.now + healingMax
	if !w.run(end, w.healed) && w.failure == nil {
		w.fail("not healed within %v of simulated time: %s", healingMax, w.whyNotHealed())
	}
	if w.failure == nil {
		w.checkEnd()
	}
}

// startFounders starts the founders, at about the same time; now and then fewer than half of them come much later, when
// the others have founded the ensemble.
func (w *world) startFounders() {
	lateMax := 0
	if w.chance(30) {
		lateMax = (w.profile.participants - 1) / 2
	}
	for _, m := range w.members {
		switch {
		case m.reserve:
		case lateMax > 0 && !m.learner && w.chance(50):
			lateMax--
			m.lost = true
			w.count(drawnLateFounder)
			w.after(w.upTo(3*time.Second), m.start)
		default:
			w.after(w.upTo(50*time.Millisecond), m.start)
		}
	}
}

// run lets things happen until the condition holds, a violation is found, or the moment has come; true in the first
// case.
func (w *world) run(until time.Duration, condition func() bool) bool {
	for w.failure == nil {
		if condition() {
			return true
		}
		e, ok := w.queue.take(until)
		if !ok {
			w.advance(until)
			return false
		}
		w.advance(e.at)
		w.report.Events++
		e.do()
	}
	return false
}

// advance moves the clocks forward.
func (w *world) advance(to time.Duration) {
	if to > w.now {
		w.clock.Advance(to - w.now)
		w.now = to
	}
}

// after plans do.
func (w *world) after(d time.Duration, do func()) { w.queue.put(w.now+d, do) }

// observe returns a moment of its own for an observation.
func (w *world) observe() int64 {
	w.moment++
	return w.moment
}

// upTo draws a duration below d.
func (w *world) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(d)))
}

// between draws a duration.
func (w *world) between(low, high time.Duration) time.Duration { return low + w.upTo(high-low) }

// chance is true in percent cases of a hundred.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// draw returns one of several.
func draw[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// fail records a violation, unless one was found before.
func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.trace.textf(w.now, "VIOLATION: %v", w.failure)
	}
}

// result is what Run returns.
func (w *world) result() (Report, error) {
	r := w.report
	r.Hash, r.Members, r.Simulated = w.trace.hash, len(w.members), w.now
	r.Entries = len(w.ledger.entries)
	if r.Changes > 0 && r.Drawn[drawnLostDisk] > 0 {
		r.Drawn[drawnLossAndChange]++
	}
	if w.failure == nil {
		return r, nil
	}
	return r, fmt.Errorf("seed %d (small: %v), after %v: %w\n%s", w.cfg.Seed, w.cfg.Small, w.now, w.failure,
		w.describe())
}

// describe is the state of all members, a line each.
func (w *world) describe() string {
	var b strings.Builder
	for _, m := range w.members {
		b.WriteString(m.describe())
		b.WriteByte('\n')
	}
	return b.String()
}

// close ends what is left running.
func (w *world) close() {
	for _, m := range w.members {
		m.kill()
	}
}
