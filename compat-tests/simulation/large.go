package simulation

import (
	"math/rand/v2"
	"slices"

	"zkd/compat-tests/faults"
)

// largePercent is how many plans of a hundred have large values; largeBytes bounds all that a client of those writes
// and reads. A run collects no garbage, and of each value that is written there are some 40 copies in the end: on the
// way to each server, in its log, in its state, in the files of both, and for each time that it is read back.
const (
	largePercent = 10
	largeBytes   = 6 << 20
)

// largeRate is the least zkd.snapshotRate with large values: else what a server lacks takes longer than anybody waits.
const largeRate = 1 << 20

// drawLarge draws clients with large values from numbers of their own.
func (p *Plan) drawLarge() {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x6c61726765))} //nolint:gosec // a run must repeat
	if rate := p.setting("zkd.snapshotRate", 0); !r.chance(largePercent) || rate > 0 && rate < largeRate {
		return
	}
	longest := one(r, 64<<10, 256<<10, faults.LargeMost)
	p.Roles = append(slices.Clip(p.Roles), faults.Cast{Role: faults.Large, Clients: 1 + r.IntN(2),
		Values: faults.Values{Longest: longest, Requests: largeBytes / longest}})
}

// large tells whether clients have large values.
func (p *Plan) large() bool {
	return slices.ContainsFunc(p.Roles, func(c faults.Cast) bool { return c.Role == faults.Large })
}
