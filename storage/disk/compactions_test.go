package disk

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// compactingStore is a store that wants to run want compactions.
type compactingStore struct {
	pebble.DBForCompaction
	want   int
	grants []pebble.CompactionGrantHandle
	asks   int
	during func() // runs inside the next GetWaitingCompaction
}

func (s *compactingStore) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	s.asks++
	waiting := s.want > 0
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	return waiting, pebble.WaitingCompaction{}
}

func (s *compactingStore) Schedule(grant pebble.CompactionGrantHandle) bool {
	if s.want == 0 {
		return false
	}
	s.want--
	s.grants = append(s.grants, grant)
	return true
}

// finish ends the compaction that was begun last.
func (s *compactingStore) finish() {
	grant := s.grants[len(s.grants)-1]
	s.grants = s.grants[:len(s.grants)-1]
	grant.Done()
}

// running is the answer of a store that has not stopped.
func running() error { return nil }

func TestCompactionsWaitForRelease(t *testing.T) {
	store := &compactingStore{want: 2}
	c := NewCompactions(running)
	c.Register(1, store)
	if ok, _ := c.TrySchedule(); ok {
		t.Fatal("a compaction may run before release")
	}
	c.Release()
	if len(store.grants) != 1 {
		t.Fatalf("%d compactions run after release, want 1: one at a time", len(store.grants))
	}
	if ok, _ := c.TrySchedule(); ok {
		t.Fatal("a second compaction may run beside the first")
	}
	store.finish()
	if len(store.grants) != 1 || store.want != 0 {
		t.Fatalf("%d compactions run after the first has ended, %d wait, want 1 and 0", len(store.grants), store.want)
	}
	store.finish()
	if ok, _ := c.TrySchedule(); !ok {
		t.Fatal("no compaction may run though none does")
	}
}

func TestCompactionRefusedDuringAnOfferIsOfferedAgain(t *testing.T) {
	store := &compactingStore{}
	c := NewCompactions(running)
	c.Register(1, store)
	store.during = func() {
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction may run while another is offered")
		}
		store.want = 1
	}
	c.Release()
	if len(store.grants) != 1 || store.asks != 2 {
		t.Fatalf("%d compactions run after %d offers, want 1 after 2", len(store.grants), store.asks)
	}
}

func TestCompactionsEndWithTheStore(t *testing.T) {
	store := &compactingStore{want: 1}
	c := NewCompactions(running)
	c.Register(1, store)
	c.Release()
	store.want = 1
	c.Unregister()
	asks := store.asks
	store.finish()
	if store.asks != asks {
		t.Fatal("a store was called after Unregister")
	}
	if ok, _ := c.TrySchedule(); ok {
		t.Fatal("a compaction may run after Unregister")
	}
}

// TestCompactionsEndWithAFailure lets the store stop during a compaction, which Pebble would begin again for ever.
func TestCompactionsEndWithAFailure(t *testing.T) {
	store := &compactingStore{want: 2}
	var failure error
	c := NewCompactions(func() error { return failure })
	c.Register(1, store)
	c.Release()
	failure = ErrDiskFailed
	asks := store.asks
	store.finish()
	if store.asks != asks {
		t.Fatal("a store that has stopped was offered a compaction")
	}
	if ok, _ := c.TrySchedule(); ok {
		t.Fatal("a compaction may run in a store that has stopped")
	}
}
