package sim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// TestAway: nothing starts a server that is away.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Random: rand.New(rand.NewPCG(1, 1)), Participants: 1}) //nolint:gosec // a test
		s := w.Servers[0]
		s.Leave()
		if s.Start(); s.Up() {
			t.Error("an absent server has started")
		}
		s.Come()
		if s.Start(); !s.Up() {
			t.Error("a server that is there again does not start")
		}
		s.Withdraw()
		<-s.life.over
		if !s.Stopped() || !s.Away() {
			t.Error("a server that was withdrawn runs")
		}
		if s.Start(); s.Up() {
			t.Error("a server that was withdrawn has started")
		}
		w.Close()
	})
}
