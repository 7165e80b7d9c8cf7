package entry

import (
	"encoding/binary"
	"fmt"

	"zkd/jute"
)

// The proposals of a restore: a snapshot of Apache ZooKeeper's comes in pieces and then takes the place of the state,
// on every server at the same entry. Their body is a RestoreTxn. A server proposes them for an operator, and they never
// come from a client. They take no zxid, but for an OpRestoreCommit that succeeds.
const (
	// OpRestoreBegin begins an upload, and drops the one that was there.
	OpRestoreBegin jute.Op = -14
	// OpRestoreChunk adds to it.
	OpRestoreChunk jute.Op = -15
	// OpRestoreCommit makes it the state. It must be alone in its entry.
	OpRestoreCommit jute.Op = -16
	// OpRestoreAbort drops it.
	OpRestoreAbort jute.Op = -17
)

// RestoreChunkBytesMax is the most that one OpRestoreChunk may carry: as much as shares an entry with other writes.
const RestoreChunkBytesMax = 256 << 10

// RestoreTxn is the body of the proposals of a restore.
type RestoreTxn struct {
	Upload uint64 // drawn at random by who begins: another one's pieces do not fit
	Offset int64  // of OpRestoreChunk, of its data; of OpRestoreCommit, the length of the whole; else 0
	Sum    uint64 // of OpRestoreCommit: the xxHash64 of the whole; else 0
	Data   []byte // of OpRestoreChunk; else empty
}

// restoreTxnFixedBytes is the size of a RestoreTxn without data.
const restoreTxnFixedBytes = 8 + 8 + 8

// Append adds the encoding of r to b (docs/formats/entry.md).
func (r *RestoreTxn) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Upload)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, r.Sum)
	return append(b, r.Data...)
}

// Decode reads r from b; Data stays a view of it.
func (r *RestoreTxn) Decode(b []byte) error {
	if len(b) < restoreTxnFixedBytes {
		return fmt.Errorf("restore transaction of %d bytes, want at least %d", len(b), restoreTxnFixedBytes)
	}
	r.Upload = binary.BigEndian.Uint64(b)
	r.Offset = int64(binary.BigEndian.Uint64(b[8:]))
	r.Sum = binary.BigEndian.Uint64(b[16:])
	r.Data = b[restoreTxnFixedBytes:]
	return nil
}
