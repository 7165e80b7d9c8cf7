package quorum

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// membership is who belongs to the group, as of an entry of the log. It and all in it are immutable.
type membership struct {
	index uint64 // of the entry that made it so
	conf  *raftpb.ConfState
	admissions
}

// encode returns the version byte, the index (8 bytes, big-endian) and raft's own encoding of the ConfState, to which
// the admissions are added as a field of a number that raft does not use. Not while incarnations are not part of the
// membership: the program of an older revision, which may go on with it, would hold the field against what raft makes
// of the rest, and panic.
func (m *membership) encode() ([]byte, error) {
	b := binary.BigEndian.AppendUint64([]byte{stateVersion}, m.index)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m.conf)
	if err != nil {
		return nil, fmt.Errorf("encode membership: %w", err)
	}
	if extra := m.admissions.encode(); m.recorded && extra != nil {
		b = protowire.AppendTag(b, admissionsField, protowire.BytesType)
		b = protowire.AppendBytes(b, extra)
	}
	return b, nil
}

// decodeMembership reads what encode wrote.
func decodeMembership(b []byte) (membership, error) {
	if len(b) < 9 || b[0] != stateVersion {
		return membership{}, fmt.Errorf("membership %x is not of format %d: run a newer zkd", b, stateVersion)
	}
	m := membership{index: binary.BigEndian.Uint64(b[1:]), conf: &raftpb.ConfState{}}
	if err := proto.Unmarshal(b[9:], m.conf); err != nil {
		return membership{}, fmt.Errorf("decode membership: %w", err)
	}
	var err error
	m.admissions, err = takeAdmissions(m.conf)
	return m, err
}

// admissionsField is the number of the field in an encoded ConfState that holds the admissions.
const admissionsField = 1000

// takeAdmissions takes the admissions out of what raft does not know of a ConfState.
func takeAdmissions(conf *raftpb.ConfState) (admissions, error) {
	for b := []byte(conf.ProtoReflect().GetUnknown()); len(b) > 0; {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return admissions{}, fmt.Errorf("decode membership: %w", protowire.ParseError(n))
		}
		if number == admissionsField && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			extra, _ := protowire.ConsumeBytes(b[tag:n])
			conf.ProtoReflect().SetUnknown(nil)
			return decodeAdmissions(extra)
		}
		b = b[n:]
	}
	return admissions{}, nil
}

// soleVoter tells whether id is the only member with a vote, so that nobody else can win an election.
func (m *membership) soleVoter(id uint64) bool {
	voters := m.conf.GetVoters()
	return len(voters) == 1 && voters[0] == id && len(m.conf.GetVotersOutgoing()) == 0
}

// votes tells whether id has a vote, in either half of a joint membership.
func (m *membership) votes(id uint64) bool {
	return slices.Contains(m.conf.GetVoters(), id) || slices.Contains(m.conf.GetVotersOutgoing(), id)
}

// has tells whether id belongs to the group.
func (m *membership) has(id uint64) bool {
	return m.votes(id) || slices.Contains(m.conf.GetLearners(), id) || slices.Contains(m.conf.GetLearnersNext(), id)
}

// empty tells whether nobody belongs to the group: of a member that waits to be told who does.
func (m *membership) empty() bool { return len(m.conf.GetVoters()) == 0 }

// ids returns all members, sorted.
func (m *membership) ids() []uint64 {
	ids := slices.Concat(m.conf.GetVoters(), m.conf.GetVotersOutgoing(), m.conf.GetLearners(),
		m.conf.GetLearnersNext())
	slices.Sort(ids)
	return slices.Compact(ids)
}

// voters returns all members that have a vote, sorted.
func (m *membership) voters() []uint64 {
	ids := slices.Concat(m.conf.GetVoters(), m.conf.GetVotersOutgoing())
	slices.Sort(ids)
	return slices.Compact(ids)
}

// quorum is how many voters a decision takes; of a joint membership the larger half's.
func (m *membership) quorum() int {
	return max(len(m.conf.GetVoters()), len(m.conf.GetVotersOutgoing()))/2 + 1
}

// changed returns the membership that the change in entry index makes, and the proposal that came with it.
func (m *membership) changed(index uint64, cc *raftpb.ConfChangeV2) (after membership, proposal []byte, err error) {
	conf, err := m.after(cc)
	if err != nil {
		return membership{}, nil, err
	}
	c, err := readChangeContext(cc.GetContext())
	if err != nil {
		return membership{}, nil, err
	}
	after = membership{index: index, conf: conf}
	after.admissions = m.admissions.changed(&after, cc, &c)
	return after, c.proposal, nil
}

// after returns the members after a change, as raft.RawNode.ApplyConfChange does, which panics where this fails.
func (m *membership) after(cc *raftpb.ConfChangeV2) (*raftpb.ConfState, error) {
	t := tracker.MakeProgressTracker(1, 0)
	changer := confchange.Changer{Tracker: t, LastIndex: 1}
	config, progress, err := confchange.Restore(changer, m.conf)
	if err != nil {
		return nil, fmt.Errorf("membership %v: %w", m.conf, err)
	}
	changer.Tracker.Config, changer.Tracker.Progress = config, progress
	if cc.LeaveJoint() {
		config, progress, err = changer.LeaveJoint()
	} else if autoLeave, ok := cc.EnterJoint(); ok {
		config, progress, err = changer.EnterJoint(autoLeave, cc.GetChanges()...)
	} else {
		config, progress, err = changer.Simple(cc.GetChanges()...)
	}
	if err != nil {
		return nil, fmt.Errorf("change %v of membership %v: %w", cc, m.conf, err)
	}
	t.Config, t.Progress = config, progress
	return t.ConfState(), nil
}

// decodeChange reads the change in an entry of either form.
func decodeChange(e *raftpb.Entry) (*raftpb.ConfChangeV2, error) {
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
