package faults

import (
	"math"
	"testing"
	"time"

	"zkd/jute"
)

func TestLifetimeLies(t *testing.T) {
	const ttl, box = "/l/ttl/x", "/l/containers/x"
	spans := []Span{{ttl, 10, 20}, {ttl, 18, 28}, {box, 10, math.MaxInt64}}
	tests := map[string]struct {
		look Look
		skew time.Duration
		want bool
	}{
		"there":                     {Look{Path: ttl, Call: 15, Ret: 16, Present: true}, 0, false},
		"there after its time":      {Look{Path: ttl, Call: 35, Ret: 36, Present: true}, 0, false},
		"gone after its time":       {Look{Path: ttl, Call: 28, Ret: 29}, 0, false},
		"gone before it was made":   {Look{Path: ttl, Call: 9, Ret: 11}, 0, false},
		"gone before its time":      {Look{Path: ttl, Call: 15, Ret: 16}, 0, true},
		"gone though written again": {Look{Path: ttl, Call: 24, Ret: 25}, 0, true},
		"gone by another clock":     {Look{Path: ttl, Call: 24, Ret: 25}, 5, false},
		"container is gone":         {Look{Path: box, Call: 40, Ret: 41}, 5, true},
		"container is not there":    {Look{Path: box, Call: 5, Ret: 6}, 5, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := false
			CheckLifetimes(spans, []Look{test.look}, test.skew, func(string, ...any) { found = true })
			if found != test.want {
				t.Errorf("found: %v", found)
			}
		})
	}
}

func TestAccessLies(t *testing.T) {
	tests := map[string]struct {
		access Access
		want   bool
	}{
		"owner reads":             {Access{Op: jute.OpGetData, Data: secret}, false},
		"owner is refused":        {Access{Op: jute.OpGetData, Code: jute.NoAuth}, true},
		"owner reads another's":   {Access{Op: jute.OpGetData, Data: "other"}, true},
		"stranger is refused":     {Access{Client: 1, Op: jute.OpGetData, Code: jute.NoAuth}, false},
		"stranger comes early":    {Access{Client: 1, Op: jute.OpGetData, Code: jute.NoNode}, false},
		"stranger reads":          {Access{Client: 1, Op: jute.OpGetData, Data: secret}, true},
		"stranger reads nothing":  {Access{Client: 1, Op: jute.OpGetData}, true},
		"stranger reads the open": {Access{Client: 1, Op: jute.OpGetData, Data: secret, Aversion: 1}, false},
		"stranger writes":         {Access{Client: 1, Op: jute.OpSetData, Aversion: 1}, true},
		"stranger deletes":        {Access{Client: 1, Op: jute.OpDelete}, true},
		"refusal with data":       {Access{Client: 1, Op: jute.OpGetData, Code: jute.NoAuth, Data: secret}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := false
			CheckAccesses([]Access{test.access}, func(string, ...any) { found = true })
			if found != test.want {
				t.Errorf("found: %v", found)
			}
		})
	}
}
