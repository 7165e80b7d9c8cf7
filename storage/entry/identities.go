package entry

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
)

// OpSetIdentities is the proposal that says what the connection of a session has proven, so that its writes need not
// say it again: they bear the Reference of the list. Its body is an IdentityList. It takes no zxid, and never comes
// from a client.
const OpSetIdentities jute.Op = -24

// LevelIdentities is the level from which on a session's identities may travel once, and writes refer to them.
const LevelIdentities Level = 3

// Reference tells one list of identities from others that a session has had: it is a hash of the list, never 0. Who
// finds another list with the same one deceives nobody but himself: a write refers to lists of its own session alone,
// all of which its client has proven.
type Reference uint64

// IdentityList is a list of identities as bytes (docs/formats/entry.md).
type IdentityList []byte

// ListIdentities returns ids as an IdentityList.
func ListIdentities(ids []jute.ID) IdentityList { return appendIdentities(nil, ids) }

// Reference returns how writes refer to l.
func (l IdentityList) Reference() Reference { return max(1, Reference(xxhash.Sum64(l))) }

// Decode returns the identities, as views of l.
func (l IdentityList) Decode() ([]jute.ID, error) {
	if len(l) < 2 {
		return nil, errProposal
	}
	ids, rest, err := cutIdentities(nil, int(binary.BigEndian.Uint16(l)), l[2:])
	if err == nil && len(rest) > 0 {
		err = errProposal
	}
	return ids, err
}

// referred is what is in the place of the number of identities where a Reference follows in theirs.
const referred = 1<<16 - 1

// appendIdentities adds the number of ids and ids to b.
func appendIdentities(b []byte, ids []jute.ID) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(ids)))
	for i := range ids {
		b = jute.AppendString(b, ids[i].Scheme)
		b = jute.AppendString(b, ids[i].ID)
	}
	return b
}

// cutIdentities takes n identities off b and adds them to ids, as views of b.
func cutIdentities(ids []jute.ID, n int, b []byte) (all []jute.ID, rest []byte, err error) {
	for range n {
		var id jute.ID
		var ok bool
		if id.Scheme, b, ok = CutString(b); !ok {
			return ids, b, errProposal
		}
		if id.ID, b, ok = CutString(b); !ok {
			return ids, b, errProposal
		}
		ids = append(ids, id)
	}
	return ids, b, nil
}
