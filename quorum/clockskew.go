package quorum

import (
	"encoding/binary"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// Members ask each other for the time of day, and take from an answer how far the other's clock is from theirs: they
// warn of one that is far off, and a leader whose own clock differs from those of most voters goes by theirs
// (docs/decisions/0024).

// Bounds on clocks.
const (
	// clockSkewMax is how far clocks may differ without a warning, and how far a leader's time may be from the
	// majority's: what NTP keeps on any network is far below, and no time to live is that short.
	clockSkewMax = 500 * time.Millisecond
	// clockSkewGood ends the warning, so that a clock at the bound does not fill the log. A guess.
	clockSkewGood = 400 * time.Millisecond
	// clockInterval is how often each member asks each other one, clockStale how old the newest answer may be that
	// counts, clockSamples how many are kept. Guesses: the one of the shortest round trip is the best of them.
	clockInterval = 2 * time.Second
	clockStale    = 20 * time.Second
	clockSamples  = 8
	// clockWarnings is how often at most the log tells of the same clock.
	clockWarnings = time.Minute
)

// ClockStatus is what this member knows of another one's clock.
type ClockStatus struct {
	ID    uint64
	Skew  time.Duration // how far it is before this member's
	Error time.Duration // how wrong that may be: half the round trip
	Far   bool          // beyond what may be
}

// clockFrame is a question for the time, or its answer.
type clockFrame struct {
	answer bool
	asked  time.Duration // when the question was sent; opaque to who answers
	now    int64         // of the answer: nanoseconds since 1970 by the clock of who answers
	newest jute.Millis   // the newest time of an entry that the sender knows of
}

// clockFrameBytes is the size of an encoded clockFrame: 1 for an answer, asked, now, newest, 8 bytes each. Later
// versions may add to it.
const clockFrameBytes = 1 + 3*8

// append adds the encoding of f to b.
func (f clockFrame) append(b []byte) []byte {
	kind := byte(0)
	if f.answer {
		kind = 1
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, uint64(f.asked))
	b = binary.BigEndian.AppendUint64(b, uint64(f.now))
	return binary.BigEndian.AppendUint64(b, uint64(f.newest))
}

// decodeClock reads what append wrote.
func decodeClock(b []byte) (clockFrame, error) {
	if len(b) < clockFrameBytes || b[0] > 1 {
		return clockFrame{}, errFrame
	}
	return clockFrame{
		answer: b[0] == 1, asked: time.Duration(binary.BigEndian.Uint64(b[1:])),
		now: int64(binary.BigEndian.Uint64(b[9:])), newest: jute.Millis(binary.BigEndian.Uint64(b[17:])),
	}, nil
}

// clockSkew is what is known of the other members' clocks.
type clockSkew struct {
	options *Options
	start   time.Time // on Options.Clock; what elapsed counts from
	warn    *warning.Limiter
	correct atomic.Int64 // nanoseconds: see correction

	mu     sync.Mutex
	peers  map[uint64]*peerClock // guarded by mu
	voters []uint64              // guarded by mu; this member may be one
	astray bool                  // guarded by mu; this member's clock differs from the majority's
}

// peerClock is one member's clock.
type peerClock struct {
	speaks  bool // it knows frames about clocks
	samples []clockSample
	far     bool
	told    time.Duration // when the log told of it last; 0: never
}

// clockSample is what one answer has shown.
type clockSample struct {
	at, skew, wrong time.Duration // elapsed; how far it is before ours; by how much at most that is wrong
}

// newClockSkew returns a table that knows nobody.
func newClockSkew(o *Options) *clockSkew {
	return &clockSkew{options: o, start: o.Clock.Now(), warn: warning.NewLimiter(o.Logger, o.Clock),
		peers: map[uint64]*peerClock{}}
}

// elapsed is the time since the start, never 0.
func (s *clockSkew) elapsed() time.Duration { return s.options.Clock.Since(s.start) + 1 }

// speaks notes whether a member knows frames about clocks, and tells whether that is new.
func (s *clockSkew) speaks(id uint64, speaks bool) (begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil {
		p = &peerClock{}
		s.peers[id] = p
	}
	begins = speaks && !p.speaks
	p.speaks = speaks
	return begins
}

// asked returns the members to ask.
func (s *clockSkew) asked() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []uint64
	for id, p := range s.peers { // sorted below
		if p.speaks {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// take takes an answer of a member.
func (s *clockSkew) take(id uint64, f *clockFrame) {
	now := s.elapsed()
	took := now - f.asked
	if f.asked <= 0 || took < 0 || took > clockStale {
		return // of another life of this member, or too late to say anything
	}
	there := time.Duration(f.now - s.options.Now().UnixNano())
	sample := clockSample{at: now, skew: there + took/2, wrong: took / 2}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil || !p.speaks {
		return
	}
	if best, ok := p.best(now); ok && (best.skew-sample.skew).Abs() > best.wrong+sample.wrong {
		p.samples = p.samples[:0] // one of the two clocks was set
	}
	if len(p.samples) == clockSamples {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
	p.samples = append(p.samples, sample)
	s.judgeLocked(id, p, now)
	s.settleLocked(now)
}

// best returns the sample to go by; false if there is none of late.
func (p *peerClock) best(now time.Duration) (best clockSample, ok bool) {
	for _, c := range p.samples {
		if now-c.at <= clockStale && (!ok || c.wrong <= best.wrong) {
			best, ok = c, true
		}
	}
	return best, ok
}

// judgeLocked warns of a clock that is far off, when that begins.
func (s *clockSkew) judgeLocked(id uint64, p *peerClock, now time.Duration) {
	best, ok := p.best(now)
	if !ok {
		return
	}
	off := best.skew.Abs()
	attrs := []any{slog.Int64("peer", serverid.Number(id)), slog.Duration("skew", best.skew),
		slog.Duration("error", best.wrong)}
	switch {
	case !p.far && off-best.wrong > clockSkewMax:
		p.far = true
		if p.told == 0 || now-p.told >= clockWarnings {
			p.told = now
			s.warn.Warn("clock skew with peer: check NTP", attrs...)
		}
	case p.far && off+best.wrong < clockSkewGood:
		p.far = false
		s.options.Logger.Info("clock skew with peer resolved", attrs...)
	}
}

// settle forgets what is stale, and finds out how far this member's clock is from the majority's.
func (s *clockSkew) settle(voters []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voters = voters
	s.settleLocked(s.elapsed())
}

// settleLocked works out the correction: from the middle one of the voters' clocks, or the nearer of the two in the
// middle. A clock that is not known is taken for right, so that only a majority of all voters corrects this one.
func (s *clockSkew) settleLocked(now time.Duration) {
	clocks := make([]time.Duration, 0, len(s.voters)+1)
	for _, id := range s.voters {
		var best clockSample
		if p := s.peers[id]; p != nil {
			best, _ = p.best(now)
		}
		// What the round trip leaves open is taken for this member's clock.
		sure := max(best.skew.Abs()-best.wrong, 0)
		if best.skew < 0 {
			sure = -sure
		}
		clocks = append(clocks, sure)
	}
	if len(clocks) == 0 {
		clocks = append(clocks, 0)
	}
	slices.Sort(clocks)
	low, high := clocks[(len(clocks)-1)/2], clocks[len(clocks)/2]
	correct, own := time.Duration(0), time.Duration(0)
	switch {
	case low > clockSkewMax:
		correct, own = low-clockSkewMax, -low
	case high < -clockSkewMax:
		correct, own = high+clockSkewMax, -high
	}
	s.correct.Store(int64(correct))
	if astray := correct != 0; astray != s.astray {
		s.astray = astray
		if astray {
			s.warn.Warn("local clock skew: check NTP", slog.Duration("skew", own))
		} else {
			s.options.Logger.Info("local clock skew resolved")
		}
	}
}

// correction is what to add to this member's clock so that it is not too far from those of most voters; 0 if it is not,
// or if the others' are not known.
func (s *clockSkew) correction() time.Duration { return time.Duration(s.correct.Load()) }

// status tells of all clocks that are known of late.
func (s *clockSkew) status() []ClockStatus {
	now := s.elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ClockStatus
	for id, p := range s.peers { // sorted below
		if best, ok := p.best(now); ok {
			all = append(all, ClockStatus{ID: id, Skew: best.skew, Error: best.wrong, Far: p.far})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}
