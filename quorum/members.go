package quorum

import (
	"fmt"
	"log/slog"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/invariants"
	"zkd/storage/serverid"
)

// members is the loop's part that knows who belongs to the group, and which changes of that are under way. It alone
// writes the membership among the facts, and whether this member is removed.
type members struct {
	*facts
	transport Transport                                     // nil in a group of one
	makeSo    func(cc raftpb.ConfChangeI) *raftpb.ConfState // has raft make a change
	changed   func(before *member.Membership)               // told when another membership is in force
	recounted func()                                        // told when it becomes known who counts, or is not any more
	reconfig  *reconfiguring

	ahead      member.Membership   // the latest that another member has told of, if later than the present one
	history    []member.Membership // the last memberships, oldest first; the present one is the last
	logged     []loggedChange      // changes that were appended, up to some that are applied; few
	lastChange uint64              // the last entry that may be one, as far as this leader has appended
}

// historyLength is how many memberships are remembered, for checkpoints that were made before the last change. A guess:
// a change takes longer than this fraction of a checkpoint.
const historyLength = 16

// set notes who belongs to the group.
func (g *members) set(m member.Membership) {
	g.member = m
	if len(g.history) == historyLength {
		g.history = append(g.history[:0], g.history[1:]...)
	}
	g.history = append(g.history, m)
	if m.Has(g.id) {
		g.removed = false
	} else if !m.Empty() {
		g.removed = true
	}
}

// install notes who belongs to the group by a snapshot that takes the place of the log.
func (g *members) install(m member.Membership) {
	g.history, g.logged = nil, nil
	g.set(m)
}

// belongs says that this member belongs to the group after all, or that it was told that it does not.
func (g *members) belongs(does bool) { g.removed = !does }

// newTerm says that another term has begun: of changes of earlier ones its first entry tells.
func (g *members) newTerm() { g.lastChange = 0 }

// takeBack says that raft has not taken what was proposed, and which the last change was before that.
func (g *members) takeBack(last uint64) { g.lastChange = last }

// changing notes that a change of membership is proposed whose index is not known yet.
func (g *members) changing() { g.lastChange = math.MaxUint64 }

// changePending tells whether raft would take no change of membership now.
func (g *members) changePending() bool {
	return !g.termReached || g.raft.BasicStatus().Applied < max(g.lastChange, g.termIndex) ||
		len(g.member.Conf.GetVotersOutgoing()) > 0
}

// mayChange tells what speaks against proposing a change now. raft would make an empty entry of a change that comes
// while another one is under way, and panic on one that leads to no membership.
func (g *members) mayChange(cc *raftpb.ConfChangeV2) error {
	if !g.termReached || g.raft.BasicStatus().Applied < max(g.lastChange, g.termIndex) {
		return ErrChangePending
	}
	joint := len(g.member.Conf.GetVotersOutgoing()) > 0
	if joint != (len(cc.GetChanges()) == 0) {
		return ErrChangePending
	}
	_, err := g.member.After(cc)
	return err
}

// noteChanges notes the changes of membership that are appended: raft takes no other one until they are applied.
func (g *members) noteChanges(entries []*raftpb.Entry) {
	if !g.leads() {
		return
	}
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		g.lastChange = e.GetIndex()
		g.reconfig.logged(e.GetIndex())
	}
}

// change has raft bring a change into force that is in the state and on disk. A snapshot that came meanwhile
// has it already.
func (g *members) change(c *membershipChange) {
	if c.after.Index <= g.member.Index {
		return
	}
	before := g.member
	conf := g.makeSo(c.change)
	if err := conf.Equivalent(c.after.Conf); err != nil {
		invariants.Violated("raft has another membership", slog.Any("err", err))
	}
	g.set(c.after)
	g.logger.Info("membership changed", slog.Uint64("index", c.after.Index),
		slog.Any("members", serverid.Numbers(c.after.IDs())))
	g.changed(&before)
}

// at returns the membership as of an entry; false: it is not known any more.
func (g *members) at(index uint64) (m member.Membership, ok bool) {
	n := slices.IndexFunc(g.history, func(m member.Membership) bool { return m.Index > index })
	if n < 0 {
		n = len(g.history)
	}
	if n == 0 {
		return member.Membership{}, false
	}
	return g.history[n-1], true
}

// tell tells a server who belongs to the group: it may not, or may know less.
func (g *members) tell(id uint64) {
	if g.member.Empty() {
		return
	}
	blob, err := g.member.Encode()
	if err != nil || g.transport == nil {
		return
	}
	g.transport.Send(id, frameMembers, func(b []byte) []byte { return append(b, blob...) })
}

// tellAll tells all others.
func (g *members) tellAll() {
	for _, id := range g.member.IDs() {
		if id != g.id {
			g.tell(id)
		}
	}
}

// toldOf takes note of a later membership than this member's log has brought it.
func (g *members) toldOf(m *member.Membership) {
	if m.Index > max(g.member.Index, g.ahead.Index) {
		g.ahead = *m
	}
}

// strangers are the members of whom this one was told, and that its own log does not know.
func (g *members) strangers() (ids []uint64) {
	if g.ahead.Index <= g.member.Index {
		return nil
	}
	for _, id := range g.ahead.IDs() {
		if id != g.id && !g.member.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// loggedChange is a change of membership in the log that is not applied yet.
type loggedChange struct {
	index   uint64
	change  *raftpb.ConfChangeV2
	records bool
	admits  map[uint64]uint64
}

// scanChanges reads which changes of membership the log holds behind the applied entry. It is for the start.
func scanChanges(view *logView, applied uint64) ([]loggedChange, error) {
	var found []loggedChange
	err := view.scan(applied+1, func(entries []*raftpb.Entry) (err error) {
		found, err = appendChanges(found, entries)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for changes of membership: %w", err)
	}
	return found, nil
}

// appendChanges adds the changes of membership among entries.
func appendChanges(list []loggedChange, entries []*raftpb.Entry) ([]loggedChange, error) {
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		cc, err := member.DecodeChange(e)
		if err != nil {
			return nil, fmt.Errorf("change of membership in entry %d: %w", e.GetIndex(), err)
		}
		c, err := member.ReadContext(cc.GetContext())
		if err != nil {
			return nil, fmt.Errorf("change of membership in entry %d: %w", e.GetIndex(), err)
		}
		list = append(list, loggedChange{index: e.GetIndex(), change: cc, records: c.Records, admits: c.Admits})
	}
	return list, nil
}

// noteLogged notes the changes of membership among entries that are appended, in the place of those that they replace.
func (g *members) noteLogged(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	first, before := entries[0].GetIndex(), g.counted() == nil
	if n := slices.IndexFunc(g.logged, func(c loggedChange) bool { return c.index >= first }); n >= 0 {
		g.logged = g.logged[:n]
	}
	logged, err := appendChanges(g.logged, entries)
	if err != nil {
		g.logger.Error("cannot decode membership change") // the apply goroutine stops the node, and says why
		return
	}
	if g.logged = logged; before != (g.counted() == nil) {
		g.recounted()
	}
}

// votersChangeLogged tells whether the log holds a change of membership that this member has not made, and that leads
// to other voters: not one of learners, or for the sake of an incarnation alone.
func (g *members) votersChangeLogged() bool {
	applied := g.raft.BasicStatus().Applied
	g.logged = slices.DeleteFunc(g.logged, func(c loggedChange) bool { return c.index <= applied })
	return slices.ContainsFunc(g.logged, func(c loggedChange) bool {
		conf, err := g.member.After(c.change)
		return err != nil || !g.member.SameVoters(conf)
	})
}

// counted returns the incarnations that count, by member; nil: this member's log does not say.
func (g *members) counted() map[uint64]uint64 {
	if g.member.Recorded {
		return g.member.Incarnations
	}
	for i := range g.logged {
		if g.logged[i].records {
			return g.logged[i].admits
		}
	}
	return nil
}
