package serverid

import (
	"math"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
)

func TestNumbersHaveIDs(t *testing.T) {
	of := map[uint64]int64{}
	for _, n := range []int64{math.MaxInt64, 1 << 62, 511, 256, 255, 2, 1, 0, -2, -3, -255, least} {
		id := Of(n)
		if other, taken := of[id]; taken {
			t.Errorf("%d has the id of %d", n, other)
		}
		of[id] = n
		if id == raft.None || id == raft.LocalAppendThread || id == raft.LocalApplyThread || Number(id) != n {
			t.Errorf("%d has id %#x, of number %d", n, id, Number(id))
		}
		if n > 0 && id != uint64(n) {
			t.Errorf("%d has another id than before: %#x", n, id)
		}
	}
}

func TestNobodysNumber(t *testing.T) {
	for _, n := range []int64{-1, least - 1, math.MinInt64 + 2, math.MinInt64 + 1, math.MinInt64} {
		if id := Of(n); id != None {
			t.Errorf("%d has id %#x", n, id)
		}
	}
	if n := Number(None); n != -1 {
		t.Errorf("nobody is %d", n)
	}
}

func TestOrder(t *testing.T) {
	ids := []uint64{3, Of(0), 1, Of(-2)}
	if got := Numbers(ids); !slices.Equal(got, []int64{-2, 0, 1, 3}) {
		t.Errorf("numbers %v", got)
	}
	slices.SortFunc(ids, Compare)
	if !slices.Equal(ids, []uint64{Of(-2), Of(0), 1, 3}) {
		t.Errorf("order %v", ids)
	}
}

// TestSessionBits: what ZooKeeper 3.9.5 gave to sessions of servers with these numbers, but for 255 and 511: 0xff.
func TestSessionBits(t *testing.T) {
	for n, want := range map[int64]uint64{0: 0, 1: 1, 254: 0xfe, 255: 0xfe, 256: 0, 300: 0x2c, 511: 0xfe, -2: 0xfe} {
		if got := SessionBits(Of(n)) >> 56; got != want {
			t.Errorf("%d: %#x, want %#x", n, got, want)
		}
	}
}
