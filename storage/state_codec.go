package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
)

// znode is one znode as the machine works with it. What readers and the cache see is immutable; the apply goroutine
// changes copies.
type znode struct {
	path                string
	czxid, mzxid, pzxid jute.Zxid
	ctime, mtime        jute.Millis
	version, aversion   jute.Version
	creations           jute.Version // children ever made: the stored cversion
	owner               jute.SessionID
	dataLen, children   int32
	crc                 uint32 // CRC-32 of the path (the root's is empty) and the data: all of the digest but the Stat
	nullData            bool
	dataLoaded          bool       // data holds the data
	acl                 []jute.ACL // immutable, shared
	data                []byte     // nil if null
}

// inlineDataBytesMax is the longest data that is kept in the header. Longer data has a key of its own, so that making
// a child does not write its parent's data again. A guess between one put less for each small znode and the bytes
// that a listing reads over.
const inlineDataBytesMax = 128

// ownerType is what a stored ephemeralOwner means (org.apache.zookeeper.server.EphemeralType).
type ownerType uint8

// The kinds of znodes by their owner.
const (
	ownerNone ownerType = iota
	ownerSession
	ownerContainer
	ownerTTL
)

// The encodings of containers and TTL znodes in the stored owner (EphemeralType.CONTAINER_EPHEMERAL_OWNER,
// EXTENDED_MASK).
const (
	containerOwner jute.SessionID = -1 << 63
	ttlOwnerMask   jute.SessionID = -1 << 56
	ttlMax         jute.Millis    = 1<<40 - 1
)

// ownerKind tells what a stored owner means.
func ownerKind(owner jute.SessionID) ownerType {
	switch {
	case owner == 0:
		return ownerNone
	case owner == containerOwner:
		return ownerContainer
	case owner&ttlOwnerMask == ttlOwnerMask:
		return ownerTTL
	}
	return ownerSession
}

// sessionOwner returns the session that n belongs to, 0 if it is nil or belongs to none.
func sessionOwner(n *znode) jute.SessionID {
	if n == nil || ownerKind(n.owner) != ownerSession {
		return 0
	}
	return n.owner
}

// mayExpire reports whether n is a container or TTL znode.
func mayExpire(n *znode) bool {
	return n != nil && (ownerKind(n.owner) == ownerContainer || ownerKind(n.owner) == ownerTTL)
}

// deadline returns the last moment at which a TTL znode may not be removed yet.
func (n *znode) deadline() jute.Millis { return n.mtime + jute.Millis(n.owner&jute.SessionID(ttlMax)) }

// stat returns the Stat that clients see (org.apache.zookeeper.server.DataNode.copyStat): cversion counts creations
// and deletions, and only sessions show as owners.
func (n *znode) stat() jute.Stat {
	owner := n.owner
	if ownerKind(owner) != ownerSession {
		owner = 0
	}
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version,
		Cversion: 2*n.creations - jute.Version(n.children), Aversion: n.aversion, EphemeralOwner: owner,
		DataLength: n.dataLen, NumChildren: n.children, Pzxid: n.pzxid,
	}
}

// setData gives n the data, as a view, and what follows from it but its Stat.
func (n *znode) setData(data []byte) {
	n.data, n.dataLen, n.nullData, n.dataLoaded = data, int32(len(data)), data == nil, true
	name := n.path
	if name == rootPath {
		name = ""
	}
	n.crc = crc32.Update(crc32.ChecksumIEEE(viewBytes(name)), crc32.IEEETable, data)
}

// inline reports whether n's data is in its header. Such data is always loaded.
func (n *znode) inline() bool { return n.dataLen <= inlineDataBytesMax }

// digestStatBytes is the size of what the digest takes from a Stat.
const digestStatBytes = 5*8 + 3*4 + 8

// digest returns the znode's part of the state's digest, as version 2 of ZooKeeper's
// (org.apache.zookeeper.server.DigestCalculator): the CRC-32 of path, data and 60 bytes of Stat; 0 below /zookeeper/.
// It works in b, which the checksum would otherwise allocate.
func (n *znode) digest(b *[digestStatBytes]byte) uint64 {
	if isSystemPath(n.path) {
		return 0
	}
	binary.BigEndian.PutUint64(b[0:], uint64(n.czxid))
	binary.BigEndian.PutUint64(b[8:], uint64(n.mzxid))
	binary.BigEndian.PutUint64(b[16:], uint64(n.pzxid))
	binary.BigEndian.PutUint64(b[24:], uint64(n.ctime))
	binary.BigEndian.PutUint64(b[32:], uint64(n.mtime))
	binary.BigEndian.PutUint32(b[40:], uint32(n.version))
	binary.BigEndian.PutUint32(b[44:], uint32(n.creations))
	binary.BigEndian.PutUint32(b[48:], uint32(n.aversion))
	binary.BigEndian.PutUint64(b[52:], uint64(n.owner))
	return uint64(crc32.Update(n.crc, crc32.IEEETable, b[:]))
}

// Header layout (docs/formats/state.md). All integers are big-endian.
const (
	headerVersion    = 1
	headerFixedBytes = 1 + 1 + 5*8 + 3*4 + 8 + 4 + 4 + 4

	headerNullData   = 1 << 0 // the data is null
	headerInlineData = 1 << 1 // the data follows the ACL
	headerACLShift   = 4
	headerACLOpen    = 0 << headerACLShift // world:anyone, everything
	headerACLRead    = 1 << headerACLShift // world:anyone, read
	headerACLList    = 2 << headerACLShift // the list follows, as jute encodes it
	headerACLMask    = 3 << headerACLShift
)

// errDamaged means a value of the state store that cannot be read although its block's checksum was right.
var errDamaged = errors.New("damaged value in the state store")

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

// appendHeader adds n's header value to b.
func (n *znode) appendHeader(b []byte) []byte {
	bits := aclBits(n.acl)
	if n.nullData {
		bits |= headerNullData
	}
	if n.inline() {
		bits |= headerInlineData
	}
	b = append(b, headerVersion, bits)
	b = binary.BigEndian.AppendUint64(b, uint64(n.czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mtime))
	b = binary.BigEndian.AppendUint32(b, uint32(n.version))
	b = binary.BigEndian.AppendUint32(b, uint32(n.creations))
	b = binary.BigEndian.AppendUint32(b, uint32(n.aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(n.owner))
	b = binary.BigEndian.AppendUint32(b, uint32(n.dataLen))
	b = binary.BigEndian.AppendUint32(b, uint32(n.children))
	b = binary.BigEndian.AppendUint32(b, n.crc)
	if bits&headerACLMask == headerACLList {
		b = jute.AppendInt(b, int32(len(n.acl)))
		for i := range n.acl {
			b = n.acl[i].Append(b)
		}
	}
	if bits&headerInlineData != 0 {
		b = append(b, n.data...)
	}
	return b
}

// decodeHeader reads the header of the znode at path from b, in memory of its own; path is kept. Data that has a key
// of its own is not loaded.
func decodeHeader(path string, b []byte) (*znode, error) {
	if len(b) < headerFixedBytes || b[0] != headerVersion {
		return nil, fmt.Errorf("%w: header of %q", errDamaged, path)
	}
	bits := b[1]
	n := &znode{
		path:  path,
		czxid: jute.Zxid(binary.BigEndian.Uint64(b[2:])), mzxid: jute.Zxid(binary.BigEndian.Uint64(b[10:])),
		pzxid: jute.Zxid(binary.BigEndian.Uint64(b[18:])), ctime: jute.Millis(binary.BigEndian.Uint64(b[26:])),
		mtime: jute.Millis(binary.BigEndian.Uint64(b[34:])), version: jute.Version(binary.BigEndian.Uint32(b[42:])),
		creations: jute.Version(binary.BigEndian.Uint32(b[46:])),
		aversion:  jute.Version(binary.BigEndian.Uint32(b[50:])),
		owner:     jute.SessionID(binary.BigEndian.Uint64(b[54:])), dataLen: int32(binary.BigEndian.Uint32(b[62:])),
		children: int32(binary.BigEndian.Uint32(b[66:])), crc: binary.BigEndian.Uint32(b[70:]),
		nullData: bits&headerNullData != 0,
	}
	if n.dataLen < 0 || n.children < 0 || n.inline() != (bits&headerInlineData != 0) || n.nullData && n.dataLen > 0 {
		return nil, fmt.Errorf("%w: header of %q says %d bytes of data and %d children", errDamaged, path, n.dataLen,
			n.children)
	}
	rest, err := n.decodeACL(bits, b[headerFixedBytes:])
	if err != nil {
		return nil, err
	}
	if !n.inline() {
		return n, nil
	}
	if len(rest) != int(n.dataLen) {
		return nil, fmt.Errorf("%w: data of %q has %d bytes, its header says %d", errDamaged, path, len(rest),
			n.dataLen)
	}
	n.dataLoaded = true
	if !n.nullData {
		n.data = append(make([]byte, 0, len(rest)), rest...)
	}
	return n, nil
}

// headerDataLen returns the length of the data that the header value belongs to.
func headerDataLen(key, value []byte) (int64, error) {
	if len(value) < headerFixedBytes || value[0] != headerVersion {
		return 0, fmt.Errorf("%w: header of %q", errDamaged, pathOfNodeKey(nil, key))
	}
	return int64(binary.BigEndian.Uint32(value[62:])), nil
}

// decodeACL reads n's list from what follows the header's fixed part and returns the rest.
func (n *znode) decodeACL(bits byte, b []byte) (rest []byte, err error) {
	switch bits & headerACLMask {
	case headerACLOpen:
		n.acl = acl.Open
		return b, nil
	case headerACLRead:
		n.acl = acl.ReadOnly
		return b, nil
	}
	d := jute.NewDecoder(b)
	count := int(d.Int())
	if count < 0 || count > len(b)/12 {
		return nil, fmt.Errorf("%w: ACL of %q", errDamaged, n.path)
	}
	n.acl = make([]jute.ACL, count)
	for i := range n.acl {
		n.acl[i].Decode(&d)
		n.acl[i].ID.Scheme = strings.Clone(n.acl[i].ID.Scheme)
		n.acl[i].ID.ID = strings.Clone(n.acl[i].ID.ID)
	}
	if d.Err() != nil {
		return nil, fmt.Errorf("%w: ACL of %q: %w", errDamaged, n.path, d.Err())
	}
	return d.Remaining(), nil
}

// sessionValueVersion begins the value of a session.
const sessionValueVersion = 1

// sessionValueBytes is the size of a session's value.
const sessionValueBytes = 1 + 4 + 16 + 8

// appendSession adds the value of s to b.
func appendSession(b []byte, s *SessionInfo) []byte {
	b = append(b, sessionValueVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(s.TimeoutMillis))
	b = append(b, s.Passwd[:]...)
	return binary.BigEndian.AppendUint64(b, s.Owner)
}

// decodeSession reads a session from its key and value.
func decodeSession(key, value []byte) (*SessionInfo, error) {
	if len(key) != 9 || len(value) != sessionValueBytes || value[0] != sessionValueVersion {
		return nil, fmt.Errorf("%w: session %x", errDamaged, key)
	}
	s := &SessionInfo{
		ID: jute.SessionID(binary.BigEndian.Uint64(key[1:])), TimeoutMillis: int32(binary.BigEndian.Uint32(value[1:])),
		Owner: binary.BigEndian.Uint64(value[21:]),
	}
	copy(s.Passwd[:], value[5:])
	return s, nil
}

// position is what the state says about itself: how far it has come and what it holds. It is written with every
// entry.
type position struct {
	index, term uint64    // of the last entry applied
	zxid        jute.Zxid // of the last write
	nodes       int64     // znodes, the root included
	ephemerals  int64     // znodes that belong to sessions
	dataBytes   int64     // of paths and data
	digest      uint64    // sum of the znodes' digests
}

// positionVersion begins the value of the position.
const positionVersion = 1

// positionBytes is the size of the position's value.
const positionBytes = 1 + 7*8

// append adds p's value to b.
func (p *position) append(b []byte) []byte {
	b = append(b, positionVersion)
	for _, v := range [...]uint64{
		p.index, p.term, uint64(p.zxid), uint64(p.nodes), uint64(p.ephemerals), uint64(p.dataBytes), p.digest,
	} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// decodePosition reads a position.
func decodePosition(b []byte) (position, error) {
	if len(b) != positionBytes || b[0] != positionVersion {
		return position{}, fmt.Errorf("%w: applied position", errDamaged)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	return position{
		index: at(0), term: at(1), zxid: jute.Zxid(at(2)), nodes: int64(at(3)),
		ephemerals: int64(at(4)), dataBytes: int64(at(5)),
		digest: at(6),
	}, nil
}

// ensembleRecord is what a state knows of the ensemble that it belongs to. It is immutable; its methods may be called
// on nil, which belongs to none.
type ensembleRecord struct {
	cluster ClusterID
	config  string // the text of the configuration
}

// clusterID returns the ensemble's id, zero if there is none.
func (e *ensembleRecord) clusterID() ClusterID {
	if e == nil {
		return ClusterID{}
	}
	return e.cluster
}

// configText returns the text of the configuration, "" if there is none.
func (e *ensembleRecord) configText() string {
	if e == nil {
		return ""
	}
	return e.config
}

// ensembleVersion begins the value of the ensemble's record.
const ensembleVersion = 1

// append adds e's value to b.
func (e *ensembleRecord) append(b []byte) []byte {
	b = append(append(b, ensembleVersion), e.cluster[:]...)
	return append(b, e.config...)
}

// decodeEnsemble reads the ensemble's record.
func decodeEnsemble(b []byte) (*ensembleRecord, error) {
	e := &ensembleRecord{}
	if len(b) < 1+len(e.cluster) || b[0] != ensembleVersion {
		return nil, fmt.Errorf("%w: the ensemble's record", errDamaged)
	}
	e.cluster, e.config = ClusterID(b[1:]), string(b[1+len(e.cluster):])
	return e, nil
}
