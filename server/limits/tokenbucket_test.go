package limits

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"time"
)

// draws is randomness that gives these numbers, each at least 0 and below 1, and then none.
func draws(numbers ...float64) io.Reader {
	var b []byte
	for _, n := range numbers {
		b = binary.NativeEndian.AppendUint64(b, uint64(n*(1<<53))<<11)
	}
	return bytes.NewReader(b)
}

func TestBucket(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		at      time.Duration
		renewed bool
		missing int64 // afterwards
		ok      bool
	}
	for name, tc := range map[string]struct {
		o     SessionThrottle
		local bool
		steps []step
	}{
		"burst, then the rate": {SessionThrottle{
			Tokens: 2, FillTime: 10 * ms, FillCount: 1, FreezeTime: -ms}, false, []step{
			{0, false, 1, true}, {0, true, 2, true}, {0, false, 2, false},
			{10 * ms, false, 2, false}, // only after FillTime, not at it
			{11 * ms, false, 2, true},
			{12 * ms, false, 2, false},
			{50 * ms, false, 1, true}, // never fuller than full
		}},
		"weights": {SessionThrottle{Tokens: 2, FillTime: ms, FillCount: 1, FreezeTime: -ms, Weighted: true,
			GlobalWeight: 3, LocalWeight: 1, RenewWeight: 2}, false, []step{
			{0, false, 3, true}, {0, true, 5, true}, {0, true, 5, false}, {2 * ms, true, 2, true},
		}},
		"the weight of local sessions is the least": {SessionThrottle{Tokens: 2, FillTime: ms, FillCount: 1,
			FreezeTime: -ms, Weighted: true, GlobalWeight: 3, LocalWeight: 5, RenewWeight: 2}, false, []step{
			{0, false, 5, true}, {0, true, 10, true},
		}},
		"new sessions are local": {SessionThrottle{Tokens: 2, FillTime: ms, FillCount: 1, FreezeTime: -ms,
			Weighted: true, GlobalWeight: 3, LocalWeight: 1, RenewWeight: 2}, true, []step{
			{0, false, 1, true}, {0, true, 3, true}, {0, false, 4, true}, {0, true, 6, true}, {0, false, 6, false},
		}},
		"weights that are off": {SessionThrottle{Tokens: 2, FillTime: ms, FillCount: 1, FreezeTime: -ms,
			GlobalWeight: 3, LocalWeight: 1, RenewWeight: 2}, false, []step{
			{0, false, 1, true}, {0, true, 2, true}, {0, true, 2, false},
		}},
		"a number that overflows fills": {SessionThrottle{Tokens: math.MaxInt32, FillTime: ms, FillCount: math.MaxInt32,
			FreezeTime: -ms, Weighted: true, GlobalWeight: math.MaxInt32}, false, []step{
			{0, false, math.MaxInt32, true}, {time.Hour, false, math.MaxInt32, true},
		}},
	} {
		b := NewTokenBucket(tc.o, tc.local, nil, 0)
		for i, s := range tc.steps {
			missing, ok := b.Take(s.at, s.renewed)
			if missing != s.missing || ok != s.ok {
				t.Errorf("%s, step %d: %d missing, %v, want %+v", name, i, missing, ok, s)
				break
			}
		}
	}
	if NewTokenBucket(SessionThrottle{}, false, nil, 0) != nil {
		t.Error("a bucket of 0 tokens is not off")
	}
}

func TestBucketDropsAtRandom(t *testing.T) {
	const ms = time.Millisecond
	// While one token comes in 100 ms, the share grows by a quarter each time that the bucket is found empty.
	b := NewTokenBucket(SessionThrottle{Tokens: 1, FillTime: 100 * ms, FillCount: 1, FreezeTime: 10 * ms,
		DropIncrease: 0.25, DropDecrease: 0.5, DecreaseRatio: 0.4}, false, draws(0, 0, 0.25, 0.4, 0.4, 0.3, 0.1), 0)
	for i, s := range []struct {
		at    time.Duration
		ok    bool
		share float64
	}{
		{0, true, 0},
		{10 * ms, false, 0},     // not yet
		{11 * ms, false, 0.25},  // not dropped, but no token
		{12 * ms, false, 0.25},  // the same share until FreezeTime has gone by again
		{22 * ms, false, 0.5},   // dropped
		{102 * ms, true, 0},     // a full bucket lowers the share
		{250 * ms, true, 0},     // never below 0
		{251 * ms, false, 0},    // no more randomness drops nobody, but there is no token
		{300 * ms, false, 0.25}, // and the share goes on
	} {
		if _, ok := b.Take(s.at, false); ok != s.ok || b.DropProbability() != s.share {
			t.Errorf("step %d: %v with share %v, want %+v", i, ok, b.DropProbability(), s)
		}
	}
	b.o.DropIncrease = 5
	if b.Take(400*ms, false); b.DropProbability() > 1 {
		t.Errorf("share %v", b.DropProbability())
	}
}

func TestDrawsAreSpread(t *testing.T) {
	b := &TokenBucket{random: draws(0, 0.5, 0.999)}
	for _, want := range []float64{0, 0.5, 0.999} {
		if got := b.chance(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	b.random = io.MultiReader() // nothing
	if got := b.chance(); got != 1 {
		t.Errorf("without randomness %v, want 1", got)
	}
	b.random = errReader{}
	if got := b.chance(); got != 1 {
		t.Errorf("with broken randomness %v, want 1", got)
	}
}

// errReader is broken randomness.
type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken") }
