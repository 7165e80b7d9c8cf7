package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// ledger is what the members have agreed on, as the first of them that applied each entry has shown. All others are
// compared with it.
type ledger struct {
	w       *world
	entries []record // without a gap; entries[0] is the first that was ever applied
	known   jute.Zxid
	newest  jute.Millis      // time of an entry
	writes  map[writeKey]*op // proposed by clients
	streams []*conn          // connections that have proposed, in order
	changes map[string][]change
	reads   []observation
	leaders map[uint64]uint64 // by term
	// ephemerals are the paths that sessions own, by a model that knows no more than requests and their codes.
	ephemerals map[string]jute.SessionID
}

// entry is one applied entry.
type record struct {
	index, term uint64
	data        []byte
	results     []uint64 // their hashes
	digest      uint64
	zxid        jute.Zxid
	ended       bool // its results, digest and zxid are known
}

// writeKey names a write of a client: no two have the same.
type writeKey struct {
	session jute.SessionID
	xid     jute.Xid
}

// change is one change that watches may wait for.
type change struct {
	zxid jute.Zxid
	kind jute.EventType
}

// newLedger returns an empty ledger.
func newLedger(w *world) *ledger {
	return &ledger{
		w: w, writes: map[writeKey]*op{}, changes: map[string][]change{}, leaders: map[uint64]uint64{},
		ephemerals: map[string]jute.SessionID{},
	}
}

// leads notes a leader: there is one in a term.
func (l *ledger) leads(m *member, term uint64) {
	if other, ok := l.leaders[term]; ok && other != m.id {
		l.w.fail("members %d and %d lead in term %d", other, m.id, term)
	}
	l.leaders[term] = m.id
}

// proposed notes that a client's write was given to a node.
func (l *ledger) proposed(o *op) {
	key := writeKey{o.session, o.xid}
	if l.writes[key] != nil {
		l.w.fail("%v: the client gives the number twice", o)
	}
	l.writes[key] = o
	if len(o.k.ops) == 0 {
		l.streams = append(l.streams, o.k)
	}
	o.k.ops = append(o.k.ops, o)
}

// refused notes that a write was not taken.
func (l *ledger) refused(o *op) {
	if o.index != 0 {
		l.w.fail("%v was refused and is in the log at %d", o, o.index)
	}
}

// at returns the entry with an index, or nil.
func (l *ledger) at(index uint64) *record {
	if len(l.entries) == 0 || index < l.entries[0].index || index > l.entries[len(l.entries)-1].index {
		return nil
	}
	return &l.entries[index-l.entries[0].index]
}

// begin notes that a member applies an entry: the same as every other did.
func (l *ledger) begin(m *member, index, term uint64, data []byte) *record {
	if e := l.at(index); e != nil {
		if e.term != term || string(e.data) != string(data) {
			l.w.fail("member %d applies at index %d an entry of term %d, %d bytes; it was one of term %d, %d bytes: "+
				"what was committed is lost", m.id, index, term, len(data), e.term, len(e.data))
		}
		return e
	}
	if n := len(l.entries); n > 0 && index != l.entries[n-1].index+1 {
		l.w.fail("member %d applies index %d, and nobody has applied those after %d", m.id, index, l.entries[n-1].index)
	}
	l.time(m, index, data)
	l.entries = append(l.entries, record{index: index, term: term, data: slices.Clone(data)})
	return &l.entries[len(l.entries)-1]
}

// time notes the time of a new entry: it is never before that of an entry before. No two clocks are farther apart here
// than a leader waits for.
func (l *ledger) time(m *member, index uint64, data []byte) {
	if len(data) == 0 {
		return
	}
	reader, err := entry.NewReader(data)
	if err != nil {
		l.w.fail("entry %d: %w", index, err)
		return
	}
	var p entry.Proposal
	for n := 0; reader.Next(&p); n++ {
		if p.Time < l.newest {
			l.w.fail("member %d applies at index %d proposal %d of the time %d, after one of %d", m.id, index, n,
				p.Time, l.newest)
		}
		l.newest = p.Time
	}
}

// result notes one result of an entry.
func (l *ledger) result(m *member, e *record, n int, r *apply.Result) {
	sum := hashResult(r)
	if e.ended || n < len(e.results) {
		if n >= len(e.results) || e.results[n] != sum {
			l.w.fail("member %d: result %d of entry %d is another than on other members: %v %v zxid %d", m.id, n,
				e.index, r.Op, r.Code, r.Zxid)
		}
		return
	}
	e.results = append(e.results, sum)
	for i := range r.Events {
		path := strings.Clone(r.Events[i].Path)
		l.changes[path] = append(l.changes[path], change{r.Events[i].Zxid, r.Events[i].Type})
		if r.Events[i].Type == jute.EventNodeDeleted {
			if _, owned := l.ephemerals[path]; owned && r.ClosedSession != nil {
				l.w.count(drawnEphemeralEnded)
			}
			delete(l.ephemerals, path)
		}
	}
	l.w.group.committed(l.w, r)
	o := l.writes[writeKey{r.Session, r.Xid}]
	if o == nil {
		return
	}
	l.w.trace.note(l.w.now, "commit", e.index, uint64(r.Zxid), uint64(r.Session), uint64(r.Xid), uint64(r.Code))
	switch {
	case o.index != 0:
		l.w.fail("%v is applied twice, at %d and %d", o, o.index, e.index)
	case o.state == opRefused:
		l.w.fail("%v was refused and is applied at %d", o, e.index)
	case o.kind != entry.OpReattachSession && r.Zxid <= o.floor:
		l.w.fail("%v gets zxid %d, but %d was applied before it was proposed", o, r.Zxid, o.floor)
	}
	o.index, o.zxid, o.code = e.index, r.Zxid, r.Code
	l.own(o, r)
}

// own notes the ephemerals that a write has made.
func (l *ledger) own(o *op, r *apply.Result) {
	if r.Code != jute.OK {
		return
	}
	for i := range o.steps {
		if s := &o.steps[i]; s.kind == jute.OpCreate && s.mode.Ephemeral() {
			path := r.Path
			if o.kind == jute.OpMulti {
				path = r.Ops[i].Path
			}
			l.w.count(drawnEphemeral)
			l.ephemerals[strings.Clone(path)] = o.session
		}
	}
}

// end notes that an entry is applied.
func (l *ledger) end(m *member, e *record, count int, view state.View) {
	digest, zxid := view.Digest(), view.Zxid()
	if e.ended && (e.digest != digest || e.zxid != zxid) || len(e.results) != count {
		l.w.fail("member %d: after entry %d the digest is %x, the zxid %d, with %d results; on others %x, %d, %d",
			m.id, e.index, digest, zxid, count, e.digest, e.zxid, len(e.results))
	}
	if e.ended {
		l.w.count(drawnComparedEntry)
	} else {
		e.digest, e.zxid, e.ended = digest, zxid, true
		l.checkClosed(e, view)
	}
	l.known = max(l.known, zxid)
	l.w.trace.note(l.w.now, "apply", m.id, e.index, e.term, digest, uint64(zxid))
}

// checkClosed checks that the sessions that an entry has ended are gone with all they owned.
func (l *ledger) checkClosed(e *record, view state.View) {
	if len(e.data) == 0 {
		return
	}
	reader, err := entry.NewReader(e.data)
	if err != nil {
		l.w.fail("entry %d: %w", e.index, err)
		return
	}
	var p entry.Proposal
	for reader.Next(&p) {
		if p.Op != jute.OpCloseSession {
			continue
		}
		if p.Xid == expiryXid {
			l.w.report.Expired++
		}
		if _, there := view.Session(p.Session); there {
			l.w.fail("entry %d has closed session %#x, and it is there", e.index, uint64(p.Session))
		}
		if left := view.EphemeralsOf(p.Session, "/", nil); len(left) > 0 {
			l.w.fail("entry %d has closed session %#x, and its ephemerals are there: %v", e.index,
				uint64(p.Session), left)
		}
	}
}

// observed counts what a member's observer is told.
func (l *ledger) observed(m *member, r *apply.Result) {
	k := m.machine
	if k.observed >= len(k.results) || k.results[k.observed] != hashResult(r) {
		l.w.fail("member %d: the observer is told %v of session %#x, which is not the next result", m.id, r.Op,
			uint64(r.Session))
	}
	k.observed++
}

// replaced compares a state that has come by a snapshot with that of the entry it claims to be of.
func (l *ledger) replaced(m *member) {
	view := m.machine.View()
	defer view.Close()
	index := view.AppliedIndex()
	l.w.trace.note(l.w.now, "replaced", m.id, index, view.Digest())
	e := l.at(index)
	if e == nil || !e.ended {
		l.w.fail("member %d: a snapshot of entry %d, which nobody has applied", m.id, index)
		return
	}
	l.w.count(drawnComparedSnapshot)
	if e.digest != view.Digest() || e.zxid != view.Zxid() {
		l.w.fail("member %d: a snapshot of entry %d has digest %x and zxid %d, the log %x and %d", m.id, index,
			view.Digest(), view.Zxid(), e.digest, e.zxid)
	}
}

// firstMatch returns the first change after since that a watch waits for.
func (l *ledger) firstMatch(key watchKey, since jute.Zxid) (change, bool) {
	list := l.changes[key.path]
	at, _ := slices.BinarySearchFunc(list, since+1, func(c change, z jute.Zxid) int { return cmp.Compare(c.zxid, z) })
	for _, c := range list[at:] {
		if c.kind == jute.EventNodeDeleted || key.children == (c.kind == jute.EventNodeChildrenChanged) {
			return c, true
		}
	}
	return change{}, false
}

// machine is a member's state machine, watched.
type machine struct {
	*state.Machine
	m        *member
	results  []uint64 // of the entry that is applied
	observed int      // how many of them the observer was told
}

// DiskProgress implements quorum.Machine.
func (k *machine) DiskProgress() (inFlight bool, ended uint64) { return k.m.hangsState, 0 }

// Apply implements quorum.Machine.
func (k *machine) Apply(index, term uint64, data []byte, sink state.Sink) error {
	l := k.m.w.ledger
	if before := k.AppliedIndex(); index != before+1 && before != 0 {
		l.w.fail("member %d applies entry %d after %d", k.m.id, index, before)
	}
	e := l.begin(k.m, index, term, data)
	k.results, k.observed = k.results[:0], 0
	if err := k.Machine.Apply(index, term, k.tamper(data), tee{k, e, sink}); err != nil {
		return err
	}
	if k.observed != len(k.results) {
		l.w.fail("member %d: the observer is told %d of the %d results of entry %d", k.m.id, k.observed, len(k.results),
			index)
	}
	view := k.View()
	defer view.Close()
	l.end(k.m, e, len(k.results), view)
	return nil
}

// tamper returns what a plant makes of an entry.
func (k *machine) tamper(data []byte) []byte {
	plant := k.m.w.cfg.Plant
	all := plant == PlantCloseIgnored
	one := k.m.id == 2 && (plant == PlantEphemeralStays || plant == PlantClockInApply || plant == PlantOtherACL)
	if len(data) == 0 || !all && !one {
		return data
	}
	reader, err := entry.NewReader(data)
	if err != nil {
		return data
	}
	out := entry.AppendEntryHeader(nil, reader.Origin, reader.Batch)
	var p entry.Proposal
	for reader.Next(&p) {
		switch {
		case plant == PlantClockInApply:
			p.Time = k.m.time()
		case plant == PlantOtherACL:
			p.Body = otherACL(&p)
		case p.Op == jute.OpCloseSession:
			p.Op, p.Code, p.Body = jute.OpError, jute.OK, nil
		}
		out = entry.AppendProposal(out, &p)
	}
	return out
}

// otherACL returns the body of a proposal, with the right to administer taken out of what it creates.
func otherACL(p *entry.Proposal) []byte {
	if p.Op != jute.OpCreate && p.Op != jute.OpCreate2 {
		return p.Body
	}
	d := jute.NewDecoder(p.Body)
	var r jute.CreateRequest
	r.Decode(&d)
	r.ACL = []jute.ACL{{Perms: jute.PermAll &^ jute.PermAdmin, ID: r.ACL[0].ID}}
	return r.Append(nil)
}

// tee hands results to the ledger, and then on.
type tee struct {
	k    *machine
	e    *record
	sink state.Sink
}

// Decided implements state.Decider.
func (t tee) Decided(results []apply.Result) error {
	if d, ok := t.sink.(state.Decider); ok {
		return d.Decided(results)
	}
	return nil
}

// Result implements state.Sink.
func (t tee) Result(origin, batch uint64, n int, r *apply.Result) {
	t.k.results = append(t.k.results, hashResult(r))
	t.k.m.w.ledger.result(t.k.m, t.e, n, r)
	t.sink.Result(origin, batch, n, r)
}

// hashResult is a hash of all that a result says.
func hashResult(r *apply.Result) uint64 {
	h := mix(hashString(r.Path), uint64(r.Op))
	for _, n := range [...]uint64{uint64(r.Session), uint64(r.Xid), uint64(r.Zxid), uint64(r.Code)} {
		h = mix(h, n)
	}
	h = hashStat(h, &r.Stat)
	for i := range r.Ops {
		o := &r.Ops[i]
		h = hashStat(mix(mix(h, uint64(o.Op)), uint64(o.Code)), &o.Stat) ^ hashString(o.Path)
	}
	for i := range r.Events {
		h = mix(mix(h, uint64(r.Events[i].Type)), uint64(r.Events[i].Zxid)) ^ hashString(r.Events[i].Path)
	}
	for _, s := range [...]*schema.SessionInfo{r.NewSession, r.ClosedSession} {
		if s != nil {
			h = mix(mix(h, uint64(s.ID)), s.Owner) ^ uint64(s.TimeoutMillis)
		}
		h = mix(h, 1)
	}
	return h
}

// mix adds a number to a hash.
func mix(h, n uint64) uint64 {
	h = (h ^ n) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// hashBytes and hashString are hashes of contents.
func hashBytes(b []byte) uint64  { return xxhash.Sum64(b) }
func hashString(s string) uint64 { return xxhash.Sum64String(s) }
