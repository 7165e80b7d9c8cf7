package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"zkd/quorum/clock"
)

var start = time.Unix(1_000_000, 0)

func TestManualTimerFiresAtItsTime(t *testing.T) {
	c := clock.NewManual(start)
	timer := c.NewTimer(time.Second)
	c.Advance(999 * time.Millisecond)
	wantNone(t, timer.C())
	c.Advance(time.Hour)
	wantAt(t, timer.C(), start.Add(time.Second))
	if timer.Stop() {
		t.Error("Stop of a timer that has fired says it was planned")
	}
	if got, want := c.Since(start), time.Hour+999*time.Millisecond; got != want {
		t.Errorf("clock moved by %v, want %v", got, want)
	}
}

func TestManualTimerNotPositiveFiresAtOnce(t *testing.T) {
	c := clock.NewManual(start)
	wantAt(t, c.NewTimer(0).C(), start)
}

func TestManualResetForgetsTheEarlierEvent(t *testing.T) {
	c := clock.NewManual(start)
	timer := c.NewTimer(time.Second)
	c.Advance(time.Second)
	timer.Reset(time.Second)
	wantNone(t, timer.C())
	c.Advance(time.Second)
	wantAt(t, timer.C(), start.Add(2*time.Second))
}

func TestManualTickerKeepsItsGridAndDropsWhatIsNotTaken(t *testing.T) {
	c := clock.NewManual(start)
	ticker := c.NewTicker(time.Second)
	c.Advance(3500 * time.Millisecond)
	wantAt(t, ticker.C(), start.Add(time.Second))
	wantNone(t, ticker.C())
	c.Advance(500 * time.Millisecond)
	wantAt(t, ticker.C(), start.Add(4*time.Second))
	ticker.Stop()
	c.Advance(time.Hour)
	wantNone(t, ticker.C())
}

// TestManualStepWaitsForTheTick: what an owner does at a tick is done when Step returns.
func TestManualStepWaitsForTheTick(t *testing.T) {
	c := clock.NewManual(start)
	ticker, stop, stopped := c.NewTicker(time.Second), make(chan struct{}), make(chan struct{})
	done := 0 // without a lock: Step is what orders it
	go func() {
		defer close(stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				done++
			case <-stop:
				return
			}
		}
	}()
	for i := range 1000 {
		c.Step(500 * time.Millisecond)
		if want := (i + 1) / 2; done != want {
			t.Fatalf("%d ticks are done with after %d half seconds, want %d", done, i+1, want)
		}
	}
	close(stop)
	<-stopped
	c.Step(time.Hour) // nobody is waited for
}

func TestManualAwaitEvents(t *testing.T) {
	c := clock.NewManual(start)
	done := make(chan struct{})
	go func() {
		<-c.NewTimer(time.Minute).C()
		close(done)
	}()
	c.AwaitEvents(1)
	c.Advance(time.Minute)
	<-done
}

func TestRealIsPackageTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Real()
		began := c.Now()
		<-c.NewTimer(time.Minute).C()
		ticker := c.NewTicker(time.Second)
		<-ticker.C()
		ticker.Stop()
		if got, want := c.Since(began), time.Minute+time.Second; got != want {
			t.Errorf("waited %v, want %v", got, want)
		}
		timer := c.NewTimer(time.Hour)
		if !timer.Reset(time.Second) || !timer.Stop() {
			t.Error("a planned timer says it was not")
		}
	})
}

func wantAt(t *testing.T, c <-chan time.Time, want time.Time) {
	t.Helper()
	select {
	case got := <-c:
		if !got.Equal(want) {
			t.Errorf("fired at %v, want %v", got, want)
		}
	default:
		t.Errorf("not fired, want %v", want)
	}
}

func wantNone(t *testing.T, c <-chan time.Time) {
	t.Helper()
	select {
	case got := <-c:
		t.Errorf("fired at %v, want nothing", got)
	default:
	}
}
