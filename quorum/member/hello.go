package member

import (
	"encoding/binary"
	"fmt"
)

// Hello is what members tell each other when they are connected, and when what it says has changed.
type Hello struct {
	Incarnation uint64 // of the sender
	Known       uint64 // the receiver's, as far as the sender knows; 0: unknown
	Answer      bool   // an answer is wanted
	Quarantined bool   // somebody has told the sender that the group knows another incarnation of it
	Admitted    bool   // known is the incarnation with which the receiver was taken in
	Founded     bool   // the sender's log holds the incarnations that count, of which known is the receiver's
	Clocks      bool   // the sender knows frames about clocks
}

// helloBytes is the size of an encoded hello: version byte 1, incarnation, known, answer, quarantined, admitted and
// founded (bits 0 to 3), and clocks (bit 7). Whoever does not know a bit passes over it.
const helloBytes = 1 + 8 + 8 + 1

// Append adds the encoding of h to b.
func (h Hello) Append(b []byte) []byte {
	b = append(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, h.Incarnation)
	b = binary.BigEndian.AppendUint64(b, h.Known)
	flags := byte(0)
	for bit, set := range [8]bool{0: h.Answer, 1: h.Quarantined, 2: h.Admitted, 3: h.Founded, 7: h.Clocks} {
		if set {
			flags |= 1 << bit
		}
	}
	return append(b, flags)
}

// DecodeHello reads what Append wrote.
func DecodeHello(b []byte) (Hello, error) {
	if len(b) != helloBytes || b[0] != formatVersion {
		return Hello{}, fmt.Errorf("hello of %d bytes is not of format %d", len(b), formatVersion)
	}
	return Hello{
		Incarnation: binary.BigEndian.Uint64(b[1:]), Known: binary.BigEndian.Uint64(b[9:]),
		Answer: b[17]&1 != 0, Quarantined: b[17]&2 != 0, Admitted: b[17]&4 != 0, Founded: b[17]&8 != 0,
		Clocks: b[17]&(1<<7) != 0,
	}, nil
}
