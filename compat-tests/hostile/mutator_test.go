package hostile_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"zkd/compat-tests/hostile"
)

// TestMutator: the same seed gives the same frames; most are damaged, few have a wrong length, and none is without an
// end.
func TestMutator(t *testing.T) {
	captures, err := hostile.ReadCaptures("../../jute/testdata/captures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range captures.Requests {
		known[string(f)] = true
	}
	one, two := hostile.NewMutator(captures.Requests, 7), hostile.NewMutator(captures.Requests, 7)
	const n = 20_000
	wrong, same := 0, 0
	for range n {
		f := one.Append([]byte("before"))[len("before"):]
		if !bytes.Equal(f, two.Append(nil)) {
			t.Fatal("the same seed gives other frames")
		}
		if len(f) < 4 || len(f) > 4+8<<10 {
			t.Fatalf("a frame of %d bytes", len(f))
		}
		if int(binary.BigEndian.Uint32(f)) != len(f)-4 {
			wrong++
		}
		if known[string(f)] {
			same++
		}
	}
	if wrong == 0 || wrong > n/50 || same < n/20 || same > n/4 {
		t.Errorf("of %d frames %d have a wrong length, %d are as they were recorded", n, wrong, same)
	}
	for f := range known { // order: each is looked at alone
		if int(binary.BigEndian.Uint32([]byte(f))) != len(f)-4 {
			t.Errorf("the captures were changed: %x", f)
		}
	}
}
