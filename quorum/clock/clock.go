package clock

import "time"

// Clock tells the time and waits. Its methods may be called by any goroutine.
type Clock interface {
	// Now is the present, with a monotonic reading where there is one.
	Now() time.Time
	// Since is Now less t.
	Since(t time.Time) time.Duration
	// NewTimer fires once, d from now; at once if d is not positive.
	NewTimer(d time.Duration) Timer
	// NewTicker fires every d, which must be positive, until it is stopped.
	NewTicker(d time.Duration) Ticker
}

// Timer is one event in the future.
type Timer interface {
	// C receives the time of the event.
	C() <-chan time.Time
	// Stop calls the event off; false if it has fired or was stopped before. Nothing of it can be received afterwards.
	Stop() bool
	// Reset plans the event anew, d from now; false as Stop. Nothing of the earlier event can be received afterwards.
	Reset(d time.Duration) bool
}

// Ticker is an event that repeats.
type Ticker interface {
	// C receives the times of the events. A slow receiver misses some.
	C() <-chan time.Time
	// Stop ends the events; C is not closed.
	Stop()
}

// Real returns the machine's clock.
func Real() Clock { return realClock{} }

// realClock is package time.
type realClock struct{}

func (realClock) Now() time.Time                   { return time.Now() }
func (realClock) Since(t time.Time) time.Duration  { return time.Since(t) }
func (realClock) NewTimer(d time.Duration) Timer   { return realTimer{time.NewTimer(d)} }
func (realClock) NewTicker(d time.Duration) Ticker { return realTicker{time.NewTicker(d)} }

// realTimer is a time.Timer, whose channel is a field.
type realTimer struct{ timer *time.Timer }

func (t realTimer) C() <-chan time.Time        { return t.timer.C }
func (t realTimer) Stop() bool                 { return t.timer.Stop() }
func (t realTimer) Reset(d time.Duration) bool { return t.timer.Reset(d) }

// realTicker is a time.Ticker, whose channel is a field.
type realTicker struct{ ticker *time.Ticker }

func (t realTicker) C() <-chan time.Time { return t.ticker.C }
func (t realTicker) Stop()               { t.ticker.Stop() }
