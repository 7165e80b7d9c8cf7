package quorum

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/storage"
)

// A member that comes back with an empty disk has forgotten what it had acknowledged and voted for: taken at its word
// it could make a group forget acknowledged writes, and raft takes it for impossible and panics. So each member draws
// a random number, its incarnation, on its first start, and the others remember it durably. A founder with an empty
// log takes part only when a quorum of the voters, itself included, has said that they know no other incarnation of
// it. If one does, the member stays mute, and the leader removes it from the group and adds it again, from when on it
// is a member like any new one: all that its earlier self has acknowledged is with a majority that holds the removal,
// too. So it takes part when it is told that the very incarnation it is was taken in again, whatever others still know.
// A group of two has no quorum for that and needs none: the other voter has everything that was ever committed, and
// says so. It does not while its log holds a change of membership that it has not made: there may be a third voter by
// then.
//
// A member with an empty log that is no voter by what it was told at its start, because it joins, or was an observer
// once, may have been given a vote since. It cannot tell whether it is new. So it listens to nobody who has not said
// first what incarnation of it he knows, and is mute like a founder when one of them knows another one.

// The names of these blobs in the log.
const (
	incarnationKey = "incarnation" // version byte 1, 8 bytes big-endian
	peersKey       = "peers"       // version byte 1, then id and incarnation of each, 8 bytes big-endian each
	outcastsKey    = "outcasts"    // version byte 1, then id, 1 for a learner, and incarnation of each, likewise
	admittedKey    = "admitted"    // version byte 1: this member, which had nothing, was taken in
)

// hello is what members tell each other when they are connected, and when what it says has changed.
type hello struct {
	incarnation uint64 // of the sender
	known       uint64 // the receiver's, as far as the sender knows; 0: unknown
	answer      bool   // an answer is wanted
	mute        bool   // somebody has told the sender that the group knows another incarnation of it
	admitted    bool   // known is the incarnation with which the receiver was taken in again
}

// helloBytes is the size of an encoded hello: version byte 1, incarnation, known, answer, mute and admitted (bits 0 to
// 2).
const helloBytes = 1 + 8 + 8 + 1

// append adds the encoding of h to b.
func (h hello) append(b []byte) []byte {
	b = append(b, stateVersion)
	b = binary.BigEndian.AppendUint64(b, h.incarnation)
	b = binary.BigEndian.AppendUint64(b, h.known)
	flags := byte(0)
	if h.answer {
		flags |= 1
	}
	if h.mute {
		flags |= 2
	}
	if h.admitted {
		flags |= 4
	}
	return append(b, flags)
}

// decodeHello reads what append wrote.
func decodeHello(b []byte) (hello, error) {
	if len(b) != helloBytes || b[0] != stateVersion {
		return hello{}, errFrame
	}
	return hello{
		incarnation: binary.BigEndian.Uint64(b[1:]), known: binary.BigEndian.Uint64(b[9:]),
		answer: b[17]&1 != 0, mute: b[17]&2 != 0, admitted: b[17]&4 != 0,
	}, nil
}

// rejoin is what the loop knows of incarnations.
type rejoin struct {
	incarnation uint64             // this member's
	known       map[uint64]uint64  // the others', as on disk
	met         map[uint64]uint64  // the others', as they said last
	heard       map[uint64]uint64  // what the others know of this one
	empty       bool               // this member is a voter of a group of several, with a log without entries
	fresh       bool               // this member has no vote that it knows of, and its log is without entries
	owed        map[uint64]bool    // who could not be sent a hello; true: an answer is wanted
	mute        map[uint64]bool    // the others that said that they keep out because of what others know of them
	out         map[uint64]outcast // members that were removed to be added again
	admitted    map[uint64]uint64  // the incarnations with which members were taken in again, as this one has applied
}

// outcast is a member that was removed to be added again.
type outcast struct {
	learner     bool
	incarnation uint64 // of the one that is taken in
}

// openRejoin reads what is known of incarnations; on the first start it draws this member's.
func openRejoin(log *storage.RaftLog, random *rand.Rand, m *membership, id uint64) (rejoin, error) {
	r := rejoin{known: map[uint64]uint64{}, met: map[uint64]uint64{}, heard: map[uint64]uint64{},
		owed: map[uint64]bool{}, mute: map[uint64]bool{}, out: map[uint64]outcast{},
		admitted: map[uint64]uint64{}}
	if log.LastIndex() <= bootstrapIndex {
		r.empty, r.fresh = len(m.voters()) > 1 && m.votes(id), !m.votes(id)
	}
	if _, ok := log.Meta(admittedKey); ok {
		r.empty, r.fresh = false, false
	}
	if blob, ok := log.Meta(peersKey); ok {
		if len(blob) == 0 || blob[0] != stateVersion || len(blob)%16 != 1 {
			return r, fmt.Errorf("peers %x in the raft log are not of format %d: run a newer zkd", blob, stateVersion)
		}
		for b := blob[1:]; len(b) > 0; b = b[16:] {
			r.known[binary.BigEndian.Uint64(b)] = binary.BigEndian.Uint64(b[8:])
		}
	}
	if blob, ok := log.Meta(outcastsKey); ok {
		if len(blob) == 0 || blob[0] != stateVersion || len(blob)%24 != 1 {
			return r, fmt.Errorf("outcasts %x in the raft log are not of format %d: run a newer zkd", blob,
				stateVersion)
		}
		for b := blob[1:]; len(b) > 0; b = b[24:] {
			r.out[binary.BigEndian.Uint64(b)] = outcast{
				learner: binary.BigEndian.Uint64(b[8:]) == 1, incarnation: binary.BigEndian.Uint64(b[16:]),
			}
		}
	}
	if blob, ok := log.Meta(incarnationKey); ok {
		if len(blob) != 9 || blob[0] != stateVersion {
			return r, fmt.Errorf("incarnation %x in the raft log is not of format %d: run a newer zkd", blob,
				stateVersion)
		}
		r.incarnation = binary.BigEndian.Uint64(blob[1:])
		return r, nil
	}
	r.incarnation = max(random.Uint64(), 1)
	blob := binary.BigEndian.AppendUint64([]byte{stateVersion}, r.incarnation)
	if err := log.SetMeta(incarnationKey, blob); err != nil {
		return r, fmt.Errorf("store the incarnation: %w", err)
	}
	return r, nil
}

// remember makes durable what is known of the others.
func (l *loop) remember() {
	blob := []byte{stateVersion}
	for _, id := range slices.Sorted(maps.Keys(l.rejoin.known)) {
		blob = binary.BigEndian.AppendUint64(blob, id)
		blob = binary.BigEndian.AppendUint64(blob, l.rejoin.known[id])
	}
	l.store(peersKey, blob)
}

// rememberOut makes durable who is to be added again: those who have removed a member may all stop before it is.
func (l *loop) rememberOut() {
	blob := []byte{stateVersion}
	for _, id := range slices.Sorted(maps.Keys(l.rejoin.out)) {
		o, learner := l.rejoin.out[id], uint64(0)
		if o.learner {
			learner = 1
		}
		for _, n := range [...]uint64{id, learner, o.incarnation} {
			blob = binary.BigEndian.AppendUint64(blob, n)
		}
	}
	l.store(outcastsKey, blob)
}

// store makes a blob durable.
func (l *loop) store(key string, blob []byte) {
	if err := l.view.log.SetMeta(key, blob); err != nil {
		l.logger.Error("cannot store what is known of the other members", slog.Any("err", err)) // the log has stopped
	}
}

// muted tells whether this member keeps out of what raft does: it does not belong to the group, or may have forgotten
// what it had said. A leader that was removed still tells the others so, until one of them leads.
func (l *loop) muted() bool {
	return l.removed && l.soft.RaftState != raft.StateLeader || l.forgetful()
}

// forgetful tells whether this member may have forgotten what it had acknowledged.
func (l *loop) forgetful() bool {
	r := &l.rejoin
	if !r.empty {
		return l.anotherKnown()
	}
	agree := 1
	for _, id := range l.member.voters() {
		if _, ok := r.heard[id]; ok {
			agree++
		}
	}
	return l.anotherKnown() || agree < l.member.quorum()
}

// anotherKnown tells whether this member has nothing, and somebody has said that he knows another incarnation of it. He
// need not be one of those whom it takes for the voters: there may be others by now.
func (l *loop) anotherKnown() bool {
	r := &l.rejoin
	if !r.empty && !r.fresh {
		return false
	}
	for _, known := range r.heard { // order: any of them
		if known != 0 && known != r.incarnation {
			return true
		}
	}
	return false
}

// unheard tells whether this member has nothing, and does not know yet what the sender of a message knows of it.
func (l *loop) unheard(from uint64) bool {
	r := &l.rejoin
	r.fresh = r.fresh && l.lastIndex() <= bootstrapIndex
	_, ok := r.heard[from]
	return r.fresh && !ok
}

// greet tells a member who this is.
func (l *loop) greet(peer uint64) { l.sendHello(peer, true) }

// sendHello sends a hello.
func (l *loop) sendHello(peer uint64, answer bool) {
	r := &l.rejoin
	h := hello{incarnation: r.incarnation, known: r.known[peer], answer: answer, mute: l.anotherKnown()}
	h.admitted = h.known != 0 && (h.known == r.admitted[peer] || l.otherOfTwo(peer))
	if !l.transport.Send(peer, frameHello, h.append) {
		l.rejoin.owed[peer] = l.rejoin.owed[peer] || answer
		return
	}
	delete(l.rejoin.owed, peer)
}

// greeted is told who a member is, and what it knows of this one.
func (l *loop) greeted(from uint64, h hello) {
	r := &l.rejoin
	before, told := l.muted(), l.anotherKnown()
	r.met[from], r.heard[from], r.mute[from] = h.incarnation, h.known, h.mute
	if h.admitted && h.known == r.incarnation && (r.empty || r.fresh) {
		r.empty, r.fresh = false, false
		l.store(admittedKey, []byte{stateVersion}) // who has taken it in may not be able to say so again
	}
	if r.known[from] != 0 && r.known[from] != h.incarnation && l.ofTwo(from) {
		r.known[from] = 0 // the other voter of two: it has forgotten nothing that is not here
	}
	if r.known[from] == 0 && l.member.has(from) {
		r.known[from] = h.incarnation
		l.remember()
	}
	if h.answer {
		l.sendHello(from, false)
	}
	if l.anotherKnown() != told { // the leader must hear of it, who may not know this member from before
		for _, id := range slices.Sorted(maps.Keys(r.met)) {
			l.sendHello(id, false)
		}
	}
	switch after := l.muted(); {
	case before && !after:
		l.logger.Info("takes part in the group")
		l.hurry(0)
	case !before && after:
		l.logger.Warn("this member's disk is empty, and the group has known it before: it waits to be added anew")
	}
}

// screen tells whether a message must not get to raft. A member that hears of its leader belongs to the group, whatever
// it was told before.
func (l *loop) screen(m *raftpb.Message) bool {
	kind := m.GetType()
	fromLeader := kind == raftpb.MsgApp || kind == raftpb.MsgHeartbeat || kind == raftpb.MsgSnap
	if fromLeader && l.removed && m.GetTerm() >= l.term {
		l.removed = false
		l.publishState()
	}
	asksVote := kind == raftpb.MsgPreVote || kind == raftpb.MsgVote
	if l.unheard(m.GetFrom()) || l.forgetful() {
		return true
	}
	// Who was removed may have been added again since: then the others may need its vote to get a leader, without whom
	// it does not hear of that. If not, nobody counts it.
	if l.muted() && !asksVote {
		return true
	}
	if kind == raftpb.MsgHeartbeat && l.beyondLog(m) {
		l.logger.Warn("the leader knows more of this member's log than there is: its disk was emptied",
			slog.Uint64("leader", m.GetFrom()), slog.Uint64("index", m.GetCommit()))
		return true
	}
	if asksVote && !l.member.has(m.GetFrom()) && !l.member.empty() {
		l.tellRemoved(m.GetFrom())
	}
	if asksVote && l.votedFor(m) {
		return true
	}
	// Nobody else can come to lead a group of one. Who tries belongs to another one, whose log would be taken for a
	// part of this one's: of servers that have founded theirs while this one's was founded. The leader that has left
	// this member alone has still to hand over.
	return l.member.soleVoter(l.id) && !l.member.has(m.GetFrom()) && m.GetFrom() != l.soft.Lead
}

// beyondLog tells whether a heartbeat commits what this member does not have: raft would panic. It cannot be, but of a
// member whose disk was emptied.
func (l *loop) beyondLog(m *raftpb.Message) bool {
	return m.GetCommit() > l.commit && m.GetCommit() > l.lastIndex()
}

// tellRemoved tells a server that it does not belong to the group.
func (l *loop) tellRemoved(id uint64) {
	blob, err := l.member.encode()
	if err != nil || l.transport == nil {
		return
	}
	l.transport.Send(id, frameRemoved, func(b []byte) []byte { return append(b, blob...) })
}

// toldRemoved is told by a member of the group that this one does not belong to it.
func (l *loop) toldRemoved(m *membership) {
	if l.member.empty() || m.index < l.member.index || m.has(l.id) || l.removed {
		return
	}
	l.logger.Warn("this member was removed from the group", slog.Uint64("index", m.index))
	l.removed = true
	if err := l.raw.ForgetLeader(); err != nil {
		l.logger.Debug("raft does not forget the leader", slog.Any("err", err))
	}
	l.handOut()
	l.publishState()
}

// readmission is the context of the change that removes a member to add it again: it is no entry of the storage. The
// second byte is 1 for a learner; then comes the incarnation that is taken in, 8 bytes big-endian.
const readmission = 0xff

// readmissionBytes is the size of such a context.
const readmissionBytes = 2 + 8

// append adds the context that takes in o again to b.
func (o outcast) append(b []byte) []byte {
	b = append(b, readmission, 0)
	if o.learner {
		b[len(b)-1] = 1
	}
	return binary.BigEndian.AppendUint64(b, o.incarnation)
}

// readmitted tells whether a change removes a member to add it again, and as what.
func readmitted(cc *raftpb.ConfChangeV2) (o outcast, ok bool) {
	context := cc.GetContext()
	if len(context) != readmissionBytes || context[0] != readmission {
		return outcast{}, false
	}
	return outcast{learner: context[1] == 1, incarnation: binary.BigEndian.Uint64(context[2:])}, true
}

// tickRejoin has the leader remove a member that came back empty, and add it again.
func (l *loop) tickRejoin() {
	r := &l.rejoin
	for _, id := range slices.Sorted(maps.Keys(r.owed)) {
		l.sendHello(id, r.owed[id])
	}
	if l.soft.RaftState != raft.StateLeader || l.transfer.to != 0 || l.removed {
		return
	}
	if len(r.out) > 0 {
		id := slices.Min(slices.Collect(maps.Keys(r.out)))
		kind := raftpb.ConfChangeAddNode
		if r.out[id].learner {
			kind = raftpb.ConfChangeAddLearnerNode
		}
		l.proposeOwnChange(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &id}}})
		return
	}
	for _, id := range slices.Sorted(maps.Keys(r.met)) {
		known := r.known[id]
		another := known != 0 && known != r.met[id] || r.mute[id]
		if id == l.id || !l.member.has(id) || !another || l.member.votes(id) && len(l.member.voters()) <= 2 {
			continue
		}
		context := outcast{learner: !l.member.votes(id), incarnation: r.met[id]}.append(nil)
		l.proposeOwnChange(&raftpb.ConfChangeV2{Context: context, Changes: []*raftpb.ConfChangeSingle{
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &id},
		}})
		return
	}
}

// proposeOwnChange proposes a change that depends on no proposal, if raft takes one now.
func (l *loop) proposeOwnChange(cc *raftpb.ConfChangeV2) {
	l.handOut()
	if l.soft.RaftState != raft.StateLeader || l.mayChange(cc) != nil {
		return
	}
	data, err := proto.Marshal(cc)
	if err != nil {
		return // a change that cannot be encoded is none of raftpb's
	}
	entry := &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
	l.logger.Info("proposing a change of membership", slog.Any("change", cc))
	err = l.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &l.id, Entries: []*raftpb.Entry{entry}})
	if err != nil {
		l.logger.Debug("raft refused a proposal", slog.Any("err", err))
	}
	l.handOut()
}

// knowMembers notes the incarnations of members that were met before it was known that they belong to the group.
func (l *loop) knowMembers() {
	r := &l.rejoin
	news := false
	for _, id := range l.member.ids() {
		if id != l.id && r.known[id] == 0 && r.met[id] != 0 {
			r.known[id], news = r.met[id], true
		}
	}
	if news {
		l.remember()
	}
}

// membersChanged follows a change of membership: who was removed is told, and what was known of it is forgotten; a
// member that was removed to be added again is greeted when it is.
func (l *loop) membersChanged(before *membership, cc *raftpb.ConfChangeV2) {
	r := &l.rejoin
	taken, again := readmitted(cc)
	forgot, out := false, maps.Clone(r.out)
	for _, id := range before.ids() {
		if id == l.id || l.member.has(id) {
			continue
		}
		delete(r.mute, id)
		if known, ok := r.known[id]; ok {
			delete(r.known, id)
			forgot = true
			if r.met[id] == known && !again {
				delete(r.met, id) // who comes back under this id is another one
			}
		}
		delete(r.admitted, id)
		if again {
			r.out[id] = taken
		} else if l.soft.RaftState == raft.StateLeader {
			l.tellRemoved(id)
		}
	}
	if !again { // who is removed for good meanwhile does not come back
		for _, c := range cc.GetChanges() {
			if c.GetType() == raftpb.ConfChangeRemoveNode {
				delete(r.out, c.GetNodeId())
			}
		}
	}
	if forgot {
		l.remember()
	}
	for _, id := range l.member.ids() {
		if before.has(id) || id == l.id {
			continue
		}
		known := r.met[id]
		if o, ok := r.out[id]; ok {
			known, r.admitted[id] = o.incarnation, o.incarnation
		}
		delete(r.out, id)
		if known != 0 {
			r.known[id] = known
			l.remember()
			l.greet(id)
		}
	}
	if !maps.Equal(out, r.out) {
		l.rememberOut()
	}
	l.publishState()
	l.publishGroup()
}
