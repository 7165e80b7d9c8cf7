package member

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

// formatVersion is the first byte of a membership, of a hello, and of what a change admits.
const formatVersion = 1

// Membership is who belongs to the group, as of an entry of the log. It and all in it are immutable.
type Membership struct {
	Index uint64 // of the entry that made it so
	Conf  *raftpb.ConfState
	Admissions
}

// Encode returns the version byte, the index (8 bytes, big-endian) and raft's own encoding of the ConfState, to which
// the admissions are added as a field of a number that raft does not use. Not while incarnations are not part of the
// membership: the program of an older revision, which may go on with it, would hold the field against what raft makes
// of the rest, and panic. Who returns is not in what it encodes then.
func (m *Membership) Encode() ([]byte, error) {
	b := binary.BigEndian.AppendUint64([]byte{formatVersion}, m.Index)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m.Conf)
	if err != nil {
		return nil, fmt.Errorf("encode membership: %w", err)
	}
	if extra := m.Admissions.Encode(); m.Recorded && extra != nil {
		b = protowire.AppendTag(b, admissionsField, protowire.BytesType)
		b = protowire.AppendBytes(b, extra)
	}
	return b, nil
}

// Decode reads what Encode wrote.
func Decode(b []byte) (Membership, error) {
	if len(b) < 9 || b[0] != formatVersion {
		return Membership{}, fmt.Errorf("membership %x is not of format %d: run a newer zkd", b[:min(len(b), 9)],
			formatVersion)
	}
	m := Membership{Index: binary.BigEndian.Uint64(b[1:]), Conf: &raftpb.ConfState{}}
	if err := proto.Unmarshal(b[9:], m.Conf); err != nil {
		return Membership{}, fmt.Errorf("decode membership: %w", err)
	}
	var err error
	m.Admissions, err = takeAdmissions(m.Conf)
	return m, err
}

// admissionsField is the number of the field in an encoded ConfState that holds the admissions.
const admissionsField = 1000

// takeAdmissions takes the admissions out of what raft does not know of a ConfState.
func takeAdmissions(conf *raftpb.ConfState) (Admissions, error) {
	for b := []byte(conf.ProtoReflect().GetUnknown()); len(b) > 0; {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return Admissions{}, fmt.Errorf("decode membership: %w", protowire.ParseError(n))
		}
		if number == admissionsField && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			extra, _ := protowire.ConsumeBytes(b[tag:n])
			conf.ProtoReflect().SetUnknown(nil)
			return DecodeAdmissions(extra)
		}
		b = b[n:]
	}
	return Admissions{}, nil
}

// SoleVoter tells whether id is the only member with a vote, so that nobody else can win an election.
func (m *Membership) SoleVoter(id uint64) bool {
	voters := m.Conf.GetVoters()
	return len(voters) == 1 && voters[0] == id && len(m.Conf.GetVotersOutgoing()) == 0
}

// Votes tells whether id has a vote, in either half of a joint membership.
func (m *Membership) Votes(id uint64) bool {
	return slices.Contains(m.Conf.GetVoters(), id) || slices.Contains(m.Conf.GetVotersOutgoing(), id)
}

// HoldsVote tells whether id has a vote that does not depend on a change under way. A vote given by a joint membership
// does until that ends: a majority of those who voted before is needed as well.
func (m *Membership) HoldsVote(id uint64) bool {
	if before := m.Conf.GetVotersOutgoing(); len(before) > 0 {
		return slices.Contains(before, id)
	}
	return slices.Contains(m.Conf.GetVoters(), id)
}

// Has tells whether id belongs to the group.
func (m *Membership) Has(id uint64) bool {
	return m.Votes(id) || slices.Contains(m.Conf.GetLearners(), id) || slices.Contains(m.Conf.GetLearnersNext(), id)
}

// Empty tells whether nobody belongs to the group: of a member that waits to be told who does.
func (m *Membership) Empty() bool { return len(m.Conf.GetVoters()) == 0 }

// IDs returns all members, sorted.
func (m *Membership) IDs() []uint64 {
	ids := slices.Concat(m.Conf.GetVoters(), m.Conf.GetVotersOutgoing(), m.Conf.GetLearners(),
		m.Conf.GetLearnersNext())
	slices.Sort(ids)
	return slices.Compact(ids)
}

// coming are the members but those that leave with the end of a joint membership.
func (m *Membership) coming() []uint64 {
	return slices.Concat(m.Conf.GetVoters(), m.Conf.GetLearners(), m.Conf.GetLearnersNext())
}

// Voters returns all members that have a vote, sorted.
func (m *Membership) Voters() []uint64 {
	ids := slices.Concat(m.Conf.GetVoters(), m.Conf.GetVotersOutgoing())
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SameVoters tells whether the same members have a vote in another membership, in the same halves of a joint one.
func (m *Membership) SameVoters(other *raftpb.ConfState) bool {
	same := func(a, b []uint64) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return same(m.Conf.GetVoters(), other.GetVoters()) && same(m.Conf.GetVotersOutgoing(), other.GetVotersOutgoing())
}

// Quorum is how many voters a decision takes; of a joint membership the larger half's.
func (m *Membership) Quorum() int {
	return max(len(m.Conf.GetVoters()), len(m.Conf.GetVotersOutgoing()))/2 + 1
}

// Changed returns the membership that the change in entry index makes, and the proposal that came with it.
func (m *Membership) Changed(index uint64, cc *raftpb.ConfChangeV2) (after Membership, proposal []byte, err error) {
	conf, err := m.After(cc)
	if err != nil {
		return Membership{}, nil, err
	}
	c, err := ReadContext(cc.GetContext())
	if err != nil {
		return Membership{}, nil, err
	}
	after = Membership{Index: index, Conf: conf}
	after.Admissions = m.Admissions.changed(&after, cc, &c)
	return after, c.Proposal, nil
}

// After returns the members after a change, as raft.RawNode.ApplyConfChange does, which panics where this fails.
func (m *Membership) After(cc *raftpb.ConfChangeV2) (*raftpb.ConfState, error) {
	t := tracker.MakeProgressTracker(1, 0)
	changer := confchange.Changer{Tracker: t, LastIndex: 1}
	config, progress, err := confchange.Restore(changer, m.Conf)
	if err != nil {
		return nil, fmt.Errorf("membership %v: %w", m.Conf, err)
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
		return nil, fmt.Errorf("change %v of membership %v: %w", cc, m.Conf, err)
	}
	t.Config, t.Progress = config, progress
	return t.ConfState(), nil
}
