package schema

import (
	"bytes"
	"encoding/binary"
	"strings"

	"zkd/jute"
)

// The first byte of a key says what it holds (docs/formats/state.md).
const (
	KindData      = 'd' // data of a znode that is too long for its header
	KindEphemeral = 'e' // ephemeral znodes by session
	KindMeta      = 'm' // what there is once: format, applied index and counters
	KindNode      = 'n' // headers of znodes, children of one parent side by side
	KindCounting  = 'q' // counts of quotas that are under way
	KindSession   = 's' // sessions
	KindUpload    = 'u' // a snapshot that comes in pieces, to be restored
	KindExpiry    = 'x' // znodes that may go away by themselves
)

// Keys of what there is once.
var (
	KeyDiverged = []byte{KindMeta, 'x'}
	KeyEnsemble = []byte{KindMeta, 'e'}
	KeyFormat   = []byte{KindMeta, 'f'}
	KeyLevel    = []byte{KindMeta, 'l'}
	KeyApplied  = []byte{KindMeta, 's'}
	KeyLoaded   = []byte{KindMeta, 'r'}
	KeySums     = []byte{KindMeta, 'd'}
	KeyUpload   = []byte{KindMeta, 'u'}
)

// UploadPrefix is what the keys of an upload's pieces begin with.
var UploadPrefix = []byte{KindUpload}

// AppendUploadKey adds the key of the piece of the upload that begins at offset.
func AppendUploadKey(b []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, KindUpload), uint64(offset))
}

// RootPath names the root; reads and the parents of its children also call it "".
const RootPath = "/"

// AppendNodeKey adds the key of path to b: the kind, then path with its last '/' as 0x00, so that the children of one
// parent stand side by side and apart from their own children. path must hold a '/'.
func AppendNodeKey(b []byte, kind byte, path string) []byte {
	b = append(b, kind)
	b = append(b, path...)
	b[len(b)-len(path)+strings.LastIndexByte(path, '/')] = 0
	return b
}

// AppendChildrenPrefix adds what the header keys of the children of path begin with. For the root this is the root's
// own key, too.
func AppendChildrenPrefix(b []byte, path string) []byte {
	b = append(b, KindNode)
	if path != RootPath {
		b = append(b, path...)
	}
	return append(b, 0)
}

// AppendDescendantsPrefix adds what the header keys of all descendants of path but its children begin with. path is
// not the root.
func AppendDescendantsPrefix(b []byte, path string) []byte {
	b = append(b, KindNode)
	b = append(b, path...)
	return append(b, '/')
}

// KeyRange is the keys from Lower to before Upper.
type KeyRange struct{ Lower, Upper []byte }

// Below returns the ranges of the header keys of the znodes below path, in the order of the keys: first the children,
// then those deeper down. Of the root it is one.
func Below(path string) []KeyRange {
	children := AppendChildrenPrefix(nil, path)
	if path == RootPath {
		return []KeyRange{{append(children, 0), PrefixEnd([]byte{KindNode})}} // its own key is the first one
	}
	deeper := AppendDescendantsPrefix(nil, path)
	return []KeyRange{{children, PrefixEnd(children)}, {deeper, PrefixEnd(deeper)}}
}

// PathOfNodeKey adds the path that a header key stands for to b.
func PathOfNodeKey(b, key []byte) []byte {
	mark := len(b)
	b = append(b, key[1:]...)
	for i := len(b) - 1; i >= mark; i-- {
		if b[i] == 0 {
			b[i] = '/'
			break
		}
	}
	return b
}

// PrefixEnd returns the first key behind all that begin with prefix.
func PrefixEnd(prefix []byte) []byte {
	n := len(prefix)
	for n > 1 && prefix[n-1] == 0xff { // a session id may end in it; the first byte is a kind, which never is
		n--
	}
	end := bytes.Clone(prefix[:n])
	end[n-1]++
	return end
}

// AppendSessionKey adds the key of a session.
func AppendSessionKey(b []byte, id jute.SessionID) []byte {
	return binary.BigEndian.AppendUint64(append(b, KindSession), uint64(id))
}

// EphemeralPrefixBytes is the length of what precedes the path in an ephemeral key.
const EphemeralPrefixBytes = 1 + 8

// AppendEphemeralKey adds the key that lists path as an ephemeral of the session; with path "" what all of the
// session's begin with.
func AppendEphemeralKey(b []byte, id jute.SessionID, path string) []byte {
	b = binary.BigEndian.AppendUint64(append(b, KindEphemeral), uint64(id))
	return append(b, path...)
}

// The second byte of an expiry key.
const (
	ExpiryContainer = 'c' // then the path
	ExpiryTTL       = 't' // then the time at which the znode may go, then the path
)

// ExpiryTTLPrefixBytes is the length of what precedes the path in the expiry key of a TTL znode.
const ExpiryTTLPrefixBytes = 2 + 8

// AppendExpiryKey adds the key that makes n a candidate for removal, or nothing if n is none now: a container or TTL
// znode is one while it has no children.
func AppendExpiryKey(b []byte, path string, n *Znode) []byte {
	if n == nil || n.Children > 0 {
		return b
	}
	switch OwnerKind(n.Owner) {
	case OwnerContainer:
		return append(append(b, KindExpiry, ExpiryContainer), path...)
	case OwnerTTL:
		b = append(b, KindExpiry, ExpiryTTL)
		b = binary.BigEndian.AppendUint64(b, uint64(n.Deadline()))
		return append(b, path...)
	}
	return b
}
