package batcher

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"zkd/jute"
)

// TestWhoMeetsTheBoundIsQueued and let in first come, first served, as room comes.
func TestWhoMeetsTheBoundIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBatcher(1, 1000)
		for number := range jute.Xid(4) {
			go func() {
				if err := b.Add(proposal(number, 1000), nil); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if s := b.Status(); s.Queued != 3 || s.Proposals != 1 {
			t.Fatalf("of four: %+v", s)
		}
		for want := range jute.Xid(4) {
			batches := b.Take(1, 0, nil)
			if len(batches) != 1 || !slices.Equal(read(t, batches[0]), []jute.Xid{want}) {
				t.Fatalf("took %v, want one of proposal %d", numbers(batches), want)
			}
			found, _ := b.Claim(batches[0].Number, 1)
			b.Release(found)
			synctest.Wait()
		}
		if s := b.Status(); s != (Status{Proposals: 4}) {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// TestAddIf: who is asked says so when there is room, and nothing is added behind a reconfig, taken or not.
func TestAddIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBatcher(1, 1000)
		addIf := func(still bool) (asked, added bool) {
			added, err := b.AddIf(proposal(2, 0), nil, func() bool { asked = true; return still })
			if err != nil {
				t.Error(err)
			}
			return asked, added
		}
		answer := func() {
			answerAll(b)
			synctest.Wait()
		}
		if err := b.Add(proposal(1, 1000), nil); err != nil { // there is no room behind it
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if asked, added := addIf(false); !asked || added {
				t.Errorf("asked %v, added %v, and what waited for room has become void", asked, added)
			}
		}()
		synctest.Wait()
		answer()
		<-ended
		if err := b.AddChange(nil, proposal(3, 0), nil); err != nil {
			t.Fatal(err)
		}
		if _, added := addIf(true); added {
			t.Error("it was added behind a reconfig that waits")
		}
		b.PutBack(b.Take(1, 0, nil)) // it is prepared
		if _, added := addIf(true); added {
			t.Error("it was added behind a reconfig that was put back")
		}
		answer()
		if asked, added := addIf(true); !asked || !added {
			t.Errorf("asked %v, added %v, and nothing holds it up", asked, added)
		}
		answer()
		if s := b.Status(); s != (Status{Proposals: 3}) {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// turnsAway sees to it that who is queued is told why when something is done.
func turnsAway(t *testing.T, b *Batcher, why error, do func()) {
	t.Helper()
	queued := make(chan error)
	go func() { queued <- b.Add(proposal(2, 0), nil) }()
	synctest.Wait()
	do()
	if err := <-queued; !errors.Is(err, why) {
		t.Errorf("who was queued is told %v", err)
	}
}

// TestSuspended turns away who is queued and who comes, until it ends; what was taken is not lost.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBatcher(1, 1)
		add(t, b, 1, 1)
		why := errors.New("for now")
		turnsAway(t, b, why, func() { b.Suspend(why) })
		for what, err := range map[string]error{ // order: each for itself
			"a proposal": b.Add(proposal(3, 0), nil), "a barrier": b.AddBarrier(nil),
			"a change": b.AddChange(nil, proposal(3, 0), nil),
		} {
			if !errors.Is(err, why) {
				t.Errorf("%s is told %v", what, err)
			}
		}
		b.Release(b.Take(1, 0, nil)[0])
		b.Resume()
		add(t, b, 4, 4)
	})
}

// TestRefused turns away who is queued and who comes, and tells when all that was taken is answered.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBatcher(1, 1)
		add(t, b, 1, 1)
		why := errors.New("for good")
		var drained <-chan struct{}
		turnsAway(t, b, why, func() { drained = b.Refuse(why) })
		if b.Refuse(errors.New("another time")) != drained {
			t.Error("two calls tell two channels")
		}
		b.Resume()
		if err := b.Add(proposal(3, 0), nil); !errors.Is(err, why) {
			t.Errorf("who comes is told %v", err)
		}
		select {
		case <-drained:
			t.Error("drained before all is answered")
		default:
		}
		b.Release(b.Take(1, 0, nil)[0])
		select {
		case <-drained:
		default:
			t.Error("not drained after all is answered")
		}
	})
}
