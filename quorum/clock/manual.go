package clock

import (
	"slices"
	"sync"
	"time"
)

// Manual is a clock that stands still until it is told to move. Its methods may be called by any goroutine.
type Manual struct {
	mu      sync.Mutex
	changed *sync.Cond // signalled when the set of planned events changes, and when a tick is done with

	now    time.Time      // guarded by mu
	events []*manualEvent // guarded by mu; planned ones, in no order
}

// NewManual returns a clock that shows start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// Now is where the clock stands.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Since is Now less t.
func (m *Manual) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

// NewTimer fires when the clock is moved to d from now or beyond; at once if d is not positive.
func (m *Manual) NewTimer(d time.Duration) Timer {
	e := &manualEvent{clock: m, c: make(chan time.Time, 1)}
	e.Reset(d)
	return manualTimer{e}
}

// NewTicker fires each time that the clock is moved over another d, which must be positive.
func (m *Manual) NewTicker(d time.Duration) Ticker {
	if d <= 0 {
		panic("clock: a ticker's period must be positive")
	}
	e := &manualEvent{clock: m, c: make(chan time.Time, 1), period: d}
	e.Reset(d)
	return manualTicker{e}
}

// Advance moves the clock by d. The events on the way fire in their order, each with the clock standing at its time;
// nobody is waited for. To code that compares the clock with what it had planned, a long way in one call looks like a
// pause of the whole process: go in steps of its period to simulate a process that runs.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.now.Add(d)
	for {
		next := m.nextLocked()
		if next == nil || next.at.After(end) {
			break
		}
		if next.at.After(m.now) {
			m.now = next.at
		}
		m.fireLocked(next)
	}
	if end.After(m.now) {
		m.now = end
	}
}

// Step moves the clock by d as Advance does, and returns when each goroutine whose ticker fired has done what it does
// at a tick: it has taken the tick, and asked for its ticker's channel again (or stopped it). So the code under test
// sees a process that runs, however slow the machine is. A goroutine that keeps its ticker's channel, or blocks until
// the clock moves on, makes Step wait for ever.
func (m *Manual) Step(d time.Duration) {
	m.Advance(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	for slices.ContainsFunc(m.events, func(e *manualEvent) bool { return e.ticked }) {
		m.changed.Wait()
	}
}

// AwaitEvents returns when at least n timers and tickers are planned: how a test learns that the code under test waits
// again.
func (m *Manual) AwaitEvents(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.events) < n {
		m.changed.Wait()
	}
}

// nextLocked is the earliest planned event, nil if there is none.
func (m *Manual) nextLocked() *manualEvent {
	var next *manualEvent
	for _, e := range m.events {
		if next == nil || e.at.Before(next.at) {
			next = e
		}
	}
	return next
}

// fireLocked delivers e and plans its next time, or forgets it.
func (m *Manual) fireLocked(e *manualEvent) {
	select {
	case e.c <- e.at:
	default: // not taken in time: dropped, as package time does
	}
	if e.period > 0 {
		e.ticked = true
		e.at = e.at.Add(e.period)
		return
	}
	m.forgetLocked(e)
}

// forgetLocked takes e out of the planned events; false if it was not there.
func (m *Manual) forgetLocked(e *manualEvent) bool {
	i := slices.Index(m.events, e)
	if i < 0 {
		return false
	}
	m.events = slices.Delete(m.events, i, i+1)
	m.changed.Broadcast()
	return true
}

// manualEvent is a timer or ticker of a Manual.
type manualEvent struct {
	clock  *Manual
	c      chan time.Time // one value: what is not taken in time is dropped
	period time.Duration  // 0 for a timer; immutable
	at     time.Time      // guarded by clock.mu
	ticked bool           // a ticker that fired, whose owner has not come back for the next tick; guarded by clock.mu
}

// C receives the event's times.
func (e *manualEvent) C() <-chan time.Time {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	if e.ticked && len(e.c) == 0 {
		e.ticked = false
		e.clock.changed.Broadcast()
	}
	return e.c
}

// Stop calls the event off and empties its channel.
func (e *manualEvent) Stop() bool {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	planned := e.clock.forgetLocked(e)
	e.drain()
	return planned
}

// Reset plans the event anew, d from now.
func (e *manualEvent) Reset(d time.Duration) bool {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	planned := e.clock.forgetLocked(e)
	e.drain()
	e.at = e.clock.now.Add(d)
	e.clock.events = append(e.clock.events, e)
	e.clock.changed.Broadcast()
	if d <= 0 {
		e.clock.fireLocked(e)
	}
	return planned
}

// drain drops a value that was not taken.
func (e *manualEvent) drain() {
	select {
	case <-e.c:
	default: // nothing there
	}
}

// manualTimer is a manualEvent that happens once.
type manualTimer struct{ *manualEvent }

// manualTicker is a manualEvent that repeats; its Stop answers nothing.
type manualTicker struct{ event *manualEvent }

func (t manualTicker) C() <-chan time.Time { return t.event.C() }
func (t manualTicker) Stop()               { t.event.Stop() }
