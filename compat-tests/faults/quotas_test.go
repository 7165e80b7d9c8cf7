package faults

import (
	"testing"

	"zkd/jute"
)

func TestQuotaLies(t *testing.T) {
	tests := map[string]struct {
		charge Charge
		want   bool
	}{
		"within":             {Charge{Count: 6, Bytes: 100, More: 1, MoreBytes: 20}, false},
		"one too many":       {Charge{Count: 7, Bytes: 100, More: 1, MoreBytes: 20}, true},
		"a byte too much":    {Charge{Count: 6, Bytes: 101, More: 1, MoreBytes: 20}, true},
		"refused within":     {Charge{Count: 6, Bytes: 100, More: 1, MoreBytes: 20, Code: jute.QuotaExceeded}, true},
		"refused above":      {Charge{Count: 7, Bytes: 1, More: 1, Code: jute.QuotaExceeded}, false},
		"delete at the edge": {Charge{Count: 7, Bytes: 120, More: -1, MoreBytes: -3}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := false
			CheckCharges([]Charge{test.charge}, func(string, ...any) { found = true })
			if found != test.want {
				t.Errorf("found: %v", found)
			}
		})
	}
	for stats, want := range map[string]bool{"count=2,bytes=3": false, "count=3,bytes=3": true, "count=2,bytes=4": true,
		"": true} {
		found := false
		CheckStats(Tree{"/q": {}, "/q/x": {Data: "abc"}, "/qq": {Data: "x"},
			"/zookeeper/quota/q/zookeeper_stats": {Data: stats}}, "/q", func(string, ...any) { found = true })
		if found != want {
			t.Errorf("%q: found: %v", stats, found)
		}
	}
}
