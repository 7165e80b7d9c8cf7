package member

import (
	"encoding/binary"
	"fmt"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/storage/serverid"
)

// Step returns one step of a change of membership.
func Step(kind raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: &id}
}

// Describe says what a change does, for logs.
func Describe(cc *raftpb.ConfChangeV2) string {
	if cc.LeaveJoint() {
		return "end of the one before"
	}
	verbs := map[raftpb.ConfChangeType]string{
		raftpb.ConfChangeAddNode: "vote of", raftpb.ConfChangeAddLearnerNode: "no vote of",
		raftpb.ConfChangeRemoveNode: "without",
	}
	var steps []string
	for _, c := range cc.GetChanges() {
		steps = append(steps, fmt.Sprintf("%s %d", verbs[c.GetType()], serverid.Number(c.GetNodeId())))
	}
	return strings.Join(steps, ", ")
}

// DecodeChange reads the change in an entry of either form.
func DecodeChange(e *raftpb.Entry) (*raftpb.ConfChangeV2, error) {
	if e.GetType() == raftpb.EntryConfChange {
		var cc raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		return cc.AsV2(), nil
	}
	var cc raftpb.ConfChangeV2
	if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return &cc, nil
}

// Context is what the context of a change of membership says.
type Context struct {
	Again    *Returning        // who is removed is to be added again, as this
	Records  bool              // incarnations are part of the membership from now on
	Admits   map[uint64]uint64 // the incarnations of members, by id
	Proposal []byte            // the entry of the storage that decides about the change, nil if none does
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

// Context returns the context of the change that removes a member, to add it again as r.
func (r Returning) Context() []byte {
	b := []byte{readmission, 0}
	if r.Learner {
		b[1] = 1
	}
	return binary.BigEndian.AppendUint64(b, r.Incarnation)
}

// AdmissionContext returns a context that admits incarnations, and holds a proposal.
func AdmissionContext(admits map[uint64]uint64, proposal []byte) []byte {
	return append(appendIncarnations([]byte{contextAdmits, formatVersion}, admits), proposal...)
}

// ReadContext reads the context of a change; the proposal is a view of it.
func ReadContext(b []byte) (c Context, err error) {
	switch {
	case len(b) == readmissionBytes && b[0] == readmission:
		c.Again = &Returning{Learner: b[1] == 1, Incarnation: binary.BigEndian.Uint64(b[2:])}
	case len(b) > 1 && b[0] == contextAdmits:
		if b[1] != formatVersion {
			return c, fmt.Errorf("admissions of format %d in the log: run a newer zkd", b[1])
		}
		c.Records = true
		if c.Admits, b, err = cutIncarnations(b[2:]); err == nil && len(b) > 0 {
			c.Proposal = b
		}
	case len(b) > 0:
		c.Proposal = b
	}
	return c, err
}
