package sim

import (
	"fmt"
	"io"
	"time"
)

// trace is what happened, as a hash and, on demand, as text.
type trace struct {
	hash uint64
	out  io.Writer // nil: no text
}

// The constants of the 64-bit FNV-1a hash.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// note adds one thing that happened. kind is constant, and the numbers are all that tells it from others of its kind.
func (t *trace) note(now time.Duration, kind string, numbers ...uint64) {
	h := t.hash ^ uint64(now)
	for i := range len(kind) {
		h = (h ^ uint64(kind[i])) * fnvPrime
	}
	for _, n := range numbers {
		h = (h ^ n) * fnvPrime
		h ^= h >> 29
	}
	t.hash = h
	if t.out != nil {
		_, _ = fmt.Fprintf(t.out, "%10.4f %-12s %v\n", now.Seconds(), kind, numbers) // it is for people
	}
}

// textf adds a line to the text alone.
func (t *trace) textf(now time.Duration, format string, args ...any) {
	if t.out != nil {
		_, _ = fmt.Fprintf(t.out, "%10.4f   %s\n", now.Seconds(), fmt.Sprintf(format, args...)) // likewise
	}
}
