package schema

import "encoding/binary"

// Upload is what the state knows of a snapshot that comes in pieces. It is immutable.
type Upload struct {
	ID    uint64
	Bytes int64 // that have come
}

// uploadVersion begins the record of an upload.
const uploadVersion = 1

// Append adds the record of u to b (docs/formats/state.md).
func (u *Upload) Append(b []byte) []byte {
	b = append(b, uploadVersion)
	b = binary.BigEndian.AppendUint64(b, u.ID)
	return binary.BigEndian.AppendUint64(b, uint64(u.Bytes))
}

// DecodeUpload reads the record of an upload; false if it is none.
func DecodeUpload(b []byte) (_ *Upload, ok bool) {
	if len(b) != 1+8+8 || b[0] != uploadVersion {
		return nil, false
	}
	return &Upload{ID: binary.BigEndian.Uint64(b[1:]), Bytes: int64(binary.BigEndian.Uint64(b[9:]))}, true
}
