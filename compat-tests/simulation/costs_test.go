package simulation

import (
	"strings"
	"testing"
	"time"

	"zkd/server/sim/costs"
)

// TestTooDear: what an entry may cost follows from its length, what it writes and the knobs, and not from the state.
func TestTooDear(t *testing.T) {
	few := map[string]int64{"storage/apply.namesScanMax": 3, "storage/apply.CountZnodesMax": 50}
	for _, tc := range []struct {
		what  string
		knobs map[string]int64
		entry costs.Entry
		want  string // in what is told; "": nothing is
	}{
		{"a setData", nil, costs.Entry{Bytes: 100, Reads: 6, Writes: 3}, ""},
		{"a setData that reads its siblings", nil, costs.Entry{Bytes: 100, Reads: 40, Writes: 3}, "40 znodes"},
		{"a multi of fifty", nil, costs.Entry{Bytes: 2000, Reads: 150, Writes: 53}, ""},
		{"the end of a session", nil, costs.Entry{Bytes: 30, Reads: 2000, Steps: 1001, Writes: 2003}, ""},
		{"a create in a directory", nil, costs.Entry{Bytes: 100, Reads: 2, Steps: 256, Writes: 4}, ""},
		{"a create in a large directory", few, costs.Entry{Bytes: 100, Reads: 2, Steps: 256, Writes: 4}, "256 keys"},
		{"a quota", few, costs.Entry{Bytes: 100, Steps: 100, Writes: 4, Counts: true}, ""},
		{"a quota over much", few, costs.Entry{Bytes: 100, Steps: 1000, Writes: 4, Counts: true}, "1000 keys"},
		{"one that waits", nil, costs.Entry{Bytes: 100, Took: time.Second}, "1s"},
	} {
		got := allowanceOf(&Plan{Knobs: tc.knobs}).tooDear(&tc.entry)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
	}
}
