package quorum

import (
	"errors"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/entry"
)

// Only the incarnations that the log has admitted count (rejoin.go). Each answer of raft to another member bears the
// incarnation of who sends it, and who receives it gives raft only those of incarnations that his own membership lists:
// so raft's proof holds with incarnations in the place of members. A change of membership is in force when it is
// applied, and a leader proposes none before it has applied the one before, so of any two that are in force at once
// each majority of the one has a member in common with each of the other.
//
// The first entry of a group lists the incarnations of those that found it, and takes out those that are not there.
// Nothing is proposed before it is committed. Until a member has that entry in its log it counts whoever answers.

// errNotMet means a change that gives a vote to a member that nobody has heard yet: it could not be counted.
var errNotMet = errors.New("a member that is to get a vote is not connected: start it first")

// counts tells whether raft may see a message: it is no answer that raft counts, or of the incarnation that does.
func (a *admission) counts(m *raftpb.Message) bool {
	if !bearsIncarnation(m) {
		return true
	}
	counted := a.members.counted()
	if counted == nil {
		return true
	}
	from, incarnation := m.GetFrom(), m.GetVote()
	if incarnation == 0 { // of a revision that does not say
		incarnation = a.met[from]
	}
	return incarnation != 0 && (counted[from] == incarnation ||
		incarnation == a.met[from] && a.otherOfTwoVoters(from) && counted[a.id] == a.incarnation)
}

// bearsIncarnation tells whether a message is an answer that raft counts. Its field vote, which raft uses for hard
// states alone, has the incarnation of the sender.
func bearsIncarnation(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgHeartbeatResp, raftpb.MsgVoteResp, raftpb.MsgPreVoteResp:
		return true
	default:
		return false
	}
}

// blank tells whether this member has nothing.
func (a *admission) blank() bool {
	return (a.empty || a.fresh) && a.lastIndex() <= bootstrapIndex
}

// isPending tells whether a founded group has taken in this member, and it does not know yet whom that consists of. It
// gives its vote to those alone that do.
func (a *admission) isPending() bool { return a.pending && a.members.counted() == nil }

// unlisted tells whether this member has a vote, and the log does not list it as the one that it is now: one of two
// voters that has lost its disk. It may do all that raft does, and must not serve: who sees it serve takes it for whole
// again, and if the other one lost its disk then, none would be left that is listed.
func (a *admission) unlisted() bool {
	counted := a.members.counted()
	return counted != nil && a.member.Votes(a.id) && counted[a.id] != a.incarnation
}

// mayLead tells whether this member may ask for votes: its own counts, by what it knows, or the other one of two voters
// vouches for it.
func (a *admission) mayLead() bool {
	if a.gaveWay() {
		return false
	}
	if counted := a.members.counted(); counted != nil {
		return counted[a.id] == a.incarnation || a.otherVouches(counted)
	}
	return !a.pending
}

// nextChange returns what the leader changes next so that everybody counts who should, or nil.
func (a *admission) nextChange() *raftpb.ConfChangeV2 {
	if !a.member.Recorded {
		if cc := a.recordChange(); cc != nil {
			return cc
		}
	}
	// What cannot be committed now is not proposed. It would be when others are back, and take out a member that they
	// need by then.
	if !a.quorumCounts() {
		return nil
	}
	// Of two voters one that is emptied comes before anybody who is added: as soon as that is in the log there may be a
	// third voter, and the two cannot vouch for each other any more.
	for _, id := range a.member.Voters() {
		if a.met[id] == 0 || !a.otherOfTwoVoters(id) {
			continue
		}
		if cc := a.correction(id); cc != nil {
			return cc
		}
	}
	if a.member.Recorded && a.member.Incarnations[a.id] != a.incarnation && a.oneOfTwoVoters(a.id) {
		return a.admissionOf(a.id, a.incarnation) // it leads by the other one's word (otherVouches)
	}
	if cc := a.returnChange(); cc != nil {
		return cc
	}
	for _, id := range slices.Sorted(maps.Keys(a.met)) {
		if id == a.id || !a.member.Has(id) {
			continue
		}
		if cc := a.correction(id); cc != nil {
			return cc
		}
	}
	return nil
}

// awaitsListing tells whether the log of a group of two voters does not list both as they are now, as far as is known:
// one was emptied, or may come back so. No vote may be given or taken before: as soon as that is in the log the two
// cannot vouch for each other any more, and nothing would be committed again.
func (a *admission) awaitsListing() bool {
	if !a.member.Recorded || !a.oneOfTwoVoters(a.id) {
		return false
	}
	return slices.ContainsFunc(a.member.Voters(), func(id uint64) bool {
		listed := a.member.Incarnations[id]
		if id == a.id {
			return listed != a.incarnation
		}
		return listed != a.met[id] || !a.here[id]
	})
}

// quorumCounts tells whether the voters that are connected, and count, are enough to commit something.
func (a *admission) quorumCounts() bool {
	counted, n := a.members.counted(), 0
	for _, id := range a.member.Voters() {
		here := a.here[id] && (counted == nil || counted[id] == a.met[id] || a.otherOfTwoVoters(id))
		if id == a.id || here {
			n++
		}
	}
	return n >= a.member.Quorum()
}

// nearTicks is for how long a voter whose connection is broken still counts as near, from when it was last heard: one
// that lives is connected again at once. It does not if it has said that it stops. ZooKeeper's leader looks once a
// tickTime whether it has a quorum.
const nearTicks = 2

// quorumNear tells whether the voters that are connected, or were a moment ago, may be enough to commit something.
func (a *admission) quorumNear() bool {
	n := 0
	for _, id := range a.member.Voters() {
		if id == a.id || a.here[id] || a.now < a.heardAt(id)+nearTicks {
			n++
		}
	}
	return n >= a.member.Quorum()
}

// returnChange returns the change that adds a member again, or a founder that was not there at the bootstrap.
func (a *admission) returnChange() *raftpb.ConfChangeV2 {
	for _, id := range slices.Sorted(maps.Keys(a.member.Returning)) {
		o := a.member.Returning[id]
		if a.here[id] && a.member.Recorded {
			o.Incarnation = a.met[id]
		}
		if o.Incarnation == 0 || a.member.Recorded && a.here[id] && !a.able(id) {
			continue
		}
		kind := raftpb.ConfChangeAddNode
		if o.Learner {
			kind = raftpb.ConfChangeAddLearnerNode
		}
		cc := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{member.Step(kind, id)}}
		if a.member.Recorded {
			cc.Context = member.AdmissionContext(map[uint64]uint64{id: o.Incarnation}, nil)
		}
		return cc
	}
	return nil
}

// correction returns the change that follows from the incarnation that a member has now, or nil.
func (a *admission) correction(id uint64) *raftpb.ConfChangeV2 {
	votes := a.member.Votes(id)
	twoVoters := votes && len(a.member.Voters()) <= 2
	if !a.member.Recorded {
		if known := a.known[id]; twoVoters || !(known != 0 && known != a.met[id] || a.quarantinedPeers[id]) {
			return nil
		}
	} else {
		listed := a.member.Incarnations[id]
		if listed == a.met[id] || !a.here[id] || twoVoters && listed != 0 && !a.otherOfTwoVoters(id) {
			return nil
		}
		if listed == 0 || twoVoters { // it has never been counted, or has nothing that this member has not
			return a.admissionOf(id, a.met[id])
		}
	}
	return &raftpb.ConfChangeV2{
		Context: member.Returning{Learner: !votes, Incarnation: a.met[id]}.Context(),
		Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeRemoveNode, id)},
	}
}

// admissionOf returns the change that lists another incarnation of a member. It changes nothing for raft.
func (a *admission) admissionOf(id, incarnation uint64) *raftpb.ConfChangeV2 {
	kind := raftpb.ConfChangeAddLearnerNode
	if a.member.Votes(id) {
		kind = raftpb.ConfChangeAddNode
	}
	return &raftpb.ConfChangeV2{
		Context: member.AdmissionContext(map[uint64]uint64{id: incarnation}, nil),
		Changes: []*raftpb.ConfChangeSingle{member.Step(kind, id)},
	}
}

// recordChange returns the change from when on incarnations are part of the membership; nil: not now.
func (a *admission) recordChange() *raftpb.ConfChangeV2 {
	if !a.records() {
		return nil
	}
	admits := map[uint64]uint64{a.id: a.incarnation}
	var changes []*raftpb.ConfChangeSingle
	absent := 0
	for _, id := range a.member.IDs() {
		switch {
		case id == a.id:
		case a.here[id] && a.hasData() && !a.sameAsEver(id):
			return nil // it is taken out and in again first, or has yet to be heard out
		case a.here[id]:
			admits[id] = a.met[id]
		case a.member.Votes(id):
			absent++
			changes = append(changes, member.Step(raftpb.ConfChangeRemoveNode, id))
		}
	}
	if a.hasData() && a.level() < levelAdmissions {
		return nil
	}
	if absent > 0 && (a.hasData() || len(a.member.Voters())-absent < a.member.Quorum()) {
		return nil
	}
	if len(changes) == 0 {
		changes = append(changes, member.Step(raftpb.ConfChangeAddNode, a.id)) // changes nothing for raft
	}
	return &raftpb.ConfChangeV2{Context: member.AdmissionContext(admits, nil), Changes: changes}
}

// sameAsEver tells whether a member that is there is the one whose acknowledgments this leader has counted: nobody
// knows another incarnation of it, and it has acknowledged something to this leader. One that came back without its
// data is not, and must not be recorded as the member that it was.
func (a *admission) sameAsEver(id uint64) bool {
	if known := a.known[id]; a.quarantinedPeers[id] || known != 0 && known != a.met[id] {
		return false
	}
	kind, pr, ok := a.progressOf(id)
	return !ok || kind == raft.ProgressTypeLearner || pr.Match > 0
}

// records tells whether incarnations can be made part of the membership: all members that were met can do with that.
func (a *admission) records() bool {
	o := a.options
	if a.transport == nil || a.member.Recorded || !a.member.Votes(a.id) || o.LevelMax < levelAdmissions {
		return false
	}
	return !slices.ContainsFunc(a.member.IDs(), func(id uint64) bool {
		met := a.here[id] || o.PeerLevel != nil && o.PeerLevel(id) > 0
		return id != a.id && met && !a.able(id)
	})
}

// hasData tells whether the group was founded: its log may hold what clients have written.
func (a *admission) hasData() bool {
	a.founded = a.founded || a.options.Machine.ClusterID() != [16]byte{}
	return a.founded
}

// notBootstrapped tells whether this member is to belong to an ensemble that is not founded yet, as far as it has
// applied: it may know who leads, but serves nobody. A server that asks whether an ensemble runs here must not hear no
// from one that serves clients.
func (a *admission) notBootstrapped() bool { return len(a.options.Bootstrap) > 0 && !a.hasData() }

// bootstrapsFirst tells whether this leader must not propose anything yet, as who bootstraps the group is not recorded.
func (a *admission) bootstrapsFirst() bool {
	return !a.member.Recorded && a.leads() && a.records() && !a.hasData()
}

// admitting returns the incarnations that a change of membership admits: of those that it adds, or gives a vote to.
func (a *admission) admitting(changes []*raftpb.ConfChangeSingle) (map[uint64]uint64, error) {
	admits := map[uint64]uint64{}
	for _, c := range changes {
		id := c.GetNodeId()
		if c.GetType() == raftpb.ConfChangeRemoveNode || a.member.Incarnations[id] != 0 {
			continue
		}
		switch {
		case a.here[id]:
			admits[id] = a.met[id]
		case c.GetType() == raftpb.ConfChangeAddNode:
			return nil, errNotMet
		}
	}
	return admits, nil
}

// withAdmissions returns the context of a change that comes with a proposal.
func (a *admission) withAdmissions(changes []*raftpb.ConfChangeSingle, proposal []byte) ([]byte, error) {
	if !a.member.Recorded {
		return proposal, nil
	}
	admits, err := a.admitting(changes)
	if err != nil || len(admits) == 0 {
		return proposal, err
	}
	return member.AdmissionContext(admits, proposal), nil
}

// levelAdmissions is the feature level from which on incarnations are part of the membership.
const levelAdmissions entry.Level = 2

// able tells whether a member can do with incarnations as a part of the membership.
func (a *admission) able(id uint64) bool {
	return a.options.PeerLevel == nil || a.options.PeerLevel(id) >= levelAdmissions
}

// A group of two cannot take out a member that has lost its disk, and needs not: each has all that was ever committed.
// The one that has forgotten may give its vote again. It must not lead in a term in which it may have led before, with
// entries of that term that somebody has and it has not.
//
// It may lead before the log lists it again, if the other voter is there and has lost nothing. Otherwise nobody could:
// the other one may have led, sent it an entry that it has on disk, and ended before it had that entry on its own, so
// that its log is the shorter one. What it leads with has all that was ever committed, for the other voter has, and
// votes for no shorter log. In the term of its vote that one refuses to vote again (votedFor).

// otherVouches tells whether this member, which the log does not list, is one of two voters and the other one is there
// as the log lists it.
func (a *admission) otherVouches(counted map[uint64]uint64) bool {
	if a.quarantined() || !a.oneOfTwoVoters(a.id) {
		return false
	}
	for _, id := range a.member.Voters() {
		if id != a.id {
			return a.here[id] && counted[id] != 0 && counted[id] == a.met[id]
		}
	}
	return false
}

// otherOfTwoVoters tells whether this member and another one are the two voters of the group.
func (a *admission) otherOfTwoVoters(id uint64) bool {
	return id != a.id && a.member.Votes(a.id) && a.oneOfTwoVoters(id)
}

// oneOfTwoVoters tells whether a member is one of two voters, and that there are no others by a change of membership
// that this member's log holds: none is committed without being in the logs of both.
func (a *admission) oneOfTwoVoters(id uint64) bool {
	return a.member.Votes(id) && len(a.member.Voters()) <= 2 && !a.members.votersChangeLogged()
}

// votedFor tells whether the sender asks for a vote that it has got in this term. It has forgotten that, and may have
// led in this term: its log would have other entries of it. It is told the term, to ask for a later one.
func (a *admission) votedFor(m *raftpb.Message) bool {
	hard := a.raft.BasicStatus().HardState
	if m.GetTerm() != hard.GetTerm() || m.GetFrom() != hard.GetVote() {
		return false
	}
	if m.GetType() == raftpb.MsgPreVote {
		refused, to, term := true, m.GetFrom(), hard.GetTerm()
		a.sendRaft(&raftpb.Message{
			Type: raftpb.MsgPreVoteResp.Enum(), From: &a.id, To: &to, Term: &term, Reject: &refused,
		})
	}
	return true
}
