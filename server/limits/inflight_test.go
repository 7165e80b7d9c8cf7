package limits

import (
	"testing"

	"zkd/quorum/clock"
)

func TestUnderWayLimits(t *testing.T) {
	for _, tc := range []struct {
		limit      int
		all        int64
		own        int
		hold, free bool
	}{
		{limit: 0, all: 1 << 40, own: 4000, hold: false, free: true},
		{limit: 1, all: 1, own: 1, hold: false, free: true},
		{limit: 1, all: 2, own: 1, hold: true, free: false},
		{limit: 1, all: 2, own: 0, hold: false, free: true}, // one is always let in
		{limit: 16, all: 16, own: 9, hold: false, free: false},
		{limit: 16, all: 17, own: 1, hold: false, free: true}, // not a batch yet
		{limit: 16, all: 17, own: 2, hold: true, free: false},
		{limit: 16, all: 13, own: 2, hold: false, free: false},
		{limit: 16, all: 12, own: 2, hold: false, free: true},
		{limit: 1000, all: 3200, own: 100, hold: false, free: false},
		{limit: 1000, all: 3200, own: 125, hold: true, free: false},
		{limit: 1000, all: 3200, own: 62, hold: false, free: true},
	} {
		var u InFlight
		u.Init(tc.limit, RequestThrottle{}, clock.Real())
		u.n.Store(tc.all)
		share := alone()
		if hold, free := u.Holds(tc.own, share), u.Frees(tc.own, share); hold != tc.hold || free != tc.free {
			t.Errorf("%+v: holds %v, frees %v", tc, hold, free)
		}
	}
}
