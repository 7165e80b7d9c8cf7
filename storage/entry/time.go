package entry

import (
	"encoding/binary"

	"zkd/jute"
)

// Where a proposal's time is: behind op, session and xid (docs/formats/entry.md).
const (
	proposalTimeAt  = 4 + 8 + 4
	proposalTimeEnd = proposalTimeAt + 8
)

// StampEntry gives every proposal of an entry the time, in place. It leaves alone what it cannot read.
func StampEntry(entry []byte, time jute.Millis) {
	if len(entry) < entryHeaderBytes {
		return
	}
	for rest := entry[entryHeaderBytes:]; len(rest) >= 4; {
		n := int(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n < proposalTimeEnd || n > len(rest) {
			return
		}
		binary.BigEndian.PutUint64(rest[proposalTimeAt:], uint64(time))
		rest = rest[n:]
	}
}

// Time returns the time of the first proposal of an entry; false if it has none.
func Time(entry []byte) (time jute.Millis, ok bool) {
	const at = entryHeaderBytes + 4
	if len(entry) < at+proposalTimeEnd {
		return 0, false
	}
	return jute.Millis(binary.BigEndian.Uint64(entry[at+proposalTimeAt:])), true
}
