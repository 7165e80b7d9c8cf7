package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
)

// admissions is what the membership knows of incarnations (rejoin.go). It is made by the entries of the log alone, so
// that it is the same on all members as of the same entry, and it travels in snapshots. The maps are immutable.
type admissions struct {
	// recorded says that incarnations are part of the membership: from when on only those below count. It is not in a
	// group that an older revision has founded, until its feature level is raised.
	recorded     bool
	incarnations map[uint64]uint64  // of the members, as the log has admitted them
	out          map[uint64]outcast // members that were removed to be added again
}

// outcast is a member that was removed to be added again.
type outcast struct {
	learner     bool
	incarnation uint64 // of the one that is taken in; 0: whichever comes, of a founder that was never there
}

// admissionsBytesMin is the size of encoded admissions of nobody: the flags and two numbers.
const admissionsBytesMin = 1 + 2 + 2

// errAdmissions means admissions whose lengths do not fit their bytes.
var errAdmissions = errors.New("the admissions of a membership end inside a field: run a newer zkd")

// encode returns flags (bit 0: recorded), the number of incarnations (2 bytes), then id and incarnation of each, the
// number of members that are out (2 bytes), then id, 1 for a learner, and incarnation of each; 8 bytes for each where
// nothing is said, and big-endian. It returns nil if there is nothing to say.
func (a *admissions) encode() []byte {
	if !a.recorded && len(a.out) == 0 {
		return nil
	}
	b := []byte{0}
	if a.recorded {
		b[0] = 1
	}
	b = appendIncarnations(b, a.incarnations)
	return a.appendOut(binary.BigEndian.AppendUint16(b, uint16(len(a.out))))
}

// appendOut adds id, 1 for a learner, and incarnation of each member that is out, 8 bytes big-endian each.
func (a *admissions) appendOut(b []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(a.out)) {
		o, learner := a.out[id], uint64(0)
		if o.learner {
			learner = 1
		}
		for _, n := range [...]uint64{id, learner, o.incarnation} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
	}
	return b
}

// decodeAdmissions reads what encode wrote.
func decodeAdmissions(b []byte) (a admissions, err error) {
	if len(b) == 0 {
		return a, nil
	}
	if len(b) < admissionsBytesMin {
		return a, errAdmissions
	}
	a.recorded = b[0]&1 != 0
	a.incarnations, b, err = cutIncarnations(b[1:])
	if err != nil || len(b) < 2 || len(b) != 2+24*int(binary.BigEndian.Uint16(b)) {
		return a, errAdmissions
	}
	a.out = map[uint64]outcast{}
	for b = b[2:]; len(b) > 0; b = b[24:] {
		a.out[binary.BigEndian.Uint64(b)] = outcast{
			learner: binary.BigEndian.Uint64(b[8:]) == 1, incarnation: binary.BigEndian.Uint64(b[16:]),
		}
	}
	return a, nil
}

// snapshotData returns what a snapshot says of itself: the header of the checkpoint, then the admissions. A group that
// an older revision has founded says nothing at the oldest level, as nothing was said then.
func snapshotData(level entry.Level, a *admissions) []byte {
	if level == entry.LevelOldest && !a.recorded {
		return nil
	}
	b := binary.BigEndian.AppendUint16([]byte{stateVersion}, uint16(level))
	b = binary.BigEndian.AppendUint16(b, schema.FormatOf(level))
	return append(b, a.encode()...)
}

// snapshotAdmissions reads the admissions in the data of a snapshot.
func snapshotAdmissions(data []byte) (admissions, error) {
	return decodeAdmissions(data[min(checkpointHeaderBytes, len(data)):])
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
func (a *admissions) changed(m *membership, cc *raftpb.ConfChangeV2, c *changeContext) admissions {
	after := admissions{recorded: a.recorded || c.records, out: maps.Clone(a.out)}
	if after.out == nil {
		after.out = map[uint64]outcast{}
	}
	if after.recorded {
		after.incarnations = map[uint64]uint64{}
		for _, id := range m.ids() {
			if n := a.incarnations[id]; n != 0 {
				after.incarnations[id] = n
			}
			if n := c.admits[id]; n != 0 {
				after.incarnations[id] = n
			}
		}
	}
	for _, change := range cc.GetChanges() {
		if id := change.GetNodeId(); change.GetType() == raftpb.ConfChangeRemoveNode {
			delete(after.out, id) // who is removed for good meanwhile does not come back
			if c.again != nil {
				after.out[id] = *c.again
			} else if c.records && !a.recorded {
				after.out[id] = outcast{} // a founder that was not there
			}
		}
	}
	for _, id := range m.coming() {
		delete(after.out, id)
	}
	return after
}

// coming are the members but those that leave with the end of a joint membership.
func (m *membership) coming() []uint64 {
	return slices.Concat(m.conf.GetVoters(), m.conf.GetLearners(), m.conf.GetLearnersNext())
}

// changeContext is what the context of a change of membership says.
type changeContext struct {
	again    *outcast          // who is removed is to be added again, as this
	records  bool              // incarnations are part of the membership from now on
	admits   map[uint64]uint64 // the incarnations of members, by id
	proposal []byte            // the entry of the storage that decides about the change, nil if none does
}

// The first byte of a context that is no entry of the storage. No such entry begins with one of them.
const (
	// readmission is that of a change that removes a member to add it again. The second byte is 1 for a learner; then
	// comes the incarnation that is taken in, 8 bytes big-endian.
	readmission = 0xff
	// contextAdmits is that of a change that admits incarnations: version byte 1, their number (2 bytes), then id and
	// incarnation of each, 8 bytes big-endian each, then the entry of the storage, if there is one. Those whom the
	// first one of a group removes are founders that were not there.
	contextAdmits = 0xfe
)

// readmissionBytes is the size of a readmission.
const readmissionBytes = 2 + 8

// append adds the context that takes in o again to b.
func (o outcast) append(b []byte) []byte {
	b = append(b, readmission, 0)
	if o.learner {
		b[len(b)-1] = 1
	}
	return binary.BigEndian.AppendUint64(b, o.incarnation)
}

// admissionContext returns a context that admits incarnations, and holds a proposal.
func admissionContext(admits map[uint64]uint64, proposal []byte) []byte {
	return append(appendIncarnations([]byte{contextAdmits, stateVersion}, admits), proposal...)
}

// levelOfChange is the feature level that a change of membership in the log needs.
func levelOfChange(e *raftlog.LogEntry) entry.Level {
	kind := raftpb.EntryType(e.Kind)
	cc, err := decodeChange(&raftpb.Entry{Type: &kind, Data: e.Data})
	if err != nil {
		return entry.LevelOldest // apply will refuse it
	}
	c, err := readChangeContext(cc.GetContext())
	needs := entry.LevelOldest
	if c.records || err != nil {
		needs = levelAdmissions
	}
	if len(c.proposal) > 0 {
		needs = max(needs, entry.Level(c.proposal[0]))
	}
	return needs
}

// readChangeContext reads the context of a change; the proposal is a view of it.
func readChangeContext(b []byte) (c changeContext, err error) {
	switch {
	case len(b) == readmissionBytes && b[0] == readmission:
		c.again = &outcast{learner: b[1] == 1, incarnation: binary.BigEndian.Uint64(b[2:])}
	case len(b) > 1 && b[0] == contextAdmits:
		if b[1] != stateVersion {
			return c, fmt.Errorf("admissions of format %d in the log: run a newer zkd", b[1])
		}
		c.records = true
		if c.admits, b, err = cutIncarnations(b[2:]); err == nil && len(b) > 0 {
			c.proposal = b
		}
	case len(b) > 0:
		c.proposal = b
	}
	return c, err
}
