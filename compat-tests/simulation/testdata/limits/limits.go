// Package limits has what TestKnobPatches changes.
package limits

const (
	first = iota
	most  = 1 << 10 // of all
)

const half = most / 2

var all = []int{first, most, half}
