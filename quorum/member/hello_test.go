package member

import "testing"

// TestHellosAreRead as they were written, by each flag.
func TestHellosAreRead(t *testing.T) {
	for flag, h := range map[byte]Hello{ // order: each for itself
		0: {Incarnation: 1 << 63, Known: 7}, 1: {Answer: true}, 2: {Quarantined: true}, 4: {Admitted: true},
		8: {Founded: true}, 1 << 7: {Clocks: true},
		0x8f: {Incarnation: 1, Known: 2, Answer: true, Quarantined: true, Admitted: true, Founded: true, Clocks: true},
	} {
		b := h.Append(nil)
		if len(b) != helloBytes || b[helloBytes-1] != flag {
			t.Errorf("%+v is %x, want the flags %#x", h, b, flag)
		}
		if got, err := DecodeHello(b); err != nil || got != h {
			t.Errorf("read: %+v, %v; want %+v", got, err, h)
		}
		b[helloBytes-1] |= 1 << 6 // which a later revision may know
		if got, err := DecodeHello(b); err != nil || got != h {
			t.Errorf("with an unknown flag: %+v, %v; want %+v", got, err, h)
		}
	}
}

func TestAHelloOfAnotherFormatIsRefused(t *testing.T) {
	whole := Hello{Incarnation: 1}.Append(nil)
	for name, b := range map[string][]byte{ // order: each for itself
		"nothing": nil, "a short one": whole[:len(whole)-1], "a long one": append(whole[:len(whole):len(whole)], 0),
		"a later format": append([]byte{formatVersion + 1}, whole[1:]...),
	} {
		if got, err := DecodeHello(b); err == nil {
			t.Errorf("of %s: %+v", name, got)
		}
	}
}
