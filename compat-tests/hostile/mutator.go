package hostile

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// payloadMax bounds the payload of a damaged frame: what is longer tests the network alone.
const payloadMax = 8 << 10

// Shares of frames, in percent. What ends a connection is rare, so that most frames of one are looked at.
const (
	wrongLength   = 1  // whose length says something else
	changedHeader = 5  // whose changes may be in the xid and the opcode, too
	unchanged     = 10 // that are as they were recorded
)

// headerBytes is the size of a request's xid and opcode.
const headerBytes = 8

// numbers are what a field is overwritten with: bounds of what lengths, counts, versions and opcodes may be.
var numbers = []int32{
	-1, 0, 1, 2, 3, 4, 5, 7, 8, 14, 15, 16, 31, 100, 101, 103, 107, -10, -11, -12, -13, 0xff, 0x100, 0xffff, 0xffffe,
	0xfffff, 0x100000, math.MaxInt32, math.MinInt32, math.MaxInt32 - 3,
}

// Mutator makes damaged frames of recorded ones. The same frames and the same seed give the same. It belongs to one
// goroutine.
type Mutator struct {
	frames [][]byte // each with its length
	random *rand.Rand
}

// NewMutator returns a Mutator of frames, which it does not change; each begins with its length in four bytes.
func NewMutator(frames [][]byte, seed uint64) *Mutator {
	return &Mutator{frames: frames, random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // it is to come again
}

// Append adds one frame to b. Some have a wrong length, so that what follows is read as something else.
func (m *Mutator) Append(b []byte) []byte {
	payload := slices.Clone(m.one()[4:])
	if m.random.IntN(100) >= unchanged {
		kept := min(headerBytes, len(payload))
		if m.random.IntN(100) < changedHeader {
			kept = 0
		}
		for range 1 + m.random.IntN(3) {
			payload = append(payload[:kept:kept], m.change(payload[kept:])...)
		}
	}
	payload = payload[:min(len(payload), payloadMax)]
	length := uint32(len(payload))
	if m.random.IntN(100) < wrongLength {
		length = uint32(m.number(int32(length)))
	}
	return append(binary.BigEndian.AppendUint32(b, length), payload...)
}

// one returns one of the recorded frames.
func (m *Mutator) one() []byte { return m.frames[m.random.IntN(len(m.frames))] }

// number returns something that a field may not be, or near to n.
func (m *Mutator) number(n int32) int32 {
	if m.random.IntN(2) == 0 {
		return n + int32(m.random.IntN(9)) - 4
	}
	return numbers[m.random.IntN(len(numbers))]
}

// change makes one change.
func (m *Mutator) change(p []byte) []byte {
	if len(p) < 4 {
		return append(p, byte(m.random.Uint32()))
	}
	at, upTo := m.random.IntN(len(p)-3), m.random.IntN(len(p))
	from, to := min(at, upTo), max(at, upTo)
	switch m.random.IntN(8) {
	case 0:
		p[at] ^= 1 << m.random.IntN(8)
	case 1:
		p[at] = byte(m.random.Uint32())
	case 2, 3:
		binary.BigEndian.PutUint32(p[at:], uint32(m.number(int32(binary.BigEndian.Uint32(p[at:])))))
	case 4:
		p = p[:to]
	case 5:
		p = slices.Concat(p[:to], p[from:])
	case 6:
		p = slices.Delete(p, from, to)
	default:
		other := m.one()[4:]
		p = slices.Concat(p[:to], other[min(from, len(other)):])
	}
	return p
}
