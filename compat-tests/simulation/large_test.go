package simulation

import (
	"testing"

	"zkd/compat-tests/faults"
)

// TestDrawLarge: some plans have large values, of each length; what they take is bounded, and no plan has them that
// sends a state more slowly than anybody waits.
func TestDrawLarge(t *testing.T) {
	lengths := map[int]bool{}
	for seed := range uint64(500) {
		p := Draw(seed)
		for _, c := range p.Roles {
			if c.Role != faults.Large {
				continue
			}
			lengths[c.Longest] = true
			if c.Requests == 0 || c.Requests*c.Longest > largeBytes || c.Longest > faults.LargeMost {
				t.Errorf("seed %d: %+v", seed, c)
			}
			if rate := p.setting("zkd.snapshotRate", largeRate); rate < largeRate {
				t.Errorf("seed %d: large values, and a snapshot of %d bytes a second", seed, rate)
			}
			if _, ok := p.Knobs["storage/raftlog.logTailBytesDefault"]; ok {
				t.Errorf("seed %d: large values, and a log that keeps none of them in memory", seed)
			}
		}
	}
	if len(lengths) != 3 {
		t.Errorf("lengths are %v, want three", lengths)
	}
}
