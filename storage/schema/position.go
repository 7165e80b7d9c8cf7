package schema

import (
	"encoding/binary"
	"fmt"

	"zkd/jute"
)

// Position is what the state says about itself: how far it has come and what it holds. It is written with every
// entry.
type Position struct {
	Index, Term uint64    // of the last entry applied
	Zxid        jute.Zxid // of the last write
	Nodes       int64     // znodes, the root included
	Ephemerals  int64     // znodes that belong to sessions
	DataBytes   int64     // of paths and data
	Digest      uint64    // sum of the znodes' digests
}

// positionVersion begins the value of the position.
const positionVersion = 1

// PositionBytes is the size of the position's value.
const PositionBytes = 1 + 7*8

// Append adds p's value to b.
func (p *Position) Append(b []byte) []byte {
	b = append(b, positionVersion)
	for _, v := range [...]uint64{
		p.Index, p.Term, uint64(p.Zxid), uint64(p.Nodes), uint64(p.Ephemerals), uint64(p.DataBytes), p.Digest,
	} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// DecodePosition reads a position.
func DecodePosition(b []byte) (Position, error) {
	if len(b) != PositionBytes || b[0] != positionVersion {
		return Position{}, fmt.Errorf("%w: applied position", ErrDamagedValue)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	return Position{
		Index: at(0), Term: at(1), Zxid: jute.Zxid(at(2)), Nodes: int64(at(3)),
		Ephemerals: int64(at(4)), DataBytes: int64(at(5)),
		Digest: at(6),
	}, nil
}
