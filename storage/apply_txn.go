package storage

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// txn evaluates one entry against the state without changing it, then publishes what came of it. A machine has one
// and uses it again for each entry; what is found in it between two entries is memory to reuse. Owned by the apply
// goroutine.
type txn struct {
	m   *Machine
	pos schema.Position // as it will be
	// sums are those of the state as it will be.
	sums schema.Kept
	// ensemble is the ensemble's record as it will be.
	ensemble *schema.EnsembleRecord
	// upload is the upload as it will be, uploadWrites what becomes of its pieces.
	upload       *schema.Upload
	uploadWrites []uploadWrite
	// restored is the zxid with which a restore has replaced the state.
	restored  jute.Zxid
	level     entry.Level // the ensemble's, as it will be
	version   entry.Level // of the entry
	alone     bool        // the proposal is the only one of its entry
	successor bool        // the entry has built a state that takes the place of this one

	changes  map[string]*change // every znode that the entry has looked at, by path
	order    []*change          // the same, as they were first looked at
	slab     []change           // memory of changes
	slabUsed int
	sessions map[jute.SessionID]*schema.SessionInfo // sessions that the entry has made, changed or, if nil, ended
	newOrder []jute.SessionID                       // the keys of sessions, as they came
	// ephemerals are the znodes that the entry has made for sessions, in order; some may be gone again.
	ephemerals []*change
	quotaTouch bool // the entry has made or deleted a quota
	// countedBelow is what countBelow has found for the entry, by path; countLeft how many znodes it may still read.
	countedBelow map[string]counted
	countLeft    int64
	countsAtOnce int                      // how many quotas it has counted, or begun to
	counts       map[string]*schema.Count // what the entry has made of counts of quotas, by target; nil: ended
	countsUndo   []countUndo              // of a multi
	journal      []undo
	journalling  bool // inside a multi
	epoch        int  // counts multis: a change is kept in the journal once for each

	// verdicts are what allowed has found out for the proposal, of lists that are long for this caller.
	verdicts map[verdict]bool
	// grownACL is how many bytes the lists of the proposal have that name auth.
	grownACL int

	arena   arena
	p       entry.Proposal
	origin  uint64
	batchNo uint64
	bytes   int // of the proposal that is evaluated, in the log
	results []Result
	spans   []span // of results: where their events and operations are
	events  []Event
	ops     []OpResult

	batch     *pebble.Batch
	reader    pointReader // of the state before the entry
	names     nameFilter
	scratch   []byte
	keyBuf    []byte
	digestBuf [schema.DigestStatBytes]byte
	err       error // of the store: ends the evaluation

	// What an operation reads and answers; here so that it needs no allocation.
	body         jute.Decoder
	out          OpResult
	createReq    jute.CreateRequest
	createTTLReq jute.CreateTTLRequest
	setDataReq   jute.SetDataRequest
	setACLReq    jute.SetACLRequest
	versionReq   jute.PathVersionRequest
	pathReq      jute.PathRequest
	reconfigReq  jute.ReconfigRequest
}

// change is what an entry knows and does about one znode.
type change struct {
	path string        // a view of the entry or of the arena
	base *schema.Znode // before the entry; nil if there was none
	cur  *schema.Znode // now; nil if there is none
	// own says that cur was made by this entry and, outside a multi, may be changed in place.
	own bool
	// dataChanged says that cur's data differs from base's.
	dataChanged bool
	epoch       int // the multi that has this change in the journal
}

// undo is how a change was before a multi touched it.
type undo struct {
	c    *change
	prev change
}

// span is where a result's events and operations lie in the txn's slices.
type span struct{ events, eventsEnd, ops, opsEnd int }

// changeSlab is the number of changes that are allocated at once.
const changeSlab = 256

// keptChangesMax is the size above which a txn's maps and slices are given back after an entry.
const keptChangesMax = 16 << 10

// init makes t ready for its first entry.
func (t *txn) init(m *Machine) {
	t.m = m
	t.changes = make(map[string]*change, changeSlab)
	t.sessions = make(map[jute.SessionID]*schema.SessionInfo)
	t.slab = make([]change, changeSlab)
	t.batch = m.store.db.NewBatch()
}

// close gives back the txn's batch, so that the store can be closed, and what the txn knows about the store.
func (t *txn) close() error {
	if t.batch == nil {
		return nil
	}
	t.names = nameFilter{}
	batch := t.batch
	t.batch = nil
	if err := batch.Close(); err != nil {
		return fmt.Errorf("close the batch of state store %s: %w", t.m.store.dir, err)
	}
	return nil
}

// begin starts an entry.
func (t *txn) begin(index, term uint64) {
	t.pos = t.m.mu.pos // written by this goroutine only
	t.pos.Index, t.pos.Term = index, term
	t.sums = t.m.mu.sums
	t.ensemble, t.upload = t.m.mu.ensemble, t.m.mu.upload
	t.restored, t.level = t.m.mu.restored, t.m.mu.level
	t.countLeft, t.countsAtOnce = t.m.countMax, 0
	t.err = nil
}

// end forgets the entry, so that nothing keeps its bytes alive.
func (t *txn) end() {
	if len(t.order) > keptChangesMax {
		t.changes = make(map[string]*change, changeSlab)
		t.order, t.events, t.journal, t.ephemerals = nil, nil, nil, nil
		t.slab = make([]change, changeSlab)
	}
	clear(t.changes)
	clear(t.order)
	clear(t.slab)
	clear(t.ephemerals)
	clear(t.results)
	clear(t.events)
	clear(t.ops)
	clear(t.journal)
	clear(t.sessions)
	clear(t.uploadWrites)
	clear(t.verdicts)
	clear(t.countedBelow)
	clear(t.counts)
	t.order, t.slabUsed, t.ephemerals = t.order[:0], 0, t.ephemerals[:0]
	t.results, t.spans, t.events, t.ops = t.results[:0], t.spans[:0], t.events[:0], t.ops[:0]
	t.journal, t.newOrder = t.journal[:0], t.newOrder[:0]
	t.uploadWrites = t.uploadWrites[:0]
	t.quotaTouch, t.epoch, t.journalling, t.successor = false, 0, false, false
	t.arena.reset()
}

// evaluateEntry evaluates all proposals of an entry in order. It fails on an entry that this version cannot read and
// on an error of the store, never because of what a request asks.
func (t *txn) evaluateEntry(data []byte) error {
	reader, err := entry.NewReader(data)
	if err != nil {
		return err
	}
	t.origin, t.batchNo, t.version = reader.Origin, reader.Batch, reader.Version
	if t.countNext(); t.err != nil {
		return t.err
	}
	for before := len(reader.Rest); reader.Next(&t.p); before = len(reader.Rest) {
		t.bytes = before - len(reader.Rest)
		t.alone = len(t.results) == 0 && len(reader.Rest) == 0
		if err := t.checkLevel(); err != nil {
			return err
		}
		t.evaluate()
		if t.err != nil {
			return t.err
		}
	}
	return reader.Err()
}

// evaluate evaluates the proposal t.p and keeps its result.
func (t *txn) evaluate() {
	p := &t.p
	clear(t.verdicts)
	t.grownACL = 0
	if takesZxid(p.Op) {
		t.pos.Zxid++
	}
	t.results = append(t.results, Result{Op: p.Op, Session: p.Session, Xid: p.Xid, Zxid: t.pos.Zxid,
		Bytes: t.bytes})
	s := span{events: len(t.events), ops: len(t.ops)}
	r := &t.results[len(t.results)-1]
	proposalHandler(p.Op)(t, r)
	s.eventsEnd, s.opsEnd = len(t.events), len(t.ops)
	t.spans = append(t.spans, s)
}

// takesZxid tells whether a proposal takes a zxid, whatever comes of it.
func takesZxid(op jute.Op) bool {
	switch op {
	case entry.OpReattachSession, entry.OpFoundEnsemble, entry.OpRestoreBegin, entry.OpRestoreChunk,
		entry.OpRestoreCommit, entry.OpRestoreAbort,
		entry.OpRaiseLevel, entry.OpCompareState, entry.OpCountQuota:
		return false
	}
	return true
}

// handlers has what evaluates a proposal, by opcode; lowestOp is the first one's.
var handlers = [...]func(*txn, *Result){
	entry.OpCountQuota - lowestOp:      func(*txn, *Result) {},
	entry.OpCompareState - lowestOp:    (*txn).compareState,
	entry.OpRaiseLevel - lowestOp:      (*txn).raiseLevel,
	entry.OpRestoreAbort - lowestOp:    (*txn).restoreAbort,
	entry.OpRestoreCommit - lowestOp:   (*txn).restoreCommit,
	entry.OpRestoreChunk - lowestOp:    (*txn).restoreChunk,
	entry.OpRestoreBegin - lowestOp:    (*txn).restoreBegin,
	entry.OpFoundEnsemble - lowestOp:   (*txn).foundEnsemble,
	entry.OpReattachSession - lowestOp: (*txn).reattachSession,
	jute.OpCloseSession - lowestOp:     (*txn).closeSession,
	jute.OpCreateSession - lowestOp:    (*txn).createSession,
	jute.OpError - lowestOp:            (*txn).answerError,
	jute.OpCreate - lowestOp:           (*txn).single,
	jute.OpDelete - lowestOp:           (*txn).single,
	jute.OpSetData - lowestOp:          (*txn).single,
	jute.OpSetACL - lowestOp:           (*txn).single,
	jute.OpMulti - lowestOp:            (*txn).multi,
	jute.OpCreate2 - lowestOp:          (*txn).single,
	jute.OpCreateContainer - lowestOp:  (*txn).single,
	jute.OpDeleteContainer - lowestOp:  (*txn).single,
	jute.OpReconfig - lowestOp:         (*txn).reconfig,
	jute.OpCreateTTL - lowestOp:        (*txn).single,
}

// lowestOp is the lowest opcode of a proposal.
const lowestOp = entry.OpCountQuota

// proposalHandler returns what evaluates op, or nil.
func proposalHandler(op jute.Op) func(*txn, *Result) {
	at := int64(op) - int64(lowestOp) // of 64 bits: an opcode may be any number of 32
	if at < 0 || at >= int64(len(handlers)) {
		return nil
	}
	return handlers[at]
}

// answerError answers what the proposer has decided; the write has only taken a zxid.
func (t *txn) answerError(r *Result) { r.Code = t.p.Code }

// single evaluates an operation that stands alone.
func (t *txn) single(r *Result) {
	t.body.Reset(t.p.Body)
	t.out = OpResult{}
	r.Code = operations[t.p.Op](t, t.p.Op, &t.body, &t.out)
	if r.Code == jute.OK {
		r.Path, r.Stat = t.out.Path, t.out.Stat
	}
}

// operations has what evaluates an operation that stands alone or is part of a multi, by opcode. It decodes its
// record from d, and changes nothing unless it returns OK.
var operations = [...]func(t *txn, op jute.Op, d *jute.Decoder, out *OpResult) jute.Code{
	jute.OpCreate:          (*txn).create,
	jute.OpDelete:          (*txn).delete,
	jute.OpSetData:         (*txn).setData,
	jute.OpSetACL:          (*txn).setACL,
	jute.OpCheck:           (*txn).check,
	jute.OpCreate2:         (*txn).create,
	jute.OpCreateContainer: (*txn).create,
	jute.OpDeleteContainer: (*txn).deleteContainer,
	jute.OpCreateTTL:       (*txn).create,
}

// look returns what is known about the znode at path, a view that stays good until the entry's end. After an error of
// the store it returns a change without znode; t.err then ends the entry.
func (t *txn) look(path string) *change {
	if path == "" {
		path = schema.RootPath
	}
	if c, ok := t.changes[path]; ok {
		return c
	}
	return t.newChange(path, t.read(path))
}

// lookChild is look for a path that is about to be made below parent.
func (t *txn) lookChild(parent *change, path string) *change {
	c, ok := t.changes[path]
	if t.names.absent(t, parent, path) && !ok {
		return t.newChange(path, nil)
	}
	if ok {
		return c
	}
	return t.look(path)
}

// read returns the znode at path before the entry, or nil.
func (t *txn) read(path string) *schema.Znode {
	if path[0] != '/' {
		return nil
	}
	if n := t.m.cache.get(path); n != nil {
		return n
	}
	n, err := t.reader.node(t.m.store, path)
	if err != nil && t.err == nil {
		t.err = err
	}
	if n != nil {
		t.m.cache.fill(n, t.m.mu.pos.Index) // nobody else changes it
	}
	return n
}

// newChange returns the change of a path that the entry has not looked at yet, and that base is at.
func (t *txn) newChange(path string, base *schema.Znode) *change {
	if t.slabUsed == len(t.slab) {
		t.slab, t.slabUsed = make([]change, changeSlab), 0
	}
	c := &t.slab[t.slabUsed]
	t.slabUsed++
	c.path, c.base, c.cur = path, base, base
	t.changes[path] = c
	t.order = append(t.order, c)
	return c
}

// touch prepares c for a change: inside a multi its present state goes to the journal.
func (t *txn) touch(c *change) {
	if t.journalling && c.epoch != t.epoch {
		t.journal = append(t.journal, undo{c, *c})
		c.epoch = t.epoch
		c.own = false
	}
}

// modify returns c's znode for changing it.
func (t *txn) modify(c *change) *schema.Znode {
	t.touch(c)
	if !c.own {
		n := *c.cur
		c.cur, c.own = &n, true
	}
	return c.cur
}

// rollback undoes what was done since the journal was begun.
func (t *txn) rollback() {
	for i := len(t.journal) - 1; i >= 0; i-- {
		u := &t.journal[i]
		*u.c = u.prev
	}
}

// data returns the data of c's znode.
func (t *txn) data(c *change) []byte {
	if c.cur.DataLoaded {
		return c.cur.Data
	}
	n, err := t.m.store.withData(c.cur)
	if err != nil {
		if t.err == nil {
			t.err = err
		}
		return nil
	}
	return n.Data
}

// event keeps one change for the watches.
func (t *txn) event(typ jute.EventType, path string, list []jute.ACL) {
	t.events = append(t.events, Event{Type: typ, Path: path, Zxid: t.pos.Zxid, ACL: list})
}

// schemes returns the ACL schemes that have a provider.
func (t *txn) schemes() acl.Schemes {
	s := acl.Digest
	if t.p.Flags&entry.FlagDigestDisabled != 0 {
		s = 0
	}
	if t.p.Flags&entry.FlagSASL != 0 {
		s |= acl.SASL
	}
	if t.p.Flags&entry.FlagX509 != 0 {
		s |= acl.X509
	}
	return s
}

// arena is memory for strings and bytes that live as long as an entry.
type arena struct {
	chunk []byte
}

// arenaChunkBytes is the size of what an arena allocates at once.
const arenaChunkBytes = 64 << 10

// alloc returns n bytes with a capacity of n.
func (a *arena) alloc(n int) []byte {
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, arenaChunkBytes))
	}
	start := len(a.chunk)
	a.chunk = a.chunk[:start+n]
	return a.chunk[start : start+n : start+n]
}

// reset forgets all that was allocated.
func (a *arena) reset() {
	a.chunk = a.chunk[:0]
	if cap(a.chunk) > arenaChunkBytes {
		a.chunk = nil
	}
}
