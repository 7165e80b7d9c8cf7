package jute

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecoderErrors(t *testing.T) {
	var nulls Nulls
	boolean := func(d *Decoder) { d.Bool() }
	integer := func(d *Decoder) { d.Int() }
	long := func(d *Decoder) { d.Long() }
	buffer := func(d *Decoder) { d.Buffer() }
	text := func(d *Decoder) { d.Ustring(&nulls, 0) }
	texts := func(d *Decoder) { d.Ustrings(nil) }
	acls := func(d *Decoder) { new(GetACLResponse).Decode(d) }
	tests := []struct {
		name string
		hex  string
		read func(*Decoder)
		want error
	}{
		{"bool of nothing", "", boolean, ErrShort},
		{"int of 3 bytes", "000000", integer, ErrShort},
		{"long of 7 bytes", "00000000000000", long, ErrShort},
		{"buffer without length", "000000", buffer, ErrShort},
		{"buffer of 2 in 1", "0000000261", buffer, ErrLength},
		{"buffer of -2", "fffffffe", buffer, ErrLength},
		{"buffer of the smallest int", "80000000", buffer, ErrLength},
		{"buffer of the largest int", "7fffffff61", buffer, ErrLength},
		{"null buffer", "ffffffff", buffer, nil},
		{"string of 2 in 1", "0000000261", text, ErrLength},
		{"string of -2", "fffffffe", text, ErrLength},
		{"null string", "ffffffff", text, nil},
		{"vector without count", "00", texts, ErrShort},
		{"vector of 2 with 1", "000000020000000161", texts, ErrLength},
		{"vector of the largest int", "7fffffff00000000", texts, ErrLength},
		{"vector that ends in an element", "000000020000000561626300", texts, ErrLength},
		{"vector with a null", "00000001ffffffff", texts, ErrNullElement},
		{"vector with an element of -2", "00000001fffffffe", texts, ErrLength},
		{"null vector", "ffffffff", texts, nil},
		{"vector of -2", "fffffffe", texts, nil},
		{"vector of records: 1 in 11 bytes", "000000010000001f00000000000000", acls, ErrLength},
		{"vector of records: the largest int", "7fffffff0000001f0000000000000000", acls, ErrLength},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder(unhex(t, test.hex))
			test.read(&d)
			if !errors.Is(d.Err(), test.want) {
				t.Fatalf("error %v, want %v", d.Err(), test.want)
			}
			if test.want == nil {
				return
			}
			if len(d.Remaining()) != 0 {
				t.Errorf("%d bytes to read after an error", len(d.Remaining()))
			}
			d.Bool() // would be ErrShort: the first error stays
			if !errors.Is(d.Err(), test.want) {
				t.Errorf("a later error, %v, replaced %v", d.Err(), test.want)
			}
			if d.Reset([]byte{1}); d.Err() != nil || !d.Bool() {
				t.Error("Reset did not forget the error")
			}
		})
	}
}

func TestReadsAfterAnErrorAreZero(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 9})
	var nulls Nulls
	d.Buffer()
	if d.Bool() || d.Int() != 0 || d.Long() != 0 || d.Buffer() != nil || d.Ustring(&nulls, 0) != "" ||
		d.Ustrings(nil) != nil {
		t.Error("a read after an error returned something")
	}
	if nulls != 0 {
		t.Errorf("a string after an error counts as null: %b", nulls)
	}
	r := CreateRequest{Path: "/old", Data: []byte("old"), ACL: openACL, Flags: 1}
	if r.Decode(&d); r.Path != "" || r.Data != nil || r.ACL != nil || r.Flags != 0 {
		t.Errorf("a record after an error keeps old fields: %+v", r)
	}
}

func TestVectorCounts(t *testing.T) {
	for _, test := range []struct {
		hex  string
		want []string
	}{
		{"ffffffff", nil},
		{"fffffffe", []string{}},
		{"80000000", []string{}},
		{"00000000", []string{}},
		{"00000001000000012f", []string{"/"}},
	} {
		for _, dst := range [][]string{nil, {}, {"old", "older"}} {
			d := NewDecoder(unhex(t, test.hex))
			got := d.Ustrings(dst)
			if diff := cmp.Diff(test.want, got); diff != "" || d.Err() != nil {
				t.Errorf("%s into %q: error %v, (-want +got):\n%s", test.hex, dst, d.Err(), diff)
			}
		}
	}
}

func TestVectorsReuseMemory(t *testing.T) {
	frame := (&GetChildrenResponse{Children: []string{"a", "b"}}).Append(nil)
	memory := make([]string, 1, 2)
	d := NewDecoder(frame)
	if got := d.Ustrings(memory); &got[0] != &memory[0] {
		t.Error("two strings did not go where there was room for two")
	}
}

func TestPrimitives(t *testing.T) {
	var b []byte
	b = AppendBool(b, true)
	b = AppendBool(b, false)
	b = AppendInt(b, math.MinInt32)
	b = AppendLong(b, math.MinInt64+1)
	b = AppendBuffer(b, nil)
	b = AppendBuffer(b, []byte{})
	b = AppendString(b, "é")
	b = AppendUstrings(b, nil)
	b = AppendUstrings(b, []string{})
	want := "0100" + "80000000" + "8000000000000001" + "ffffffff" + "00000000" + "00000002c3a9" + "ffffffff" +
		"00000000"
	if !bytes.Equal(b, unhex(t, want)) {
		t.Fatalf("encoded %x, want %s", b, want)
	}
	d := NewDecoder(b)
	var nulls Nulls
	if !d.Bool() || d.Bool() || d.Int() != math.MinInt32 || d.Long() != math.MinInt64+1 {
		t.Error("numbers differ")
	}
	if null, empty := d.Buffer(), d.Buffer(); null != nil || empty == nil || len(empty) != 0 {
		t.Errorf("null buffer is %v, empty one %v", null, empty)
	}
	if s := d.Ustring(&nulls, 3); s != "é" || nulls != 0 {
		t.Errorf("string %q, nulls %b", s, nulls)
	}
	if null, empty := d.Ustrings(nil), d.Ustrings(nil); null != nil || empty == nil {
		t.Errorf("null vector is %v, empty one %v", null, empty)
	}
	if d.Err() != nil || d.Pos() != len(b) {
		t.Errorf("error %v at %d of %d", d.Err(), d.Pos(), len(b))
	}
	d.Reset(unhex(t, "ffffffff"))
	if s := d.Ustring(&nulls, 3); s != "" || nulls != 8 {
		t.Errorf("null string is %q, nulls %b", s, nulls)
	}
}

// TestBufferCannotGrowIntoTheFrame holds that an append to a decoded buffer copies it.
func TestBufferCannotGrowIntoTheFrame(t *testing.T) {
	frame := unhex(t, "000000016100000005")
	d := NewDecoder(frame)
	_ = append(d.Buffer(), 'X')
	if !bytes.Equal(frame, unhex(t, "000000016100000005")) {
		t.Errorf("frame is now %x", frame)
	}
}

func TestFrames(t *testing.T) {
	b := []byte("before")
	b, mark := BeginFrame(b)
	b = EndFrame(append(b, "abc"...), mark)
	b, mark = BeginFrame(b)
	b = EndFrame(b, mark)
	if want := "before\x00\x00\x00\x03abc\x00\x00\x00\x00"; string(b) != want {
		t.Errorf("frames %q, want %q", b, want)
	}
}

// TestMultiWalk holds the reader of multis against what a real 3.9.5 took (done counts, whatever the type) and refused.
func TestMultiWalk(t *testing.T) {
	tests := []struct {
		name string
		hex  string
		ops  []Op
		want error
	}{
		{"empty", "ffffffff01ffffffff", nil, nil},
		{"done with another type", "000000010100000000", nil, nil},
		{"done of 2, then trailing bytes", "ffffffff02ffffffff7a7a", nil, nil},
		{
			"two checks",
			"0000000d00ffffffff000000012fffffffff" + "0000000d0000000007000000012fffffffff" + "ffffffff01ffffffff",
			[]Op{OpCheck, OpCheck}, nil,
		},
		{"no body", "", nil, ErrShort},
		{"no end", "0000000d00ffffffff000000012fffffffff", []Op{OpCheck}, ErrShort},
		{"half a header", "0000000d00ffff", nil, ErrShort},
		{"half an operation", "0000000d00ffffffff000000032f", []Op{OpCheck}, ErrLength},
	}
	for _, test := range tests {
		d := NewDecoder(unhex(t, test.hex))
		var ops []Op
		for walk := NewMultiDecoder(&d); walk.Next(); {
			ops = append(ops, walk.Header().Type)
			new(PathVersionRequest).Decode(&d)
		}
		if diff := cmp.Diff(test.ops, ops); diff != "" || !errors.Is(d.Err(), test.want) {
			t.Errorf("%s: error %v, want %v; operations (-want +got):\n%s", test.name, d.Err(), test.want, diff)
		}
	}
}
