package quorum

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/quorum/warning"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
)

// A member that comes back with an empty disk has forgotten what it had acknowledged and voted for: taken at its word
// it could make a group forget acknowledged writes, and raft takes it for impossible and panics. So each member draws
// a random number, its incarnation, on its first start. To raft's proof of safety each incarnation is a member of its
// own, which is never heard of again when its disk is gone: only the incarnations that the log has admitted count, for
// votes and for acknowledgments, and who counts is who judges, by the membership as his own log has it (admit.go).
//
// A founder with an empty log has no such membership. It takes part when a quorum of the founders, itself included, has
// said that they know no other incarnation of it, and none whom it hears belongs to a group that was founded without
// it. If one does, it stays quarantined until the log has admitted it. The leader removes who has lost its disk from
// the group and adds it again, from when on it is a member like any new one: all that its earlier self has acknowledged
// is with a majority that holds the removal, too.
// A group of two has no quorum for that and needs none: the other voter has everything that was ever committed, and
// says so. It does not while its log holds a change of membership that it has not made: there may be a third voter by
// then.
//
// A member with an empty log that is no voter by what it was told at its start, because it joins, or was an observer
// once, may have been given a vote since. It cannot tell whether it is new. So it listens to nobody who has not said
// first what incarnation of it he knows, and is quarantined like a founder when one of them knows another one.
//
// In a group that an older revision has founded, and whose feature level was not raised yet, the membership knows no
// incarnations. Then what the members have told each other is all there is: each remembers durably whom it has met.

// The names of these blobs in the log.
const (
	incarnationKey = "incarnation" // version byte 1, 8 bytes big-endian
	peersKey       = "peers"       // version byte 1, then id and incarnation of each, 8 bytes big-endian each
	returningKey   = "outcasts"    // below the feature level of admissions; see encodeReturning
	admittedKey    = "admitted"    // version byte 1, 1 if it is pending: this member, which had nothing, was taken in
)

// admission is the loop's part that decides whose messages raft sees, whether this member takes part, and which
// incarnations the log is to admit next (admit.go, bootstrapchoice.go).
type admission struct {
	*facts
	transport   Transport // nil in a group of one
	members     *members
	election    *election
	checkpoints *checkpoints
	clocks      *clocks
	transfer    *transfer
	store       func(key string, blob []byte, then func()) // makes a blob of the log durable
	sendRaft    func(messages ...*raftpb.Message)
	propose     func(cc *raftpb.ConfChangeV2) // a change that comes with no proposal
	heardAt     func(id uint64) (tick uint64) // when raft last had a message of a member; 0: never
	changed     func()                        // publishes how this member stands in its group
	warn        *warning.Limiter              // of what each frame of another member may bring

	rejoin
	founded bool // the state is of a group that was founded
	ownData bool // this member had data before the group was founded
	waited  int  // ticks for which it has waited for late founders
}

// rejoin is what is known of incarnations, beside what the membership says.
type rejoin struct {
	incarnation      uint64                  // this member's
	next             uint64                  // that it takes if it finds that it has forgotten something
	forgets          bool                    // it has found that, and next is not durable yet
	known            map[uint64]uint64       // the others', as on disk
	met              map[uint64]uint64       // the others', as they said last
	here             map[uint64]bool         // who has said so since it is connected
	heard            map[uint64]member.Hello // what the others said last
	empty            bool                    // this member is a voter of a group of several, with a log without entries
	fresh            bool                    // this member has no vote that it knows of, and its log is without entries
	pending          bool                    // a founded group has taken in this member, which had nothing
	owed             map[uint64]bool         // who could not be sent a hello; true: an answer is wanted
	quarantinedPeers map[uint64]bool         // the others that said that they are
	admitted         map[uint64]uint64       // with which members were taken in again, as this one has applied
}

// openRejoin reads what is known of incarnations; on the first start it draws this member's.
func openRejoin(log *raftlog.Log, random *rand.Rand, m *member.Membership, id uint64) (rejoin, error) {
	r := rejoin{known: map[uint64]uint64{}, met: map[uint64]uint64{}, here: map[uint64]bool{},
		heard: map[uint64]member.Hello{}, owed: map[uint64]bool{}, quarantinedPeers: map[uint64]bool{},
		admitted: map[uint64]uint64{}}
	if log.LastIndex() <= bootstrapIndex {
		r.empty, r.fresh = len(m.Voters()) > 1 && m.Votes(id), !m.Votes(id)
	}
	if blob, ok := log.Meta(admittedKey); ok {
		r.pending = len(blob) > 1 && blob[1] == 1 && (r.empty || r.fresh)
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
	if blob, ok := log.Meta(incarnationKey); ok {
		if len(blob) != 9 || blob[0] != stateVersion {
			return r, fmt.Errorf("incarnation %x in the raft log is not of format %d: run a newer zkd", blob,
				stateVersion)
		}
		r.incarnation, r.next = binary.BigEndian.Uint64(blob[1:]), max(random.Uint64(), 1)
		return r, nil
	}
	r.incarnation = max(random.Uint64(), 1)
	if err := log.SetMeta(incarnationKey, encodeIncarnation(r.incarnation)); err != nil {
		return r, fmt.Errorf("store the incarnation: %w", err)
	}
	return r, nil
}

// encodeIncarnation returns the blob of an incarnation.
func encodeIncarnation(n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{stateVersion}, n)
}

// remember makes durable what is known of the others, and then does what depends on it; nil: nothing.
func (a *admission) remember(then func()) {
	blob := []byte{stateVersion}
	for _, id := range slices.Sorted(maps.Keys(a.known)) {
		blob = binary.BigEndian.AppendUint64(blob, id)
		blob = binary.BigEndian.AppendUint64(blob, a.known[id])
	}
	a.store(peersKey, blob, then)
}

// quarantined tells whether this member keeps out of what raft does: it does not belong to the group, or may have
// forgotten what it had said. A leader that was removed still tells the others so, until one of them leads.
func (a *admission) quarantined() bool {
	return a.removed && !a.leads() || a.stateLost()
}

// stateLost tells whether this member may have forgotten what it had acknowledged.
func (a *admission) stateLost() bool {
	if a.forgets {
		return true
	}
	if !a.empty {
		return a.anotherKnown()
	}
	agree := a.agreeing()
	late := agree < len(a.member.Voters()) && a.waited < a.options.ElectionTicks/2 && a.blank()
	return a.anotherKnown() || agree < a.member.Quorum() || late
}

// agreeing is how many of the founders this one has heard, itself included.
func (a *admission) agreeing() int {
	agree := 1
	for _, id := range a.member.Voters() {
		if _, ok := a.heard[id]; ok {
			agree++
		}
	}
	return agree
}

// tickFounders waits a little for founders that are late, before this one takes part in anything: one of them may have
// data, and with all of them fewer changes of membership follow. A guess at how long.
func (a *admission) tickFounders() {
	if !a.empty || a.waited >= a.options.ElectionTicks/2 {
		return
	}
	before := a.quarantined()
	if a.waited++; a.agreeing() < a.member.Quorum() {
		a.waited = 0
	}
	a.noteQuarantine(before)
}

// anotherKnown tells whether this member has nothing, and somebody has said that he knows another incarnation of it, or
// that he belongs to a group that was founded without it. He need not be one of those whom it takes for the voters:
// there may be others by now.
func (a *admission) anotherKnown() bool {
	if !a.empty && !a.fresh {
		return false
	}
	for _, h := range a.heard { // order: any of them
		if h.Known != a.incarnation && (h.Known != 0 || h.Founded) {
			return true
		}
	}
	return false
}

// unheard tells whether this member has nothing, and does not know yet what the sender of a message knows of it.
func (a *admission) unheard(from uint64) bool {
	a.fresh = a.fresh && a.lastIndex() <= bootstrapIndex
	_, ok := a.heard[from]
	return (a.fresh || a.empty) && !ok
}

// greet tells a member who this is.
func (a *admission) greet(peer uint64) { a.sendHello(peer, true) }

// sendHello sends a hello.
func (a *admission) sendHello(peer uint64, answer bool) {
	if a.transport == nil {
		return
	}
	h := member.Hello{Incarnation: a.incarnation, Known: a.known[peer], Answer: answer, Clocks: true}
	h.Quarantined = a.anotherKnown() || a.gaveWay() && a.deafTo(peer)
	switch counted := a.members.counted(); {
	case a.otherOfTwoVoters(peer):
		h.Founded = counted != nil
		if h.Founded {
			h.Known = a.met[peer]
		}
		h.Admitted = h.Known != 0
	case counted != nil:
		h.Founded, h.Known = true, counted[peer]
		h.Admitted = a.member.Recorded && h.Known != 0
	default:
		h.Admitted = h.Known != 0 && h.Known == a.admitted[peer]
	}
	if !a.transport.Send(peer, frameHello, h.Append) {
		a.owed[peer] = a.owed[peer] || answer
		return
	}
	delete(a.owed, peer)
}

// tellAll tells all whom this member has met what it knows of them now.
func (a *admission) tellAll() {
	for _, id := range slices.Sorted(maps.Keys(a.met)) {
		a.sendHello(id, false)
	}
}

// greeted is told who a member is, and what it knows of this one.
func (a *admission) greeted(from uint64, h member.Hello) {
	before, told := a.quarantined(), a.anotherKnown()
	a.clocks.greeted(from, h.Clocks)
	if met := a.met[from]; met != 0 && met != h.Incarnation {
		a.checkpoints.retrySoon(from, true)
	}
	a.met[from], a.heard[from], a.quarantinedPeers[from], a.here[from] = h.Incarnation, h, h.Quarantined, true
	if h.Admitted && h.Known == a.incarnation && (a.empty || a.fresh) && !a.deafTo(from) {
		a.takeIn(h.Founded)
	}
	if a.known[from] != 0 && a.known[from] != h.Incarnation && a.oneOfTwoVoters(from) {
		a.known[from] = 0 // the other voter of two: it has forgotten nothing that is not here
	}
	answer := func() {
		if h.Answer {
			a.sendHello(from, false)
		}
	}
	if a.known[from] == 0 && a.member.Has(from) {
		a.known[from] = h.Incarnation
		a.remember(answer) // the other one takes part when it has heard
	} else {
		answer()
	}
	if a.anotherKnown() != told { // the leader must hear of it, who may not know this member from before
		a.tellAll()
	}
	a.noteQuarantine(before)
}

// takeIn ends the time in which this member, which has nothing, is quarantined: the group has admitted it. That is
// durable first: who has taken it in may not be able to say so again.
func (a *admission) takeIn(founded bool) {
	blob := []byte{stateVersion, 0}
	if founded {
		blob[1] = 1
	}
	a.store(admittedKey, blob, func() {
		before := a.quarantined()
		if !a.empty && !a.fresh {
			return // told twice, or a snapshot came
		}
		a.empty, a.fresh, a.pending = false, false, founded
		a.tellAll()
		a.noteQuarantine(before)
	})
}

// refusesBeginning answers an append to a log that has only the beginning that this member has made up, when a founded
// group has taken it in since: it needs a snapshot. Who belonged to the group at its beginning is written nowhere in
// the log, and what this member's own file says may be another time's. Replayed on that, the changes of membership that
// the log has make a membership that nobody else has, or none at all. So the answer is that of a log without a
// beginning.
func (a *admission) refusesBeginning(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || m.GetTerm() < a.term || m.GetIndex() > bootstrapIndex || !a.isPending() ||
		a.lastIndex() > bootstrapIndex {
		return false
	}
	refused, to, term, index, hint := true, m.GetFrom(), m.GetTerm(), m.GetIndex(), uint64(0)
	a.sendRaft(&raftpb.Message{
		Type: raftpb.MsgAppResp.Enum(), From: &a.id, To: &to, Term: &term, Index: &index, Reject: &refused,
		RejectHint: &hint,
	})
	return true
}

// lost says that the connection to a member broke.
func (a *admission) lost(peer uint64) {
	delete(a.here, peer)
	if a.blank() { // when it is back it may have more to say
		delete(a.heard, peer)
	}
}

// installed says that a snapshot has taken the log's place: this member has what the group has.
func (a *admission) installed() {
	a.knowMembers()
	a.empty, a.fresh, a.pending = false, false, false
	a.tellAll()
}

// noteQuarantine is told whether this member was quarantined before something has happened.
func (a *admission) noteQuarantine(before bool) {
	switch after := a.quarantined(); {
	case before && !after:
		a.logger.Info("member admitted")
		a.election.campaignSoon(0)
	case !before && after:
		a.logger.Warn("member quarantined: no data, waiting for admission")
	}
}

// screen tells whether a message must not get to raft. A member that hears of its leader belongs to the group, whatever
// it was told before.
func (a *admission) screen(m *raftpb.Message) bool {
	kind := m.GetType()
	fromLeader := kind == raftpb.MsgApp || kind == raftpb.MsgHeartbeat || kind == raftpb.MsgSnap
	if fromLeader && a.removed && m.GetTerm() >= a.term {
		a.members.belongs(true)
		a.changed()
	}
	asksVote := kind == raftpb.MsgPreVote || kind == raftpb.MsgVote
	if kind == raftpb.MsgTimeoutNow && !a.mayLead() {
		return true
	}
	if a.deafTo(m.GetFrom()) || a.unheard(m.GetFrom()) || a.stateLost() || !a.counts(m) {
		return true
	}
	if a.refusesAcknowledged(m) {
		return true
	}
	if asksVote && a.isPending() && !a.heard[m.GetFrom()].Founded {
		return true
	}
	// Who was removed may have been added again since: then the others may need its vote to get a leader, without whom
	// it does not hear of that. If not, nobody counts it.
	if a.quarantined() && !asksVote {
		return true
	}
	if kind == raftpb.MsgHeartbeat && a.lacksAcknowledged(m) {
		a.warn.Warn("data lost: leader has acknowledgments beyond this log",
			slog.Int64("leader", serverid.Number(m.GetFrom())),
			slog.Uint64("index", max(m.GetIndex(), m.GetCommit())))
		a.forgot(m.GetTerm())
		return true
	}
	if asksVote && !a.member.Has(m.GetFrom()) && !a.member.Empty() {
		a.members.tell(m.GetFrom())
	}
	if asksVote && a.votedFor(m) || a.refusesBeginning(m) {
		return true
	}
	// Nobody else can come to lead a group of one. Who tries belongs to another one, whose log would be taken for a
	// part of this one's: of servers that have founded theirs while this one's was founded. The leader that has left
	// this member alone has still to transfer the leadership.
	return a.member.SoleVoter(a.id) && !a.member.Has(m.GetFrom()) && m.GetFrom() != a.soft.Lead
}

// forgot has this member, whose disk holds what it did some time ago, become another one: what the earlier one has
// acknowledged and voted for counts as lost with it, and the leader removes it and adds this one, to whom it sends what
// is missing. To a leader who goes on it would be a member that has all of that.
// Of two voters neither can be removed; they wait until another term begins.
func (a *admission) forgot(term uint64) {
	counted := a.members.counted()
	if term < a.term || a.next == 0 || counted == nil || counted[a.id] != a.incarnation || a.oneOfTwoVoters(a.id) {
		return
	}
	next := a.next
	a.next, a.forgets = 0, true
	a.store(incarnationKey, encodeIncarnation(next), func() {
		a.incarnation, a.forgets = next, false
		a.tellAll()
	})
}

// tick has the leader admit members: one that came back empty it removes, and adds again.
func (a *admission) tick() {
	a.repeatHellos()
	if !a.leads() || a.transfer.inProgress() || a.removed {
		return
	}
	if cc := a.nextChange(); cc != nil {
		a.propose(cc)
	}
}

// repeatHellos sends the hellos that could not be sent, and asks those again that have not said who they are.
func (a *admission) repeatHellos() {
	for _, id := range slices.Sorted(maps.Keys(a.owed)) {
		a.sendHello(id, a.owed[id])
	}
	if a.now%uint64(a.options.ElectionTicks) != 0 {
		return
	}
	for _, id := range a.member.IDs() {
		if id != a.id && !a.here[id] {
			a.greet(id)
			delete(a.owed, id)
		}
	}
}

// knowMembers notes the incarnations of members that were met before it was known that they belong to the group.
func (a *admission) knowMembers() {
	news := false
	for _, id := range a.member.IDs() {
		if id != a.id && a.known[id] == 0 && a.met[id] != 0 {
			a.known[id], news = a.met[id], true
		}
	}
	if news {
		a.remember(nil)
	}
}

// membersChanged follows a change of membership: who was removed is told, and what was known of it is forgotten; those
// of whom the group knows another incarnation than before are greeted.
func (a *admission) membersChanged(before *member.Membership) {
	known := maps.Clone(a.known)
	for _, id := range before.IDs() {
		if id == a.id || a.member.Has(id) {
			continue
		}
		delete(a.quarantinedPeers, id)
		delete(a.admitted, id)
		_, again := a.member.Returning[id]
		if n := a.known[id]; n != 0 && a.met[id] == n && !again {
			delete(a.met, id) // who comes back under this id is another one
			delete(a.here, id)
		}
		delete(a.known, id)
		if !again && a.leads() {
			a.members.tell(id)
		}
	}
	for _, id := range a.member.IDs() {
		if before.Has(id) || id == a.id {
			continue
		}
		n := a.met[id]
		if o := before.Returning[id]; o.Incarnation != 0 {
			n, a.admitted[id] = o.Incarnation, o.Incarnation
		}
		if n != 0 {
			a.known[id] = n
		}
	}
	for id, n := range a.member.Incarnations { // order: each for itself
		if id != a.id {
			a.known[id] = n
		}
	}
	greet := func() {
		for _, id := range a.member.IDs() {
			if id != a.id && (!before.Has(id) || known[id] != a.known[id] || !before.Recorded && a.member.Recorded ||
				before.Incarnations[id] != a.member.Incarnations[id]) {
				a.greet(id)
			}
		}
	}
	if maps.Equal(known, a.known) {
		greet()
	} else {
		a.remember(greet)
	}
	a.members.tellAll()
	a.noteAdmitted()
}

// noteAdmitted ends the time in which this member is taken for one without data, as its own log has admitted it.
func (a *admission) noteAdmitted() {
	if a.member.Recorded && a.member.Incarnations[a.id] == a.incarnation {
		before := a.quarantined()
		a.empty, a.fresh, a.pending = false, false, false
		a.noteQuarantine(before)
	}
}
