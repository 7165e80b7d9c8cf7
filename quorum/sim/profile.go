package sim

import (
	"time"

	"zkd/storage/ensemble"
	"zkd/storage/entry"
)

// profile is the kind of a run: how many members, how long, which faults.
type profile struct {
	participants, observers, reserves, clients int
	votersMin                                  int // that changes of the membership leave

	chaos      time.Duration
	ops        int
	dataMax    int // bytes
	thinkMax   time.Duration
	timeoutMin time.Duration // of sessions
	moves      bool          // clients move and close their sessions of their own will

	tick          time.Duration
	electionTicks int
	compareTicks  int // between two comparisons of states
	maxEntryBytes int
	tailEntries   uint64
	retainBytes   int64
	recentBytes   int64 // of the log in memory
	flushInterval time.Duration
	bootstrap     []byte
	config        ensemble.Config // that bootstrap names, with reconfigs
	reconfigs     bool            // clients change the membership, and not the leader by itself

	latencyMax  time.Duration // of frames in general
	fsyncMax    time.Duration // in general
	fullPercent int           // of frames that find a full queue
	wild        bool          // frames are lost, repeated and overtaken
	skewMax     time.Duration // of clocks

	faultGap time.Duration // between faults, about
	faults   []fault
}

// drawProfile draws the kind of a run.
func drawProfile(w *world) profile {
	p := profile{
		participants: 3, votersMin: 3, reserves: w.rng.IntN(4), reconfigs: w.chance(75), clients: 2 + w.rng.IntN(4),
		chaos: w.between(2*time.Second, 6*time.Second), ops: 100 + w.rng.IntN(300), dataMax: 1 + w.rng.IntN(200),
		thinkMax:   w.between(5*time.Millisecond, 60*time.Millisecond),
		timeoutMin: w.between(300*time.Millisecond, 4*time.Second),
		moves:      w.chance(80),
		tick:       20 * time.Millisecond, electionTicks: 10, compareTicks: 5 + int(w.cfg.Seed%50),
		maxEntryBytes: 256 + w.rng.IntN(4<<10), tailEntries: uint64(2 + w.rng.IntN(40)), retainBytes: 256,
		flushInterval: w.between(100*time.Millisecond, 2*time.Second),
		latencyMax:    w.between(100*time.Microsecond, 4*time.Millisecond),
		fsyncMax:      w.between(200*time.Microsecond, 4*time.Millisecond),
		faultGap:      w.between(50*time.Millisecond, 1000*time.Millisecond),
	}
	if w.chance(30) {
		p.participants = 5
	}
	if w.chance(30) {
		p.observers = 1 + w.rng.IntN(2)
	}
	if w.chance(30) {
		p.retainBytes = 64 << 10
	}
	if w.chance(20) {
		p.fullPercent = 3
	}
	if w.chance(30) {
		p.skewMax = 10 * time.Second
	}
	p.recentBytes = 1 << (w.cfg.Seed % 16)
	p.wild = w.chance(20)
	if small := w.chance(20); small || w.cfg.Small { // one server grows to an ensemble, and shrinks back
		p.participants, p.votersMin, p.reserves = 1+w.rng.IntN(3), 1, 2+w.rng.IntN(3)
	}
	if w.cfg.Participants > 0 {
		p.participants, p.observers, p.votersMin = w.cfg.Participants, w.cfg.Observers, 3
	}
	if w.cfg.Chaos > 0 {
		p.chaos = w.cfg.Chaos
	}
	if w.cfg.Ops > 0 {
		p.ops = w.cfg.Ops
	}
	if p.participants >= 5 {
		w.count(drawnFive)
	}
	if p.participants < 3 {
		w.count(drawnSmall)
	}
	if p.observers > 0 {
		w.count(drawnObserver)
	}
	p.faults = w.drawFaults(&p)
	found := entry.FoundTxn{Config: []byte("simulated")}
	if p.reconfigs {
		for i := range p.participants + p.observers {
			p.config.Servers = append(p.config.Servers, serverLine(uint64(i+1), i >= p.participants))
		}
		found.Config = []byte(p.config.Text())
	}
	found.ClusterID[0], found.ClusterID[15] = 1, byte(w.rng.Uint32())
	p.bootstrap = found.Append(nil)
	return p
}
