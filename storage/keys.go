package storage

import (
	"bytes"
	"encoding/binary"
	"strings"

	"zkd/jute"
)

// The first byte of a key says what it holds (docs/formats/state.md).
const (
	kindData      = 'd' // data of a znode that is too long for its header
	kindEphemeral = 'e' // ephemeral znodes by session
	kindMeta      = 'm' // what there is once: format, applied index and counters
	kindNode      = 'n' // headers of znodes, children of one parent side by side
	kindSession   = 's' // sessions
	kindUpload    = 'u' // a snapshot that comes in pieces, to be restored
	kindExpiry    = 'x' // znodes that may go away by themselves
)

// Keys of what there is once.
var (
	keyEnsemble = []byte{kindMeta, 'e'}
	keyFormat   = []byte{kindMeta, 'f'}
	keyApplied  = []byte{kindMeta, 's'}
	keyRestored = []byte{kindMeta, 'r'}
	keyUpload   = []byte{kindMeta, 'u'}
)

// uploadPrefix is what the keys of an upload's pieces begin with.
var uploadPrefix = []byte{kindUpload}

// appendUploadKey adds the key of the piece of the upload that begins at offset.
func appendUploadKey(b []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, kindUpload), uint64(offset))
}

// rootPath names the root; reads and the parents of its children also call it "".
const rootPath = "/"

// appendNodeKey adds the key of path to b: the kind, then path with its last '/' as 0x00, so that the children of one
// parent stand side by side and apart from their own children. path must hold a '/'.
func appendNodeKey(b []byte, kind byte, path string) []byte {
	b = append(b, kind)
	b = append(b, path...)
	b[len(b)-len(path)+strings.LastIndexByte(path, '/')] = 0
	return b
}

// appendChildrenPrefix adds what the header keys of the children of path begin with. For the root this is the root's
// own key, too.
func appendChildrenPrefix(b []byte, path string) []byte {
	b = append(b, kindNode)
	if path != rootPath {
		b = append(b, path...)
	}
	return append(b, 0)
}

// appendDescendantsPrefix adds what the header keys of all descendants of path but its children begin with. path is
// not the root.
func appendDescendantsPrefix(b []byte, path string) []byte {
	b = append(b, kindNode)
	b = append(b, path...)
	return append(b, '/')
}

// pathOfNodeKey adds the path that a header key stands for to b.
func pathOfNodeKey(b, key []byte) []byte {
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

// prefixEnd returns the first key behind all that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	n := len(prefix)
	for n > 1 && prefix[n-1] == 0xff { // a session id may end in it; the first byte is a kind, which never is
		n--
	}
	end := bytes.Clone(prefix[:n])
	end[n-1]++
	return end
}

// appendSessionKey adds the key of a session.
func appendSessionKey(b []byte, id jute.SessionID) []byte {
	return binary.BigEndian.AppendUint64(append(b, kindSession), uint64(id))
}

// ephemeralPrefixBytes is the length of what precedes the path in an ephemeral key.
const ephemeralPrefixBytes = 1 + 8

// appendEphemeralKey adds the key that lists path as an ephemeral of the session; with path "" what all of the
// session's begin with.
func appendEphemeralKey(b []byte, id jute.SessionID, path string) []byte {
	b = binary.BigEndian.AppendUint64(append(b, kindEphemeral), uint64(id))
	return append(b, path...)
}

// The second byte of an expiry key.
const (
	expiryContainer = 'c' // then the path
	expiryTTL       = 't' // then the time at which the znode may go, then the path
)

// expiryTTLPrefixBytes is the length of what precedes the path in the expiry key of a TTL znode.
const expiryTTLPrefixBytes = 2 + 8

// appendExpiryKey adds the key that makes n a candidate for removal, or nothing if n is none now: a container or TTL
// znode is one while it has no children.
func appendExpiryKey(b []byte, path string, n *znode) []byte {
	if n == nil || n.children > 0 {
		return b
	}
	switch ownerKind(n.owner) {
	case ownerContainer:
		return append(append(b, kindExpiry, expiryContainer), path...)
	case ownerTTL:
		b = append(b, kindExpiry, expiryTTL)
		b = binary.BigEndian.AppendUint64(b, uint64(n.deadline()))
		return append(b, path...)
	}
	return b
}
