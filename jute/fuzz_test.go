package jute

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allocationFactor bounds what decoding a frame allocates, in bytes for each byte of the frame: 4 for a vector of empty
// strings or of ACLs without text, 3 for malformed text, and what the allocator rounds up.
const allocationFactor = 5

// allocationSlack is what may be allocated beside that, by whatever else the process does.
const allocationSlack = 64 << 10

// FuzzDecode decodes any bytes as any record: no panic, bounded memory, and what was decoded survives encoding.
func FuzzDecode(f *testing.F) {
	for i, r := range recordTable {
		f.Add(byte(i), r.full.Append(nil))
		f.Add(byte(i), bytes.Repeat([]byte{0xff}, 80))
		f.Add(byte(i), unhex(f, "7fffffff00000000"))
	}
	f.Add(byte(0), unhex(f, "00000003eda080"+"00000004f09f9880"))
	f.Fuzz(func(t *testing.T, index byte, frame []byte) {
		r := recordTable[int(index)%len(recordTable)]
		first := r.make()
		used := allocated(func() {
			d := NewDecoder(frame)
			if first.Decode(&d); d.Err() != nil {
				first = nil
			}
		})
		if limit := uint64(allocationFactor*len(frame) + allocationSlack); used > limit {
			t.Errorf("%s: %d bytes allocated for a frame of %d", r.name, used, len(frame))
		}
		if first == nil {
			return
		}
		encoded := first.Append(nil)
		d := NewDecoder(encoded)
		second := r.make()
		second.Decode(&d)
		if d.Err() != nil || len(d.Remaining()) != 0 {
			t.Fatalf("%s encodes to what cannot be read: %v, %d bytes left", r.name, d.Err(), len(d.Remaining()))
		}
		if holdsSupplementary(reflect.ValueOf(first)) && bytes.Contains(encoded, []byte{0xed}) {
			return // an echo: read back, its surrogates are replaced
		}
		if diff := cmp.Diff(first, second); diff != "" || !bytes.Equal(encoded, second.Append(nil)) {
			t.Errorf("%s changes when encoded (-decoded +decoded again):\n%s", r.name, diff)
		}
	})
}

// FuzzMulti walks any bytes as a multi, as a server reads requests and a client reads results.
func FuzzMulti(f *testing.F) {
	for _, c := range loadCaptures(f) {
		if payloads, _ := split(unhex(f, c.Req)); isMulti(c.Op) && len(payloads) == 1 {
			f.Add(payloads[0][8:])
			for _, reply := range c.Resp {
				f.Add(unhex(f, reply)[FrameHeaderBytes+16:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, bodyOf := range []func(Op) record{requestOf, replyOf} {
			d := NewDecoder(frame)
			var encoded []byte
			operations := 0
			walk := NewMultiDecoder(&d)
			for walk.Next() {
				operations++
				header := walk.Header()
				encoded = header.Append(encoded)
				if body := bodyOf(header.Type); body != nil {
					body.Decode(&d)
					encoded = body.Append(encoded)
				}
			}
			if operations > len(frame)/9 {
				t.Fatalf("%d operations in %d bytes", operations, len(frame))
			}
			if d.Err() != nil {
				continue
			}
			encoded = AppendMultiEnd(encoded)
			again := NewDecoder(encoded)
			for walk := NewMultiDecoder(&again); walk.Next(); operations-- {
				if body := bodyOf(walk.Header().Type); body != nil {
					body.Decode(&again)
				}
			}
			if again.Err() != nil || operations != 0 || len(again.Remaining()) != 0 {
				t.Errorf("encoded multi: error %v, %d operations missing, %d bytes left", again.Err(), operations,
					len(again.Remaining()))
			}
		}
	})
}

// allocated returns how many bytes f allocates, with what else the process allocates meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// holdsSupplementary reports whether any string in v holds a character outside the basic plane.
func holdsSupplementary(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return hasSupplementary(v.String())
	case reflect.Pointer:
		return holdsSupplementary(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if holdsSupplementary(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if holdsSupplementary(v.Index(i)) {
				return true
			}
		}
	}
	return false
}

// TestAllocationIsBounded decodes the frames that make the most of their bytes.
func TestAllocationIsBounded(t *testing.T) {
	const size = 1 << 20
	strings := AppendInt(nil, size/4-1)
	strings = append(strings, make([]byte, size-4)...)
	acls := AppendInt(nil, (size-4)/minACLBytes)
	acls = append(acls, make([]byte, size-4)...)
	broken := append(AppendInt(nil, size-4), bytes.Repeat([]byte{0xff}, size-4)...)
	tests := []struct {
		name  string
		frame []byte
		rec   record
	}{
		{"vector of empty strings", strings, new(GetChildrenResponse)},
		{"vector of ACLs", append(acls, make([]byte, 68)...), new(GetACLResponse)},
		{"malformed text", broken, new(PathRequest)},
		{"five vectors of one", append(make([]byte, 8), strings...), new(SetWatches2Request)},
		{"count without elements", AppendInt(nil, 0x7fffffff), new(GetChildrenResponse)},
		{"buffer without bytes", AppendInt(nil, 0x7fffffff), new(SASLToken)},
	}
	for _, test := range tests {
		used := allocated(func() {
			d := NewDecoder(test.frame)
			test.rec.Decode(&d)
		})
		if limit := uint64(allocationFactor*len(test.frame) + allocationSlack); used > limit {
			t.Errorf("%s: %d bytes allocated for a frame of %d", test.name, used, len(test.frame))
		}
		t.Logf("%s: %.1f bytes allocated for each of the frame's", test.name, float64(used)/float64(len(test.frame)))
	}
}
