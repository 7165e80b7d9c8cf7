package faults

import (
	"fmt"
	"strings"
	"testing"

	"zkd/jute"
)

// pipedHonest are batches that nothing is wrong with. Each lie changes one thing in them.
func pipedHonest() []Batch {
	return []Batch{
		{Requests: []Piped{
			{Znodes: []int{0}, Number: 1, Answered: true, Cells: []Cell{{1, 1}}},
			{Znodes: []int{0}, Answered: true, Cells: []Cell{{1, 1}}},
			{Znodes: []int{1, 2}, Number: 2, Answered: true, Cells: []Cell{{2, 1}, {2, 1}}},
		}},
		{Requests: []Piped{
			{Znodes: []int{0}, Number: 3, Answered: true, Cells: []Cell{{3, 2}}},
			{Znodes: []int{1}, Number: 4}, {Znodes: []int{1}}, {Znodes: []int{2}, Number: 5},
		}, After: []Cell{{3, 2}, {4, 2}, {2, 1}}},
		{Client: 1, Requests: []Piped{{Znodes: []int{0}, Number: 1}}},
		{After: []Cell{{3, 2}, {4, 2}, {2, 1}}},
		{Client: 1, After: []Cell{{1, 1}, {}, {}}},
	}
}

// ended makes a znode of the first client another one at the end.
func ended(all []Batch, znode int, is Cell) { all[1].After[znode], all[3].After[znode] = is, is }

func TestPipelineLies(t *testing.T) {
	tests := map[string]struct {
		lie  func(all []Batch)
		want string // "" for what is true
	}{
		"none":                       {func([]Batch) {}, ""},
		"read before its write":      {func(all []Batch) { all[0].Requests[1].Cells[0] = Cell{} }, "says otherwise"},
		"write twice":                {func(all []Batch) { all[0].Requests[2].Cells[1].Version = 2 }, "says otherwise"},
		"refused":                    {func(all []Batch) { all[0].Requests[0].Code = jute.NoNode }, "was refused"},
		"answer behind a gap":        {func(all []Batch) { all[1].Requests[2].Answered = true }, "none to one before"},
		"all of the rest":            {func(all []Batch) { ended(all, 2, Cell{5, 2}) }, ""},
		"nothing of the rest":        {func(all []Batch) { ended(all, 1, Cell{2, 1}) }, ""},
		"a gap":                      {func(all []Batch) { all[1].After = []Cell{{3, 2}, {2, 1}, {5, 2}} }, "can hold"},
		"acknowledged write lost":    {func(all []Batch) { all[1].After[0] = Cell{1, 1} }, "can hold"},
		"unanswered write twice":     {func(all []Batch) { all[1].After[1].Version = 3 }, "can hold"},
		"later write after the look": {func(all []Batch) { all[3].After[2] = Cell{5, 2} }, "can hold"},
		"nobody has looked": {func(all []Batch) {
			all[1].After, all[3].Requests = nil, all[0].Requests
		}, "without a look"},
		"another server": {func(all []Batch) { all[4].After[0] = Cell{1, 2} }, "can hold"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all, got := pipedHonest(), ""
			test.lie(all)
			CheckPipelines(all, func(format string, args ...any) { got += fmt.Sprintf(format, args...) })
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestSessionsThatEndEarly(t *testing.T) {
	const tick = 500_000_000
	tests := map[string]struct {
		life Life
		want bool
	}{
		"in time":         {Life{Acked: 10 * second, Expired: 14 * second, Timeout: 4 * second}, false},
		"a tick early":    {Life{Acked: 10 * second, Expired: 13*second + tick, Timeout: 4 * second}, false},
		"early":           {Life{Acked: 10 * second, Expired: 13 * second, Timeout: 4 * second}, true},
		"without a write": {Life{Expired: second, Timeout: 4 * second}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := false
			CheckLives([]Life{test.life}, tick, func(string, ...any) { found = true })
			if found != test.want {
				t.Errorf("found: %v", found)
			}
		})
	}
}
