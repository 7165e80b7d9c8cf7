package quorum

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/quorum/member"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
)

// A reconfig travels to the leader in a batch of its own, in turn with the other writes of its server. The leader works
// out, from the configuration in its state, what it makes of the group, and proposes both as one entry. So that nobody
// waits for a server that has to be sent everything first, a new participant begins as a learner; as soon as it has
// caught up the leader gives it its vote. Until those that have are a quorum of the new configuration, no server that
// leaves loses its vote.

// reconfiguring is the loop's part that makes changes of membership of reconfigs.
type reconfiguring struct {
	*facts
	transport      Transport // nil in a group of one
	inbox          *inbox
	transfer       *transfer
	leaving        *leaving
	settled        *atomic.Uint64                // the last entry that is one whose result is known
	changePending  func() bool                   // raft would take no change of membership now
	changing       func()                        // told that one is proposed
	awaitsListing  func() bool                   // one of two voters is to be listed anew
	propose        func(cc *raftpb.ConfChangeV2) // one that comes with no proposal
	withAdmissions func(changes []*raftpb.ConfChangeSingle, proposal []byte) ([]byte, error)

	last   uint64            // the last entry that is one, appended in this term; MaxUint64: not known yet
	heldAt uint64            // the tick since which one is held, else 0
	heard  map[uint64]uint64 // the tick at which raft last had a message of a member

	addressChange  addressChange
	addressChanges uint64 // how many preparations this process has begun
	// unleveled is the tick since which one is held because of the feature level, else 0.
	unleveled uint64
}

// caughtUpEntries is how many entries a member may lack and still count as one that has all. Some are always on their
// way; a guess at how many.
const caughtUpEntries = 1024

// entry returns the entry that the batch data, a reconfig alone, becomes. It returns nil if it must wait for
// changes that are under way, and so must all behind it: nothing could be committed before them anyway.
func (r *reconfiguring) entry(data []byte) *raftpb.Entry {
	reader, err := entry.NewReader(data)
	var p entry.Proposal
	var txn entry.ReconfigTxn
	if err != nil || !reader.Next(&p) || txn.Decode(p.Body) != nil {
		return &raftpb.Entry{Data: data} // the state answers that it cannot be read
	}
	if r.last > r.commit {
		return r.refuse(&reader, &p, jute.ReconfigInProgress, "another one is under way")
	}
	// What is committed another member may have answered before it is applied here.
	notBootstrapped := len(r.options.Bootstrap) > 0 && r.options.Machine.ClusterID() == [16]byte{}
	if r.last > r.settled.Load() || r.changePending() || notBootstrapped || r.awaitsMember() {
		if r.heldAt == 0 {
			r.heldAt = r.now + 1
		}
		if r.now < r.heldAt+uint64(r.options.ElectionTicks) {
			return nil
		}
		return r.refuse(&reader, &p, jute.ReconfigInProgress, "a change of membership does not come to its end")
	}
	r.heldAt = 0
	return r.decide(&reader, &p, &txn)
}

// awaitsMember tells whether a member is to count again first: it was removed to be added again, and is not yet, or is
// to be listed anew. Founders that were not there at the bootstrap are not waited for.
func (r *reconfiguring) awaitsMember() bool {
	for _, o := range r.member.Returning { // order: any of them
		if o.Incarnation != 0 {
			return true
		}
	}
	return r.awaitsListing()
}

// decide returns the entry of a reconfig before which nothing is under way, nil if it is to be prepared first.
func (r *reconfiguring) decide(reader *entry.Reader, p *entry.Proposal, txn *entry.ReconfigTxn,
) *raftpb.Entry {
	present, err := ensemble.Parse(r.options.Machine.EnsembleConfig())
	if err != nil {
		return r.refuse(reader, p, jute.OK, err.Error()) // the state cannot read it either
	}
	var request jute.ReconfigRequest
	var d jute.Decoder
	d.Reset(txn.Request)
	request.Decode(&d)
	if d.Err() != nil {
		return r.refuse(reader, p, jute.OK, d.Err().Error())
	}
	rules := ensemble.Rules{
		SingleVoter: p.Flags&entry.FlagSingleVoter != 0, MultiAddress: p.Flags&entry.FlagMultiAddress != 0,
		AnyNumber: r.level() >= entry.LevelNumbers,
	}
	next, code, why := present.Apply(&request, rules)
	switch {
	case code != jute.OK:
		return r.refuse(reader, p, jute.OK, why) // the state comes to the same
	case !r.mayReach(&next):
		return r.refuse(reader, p, jute.NewConfigNoQuorum,
			"too few of its participants can be reached: start the new servers first")
	}
	switch ready, why := r.prepareAddresses(p, &present, &next); {
	case why != "":
		return r.refuse(reader, p, jute.NewConfigNoQuorum, why)
	case !ready:
		return nil
	}
	changes := r.plan(&next)
	if len(changes) == 0 { // a change that changes nothing, so that all reconfigs are of one kind
		changes = []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeAddNode, r.member.Conf.GetVoters()[0])}
	}
	txn.BaseVersion, txn.Members = present.Version, next.Members()
	p.Body = txn.Append(nil)
	cc := raftpb.ConfChangeV2{Changes: changes}
	if cc.Context, err = r.withAdmissions(changes, entryWith(reader, p)); err == nil {
		_, err = r.member.After(&cc)
	}
	if err != nil {
		return r.refuse(reader, p, jute.ReconfigInProgress, err.Error())
	}
	data, err := proto.Marshal(&cc)
	if err != nil {
		return r.refuse(reader, p, jute.ReconfigInProgress, err.Error())
	}
	r.addressChange = addressChange{}
	r.logger.Info("proposing a reconfig", slog.String("members", next.Members()))
	r.changing()
	r.last = math.MaxUint64 // until the index is known
	return &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
}

// newTerm says that another term has begun: of reconfigs of earlier terms its first entry tells.
func (r *reconfiguring) newTerm() {
	r.last, r.addressChange = 0, addressChange{}
	r.leaving.newTerm()
}

// takeBack says that raft has not taken what was proposed, and which the last reconfig was before that.
func (r *reconfiguring) takeBack(last uint64) { r.last = last }

// logged is told the index of an entry that changes the membership. If that of the last reconfig is not known it is
// this: the only change that was proposed.
func (r *reconfiguring) logged(index uint64) {
	if r.last == math.MaxUint64 {
		r.last = index
	}
}

// refuse returns the entry of a reconfig that changes nothing. code is what the state cannot know by itself.
func (r *reconfiguring) refuse(reader *entry.Reader, p *entry.Proposal, code jute.Code, why string,
) *raftpb.Entry {
	r.logger.Info("reconfig rejected", slog.String("because", why))
	r.heldAt, r.addressChange = 0, addressChange{}
	p.Code = code
	return &raftpb.Entry{Data: entryWith(reader, p)}
}

// entryWith returns the entry with p as its one proposal, and the number and origin of the one that reader reads.
func entryWith(reader *entry.Reader, p *entry.Proposal) []byte {
	return entry.AppendProposal(entry.AppendEntryHeader(nil, reader.Origin, reader.Batch), p)
}

// noteHeard notes that raft has a message of a member.
func (r *reconfiguring) noteHeard(from uint64) {
	if r.heard == nil {
		r.heard = map[uint64]uint64{}
	}
	r.heard[from] = r.now
}

// noteLeft notes that a member that is not connected any more has said that it stops: it is no longer near.
func (r *reconfiguring) noteLeft(id uint64) {
	if at, ok := r.heard[id]; ok {
		r.heard[id] = min(at, r.now-min(r.now, nearTicks))
	}
}

// heardAt returns the tick at which raft last had a message of a member; 0: never.
func (r *reconfiguring) heardAt(id uint64) uint64 { return r.heard[id] }

// reaches tells whether this leader has heard of a member within an election timeout. raft's own mark is taken back
// once in that time.
func (r *reconfiguring) reaches(id uint64) bool {
	at, ok := r.heard[id]
	return id == r.id || ok && r.now-at <= uint64(r.options.ElectionTicks)
}

// caughtUp returns the members that can be reached and have about all of the log, this one included. One that has none
// of it yet, or of which that is not known, has not caught up, however short the log is.
func (r *reconfiguring) caughtUp() map[uint64]bool {
	last := r.lastIndex()
	found := map[uint64]bool{}
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		follows := pr.State == tracker.StateReplicate && pr.Match+caughtUpEntries >= last
		found[id] = id == r.id || follows && r.reaches(id)
	})
	return found
}

// mayReach tells whether the participants that answer, as members or because they ask to be let in, are a quorum
// (org.apache.zookeeper.server.quorum.Leader.isQuorumSynced; there, who asks to be let in is sent all at once).
func (r *reconfiguring) mayReach(c *ensemble.Config) bool {
	reached := 0
	for i := range c.Servers {
		s := &c.Servers[i]
		belongs := r.member.Has(s.ID) && r.reaches(s.ID)
		asks := !r.member.Has(s.ID) && r.options.Asking != nil && r.options.Asking(s.ID)
		if !s.Observer && (belongs || asks) {
			reached++
		}
	}
	return reached >= c.Voters()/2+1
}

// plan returns what brings the group nearer to a configuration: nothing if it is there, or waits for a server.
func (r *reconfiguring) plan(c *ensemble.Config) []*raftpb.ConfChangeSingle {
	ready, able := r.caughtUp(), 0
	var changes []*raftpb.ConfChangeSingle
	for i := range c.Servers {
		s := &c.Servers[i]
		if !s.Observer && ready[s.ID] {
			able++
		}
		switch {
		case !r.member.Has(s.ID):
			changes = append(changes, member.Step(raftpb.ConfChangeAddLearnerNode, s.ID))
		case !s.Observer && !r.member.Votes(s.ID) && ready[s.ID]:
			changes = append(changes, member.Step(raftpb.ConfChangeAddNode, s.ID))
		}
	}
	quorum := able >= c.Voters()/2+1
	for _, id := range r.member.IDs() {
		s, stays := c.Server(id)
		votes := r.member.Votes(id)
		switch {
		case !stays && r.leaving.keeps(id):
			if votes && quorum { // it keeps its clients, and loses its vote
				changes = append(changes, member.Step(raftpb.ConfChangeAddLearnerNode, id))
			}
		case !stays && (quorum || !votes):
			changes = append(changes, member.Step(raftpb.ConfChangeRemoveNode, id))
		case stays && s.Observer && votes && quorum:
			changes = append(changes, member.Step(raftpb.ConfChangeAddLearnerNode, id))
		}
	}
	slices.SortStableFunc(changes, func(a, b *raftpb.ConfChangeSingle) int {
		return cmp.Compare(a.GetNodeId(), b.GetNodeId())
	})
	return changes
}

// tick has the leader bring the group nearer to the configuration in the state: by giving participants that
// have caught up their votes, above all.
func (r *reconfiguring) tick() {
	r.leaving.tick()
	if !r.leads() || r.transfer.inProgress() || r.removed || r.awaitsMember() ||
		r.changePending() || r.last > r.settled.Load() {
		return
	}
	c, ok := r.leaving.configuration()
	if !ok {
		return
	}
	changes := r.plan(c)
	if len(changes) == 0 {
		return
	}
	context, err := r.withAdmissions(changes, nil)
	if err != nil {
		return // until it is connected
	}
	r.propose(&raftpb.ConfChangeV2{Changes: changes, Context: context})
}
