package quorum

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum/clock"
)

// settableClock is a time of day that a test sets, beside a clock that only goes forward.
type settableClock struct {
	*clock.Manual
	off time.Duration
}

// now is the time of day.
func (c *settableClock) now() time.Time { return c.Manual.Now().Add(c.off) }

// timekeeper returns a timestamper and what it goes by.
func timekeeper(last jute.Millis) (*timestamper, *clockSkew, *settableClock, *bytes.Buffer) {
	c, text := &settableClock{Manual: clock.NewManual(time.UnixMilli(1_000_000_000))}, &bytes.Buffer{}
	o := &Options{Clock: c, Now: c.now, Logger: slog.New(slog.NewTextHandler(text, nil))}
	s := newClockSkew(o)
	return newTimestamper(o, s, last), s, c, text
}

// TestTimesDoNotStepBack: a clock that is set back makes time go slower until it has caught up, not back.
func TestTimesDoNotStepBack(t *testing.T) {
	s, _, c, text := timekeeper(0)
	last := s.next()
	if want := jute.Millis(c.now().UnixMilli()); last != want {
		t.Fatalf("the first time is %d, want the clock's %d", last, want)
	}
	c.off = -30 * time.Second
	for range 61 {
		c.Advance(time.Second)
		at := s.next()
		if at < last || at > last+501 && at > jute.Millis(c.now().UnixMilli()) {
			t.Fatalf("%d after %d, the clock says %d", at, last, c.now().UnixMilli())
		}
		last = at
	}
	if now := jute.Millis(c.now().UnixMilli()); last != now {
		t.Errorf("after twice the step the time is %d, want the clock's %d", last, now)
	}
	if text.Len() > 0 {
		t.Errorf("logged: %s", text)
	}
}

// TestALogFarAheadHoldsNothingUp: the entries of a leader whose clock was a year ahead do not stop the time.
func TestALogFarAheadHoldsNothingUp(t *testing.T) {
	s, _, c, text := timekeeper(1)
	now := jute.Millis(c.now().UnixMilli())
	s.note(now + jute.Millis((365 * 24 * time.Hour).Milliseconds()))
	if at := s.next(); at != now {
		t.Errorf("the time is %d, want the clock's %d", at, now)
	}
	c.Advance(time.Second)
	if at := s.next(); at != now+1000 {
		t.Errorf("a second later it is %d, want %d", at, now+1000)
	}
	if got := strings.Count(text.String(), "write timestamps stepped back"); got != 1 {
		t.Errorf("told %d times: %s", got, text)
	}
}

// TestALeaderGoesOnFromItsLog: entries of another leader set where the time begins, and those that take their place do.
func TestALeaderGoesOnFromItsLog(t *testing.T) {
	s, _, c, _ := timekeeper(1)
	now := jute.Millis(c.now().UnixMilli())
	s.note(now + 5000)
	s.note(now + 4000) // in place of the one before, which was not committed
	if at := s.next(); at != now+4000 {
		t.Errorf("the time is %d, want the log's %d", at, now+4000)
	}
	s.heard(now + 9000) // of others, who know no better
	if at := s.next(); at != now+4000 {
		t.Errorf("the time is %d, want the log's %d", at, now+4000)
	}
	s.forget() // a snapshot has come
	s.heard(now + 9000)
	if at := s.next(); at != now+9000 {
		t.Errorf("the time is %d, want what another member has told, %d", at, now+9000)
	}
}

// TestALogRemembersTheTimeOfWhatItHasForgotten: a member whose log has no entry left that bears a time goes on from
// those that were there, also after terms in which nobody wrote.
func TestALogRemembersTheTimeOfWhatItHasForgotten(t *testing.T) {
	fs, m := vfs.NewMem(), &fakeMachine{durable: true}
	start := func(ahead int64) *Node {
		o := testOptions(openLog(t, fs, "log"), m)
		o.Now = func() time.Time { return time.UnixMilli(1_000_000_000 + ahead) }
		o.TailEntries, o.TailBytes, o.RetainBytes = 1, 1, 1
		return startNode(t, o)
	}
	write := func(n *Node, seq uint32) jute.Millis {
		mustWrite(t, n, applied{1, seq})
		at, err := lastTime(n.loop.view, n.options.Log.LastIndex())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	n := start(30_000)
	before, written := write(n, 1), n.options.Log.LastIndex()
	for range 3 { // starts, of which each begins a term
		eventually(t, "the log has forgotten the write", func() bool {
			notify(n.compactor.signal)
			return n.options.Log.FirstIndex() > written
		})
		stopNode(t, n)
		n = start(0)
	}
	if after := write(n, 2); after < before {
		t.Errorf("an entry bears %d, the one before it %d", after, before)
	}
}

// answers has members answer, with clocks that far from this one's, after a round trip.
func answers(s *clockSkew, c *settableClock, trip time.Duration, skewed map[uint64]time.Duration) {
	for id, skew := range skewed { // any order
		s.speaks(id, true)
		f := clockFrame{answer: true, asked: s.elapsed()}
		c.Advance(trip / 2)
		f.now = c.now().Add(skew).UnixNano()
		c.Advance(trip / 2)
		s.take(id, &f)
	}
}

// TestAClockFarFromTheMajorityIsCorrected: a leader goes by the others' clocks if most of them differ from its own.
func TestAClockFarFromTheMajorityIsCorrected(t *testing.T) {
	const far = time.Hour
	for name, c := range map[string]struct {
		skewed map[uint64]time.Duration
		want   time.Duration
	}{
		"nobody has answered":       {nil, 0},
		"all agree":                 {map[uint64]time.Duration{2: 20 * time.Millisecond, 3: -30 * time.Millisecond}, 0},
		"one other is off":          {map[uint64]time.Duration{2: far, 3: 0}, 0},
		"two others are off apart":  {map[uint64]time.Duration{2: far, 3: -far}, 0},
		"this one is behind":        {map[uint64]time.Duration{2: far, 3: far + time.Second}, far - clockSkewMax},
		"this one is before":        {map[uint64]time.Duration{2: -far, 3: -far - time.Second}, clockSkewMax - far},
		"one of two":                {map[uint64]time.Duration{2: far}, 0},
		"the third is an observer":  {map[uint64]time.Duration{2: far, 9: far}, 0},
		"behind all of five":        {map[uint64]time.Duration{2: far, 3: far, 4: far, 5: 0}, far - clockSkewMax},
		"the lesser part of five":   {map[uint64]time.Duration{2: far, 3: far, 4: 0, 5: 0}, 0},
		"off, but within the bound": {map[uint64]time.Duration{2: clockSkewMax, 3: clockSkewMax}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, s, now, text := timekeeper(0)
			voters := []uint64{1, 2, 3}
			if len(c.skewed) > 2 {
				voters = append(voters, 4, 5)
			}
			s.settle(voters)
			answers(s, now, 0, c.skewed)
			if got := s.correction(); (got - c.want).Abs() > time.Millisecond {
				t.Errorf("corrected by %v, want %v", got, c.want)
			}
			if told := strings.Contains(text.String(), "local clock skew: check NTP"); told != (c.want != 0) {
				t.Errorf("told %v: %s", told, text)
			}
			now.Advance(2 * clockStale)
			s.settle(voters)
			if got := s.correction(); got != 0 {
				t.Errorf("corrected by %v by what is stale", got)
			}
		})
	}
}

// TestASlowAnswerProvesNothing: what the round trip may have made of it is not held against a clock.
func TestASlowAnswerProvesNothing(t *testing.T) {
	_, s, now, text := timekeeper(0)
	s.settle([]uint64{1, 2, 3})
	late := func(id uint64, back time.Duration) { // all of the trip is on the way back
		s.speaks(id, true)
		f := clockFrame{answer: true, asked: s.elapsed(), now: now.now().UnixNano()}
		now.Advance(back)
		s.take(id, &f)
	}
	late(2, 4*time.Second)
	late(3, 4*time.Second)
	if s.correction() != 0 || text.Len() > 0 {
		t.Errorf("corrected by %v: %s", s.correction(), text)
	}
	late(2, 10*time.Millisecond)
	if got := s.status(); len(got) != 2 || got[0].ID != 2 || got[0].Skew.Abs() > 10*time.Millisecond ||
		got[1].Error < time.Second {
		t.Errorf("the clocks are %+v", got)
	}
}

// TestAClockThatIsOffIsToldOf when that begins and when it ends, and a clock that is set is noticed at once.
func TestAClockThatIsOffIsToldOf(t *testing.T) {
	_, s, now, text := timekeeper(0)
	const warned, ended = "clock skew with peer: check NTP", "clock skew with peer resolved"
	count := func(what string, want int) {
		t.Helper()
		if got := strings.Count(text.String(), what); got != want {
			t.Errorf("%q is logged %d times, want %d: %s", what, got, want, text)
		}
	}
	for range 5 {
		answers(s, now, 10*time.Millisecond, map[uint64]time.Duration{2: 600 * time.Millisecond})
		now.Advance(clockInterval)
	}
	count(warned, 1)
	if got := s.status(); len(got) != 1 || !got[0].Far || (got[0].Skew-600*time.Millisecond).Abs() > got[0].Error {
		t.Errorf("the clocks are %+v", got)
	}
	answers(s, now, 10*time.Millisecond, map[uint64]time.Duration{2: 450 * time.Millisecond}) // neither nor
	count(ended, 0)
	answers(s, now, 10*time.Millisecond, map[uint64]time.Duration{2: 10 * time.Millisecond})
	count(ended, 1)
	now.Advance(2 * clockStale)
	if got := s.status(); len(got) != 0 {
		t.Errorf("stale: %+v", got)
	}
}

// FuzzClockFrame: what comes from another member never panics, and is what was sent.
func FuzzClockFrame(f *testing.F) {
	f.Add(clockFrame{answer: true, asked: 5, now: 6, newest: 7}.append(nil))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeClock(b)
		if err != nil {
			return
		}
		if again, err := decodeClock(got.append(nil)); err != nil || again != got {
			t.Errorf("%+v comes back as %+v, %v", got, again, err)
		}
		_, s, _, _ := timekeeper(0)
		s.speaks(2, true)
		s.take(2, &got)
		s.status()
	})
}
