package member

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// Admissions is what the membership knows of incarnations (see quorum/rejoin.go). It is made by the entries of the log
// alone, so that it is the same on all members as of the same entry, and it travels in snapshots. The maps are
// immutable.
type Admissions struct {
	// Recorded says that incarnations are part of the membership: from when on only those below count. It is not in a
	// group that an older revision has founded, until its feature level is raised.
	Recorded     bool
	Incarnations map[uint64]uint64    // of the members, as the log has admitted them
	Returning    map[uint64]Returning // members that were removed to be added again
}

// Returning is a member that was removed to be added again.
type Returning struct {
	Learner     bool
	Incarnation uint64 // of the one that is taken in; 0: whichever comes, of a founder that was never there
}

// returningBytes is the size of one who returns, encoded, the id before it.
const returningBytes = 3 * 8

// DecodeReturning reads those who return, one behind the other: id, 1 for a learner, and incarnation of each, 8 bytes
// big-endian each.
func DecodeReturning(b []byte) (map[uint64]Returning, error) {
	if len(b)%returningBytes != 0 {
		return nil, errAdmissions
	}
	returning := make(map[uint64]Returning, len(b)/returningBytes)
	for ; len(b) > 0; b = b[returningBytes:] {
		returning[binary.BigEndian.Uint64(b)] = Returning{
			Learner: binary.BigEndian.Uint64(b[8:]) == 1, Incarnation: binary.BigEndian.Uint64(b[16:]),
		}
	}
	return returning, nil
}

// admissionsBytesMin is the size of encoded admissions of nobody: the flags and two numbers.
const admissionsBytesMin = 1 + 2 + 2

// errAdmissions means admissions whose lengths do not fit their bytes.
var errAdmissions = errors.New("the admissions of a membership end inside a field: run a newer zkd")

// Encode returns flags (bit 0: recorded), the number of incarnations (2 bytes), then id and incarnation of each, the
// number of members that return (2 bytes), then id, 1 for a learner, and incarnation of each; 8 bytes for each where
// nothing is said, and big-endian. It returns nil if there is nothing to say.
func (a *Admissions) Encode() []byte {
	if !a.Recorded && len(a.Returning) == 0 {
		return nil
	}
	b := []byte{0}
	if a.Recorded {
		b[0] = 1
	}
	b = appendIncarnations(b, a.Incarnations)
	return a.AppendReturning(binary.BigEndian.AppendUint16(b, uint16(len(a.Returning))))
}

// AppendReturning adds those who return to b, in the order of their ids, as DecodeReturning reads them.
func (a *Admissions) AppendReturning(b []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(a.Returning)) {
		r, learner := a.Returning[id], uint64(0)
		if r.Learner {
			learner = 1
		}
		for _, n := range [...]uint64{id, learner, r.Incarnation} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
	}
	return b
}

// DecodeAdmissions reads what Encode wrote; of nothing it returns none.
func DecodeAdmissions(b []byte) (a Admissions, err error) {
	if len(b) == 0 {
		return a, nil
	}
	if len(b) < admissionsBytesMin {
		return a, errAdmissions
	}
	a.Recorded = b[0]&1 != 0
	a.Incarnations, b, err = cutIncarnations(b[1:])
	if err != nil || len(b) < 2 || len(b) != 2+returningBytes*int(binary.BigEndian.Uint16(b)) {
		return a, errAdmissions
	}
	a.Returning, err = DecodeReturning(b[2:])
	return a, err
}

// appendIncarnations adds the number of incarnations (2 bytes), then id and incarnation of each, in the order of the
// ids.
func appendIncarnations(b []byte, incarnations map[uint64]uint64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(incarnations)))
	for _, id := range slices.Sorted(maps.Keys(incarnations)) {
		b = binary.BigEndian.AppendUint64(b, id)
		b = binary.BigEndian.AppendUint64(b, incarnations[id])
	}
	return b
}

// cutIncarnations takes off b what appendIncarnations wrote.
func cutIncarnations(b []byte) (incarnations map[uint64]uint64, rest []byte, err error) {
	if len(b) < 2 || len(b) < 2+16*int(binary.BigEndian.Uint16(b)) {
		return nil, nil, errAdmissions
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	incarnations = make(map[uint64]uint64, n)
	for range n {
		incarnations[binary.BigEndian.Uint64(b)] = binary.BigEndian.Uint64(b[8:])
		b = b[16:]
	}
	return incarnations, b, nil
}

// changed returns the admissions after a change that leads to the members of m.
func (a *Admissions) changed(m *Membership, cc *raftpb.ConfChangeV2, c *Context) Admissions {
	after := Admissions{Recorded: a.Recorded || c.Records, Returning: maps.Clone(a.Returning)}
	if after.Returning == nil {
		after.Returning = map[uint64]Returning{}
	}
	if after.Recorded {
		after.Incarnations = map[uint64]uint64{}
		for _, id := range m.IDs() {
			if n := a.Incarnations[id]; n != 0 {
				after.Incarnations[id] = n
			}
			if n := c.Admits[id]; n != 0 {
				after.Incarnations[id] = n
			}
		}
	}
	for _, change := range cc.GetChanges() {
		if id := change.GetNodeId(); change.GetType() == raftpb.ConfChangeRemoveNode {
			delete(after.Returning, id) // who is removed for good meanwhile does not come back
			if c.Again != nil {
				after.Returning[id] = *c.Again
			} else if c.Records && !a.Recorded {
				after.Returning[id] = Returning{} // a founder that was not there
			}
		}
	}
	for _, id := range m.coming() {
		delete(after.Returning, id)
	}
	return after
}
