package quorum

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/member"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/serverid"
)

// A reconfig that moves addresses is prepared before it is proposed: the leader asks the members of the new
// configuration, itself included, to listen where it has them, and to look whom of the others they reach there. It
// proposes when so many have answered that they are a quorum and reach each other, and refuses otherwise: what is
// committed then, can be carried on from the new addresses alone. Members whose addresses stay need no preparation but
// to look. Everything behind the reconfig waits meanwhile, as for one that is under way.

// PreparedAddresses is what a member answers that is asked to prepare a configuration.
type PreparedAddresses struct {
	Listens bool     // at one of its addresses at least
	Done    bool     // nothing more will come
	Reached []uint64 // the members with other addresses than before that were reached at one of them
	Why     string   // what speaks against listening, or was not reached; for people
}

// The kinds of a frameAddresses, its first byte. What is of another kind is left alone.
const (
	addressPrepare  = 1 // term, number, how many move (2 bytes), their ids, then the lines of the configuration
	addressPrepared = 2 // term, number, 1 if it listens + 2 if that was all, the number of ids (2 bytes), ids, then why
)

// Bounds of a preparation, in election timeouts. Guesses: a member answers within milliseconds, unless it is stuck; one
// that tries an address where nobody answers needs a while to know.
const (
	prepareGrace  = 1 // so long all who were heard of lately are waited for, if a quorum has answered already
	silentFor     = 2 // so long those that say nothing: they are of a version before, which knows no preparation
	prepareWithin = 5
)

// addressQuestion is the question, on its way.
type addressQuestion struct {
	term, number uint64
	moved        []uint64 // who has other addresses than before
	members      string
}

// addressAnswer is an answer.
type addressAnswer struct {
	term, number uint64
	PreparedAddresses
}

// addressChange is what the loop of a leader knows of the preparation of a reconfig.
type addressChange struct {
	members    string // the lines of the configuration; "": there is none
	by         asker
	permission permission // nobody is asked to prepare anything before it is allowed
	moved      []uint64
	since      uint64 // the tick at which it began
	asked      []uint64
	answers    map[uint64]PreparedAddresses // nil: nobody was asked yet
}

// asker is who asks for a reconfig, with which request.
type asker struct {
	session jute.SessionID
	xid     jute.Xid
}

// permission tells whether who asks for a reconfig may.
type permission int

// The permissions.
const (
	undecided permission = iota
	allowed
	refused
)

// permissionFound is the permission for the preparation of that number.
type permissionFound struct {
	number uint64
	may    bool
}

// append adds the encoding of p to b.
func (p *addressQuestion) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, addressPrepare), p.term)
	b = appendIDs(binary.BigEndian.AppendUint64(b, p.number), p.moved)
	return append(b, p.members...)
}

// appendIDs adds ids, behind how many they are in two bytes.
func appendIDs(b []byte, ids []uint64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(ids)))
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	return b
}

// cutIDs reads what appendIDs wrote, and returns what is behind it.
func cutIDs(b []byte) (ids []uint64, rest []byte, err error) {
	if len(b) < 2 || len(b) < 2+8*int(binary.BigEndian.Uint16(b)) {
		return nil, nil, errFrame
	}
	n := int(binary.BigEndian.Uint16(b))
	for b = b[2:]; n > 0; n, b = n-1, b[8:] {
		ids = append(ids, binary.BigEndian.Uint64(b))
	}
	return ids, b, nil
}

// append adds the encoding of a to b.
func (a *addressAnswer) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, addressPrepared), a.term)
	b = binary.BigEndian.AppendUint64(b, a.number)
	flags := byte(0)
	if a.Listens {
		flags |= 1
	}
	if a.Done {
		flags |= 2
	}
	return append(appendIDs(append(b, flags), a.Reached), a.Why...)
}

// decodeAddresses reads what the append functions wrote; nil: it is of a kind that this version does not know.
func decodeAddresses(b []byte) (any, error) {
	if len(b) == 0 {
		return nil, errFrame
	}
	kind, b := b[0], b[1:]
	if kind != addressPrepare && kind != addressPrepared {
		return nil, nil
	}
	if len(b) < 17 {
		return nil, errFrame
	}
	term, number, b := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), b[16:]
	if kind == addressPrepare {
		moved, members, err := cutIDs(b)
		return &addressQuestion{term, number, moved, string(members)}, err
	}
	reached, why, err := cutIDs(b[1:])
	known := PreparedAddresses{Listens: b[0]&1 != 0, Done: b[0]&2 != 0, Reached: reached, Why: string(why)}
	return &addressAnswer{term, number, known}, err
}

// prepareAddresses tells whether a reconfig may be proposed for all that is known of the addresses in it, or why it may
// never be; neither: it must wait.
func (r *reconfiguring) prepareAddresses(asks *entry.Proposal, present, next *ensemble.Config) (
	ready bool, why string,
) {
	moved := present.MovedPeers(next)
	if r.options.PrepareAddresses == nil || len(moved) == 0 {
		return true, ""
	}
	if r.level() < levelMoves {
		return r.mayChangeUnprepared(next, moved)
	}
	r.unleveled = 0
	p := &r.addressChange
	by := asker{asks.Session, asks.Xid}
	if members := next.Members(); p.members != members || p.by != by {
		r.addressChanges++
		*p = addressChange{members: members, by: by, moved: moved}
		r.askWhetherMay(asks)
	}
	switch {
	case p.permission == undecided:
		return false, ""
	case p.permission == refused:
		return true, "" // the state refuses it
	case p.answers == nil:
		p.since, p.answers = r.now, map[uint64]PreparedAddresses{}
		for i := range next.Servers {
			if id := next.Servers[i].ID; r.member.Has(id) && r.reaches(id) {
				p.asked = append(p.asked, id)
			}
		}
		r.logger.Info("preparing address change", slog.Any("moved", serverid.Numbers(moved)),
			slog.Any("asked", serverid.Numbers(p.asked)))
		r.askToPrepare()
	}
	waited, timeout := r.now-p.since, uint64(r.options.ElectionTicks)
	hear, could := r.hearEachOther(next, waited < silentFor*timeout)
	quorum := next.Voters()/2 + 1
	done := !slices.ContainsFunc(p.asked, func(id uint64) bool { return !p.complete(id) })
	switch {
	case hear >= quorum && (done || waited >= prepareGrace*timeout):
		return true, ""
	case could < quorum, done, waited >= prepareWithin*timeout:
		return false, fmt.Sprintf("of %d participants %d hear each other at their new addresses, %d are needed%s",
			next.Voters(), hear, quorum, p.reasons())
	}
	return false, ""
}

// askWhetherMay finds out whether who asks for a reconfig may.
func (r *reconfiguring) askWhetherMay(asks *entry.Proposal) {
	if r.options.MayReconfigure == nil {
		r.addressChange.permission = allowed
		return
	}
	id, inbox, number := r.id, r.inbox, r.addressChanges
	r.options.MayReconfigure(asks, func(may bool) { inbox.put(arrival{from: id, what: permissionFound{number, may}}) })
}

// notePermission takes the permission for the preparation under way.
func (r *reconfiguring) notePermission(j permissionFound) {
	if p := &r.addressChange; p.members != "" && j.number == r.addressChanges {
		if p.permission = refused; j.may {
			p.permission = allowed
		}
	}
}

// levelMoves is the feature level of a group whose members can all be asked to prepare a reconfig.
const levelMoves = 2

// mayChangeUnprepared tells whether a reconfig may be proposed in a group where some may be of a version that listens
// at a new address after its next start only: if those that stay where they are can go on without the others.
func (r *reconfiguring) mayChangeUnprepared(next *ensemble.Config, moved []uint64) (may bool, why string) {
	stay, needed := 0, next.Voters()/2+1
	for i := range next.Servers {
		s := &next.Servers[i]
		asks := r.options.Asking != nil && r.options.Asking(s.ID)
		if !s.Observer && !slices.Contains(moved, s.ID) && (r.member.Has(s.ID) && r.reaches(s.ID) || asks) {
			stay++
		}
	}
	if stay >= needed {
		r.unleveled = 0
		return true, ""
	}
	if r.unleveled == 0 {
		r.unleveled = r.now + 1
	}
	if r.now < r.unleveled+uint64(prepareGrace*r.options.ElectionTicks) {
		return false, "" // a group that has just been founded is about to be raised
	}
	r.unleveled = 0
	return false, fmt.Sprintf("some servers may be of a version that cannot move while it runs: %d participants that "+
		"answer keep their addresses, %d are needed: bring all servers to the new version first, or move fewer at once",
		stay, needed)
}

// complete tells whether a member has said that it listens and reaches all that were asked, or nothing more will come
// from it.
func (p *addressChange) complete(id uint64) bool {
	return p.answers[id].Done || p.cannot(id) || p.answers[id].Listens &&
		!slices.ContainsFunc(p.asked, func(to uint64) bool { return !p.cannot(to) && !p.reach(id, to) })
}

// cannot tells whether a member has said that it cannot listen.
func (p *addressChange) cannot(id uint64) bool {
	a, ok := p.answers[id]
	return ok && !a.Listens
}

// reach tells whether a member reaches another one, as far as it has answered.
func (p *addressChange) reach(from, to uint64) bool {
	return from == to || !slices.Contains(p.moved, to) || slices.Contains(p.answers[from].Reached, to)
}

// reasons are those of the members, for people.
func (p *addressChange) reasons() (text string) {
	for _, id := range p.asked {
		switch a, ok := p.answers[id]; {
		case !ok:
			text += fmt.Sprintf("; server %d has not answered", serverid.Number(id))
		case a.Why != "":
			text += fmt.Sprintf("; server %d: %s", serverid.Number(id), a.Why)
		}
	}
	return text
}

// askToPrepare asks those that have not said that they are done; again, since a frame may be lost.
func (r *reconfiguring) askToPrepare() {
	p := &r.addressChange
	question := addressQuestion{r.term, r.addressChanges, p.moved, p.members}
	for _, id := range p.asked {
		switch {
		case p.answers[id].Done:
		case id == r.id:
			r.prepareFor(r.id, &question)
		default:
			r.transport.Send(id, frameAddresses, question.append)
		}
	}
}

// tickPrepare asks again now and then.
func (r *reconfiguring) tickPrepare() {
	if p := &r.addressChange; p.answers != nil && (r.now-p.since)%resendTicks == resendTicks-1 {
		r.askToPrepare()
	}
}

// prepareFor has this member prepare what a leader asks for, and answer.
func (r *reconfiguring) prepareFor(leader uint64, question *addressQuestion) {
	if r.options.PrepareAddresses == nil || question.term < r.term {
		return
	}
	id, inbox, transport := r.id, r.inbox, r.transport
	term, number := question.term, question.number
	r.options.PrepareAddresses(question.members, question.moved, func(p PreparedAddresses) {
		a := &addressAnswer{term, number, p}
		if leader == id {
			inbox.put(arrival{from: id, what: a})
			return
		}
		transport.Send(leader, frameAddresses, a.append) // lost, it is asked for again
	})
}

// answered takes a member's answer.
func (r *reconfiguring) answered(from uint64, a *addressAnswer) {
	p := &r.addressChange
	if p.answers != nil && a.term == r.term && a.number == r.addressChanges && !p.answers[from].Done {
		p.answers[from] = a.PreparedAddresses
	}
}

// hearEachOther returns how many participants of a configuration reach each other there, as far as they have answered,
// with those that ask to be let in, who have to be caught up first; and how many could yet, with those of whom nothing
// has come if they are waited for. Of those that do not all reach each other the one is left out that is worst off,
// until all do: the most that could be found might be more.
func (r *reconfiguring) hearEachOther(c *ensemble.Config, wait bool) (hear, could int) {
	p := &r.addressChange
	var present []uint64
	asking := 0
	for i := range c.Servers {
		id := c.Servers[i].ID
		a, ok := p.answers[id]
		switch {
		case c.Servers[i].Observer:
		case !r.member.Has(id):
			if r.options.Asking != nil && r.options.Asking(id) {
				asking++
			}
		case ok && a.Listens:
			present = append(present, id)
			could++
		case slices.Contains(p.asked, id) && !ok && wait:
			could++
		}
	}
	for {
		worst, lacks := 0, 0
		for n, a := range present {
			missing := 0
			for _, b := range present {
				if !p.reach(a, b) || !p.reach(b, a) {
					missing++
				}
			}
			if missing > lacks {
				worst, lacks = n, missing
			}
		}
		if lacks == 0 {
			return len(present) + asking, could + asking
		}
		present = slices.Delete(present, worst, worst+1)
	}
}

// tellProposed tells of the reconfigs among entries that are about to be in this member's log: who moves should listen
// there before it is committed.
func (r *reconfiguring) tellProposed(entries []*raftpb.Entry) {
	if r.options.OnProposed == nil {
		return
	}
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		cc, err := member.DecodeChange(e)
		if err != nil {
			continue // apply will refuse it, as a context that cannot be read
		}
		if c, err := member.ReadContext(cc.GetContext()); err == nil {
			if members := membersProposed(c.Proposal); members != "" {
				r.options.OnProposed(members)
			}
		}
	}
}

// membersProposed returns the lines of the configuration in the proposal of a change, "" if it is no reconfig.
func membersProposed(proposal []byte) string {
	if len(proposal) == 0 {
		return ""
	}
	reader, err := entry.NewReader(proposal)
	var p entry.Proposal
	var txn entry.ReconfigTxn
	if err != nil || !reader.Next(&p) || p.Op != jute.OpReconfig || txn.Decode(p.Body) != nil {
		return ""
	}
	return txn.Members
}

// tellUnapplied tells of the reconfigs in the log that are not applied, at the start.
func (r *reconfiguring) tellUnapplied(view *logView, applied uint64) error {
	if r.options.OnProposed == nil {
		return nil
	}
	return view.scan(applied+1, func(entries []*raftpb.Entry) error {
		r.tellProposed(entries)
		return nil
	})
}
