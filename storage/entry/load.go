package entry

import (
	"encoding/binary"
	"fmt"

	"zkd/jute"
)

// The proposals of a load: a snapshot of Apache ZooKeeper's comes in pieces and then takes the place of the state,
// on every server at the same entry. Their body is a LoadTxn. A server proposes them for an operator, and they never
// come from a client. They take no zxid, but for an OpLoadCommit that succeeds.
const (
	// OpLoadBegin begins an upload, and drops the one that was there.
	OpLoadBegin jute.Op = -14
	// OpLoadChunk adds to it.
	OpLoadChunk jute.Op = -15
	// OpLoadCommit makes it the state. It must be alone in its entry.
	OpLoadCommit jute.Op = -16
	// OpLoadAbort drops it.
	OpLoadAbort jute.Op = -17
)

// LoadChunkBytesMax is the most that one OpLoadChunk may carry: as much as shares an entry with other writes.
const LoadChunkBytesMax = 256 << 10

// LoadTxn is the body of the proposals of a load.
type LoadTxn struct {
	Upload uint64 // drawn at random by who begins: another one's pieces do not fit
	Offset int64  // of OpLoadChunk, of its data; of OpLoadCommit, the length of the whole; else 0
	Sum    uint64 // of OpLoadCommit: the xxHash64 of the whole; else 0
	Data   []byte // of OpLoadChunk; else empty
}

// loadTxnFixedBytes is the size of a LoadTxn without data.
const loadTxnFixedBytes = 8 + 8 + 8

// Append adds the encoding of r to b (docs/formats/entry.md).
func (r *LoadTxn) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Upload)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, r.Sum)
	return append(b, r.Data...)
}

// Decode reads r from b; Data stays a view of it.
func (r *LoadTxn) Decode(b []byte) error {
	if len(b) < loadTxnFixedBytes {
		return fmt.Errorf("load transaction of %d bytes, want at least %d", len(b), loadTxnFixedBytes)
	}
	r.Upload = binary.BigEndian.Uint64(b)
	r.Offset = int64(binary.BigEndian.Uint64(b[8:]))
	r.Sum = binary.BigEndian.Uint64(b[16:])
	r.Data = b[loadTxnFixedBytes:]
	return nil
}
