package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
)

// Znode is one znode as the machine works with it. What readers and the cache see is immutable; the apply goroutine
// changes copies.
type Znode struct {
	Path                string
	Czxid, Mzxid, Pzxid jute.Zxid
	Ctime, Mtime        jute.Millis
	Version, Aversion   jute.Version
	Creations           jute.Version // children ever made: the stored cversion
	Owner               jute.SessionID
	DataLen, Children   int32
	CRC                 uint32 // CRC-32 of the path (the root's is empty) and the data: all of the digest but the Stat
	DigestPart          uint32 // its part of the digest, if this process has written it; 0: not known
	Sum                 uint64 // its part of the sums, if this process has written it; 0: not known
	NullData            bool
	DataLoaded          bool       // data holds the data
	ACL                 []jute.ACL // immutable, shared
	Data                []byte     // nil if null
}

// InlineDataBytesMax is the longest data that is kept in the header. Longer data has a key of its own, so that making
// a child does not write its parent's data again. A guess between one put less for each small znode and the bytes
// that a listing reads over.
const InlineDataBytesMax = 128

// ownerType is what a stored ephemeralOwner means (org.apache.zookeeper.server.EphemeralType).
type ownerType uint8

// The kinds of znodes by their owner.
const (
	OwnerNone ownerType = iota
	OwnerSession
	OwnerContainer
	OwnerTTL
)

// The encodings of containers and TTL znodes in the stored owner (EphemeralType.CONTAINER_EPHEMERAL_OWNER,
// EXTENDED_MASK).
const (
	ContainerOwner jute.SessionID = -1 << 63
	TTLOwnerMask   jute.SessionID = -1 << 56
	TTLMax         jute.Millis    = 1<<40 - 1
)

// OwnerKind tells what a stored owner means.
func OwnerKind(owner jute.SessionID) ownerType {
	switch {
	case owner == 0:
		return OwnerNone
	case owner == ContainerOwner:
		return OwnerContainer
	case owner&TTLOwnerMask == TTLOwnerMask:
		return OwnerTTL
	}
	return OwnerSession
}

// SessionOwner returns the session that n belongs to, 0 if it is nil or belongs to none.
func SessionOwner(n *Znode) jute.SessionID {
	if n == nil || OwnerKind(n.Owner) != OwnerSession {
		return 0
	}
	return n.Owner
}

// MayExpire reports whether n is a container or TTL znode.
func MayExpire(n *Znode) bool {
	return n != nil && (OwnerKind(n.Owner) == OwnerContainer || OwnerKind(n.Owner) == OwnerTTL)
}

// Deadline returns the last moment at which a TTL znode may not be removed yet.
func (n *Znode) Deadline() jute.Millis { return n.Mtime + jute.Millis(n.Owner&jute.SessionID(TTLMax)) }

// Stat returns the Stat that clients see (org.apache.zookeeper.server.DataNode.copyStat): cversion counts creations
// and deletions, and only sessions show as owners.
func (n *Znode) Stat() jute.Stat {
	owner := n.Owner
	if OwnerKind(owner) != OwnerSession {
		owner = 0
	}
	return jute.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version,
		Cversion: 2*n.Creations - jute.Version(n.Children), Aversion: n.Aversion, EphemeralOwner: owner,
		DataLength: n.DataLen, NumChildren: n.Children, Pzxid: n.Pzxid,
	}
}

// SetData gives n the data, as a view, and what follows from it but its Stat.
func (n *Znode) SetData(data []byte) {
	n.Data, n.DataLen, n.NullData, n.DataLoaded = data, int32(len(data)), data == nil, true
	name := n.Path
	if name == RootPath {
		name = ""
	}
	n.CRC = crc32.Update(crc32.ChecksumIEEE(entry.ViewBytes(name)), crc32.IEEETable, data)
}

// Inline reports whether n's data is in its header. Such data is always loaded.
func (n *Znode) Inline() bool { return n.DataLen <= InlineDataBytesMax }

// DigestStatBytes is the size of what the digest takes from a Stat.
const DigestStatBytes = 5*8 + 3*4 + 8

// Digest returns the znode's part of the state's digest, as version 2 of ZooKeeper's
// (org.apache.zookeeper.server.DigestCalculator): the CRC-32 of path, data and 60 bytes of Stat; 0 below /zookeeper/.
// It works in b, which the checksum would otherwise allocate.
func (n *Znode) Digest(b *[DigestStatBytes]byte) uint64 {
	if isSystemPath(n.Path) {
		return 0
	}
	binary.BigEndian.PutUint64(b[0:], uint64(n.Czxid))
	binary.BigEndian.PutUint64(b[8:], uint64(n.Mzxid))
	binary.BigEndian.PutUint64(b[16:], uint64(n.Pzxid))
	binary.BigEndian.PutUint64(b[24:], uint64(n.Ctime))
	binary.BigEndian.PutUint64(b[32:], uint64(n.Mtime))
	binary.BigEndian.PutUint32(b[40:], uint32(n.Version))
	binary.BigEndian.PutUint32(b[44:], uint32(n.Creations))
	binary.BigEndian.PutUint32(b[48:], uint32(n.Aversion))
	binary.BigEndian.PutUint64(b[52:], uint64(n.Owner))
	return uint64(crc32.Update(n.CRC, crc32.IEEETable, b[:]))
}

// Header layout (docs/formats/state.md). All integers are big-endian.
const (
	headerVersion    = 1
	HeaderFixedBytes = 1 + 1 + 5*8 + 3*4 + 8 + 4 + 4 + 4

	headerNullData   = 1 << 0 // the data is null
	headerInlineData = 1 << 1 // the data follows the ACL
	headerACLShift   = 4
	headerACLOpen    = 0 << headerACLShift // world:anyone, everything
	headerACLRead    = 1 << headerACLShift // world:anyone, read
	headerACLList    = 2 << headerACLShift // the list follows, as jute encodes it
	headerACLMask    = 3 << headerACLShift
)

// ErrDamagedValue means a value of the state store that cannot be read although its block's checksum was right.
var ErrDamagedValue = errors.New("damaged value in the state store")

// aclBits returns how the header holds the list.
func aclBits(list []jute.ACL) byte {
	if len(list) == 1 && list[0].ID == acl.Open[0].ID {
		switch list[0].Perms {
		case jute.PermAll:
			return headerACLOpen
		case jute.PermRead:
			return headerACLRead
		}
	}
	return headerACLList
}

// AppendHeader adds n's header value to b.
func (n *Znode) AppendHeader(b []byte) []byte {
	bits := aclBits(n.ACL)
	if n.NullData {
		bits |= headerNullData
	}
	if n.Inline() {
		bits |= headerInlineData
	}
	b = append(b, headerVersion, bits)
	b = binary.BigEndian.AppendUint64(b, uint64(n.Czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Mtime))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Creations))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(n.Owner))
	b = binary.BigEndian.AppendUint32(b, uint32(n.DataLen))
	b = binary.BigEndian.AppendUint32(b, uint32(n.Children))
	b = binary.BigEndian.AppendUint32(b, n.CRC)
	if bits&headerACLMask == headerACLList {
		b = jute.AppendInt(b, int32(len(n.ACL)))
		for i := range n.ACL {
			b = n.ACL[i].Append(b)
		}
	}
	if bits&headerInlineData != 0 {
		b = append(b, n.Data...)
	}
	return b
}

// DecodeHeader reads the header of the znode at path from b, in memory of its own; path is kept. Data that has a key
// of its own is not loaded.
func DecodeHeader(path string, b []byte) (*Znode, error) {
	if len(b) < HeaderFixedBytes || b[0] != headerVersion {
		return nil, fmt.Errorf("%w: header of %q", ErrDamagedValue, path)
	}
	bits := b[1]
	n := &Znode{
		Path:  path,
		Czxid: jute.Zxid(binary.BigEndian.Uint64(b[2:])), Mzxid: jute.Zxid(binary.BigEndian.Uint64(b[10:])),
		Pzxid: jute.Zxid(binary.BigEndian.Uint64(b[18:])), Ctime: jute.Millis(binary.BigEndian.Uint64(b[26:])),
		Mtime: jute.Millis(binary.BigEndian.Uint64(b[34:])), Version: jute.Version(binary.BigEndian.Uint32(b[42:])),
		Creations: jute.Version(binary.BigEndian.Uint32(b[46:])),
		Aversion:  jute.Version(binary.BigEndian.Uint32(b[50:])),
		Owner:     jute.SessionID(binary.BigEndian.Uint64(b[54:])), DataLen: int32(binary.BigEndian.Uint32(b[62:])),
		Children: int32(binary.BigEndian.Uint32(b[66:])), CRC: binary.BigEndian.Uint32(b[70:]),
		NullData: bits&headerNullData != 0,
	}
	if n.DataLen < 0 || n.Children < 0 || n.Inline() != (bits&headerInlineData != 0) || n.NullData && n.DataLen > 0 {
		return nil, fmt.Errorf("%w: header of %q says %d bytes of data and %d children", ErrDamagedValue, path,
			n.DataLen,
			n.Children)
	}
	rest, err := n.decodeACL(bits, b[HeaderFixedBytes:])
	if err != nil {
		return nil, err
	}
	if !n.Inline() {
		return n, nil
	}
	if len(rest) != int(n.DataLen) {
		return nil, fmt.Errorf("%w: data of %q has %d bytes, its header says %d", ErrDamagedValue, path, len(rest),
			n.DataLen)
	}
	n.DataLoaded = true
	if !n.NullData {
		n.Data = append(make([]byte, 0, len(rest)), rest...)
	}
	return n, nil
}

// HeaderDataLen returns the length of the data that the header value belongs to.
func HeaderDataLen(key, value []byte) (int64, error) {
	if len(value) < HeaderFixedBytes || value[0] != headerVersion {
		return 0, fmt.Errorf("%w: header of %q", ErrDamagedValue, PathOfNodeKey(nil, key))
	}
	return int64(binary.BigEndian.Uint32(value[62:])), nil
}

// CheckData compares n's loaded data with what the header says of it.
func (n *Znode) CheckData() error {
	if len(n.Data) != int(n.DataLen) {
		return fmt.Errorf("data of %q has %d bytes, its header says %d", n.Path, len(n.Data), n.DataLen)
	}
	is := *n
	is.SetData(n.Data)
	if is.CRC != n.CRC {
		return fmt.Errorf("path and data of %q have the checksum %#x, its header says %#x", n.Path, is.CRC, n.CRC)
	}
	return nil
}

// decodeACL reads n's list from what follows the header's fixed part and returns the rest.
func (n *Znode) decodeACL(bits byte, b []byte) (rest []byte, err error) {
	switch bits & headerACLMask {
	case headerACLOpen:
		n.ACL = acl.Open
		return b, nil
	case headerACLRead:
		n.ACL = acl.ReadOnly
		return b, nil
	}
	d := jute.NewDecoder(b)
	count := int(d.Int())
	if count < 0 || count > len(b)/12 {
		return nil, fmt.Errorf("%w: ACL of %q", ErrDamagedValue, n.Path)
	}
	n.ACL = make([]jute.ACL, count)
	for i := range n.ACL {
		n.ACL[i].Decode(&d)
		n.ACL[i].ID.Scheme = strings.Clone(n.ACL[i].ID.Scheme)
		n.ACL[i].ID.ID = strings.Clone(n.ACL[i].ID.ID)
	}
	if d.Err() != nil {
		return nil, fmt.Errorf("%w: ACL of %q: %w", ErrDamagedValue, n.Path, d.Err())
	}
	return d.Remaining(), nil
}
