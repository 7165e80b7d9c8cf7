package entry

import (
	"encoding/binary"
	"math"

	"zkd/jute"
)

// entryHeaderBytes is the size of what precedes an entry's proposals.
const entryHeaderBytes = 1 + 8 + 8

// AppendEntryHeader begins an entry in b. origin is a random number of the proposing process and batch that process's
// count of its entries; together they tell the process which of its requests an applied entry holds.
func AppendEntryHeader(b []byte, origin, batch uint64) []byte {
	b = append(b, byte(LevelOldest))
	b = binary.BigEndian.AppendUint64(b, origin)
	return binary.BigEndian.AppendUint64(b, batch)
}

// AppendProposal adds p, with its length, to the entry that b begins with. The entry's version, its first byte, is the
// feature level that its proposals need: who cannot do that stops before anything of the entry is applied.
func AppendProposal(b []byte, p *Proposal) []byte {
	b[0] = max(b[0], byte(min(p.Level(), math.MaxUint8))) // a level beyond what the byte says is beyond all programs
	b = append(b, 0, 0, 0, 0)
	mark := len(b)
	b = p.Append(b)
	binary.BigEndian.PutUint32(b[mark-4:], uint32(len(b)-mark))
	return b
}

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

// Reader walks the proposals of one entry.
type Reader struct {
	Origin, Batch uint64
	Version       Level // the feature level that the entry needs
	Rest          []byte
	err           error
}

// NewReader returns a walk over data, which must not be empty. It fails if this version cannot read the entry.
func NewReader(data []byte) (Reader, error) {
	if len(data) == 0 || data[0] < byte(LevelOldest) {
		return Reader{}, errProposal
	}
	version := Level(data[0])
	if err := version.Check("a log entry"); err != nil {
		return Reader{}, err
	}
	if len(data) < entryHeaderBytes {
		return Reader{}, errProposal
	}
	return Reader{
		Version: version, Origin: binary.BigEndian.Uint64(data[1:]), Batch: binary.BigEndian.Uint64(data[9:]),
		Rest: data[entryHeaderBytes:],
	}, nil
}

// Next decodes the next proposal into p, as views of the entry. It returns false at the end and at the first proposal
// that cannot be read; Err tells which.
func (r *Reader) Next(p *Proposal) bool {
	if r.err != nil || len(r.Rest) == 0 {
		return false
	}
	if len(r.Rest) < 4 {
		r.err = errProposal
		return false
	}
	n := int(binary.BigEndian.Uint32(r.Rest))
	if n > len(r.Rest)-4 {
		r.err = errProposal
		return false
	}
	r.err = p.Decode(r.Rest[4 : 4+n : 4+n])
	r.Rest = r.Rest[4+n:]
	return r.err == nil
}

// Err returns why Next stopped, or nil at the end of the entry.
func (r *Reader) Err() error { return r.err }
