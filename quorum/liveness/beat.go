package liveness

import (
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// Halt has the time of the sessions stand still, or go on: while a leader cannot commit anything, no client can take up
// its session, and an end that is proposed would come before it could. It takes effect with the next beat.
func (t *Tracker) Halt(halt bool) { t.halted.Store(halt) }

// run is the tracker's goroutine: it wakes at each beat, notices pauses, and expires what is due or reports what was
// heard.
func (t *Tracker) run(ticker clock.Ticker) {
	defer ticker.Stop()
	last := t.options.Clock.Now() // when this goroutine was last seen to run
	grace := int64(0)             // tracker's time before which nobody expires
	next := t.halfTick()          // when the next report is due, tracker's time
	var halted time.Time          // the beat before Halt; zero: time goes on
	paused := false               // since then, or since the last beat
	var expired, heard []jute.SessionID
	for {
		select {
		case <-ticker.C():
		case <-t.stop:
			return
		}
		gap := t.options.Clock.Since(last)
		paused = paused || gap > 2*t.beat
		if t.halted.Load() {
			if halted.IsZero() {
				halted = last
			}
			last = t.options.Clock.Now()
			continue
		}
		switch {
		case !halted.IsZero():
			t.setBack(t.options.Clock.Since(halted))
			halted = time.Time{}
		case paused:
			t.logger.Warn("process paused: session timeouts extended", slog.Duration("took", gap-t.beat))
			t.setBack(gap - t.beat)
		}
		if paused { // what clients have sent meanwhile may not be read yet
			paused = false
			grace = t.now() + int64(t.options.Tick)
			next = min(next, t.now())
		}
		now := t.now()
		if t.Expiring() {
			if now >= grace {
				expired = t.expire(expired[:0])
			}
		} else if now >= next {
			next = now + t.halfTick()
			heard = t.report(heard[:0])
		}
		// The calls may have blocked: that time is no pause of the process.
		last = t.options.Clock.Now()
	}
}

// setBack sets the tracker's clock back by a pause of the process, or by the time for which it was halted. Those who
// were heard before that was done bear times that the clock will reach only later; they are set to the present.
func (t *Tracker) setBack(pause time.Duration) {
	t.paused.Add(int64(pause))
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	t.floor.Store(min(t.floor.Load(), now))
	t.reported = min(t.reported, now)
	for _, s := range t.mu.sessions { // order: each is looked at by itself
		if heard := s.heard.Load(); heard > now {
			s.heard.CompareAndSwap(heard, now) // if it fails it was heard again
		}
	}
}

// expire hands those that are due to Expire. buf is used for them and returned.
func (t *Tracker) expire(buf []jute.SessionID) []jute.SessionID {
	handed := buf
	for {
		buf = t.collect(buf[:0])
		if len(buf) == 0 {
			return handed
		}
		t.options.Expire(buf)
		handed = buf
		select {
		case <-t.stop:
			return handed
		default:
		}
	}
}

// collect takes at most expireBatch sessions that are due out of their buckets, and moves those that were heard since
// they were put there to where they belong.
func (t *Tracker) collect(buf []jute.SessionID) []jute.SessionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.expiring {
		return buf
	}
	present := t.now() / int64(t.options.Tick)
	for ; t.mu.next <= present; t.mu.next++ {
		due := t.mu.next
		for b := t.mu.buckets[due]; b != nil && b.head.next != &b.head; {
			s := b.head.next
			if t.deadline(s) > due {
				t.placeLocked(s)
				continue
			}
			if len(buf) == expireBatch {
				return buf
			}
			t.unlinkLocked(s)
			t.handLocked(s)
			buf = append(buf, s.id)
		}
	}
	return buf
}
