package sim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFlushes: a table counts as being written until it is closed.
func TestFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Random: rand.New(rand.NewPCG(1, 1)), Participants: 1}) //nolint:gosec // a test
		s := w.Servers[0]
		if s.Flushes() {
			t.Error("a server that is down writes a table")
		}
		s.life = &life{mount: s.volume.open()}
		for name, want := range map[string]bool{"/1.sst": true, "/1.log": false} { // order: each for itself
			file, err := s.life.mount.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil || s.Flushes() != want {
				t.Errorf("%s is created: a table is written: %v, %v", name, s.Flushes(), err)
			}
			if err := file.Close(); err != nil || s.Flushes() {
				t.Errorf("%s is closed, and a table is written: %v", name, err)
			}
		}
	})
}

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
