package entry

import (
	"encoding/binary"
	"errors"
	"fmt"

	"zkd/jute"
)

// OpCountQuota is the proposal by which a leader lets the counts of quotas go on while nobody writes anything. It has
// no body and changes nothing by itself: every entry counts a piece. It takes no zxid and never comes from a client.
const OpCountQuota jute.Op = -22

// LevelCounting is the level from which on large subtrees are counted in pieces.
const LevelCounting Level = 2

// LevelQuotaRights is the level from which on a quota needs ADMIN on the path that it limits.
const LevelQuotaRights Level = 3

// LevelNumbers is the level from which on a reconfig may add a server with the number 0, or a negative one. A program
// that can do less refuses such a server, wherever it finds it.
const LevelNumbers Level = 3

// LevelPieces is the level from which on a session that owns many ephemerals may end in pieces.
const LevelPieces Level = 3

// Level is a feature level: what all members of an ensemble can do. It is part of the replicated state, goes up by an
// entry of the log, and never down. What is new at a level (an operation, a flag, a meaning of what was there) is
// proposed at that level only (docs/decisions/0022).
type Level uint16

// The levels that there are.
const (
	// LevelOldest is what zkd did before it knew levels. A state that says none is of it.
	LevelOldest Level = 1
	// LevelNewest is the highest that this program can do.
	LevelNewest Level = 3
)

// OpRaiseLevel is the proposal that raises the ensemble's feature level. Its body is a RaiseTxn. It takes no zxid, and
// only a leader proposes it.
const OpRaiseLevel jute.Op = -18

// LevelKnown is the level from which on entries and states say theirs: programs of LevelOldest refuse them.
const LevelKnown Level = 2

// ErrLevel says that a state, an entry or a peer needs a higher feature level than this program can do.
var ErrLevel = errors.New("this zkd is too old: run the one that was there before, or a newer one")

// Check fails if this program cannot do the level. what names who needs it.
func (l Level) Check(what string) error {
	if l <= LevelNewest {
		return nil
	}
	return fmt.Errorf("%w: %s is of feature level %d, and it can do %d", ErrLevel, what, l, LevelNewest)
}

// RaiseTxn is the body of an OpRaiseLevel.
type RaiseTxn struct {
	Level Level
	// Cluster, if not zero, is the ensemble that is meant: in another one nothing is raised. Who founds an ensemble and
	// raises it in one step may find that somebody else has founded it.
	Cluster ClusterID
}

// raiseTxnBytes is the size of a RaiseTxn.
const raiseTxnBytes = 2 + 16

// Append adds the encoding of r to b (docs/formats/entry.md).
func (r *RaiseTxn) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(r.Level))
	return append(b, r.Cluster[:]...)
}

// Decode reads r from b.
func (r *RaiseTxn) Decode(b []byte) error {
	if len(b) < raiseTxnBytes { // a later version may say more
		return fmt.Errorf("raise transaction of %d bytes, want at least %d", len(b), raiseTxnBytes)
	}
	r.Level = Level(binary.BigEndian.Uint16(b))
	copy(r.Cluster[:], b[2:])
	return nil
}

// known tells whether this program can evaluate proposals of op.
func known(op jute.Op) bool {
	switch op {
	case OpSetIdentities, OpCountQuota, OpCompareState, OpRaiseLevel, OpLoadAbort, OpLoadCommit, OpLoadChunk,
		OpLoadBegin, OpFoundEnsemble, OpReattachSession, jute.OpCloseSession, jute.OpCreateSession, jute.OpError,
		jute.OpCreate, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpCreate2,
		jute.OpCreateContainer, jute.OpDeleteContainer, jute.OpReconfig, jute.OpCreateTTL:
		return true
	}
	return false
}

// Level returns the level from which on p may be proposed: that of its operation and its flags, whichever is higher; 0
// if this program does not know one of them.
func (p *Proposal) Level() Level {
	if !known(p.Op) || p.Flags&^flagsKnown != 0 {
		return 0
	}
	switch {
	case p.Op == OpRaiseLevel: // who cannot do the level that it raises to must not read it
		var raise RaiseTxn
		_ = raise.Decode(p.Body) // what cannot be read raises to nothing
		return max(raise.Level, LevelKnown)
	case p.Op == OpSetIdentities || p.Reference != 0:
		return LevelIdentities
	case p.Flags&FlagInPieces != 0:
		return LevelPieces
	case p.Op < OpRaiseLevel:
		return LevelKnown
	default:
		return LevelOldest
	}
}
