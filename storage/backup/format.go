package backup

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// fileMagic begins a backup, so that another file is not taken for one.
const fileMagic = "ZKD backup\n"

// formatVersion is the version of what the blocks hold (docs/formats/backup.md).
const formatVersion = 1

// The kinds of blocks, in the order in which they come.
const (
	kindHeader   = 'h' // one
	kindZnodes   = 'n' // any number
	kindSessions = 's' // any number
	kindEnd      = 'z' // one, the last
)

// Sizes of blocks.
const (
	blockHeaderBytes = 1 + 4 + 8
	// blockBytes is the size at which a block is full; one record may be longer alone. A guess.
	blockBytes = 256 << 10
	// payloadBytesMax is more than any znode has: a longer block is damage.
	payloadBytesMax = 1 << 30
	endBytes        = 8 + 8 + sumBytes
	sumBytes        = 32 // SHA-256
)

// ErrUnusable says that what was given is no backup, or not a whole one. Nothing of it may be used.
var ErrUnusable = errors.New("backup is not usable")

// appendInfo adds the payload of the header block to b.
func appendInfo(b []byte, i *schema.Summary) []byte {
	b = append(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Made))
	b = append(b, i.ClusterID[:]...)
	pos := i.Position()
	b = pos.Append(b)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Sessions))
	b = jute.AppendString(b, i.Writer)
	return jute.AppendString(b, i.Config)
}

// decodeInfo reads the payload of the header block.
func decodeInfo(b []byte) (i schema.Summary, err error) {
	const fixed = 1 + 8 + len(i.ClusterID) + schema.PositionBytes + 8
	if len(b) > 0 && b[0] != formatVersion {
		return i, fmt.Errorf("%w: it has format %d, this version reads %d: run the zkd that made it, or a newer one",
			ErrUnusable, b[0], formatVersion)
	}
	if len(b) < fixed {
		return i, fmt.Errorf("%w: its header has %d bytes", ErrUnusable, len(b))
	}
	pos, err := schema.DecodePosition(b[25 : 25+schema.PositionBytes])
	if err != nil {
		return i, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	i = schema.Summary{Made: jute.Millis(binary.BigEndian.Uint64(b[1:])), ClusterID: entry.ClusterID(b[9:]),
		Index: pos.Index, Term: pos.Term, Zxid: pos.Zxid, Znodes: pos.Nodes, Ephemerals: pos.Ephemerals,
		DataBytes: pos.DataBytes, Digest: pos.Digest,
		Sessions: int64(binary.BigEndian.Uint64(b[fixed-8:]))}
	rest, ok := b[fixed:], false
	if i.Writer, rest, ok = entry.CutString(rest); ok {
		i.Config, rest, ok = entry.CutString(rest)
	}
	if !ok || len(rest) > 0 {
		return i, fmt.Errorf("%w: its header has fields of wrong lengths", ErrUnusable)
	}
	return i, nil
}

// checksum is the checksum of a block: kind, place among the blocks, length and payload.
func checksum(kind byte, number uint64, payload []byte) uint64 {
	var head [1 + 8 + 4]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], number)
	binary.BigEndian.PutUint32(head[9:], uint32(len(payload)))
	var h xxhash.Digest
	h.Reset()
	_, _ = h.Write(head[:]) // never fails
	_, _ = h.Write(payload) // never fails
	return h.Sum64()
}

// appendZnode adds the record of a znode to b: path and header each with its length, then the data that is not in
// the header.
func appendZnode(b []byte, path string, header, data []byte) []byte {
	b = jute.AppendString(b, path)
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	b = append(b, header...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// cutZnode takes the record of a znode off b, as views of it.
func cutZnode(b []byte) (path, header, data string, rest []byte, ok bool) {
	if path, b, ok = entry.CutString(b); ok {
		if header, b, ok = entry.CutString(b); ok {
			data, b, ok = entry.CutString(b)
		}
	}
	return path, header, data, b, ok
}
