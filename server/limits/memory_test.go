package limits

import (
	"testing"
	"testing/synctest"
	"time"

	"zkd/quorum/clock"
)

// hoard is a Memory with some accounts, which note when they are ended.
type hoard struct {
	Memory
	accounts []*Account
	ended    []int64 // what each held; 0: it has not been ended
}

// newHoard returns a memory of so many bytes, and n accounts.
func newHoard(most int64, n int) *hoard {
	h := &hoard{ended: make([]int64, n)}
	h.Init(MemoryOptions{Max: most, Clock: clock.Real(), Each: func(f func(*Account)) {
		for _, a := range h.accounts {
			f(a)
		}
	}})
	for i := range n {
		a := &Account{}
		a.Open(&h.Memory, func(held int64) { h.ended[i] = held })
		h.accounts = append(h.accounts, a)
	}
	return h
}

func TestWhoHoldsMostIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHoard(100, 3)
		a, b, c := h.accounts[0], h.accounts[1], h.accounts[2]
		begun := time.Now()
		if !a.Take(Unread, 20) || !b.Take(Unread, 40) || !b.Take(Requests, 20) || h.Over() || h.Most() != 60 {
			t.Fatalf("80 of 100 bytes: %d over, most %d", h.Used(Unread), h.Most())
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("waited %v while there was room", took)
		}
		if !c.Take(Requests, 30) || time.Since(begun) != roomWithin {
			t.Errorf("after %v: %v", time.Since(begun), c.Ended())
		}
		if h.ended[0] != 0 || h.ended[1] != 60 || h.ended[2] != 0 || h.Closed() != 1 {
			t.Errorf("ended: %v", h.ended)
		}
		b.Add(Unread, 1000) // nobody counts it any more
		b.Close()
		if h.Used(Unread) != 20 || h.Used(Requests) != 30 {
			t.Errorf("%d and %d are used", h.Used(Unread), h.Used(Requests))
		}
		if c.Take(Requests, 1000) || h.ended[2] != 1030 {
			t.Errorf("who holds most is not who asks: %v", h.ended)
		}
		a.Close()
		if h.Used(Unread)+h.Used(Requests) != 0 || h.ended[0] != 0 {
			t.Errorf("%d and %d are used at the end, ended: %v", h.Used(Unread), h.Used(Requests), h.ended)
		}
	})
}

func TestRoomIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHoard(100, 2)
		a, b := h.accounts[0], h.accounts[1]
		a.Add(Unread, 90)
		got := make(chan bool)
		go func() { got <- b.Take(Requests, 50) }()
		time.Sleep(roomWithin / 2)
		a.Add(Unread, -30) // not enough
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("50 bytes were given of 40")
		default:
		}
		a.Add(Unread, -20)
		if !<-got || h.ended[0] != 0 || time.Duration(h.waiting.Load()) != 0 {
			t.Errorf("ended: %v", h.ended)
		}
	})
}

// TestRoomIsForWhoeverFits: what is given back is given to as many as there is room for, and the others wait on.
func TestRoomIsForWhoeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHoard(100, 5)
		h.accounts[0].Add(Unread, 100)
		begun := time.Now()
		took := make([]time.Duration, 5)
		for i, bytes := range []int64{0, 50, 15, 10, 5} {
			if i > 0 {
				go func() {
					h.accounts[i].Take(Requests, bytes)
					took[i] = time.Since(begun)
				}()
				synctest.Wait() // until it stands in line
			}
		}
		h.accounts[0].Add(Unread, -20)
		time.Sleep(2 * roomWithin)
		synctest.Wait()
		if took[1] != roomWithin || took[2] != 0 || took[3] != roomWithin || took[4] != 0 || len(h.room.line) != 0 {
			t.Errorf("waited %v for 50, 15, 10 and 5 bytes of 20; %d wait still", took[1:], len(h.room.line))
		}
	})
}

// TestWhatStaysCostsMore has two hold nearly the same, one of them for longer.
func TestWhatStaysCostsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHoard(1000, 3)
		h.accounts[0].Add(Unread, 100)
		h.accounts[1].Add(Unread, 450)
		time.Sleep(freshFor)
		h.accounts[0].Add(Unread, -100) // is read meanwhile
		h.accounts[0].Add(Unread, 40)
		if !h.accounts[2].Take(Requests, 520) || h.ended[1] != 450 || h.ended[0] != 0 {
			t.Errorf("ended: %v", h.ended)
		}
	})
}

// TestRunRelievesForOthers has who must not wait ask for it.
func TestRunRelievesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHoard(100, 2)
		stop := make(chan struct{})
		go h.Run(stop)
		h.accounts[0].Add(Unread, 70)
		h.accounts[1].Add(Unread, 60)
		if got := h.UnreadMax(1<<20, 1); got != MemoryStepBytes {
			t.Errorf("a connection may leave %d unread", got)
		}
		h.Signal()
		h.Signal()
		synctest.Wait()
		if h.ended[0] != 70 || h.ended[1] != 0 {
			t.Errorf("ended: %v", h.ended)
		}
		close(stop)
	})
}

func TestNoBoundEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := newHoard(0, 1), time.Now()
		if !h.accounts[0].Take(Unread, 1<<50) || h.Over() || h.Used(Unread) != 1<<50 || time.Since(begun) != 0 {
			t.Errorf("over: %v, used %d, waited %v", h.Over(), h.Used(Unread), time.Since(begun))
		}
	})
}
