package quorum

import (
	"log/slog"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/storage"
	"zkd/storage/ensemble"
)

// A reconfig travels to the leader in a batch of its own, in line with the other writes of its server. The leader works
// out, from the configuration in its state, what it makes of the group, and proposes both as one entry. So that nobody
// waits for a server that has to be sent everything first, a new participant begins as a learner; as soon as it has
// caught up the leader gives it its vote. Until those that have are a quorum of the new configuration, no server that
// leaves loses its vote.

// Reconfigure has the group brought to the configuration that p, an OpReconfig with the client's record as its body,
// asks for. It tells w as Propose does, and blocks, keeps nothing and fails as that does; any member may be asked.
func (n *Node) Reconfigure(p *storage.Proposal, w Waiter) error {
	asked := *p
	asked.Body = (&storage.ReconfigTxn{Request: p.Body}).Append(nil)
	return n.gather.addChange(nil, &asked, w)
}

// reconfiguring is what the loop of a leader knows of reconfigs.
type reconfiguring struct {
	last   uint64            // the last entry that is one, appended in this term; MaxUint64: not known yet
	heldAt uint64            // the tick since which one is held, else 0
	heard  map[uint64]uint64 // the tick at which raft last had a message of a member
}

// caughtUpEntries is how many entries a member may lack and still count as one that has all. Some are always on their
// way; a guess at how many.
const caughtUpEntries = 1024

// reconfigEntry returns the entry that the batch data, a reconfig alone, becomes. It returns nil if it must wait for
// changes that are under way, and so must all behind it: nothing could be committed before them anyway.
func (l *loop) reconfigEntry(data []byte) *raftpb.Entry {
	reader, err := storage.NewEntryReader(data)
	var p storage.Proposal
	var txn storage.ReconfigTxn
	if err != nil || !reader.Next(&p) || txn.Decode(p.Body) != nil {
		return &raftpb.Entry{Data: data} // the state answers that it cannot be read
	}
	r := &l.reconfig
	if r.last > l.commit {
		return l.refuseReconfig(&reader, &p, jute.ReconfigInProgress, "another one is under way")
	}
	// What is committed another member may have answered before it is applied here.
	unfounded := len(l.options.Founding) > 0 && l.options.Machine.ClusterID() == [16]byte{}
	if r.last > l.progress.reconfigured.Load() || l.changePending() || unfounded || len(l.rejoin.out) > 0 {
		if r.heldAt == 0 {
			r.heldAt = l.ticks + 1
		}
		if l.ticks < r.heldAt+uint64(l.options.ElectionTicks) {
			return nil
		}
		return l.refuseReconfig(&reader, &p, jute.ReconfigInProgress, "a change of membership does not come to its end")
	}
	r.heldAt = 0
	return l.decideReconfig(&reader, &p, &txn)
}

// changePending tells whether raft would take no change of membership now.
func (l *loop) changePending() bool {
	return !l.termReached || l.raw.BasicStatus().Applied < max(l.lastChange, l.termIndex) ||
		len(l.member.conf.GetVotersOutgoing()) > 0
}

// decideReconfig returns the entry of a reconfig before which nothing is under way.
func (l *loop) decideReconfig(reader *storage.EntryReader, p *storage.Proposal, txn *storage.ReconfigTxn,
) *raftpb.Entry {
	present, err := ensemble.Parse(l.options.Machine.EnsembleConfig())
	if err != nil {
		return l.refuseReconfig(reader, p, jute.OK, err.Error()) // the state cannot read it either
	}
	var request jute.ReconfigRequest
	var d jute.Decoder
	d.Reset(txn.Request)
	request.Decode(&d)
	if d.Err() != nil {
		return l.refuseReconfig(reader, p, jute.OK, d.Err().Error())
	}
	rules := ensemble.Rules{
		SingleVoter: p.Flags&storage.FlagSingleVoter != 0, MultiAddress: p.Flags&storage.FlagMultiAddress != 0,
	}
	next, code, why := present.Apply(&request, rules)
	switch {
	case code != jute.OK:
		return l.refuseReconfig(reader, p, jute.OK, why) // the state comes to the same
	case !l.mayReach(&next):
		return l.refuseReconfig(reader, p, jute.NewConfigNoQuorum,
			"too few of its participants can be reached: start the new servers first")
	}
	changes := l.plan(&next)
	if len(changes) == 0 { // a change that changes nothing, so that all reconfigs are of one kind
		changes = []*raftpb.ConfChangeSingle{change(raftpb.ConfChangeAddNode, l.member.conf.GetVoters()[0])}
	}
	txn.BaseVersion, txn.Members = present.Version, next.Members()
	p.Body = txn.Append(nil)
	cc := raftpb.ConfChangeV2{Changes: changes, Context: entryWith(reader, p)}
	if _, err := l.member.after(&cc); err != nil {
		return l.refuseReconfig(reader, p, jute.ReconfigInProgress, err.Error())
	}
	data, err := proto.Marshal(&cc)
	if err != nil {
		return l.refuseReconfig(reader, p, jute.ReconfigInProgress, err.Error())
	}
	l.logger.Info("proposing a reconfig", slog.String("members", next.Members()))
	l.lastChange, l.reconfig.last = math.MaxUint64, math.MaxUint64 // until the index is known
	return &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
}

// refuseReconfig returns the entry of a reconfig that changes nothing. code is what the state cannot know by itself.
func (l *loop) refuseReconfig(reader *storage.EntryReader, p *storage.Proposal, code jute.Code, why string,
) *raftpb.Entry {
	l.logger.Info("a reconfig is refused", slog.String("because", why))
	l.reconfig.heldAt = 0
	p.Code = code
	return &raftpb.Entry{Data: entryWith(reader, p)}
}

// entryWith returns the entry with p as its one proposal, and the number and origin of the one that reader reads.
func entryWith(reader *storage.EntryReader, p *storage.Proposal) []byte {
	return storage.AppendProposal(storage.AppendEntryHeader(nil, reader.Origin, reader.Batch), p)
}

// change is one step of a change of membership.
func change(kind raftpb.ConfChangeType, id uint64) *raftpb.ConfChangeSingle {
	return &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: &id}
}

// noteHeard notes that raft has a message of a member.
func (l *loop) noteHeard(from uint64) {
	if l.reconfig.heard == nil {
		l.reconfig.heard = map[uint64]uint64{}
	}
	l.reconfig.heard[from] = l.ticks
}

// reaches tells whether this leader has heard of a member within an election timeout. raft's own mark is taken back
// once in that time.
func (l *loop) reaches(id uint64) bool {
	at, ok := l.reconfig.heard[id]
	return id == l.id || ok && l.ticks-at <= uint64(l.options.ElectionTicks)
}

// caughtUp returns the members that can be reached and have about all of the log, this one included. One that has none
// of it yet, or of which that is not known, has not caught up, however short the log is.
func (l *loop) caughtUp() map[uint64]bool {
	last := l.lastIndex()
	found := map[uint64]bool{}
	l.raw.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		follows := pr.State == tracker.StateReplicate && pr.Match+caughtUpEntries >= last
		found[id] = id == l.id || follows && l.reaches(id)
	})
	return found
}

// mayReach tells whether the participants that answer, as members or because they ask to be let in, are a quorum
// (org.apache.zookeeper.server.quorum.Leader.isQuorumSynced; there, who asks to be let in is sent all at once).
func (l *loop) mayReach(c *ensemble.Config) bool {
	reached := 0
	for i := range c.Servers {
		s := &c.Servers[i]
		member := l.member.has(s.ID) && l.reaches(s.ID)
		asks := !l.member.has(s.ID) && l.options.Asking != nil && l.options.Asking(s.ID)
		if !s.Observer && (member || asks) {
			reached++
		}
	}
	return reached >= c.Voters()/2+1
}

// Knows tells whether this member has met a member with that id, which did not leave the group since. Any goroutine may
// call it.
func (n *Node) Knows(id uint64) bool {
	_, ok := slices.BinarySearch(n.loop.progress.group.Load().known, id)
	return ok
}

// plan returns what brings the group nearer to a configuration: nothing if it is there, or waits for a server.
func (l *loop) plan(c *ensemble.Config) []*raftpb.ConfChangeSingle {
	ready, able := l.caughtUp(), 0
	var changes []*raftpb.ConfChangeSingle
	for i := range c.Servers {
		s := &c.Servers[i]
		if !s.Observer && ready[s.ID] {
			able++
		}
		switch {
		case !l.member.has(s.ID):
			changes = append(changes, change(raftpb.ConfChangeAddLearnerNode, s.ID))
		case !s.Observer && !l.member.votes(s.ID) && ready[s.ID]:
			changes = append(changes, change(raftpb.ConfChangeAddNode, s.ID))
		}
	}
	quorum := able >= c.Voters()/2+1
	for _, id := range l.member.ids() {
		s, stays := c.Server(id)
		votes := l.member.votes(id)
		switch {
		case !stays && (quorum || !votes):
			changes = append(changes, change(raftpb.ConfChangeRemoveNode, id))
		case stays && s.Observer && votes && quorum:
			changes = append(changes, change(raftpb.ConfChangeAddLearnerNode, id))
		}
	}
	slices.SortStableFunc(changes, func(a, b *raftpb.ConfChangeSingle) int {
		if a.GetNodeId() < b.GetNodeId() {
			return -1
		}
		return 1
	})
	return changes
}

// tickReconfigure has the leader bring the group nearer to the configuration in the state: by giving participants that
// have caught up their votes, above all.
func (l *loop) tickReconfigure() {
	if l.soft.RaftState != raft.StateLeader || l.transfer.to != 0 || l.removed || len(l.rejoin.out) > 0 ||
		l.changePending() || l.reconfig.last > l.progress.reconfigured.Load() {
		return
	}
	text := l.options.Machine.EnsembleConfig()
	if text == "" {
		return
	}
	c, err := ensemble.Parse(text)
	if err != nil || c.Voters() == 0 {
		return
	}
	if changes := l.plan(&c); len(changes) > 0 {
		l.proposeOwnChange(&raftpb.ConfChangeV2{Changes: changes})
	}
}
