package faults

import (
	"testing"

	"zkd/jute"
)

// TestOrder: writes of one session are in the order in which it has sent them, whether it was told of them or not.
func TestOrder(t *testing.T) {
	lost := Op{Session: session, Kind: Write, Path: reg, Value: "a", Outcome: Unknown}
	done := Op{Session: session, Kind: Write, Path: reg, Value: "b", Outcome: Done, Version: 2}
	read := func(value string, version jute.Version) Op {
		return Op{Kind: Read, Path: reg, Value: value, Outcome: Done, Version: version}
	}
	other := done
	other.Session++
	for name, test := range map[string]struct {
		ops  []Op
		lies int
	}{
		"in order":              {[]Op{lost, done, read("a", 1)}, 0},
		"never seen":            {[]Op{lost, done}, 0},
		"late":                  {[]Op{lost, done, read("a", 3)}, 1},
		"late, of two sessions": {[]Op{lost, other, read("a", 3)}, 0},
	} {
		found := 0
		CheckOrder(test.ops, func(format string, args ...any) {
			found++
			t.Logf(format, args...)
		})
		if found != test.lies {
			t.Errorf("%s: %d found, want %d", name, found, test.lies)
		}
	}
}
