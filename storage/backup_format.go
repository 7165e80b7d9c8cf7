package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
)

// backupMagic begins a backup, so that another file is not taken for one.
const backupMagic = "ZKD backup\n"

// backupVersion is the version of what the blocks hold (docs/formats/backup.md).
const backupVersion = 1

// The kinds of blocks, in the order in which they come.
const (
	backupHeader   = 'h' // one
	backupZnodes   = 'n' // any number
	backupSessions = 's' // any number
	backupEnd      = 'z' // one, the last
)

// Sizes of blocks.
const (
	backupBlockHeaderBytes = 1 + 4 + 8
	// backupBlockBytes is the size at which a block is full; one record may be longer alone. A guess.
	backupBlockBytes = 256 << 10
	// backupPayloadBytesMax is more than any znode has: a longer block is damage.
	backupPayloadBytesMax = 1 << 30
	backupEndBytes        = 8 + 8 + backupSumBytes
	backupSumBytes        = 32 // SHA-256
)

// ErrBackup says that what was given is no backup, or not a whole one. Nothing of it may be used.
var ErrBackup = errors.New("backup is not usable")

// BackupInfo is what a backup says about the state that it holds.
type BackupInfo struct {
	Made      jute.Millis // when the backup was begun, by the clock of who made it
	Writer    string      // the version that made it
	ClusterID ClusterID   // of the ensemble that the state was of; zero if it was of none
	Config    string      // the text of that ensemble's configuration; "" if there was none
	Index     uint64      // of the last log entry in the state
	Term      uint64      // of that entry
	Zxid      jute.Zxid   // of the last write in the state
	Znodes    int64       // the root included
	// Ephemerals are the znodes that belong to sessions, DataBytes the bytes of all paths and data.
	Ephemerals, DataBytes int64
	// Digest is ZooKeeper's of the tree (version 2): paths, data and Stats of all znodes outside /zookeeper.
	Digest   uint64
	Sessions int64
}

// position is the state's own words for the same.
func (i *BackupInfo) position() position {
	return position{index: i.Index, term: i.Term, zxid: i.Zxid, nodes: i.Znodes, ephemerals: i.Ephemerals,
		dataBytes: i.DataBytes, digest: i.Digest}
}

// backupInfo says of a state what a backup says of it.
func backupInfo(pos *position, e *ensembleRecord, sessions int) BackupInfo {
	return BackupInfo{ClusterID: e.clusterID(), Config: e.configText(), Index: pos.index, Term: pos.term,
		Zxid: pos.zxid, Znodes: pos.nodes, Ephemerals: pos.ephemerals, DataBytes: pos.dataBytes, Digest: pos.digest,
		Sessions: int64(sessions)}
}

// append adds the payload of the header block to b.
func (i *BackupInfo) append(b []byte) []byte {
	b = append(b, backupVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Made))
	b = append(b, i.ClusterID[:]...)
	pos := i.position()
	b = pos.append(b)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Sessions))
	b = jute.AppendString(b, i.Writer)
	return jute.AppendString(b, i.Config)
}

// decode reads the payload of the header block.
func (i *BackupInfo) decode(b []byte) error {
	const fixed = 1 + 8 + len(i.ClusterID) + positionBytes + 8
	if len(b) > 0 && b[0] != backupVersion {
		return fmt.Errorf("%w: it has format %d, this version reads %d: run the zkd that made it, or a newer one",
			ErrBackup, b[0], backupVersion)
	}
	if len(b) < fixed {
		return fmt.Errorf("%w: its header has %d bytes", ErrBackup, len(b))
	}
	pos, err := decodePosition(b[25 : 25+positionBytes])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBackup, err)
	}
	*i = BackupInfo{Made: jute.Millis(binary.BigEndian.Uint64(b[1:])), ClusterID: ClusterID(b[9:]),
		Index: pos.index, Term: pos.term, Zxid: pos.zxid, Znodes: pos.nodes, Ephemerals: pos.ephemerals,
		DataBytes: pos.dataBytes, Digest: pos.digest,
		Sessions: int64(binary.BigEndian.Uint64(b[fixed-8:]))}
	rest, ok := b[fixed:], false
	if i.Writer, rest, ok = cutString(rest); ok {
		i.Config, rest, ok = cutString(rest)
	}
	if !ok || len(rest) > 0 {
		return fmt.Errorf("%w: its header has fields of wrong lengths", ErrBackup)
	}
	return nil
}

// backupChecksum is the checksum of a block: kind, place among the blocks, length and payload.
func backupChecksum(kind byte, number uint64, payload []byte) uint64 {
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

// appendBackupZnode adds the record of a znode to b: path and header each with its length, then the data that is not in
// the header.
func appendBackupZnode(b []byte, path string, header, data []byte) []byte {
	b = jute.AppendString(b, path)
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	b = append(b, header...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// cutBackupZnode takes the record of a znode off b, as views of it.
func cutBackupZnode(b []byte) (path, header, data string, rest []byte, ok bool) {
	if path, b, ok = cutString(b); ok {
		if header, b, ok = cutString(b); ok {
			data, b, ok = cutString(b)
		}
	}
	return path, header, data, b, ok
}

// backupTally adds up what the znodes of a backup make, to compare it with what the state has said.
type backupTally struct {
	znodes, ephemerals, dataBytes, children int64
	digest                                  uint64
	sessions                                int64
	buf                                     [digestStatBytes]byte
}

// add counts a znode.
func (t *backupTally) add(n *znode) {
	t.znodes++
	t.dataBytes += int64(len(n.path)) + int64(n.dataLen)
	t.children += int64(n.children)
	t.digest += n.digest(&t.buf)
	if sessionOwner(n) != 0 {
		t.ephemerals++
	}
}

// compare says what does not fit.
func (t *backupTally) compare(i *BackupInfo) error {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"znodes", t.znodes, i.Znodes},
		{"ephemeral znodes", t.ephemerals, i.Ephemerals},
		{"bytes of paths and data", t.dataBytes, i.DataBytes},
		{"children", t.children, i.Znodes - 1},
		{"sessions", t.sessions, i.Sessions},
	} {
		if c.got != c.want {
			return fmt.Errorf("%d %s are there, %d were counted", c.got, c.what, c.want)
		}
	}
	if t.digest != i.Digest {
		return fmt.Errorf("the digest of the znodes is %#x, the state's is %#x", t.digest, i.Digest)
	}
	return nil
}
