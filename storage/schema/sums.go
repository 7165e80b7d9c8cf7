package schema

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
)

// SumsVersion begins the value of the sums.
const SumsVersion = 1

// SumsBytes is the size of the value of the sums.
const SumsBytes = 1 + 3*8

// Kept are the sums that are written with every entry. Rest follows from what is in memory.
type Kept struct{ Znodes, Sessions uint64 }

// Append adds the value of k, which is that after the entry at index, to b (docs/formats/state.md).
func (k Kept) Append(b []byte, index uint64) []byte {
	b = append(b, SumsVersion)
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, k.Znodes)
	return binary.BigEndian.AppendUint64(b, k.Sessions)
}

// SumOfZnode is a znode's part of the sums: the hash of its header's value and its path. Data that is not in the header
// is in it by the header's checksum of it. b is memory to work in, which may hold the header already.
func SumOfZnode(header []byte, path string) (sum uint64, memory []byte) {
	memory = append(header, path...) //nolint:gocritic // both are the caller's
	return xxhash.Sum64(memory), memory
}

// SumOfSession is a session's part of the sums: the hash of its value and its id.
func SumOfSession(value []byte, id jute.SessionID) (sum uint64, memory []byte) {
	memory = binary.BigEndian.AppendUint64(value, uint64(id))
	return xxhash.Sum64(memory), memory
}
