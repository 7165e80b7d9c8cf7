package hostile

import (
	"cmp"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Frames is how many damaged frames an attack sends, as ZKD_HOSTILE_FRAMES says; 0 if time decides.
func Frames(tb testing.TB) int64 {
	tb.Helper()
	return number(tb, "ZKD_HOSTILE_FRAMES")
}

// Streams is how many connections an attack on ports for servers makes, as ZKD_HOSTILE_STREAMS says; otherwise if it
// does not.
func Streams(tb testing.TB, otherwise int64) int64 {
	tb.Helper()
	return cmp.Or(number(tb, "ZKD_HOSTILE_STREAMS"), otherwise)
}

// number is the number in a variable, 0 if there is none.
func number(tb testing.TB, name string) int64 {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return n
}

// Seed is the seed of an attack: that of ZKD_HOSTILE_SEED, which repeats a run, or any.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	text := os.Getenv("ZKD_HOSTILE_SEED")
	if text == "" {
		return rand.Uint64() //nolint:gosec // no secret
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("ZKD_HOSTILE_SEED: %v", err)
	}
	return seed
}
