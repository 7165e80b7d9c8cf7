package apply

import (
	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Txn evaluates one entry against the state without changing it. Begin, Evaluate, Prepare, and then whoever applies
// entries publishes the Changes; End. One Txn is used again for each entry: what is found in it between two entries is
// memory to reuse. It is for one goroutine.
type Txn struct {
	Changes
	base        *Base
	tree        overlay
	quotas      quotas
	access      access
	writer      writer
	replacement Replacement
	evaluating  func(proposal int)
	endMax      int     // Options.EndZnodes
	points      []point // the last ones, oldest first

	version entry.Level // of the entry
	p       entry.Proposal
	bytes   int  // of the proposal that is evaluated, in the log
	alone   bool // the proposal is the only one of its entry

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

// Options are what a Txn stands on. All servers must have the same CountZnodes.
type Options struct {
	Base        *Base
	Store       Store
	Replacement Replacement
	// CountZnodes is how many znodes an entry counts at the most: of the count that was begun first, and as many again
	// for the quotas that it makes itself. 0: 1,024.
	CountZnodes int64
	// EndZnodes is how many ephemerals a closeSession in pieces deletes; all servers must have the same. 0:
	// EndZnodesMax.
	EndZnodes int
	// Evaluating is told which proposal of an entry is evaluated next, the first being 0; nil: nobody is.
	Evaluating func(proposal int)
}

// New returns a Txn for the state that o shows.
func New(o Options) *Txn {
	if o.CountZnodes == 0 {
		o.CountZnodes = CountZnodesMax
	}
	if o.EndZnodes == 0 {
		o.EndZnodes = EndZnodesMax
	}
	t := &Txn{base: o.Base, replacement: o.Replacement, evaluating: o.Evaluating, endMax: o.EndZnodes}
	t.sessions.made = make(map[jute.SessionID]*schema.SessionInfo)
	t.tree.init(o.Store, &t.Changes)
	t.quotas = quotas{base: o.Base, changes: &t.Changes, tree: &t.tree, countMax: o.CountZnodes}
	t.access.p = &t.p
	t.writer.base, t.writer.changes = o.Base, &t.Changes
	return t
}

// Begin starts the entry at index of the log.
func (t *Txn) Begin(index, term uint64) {
	t.begin(t.base, index, term)
	t.quotas.begin()
	t.tree.err = nil
}

// Evaluate evaluates all proposals of an entry in order. It fails on an entry that this version cannot read and on an
// error of the store, never because of what a request asks.
func (t *Txn) Evaluate(data []byte) error {
	reader, err := entry.NewReader(data)
	if err != nil {
		return err
	}
	t.Origin, t.BatchNo, t.version = reader.Origin, reader.Batch, reader.Version
	if t.quotas.countNext(); t.tree.err != nil {
		return t.tree.err
	}
	for before := len(reader.Rest); reader.Next(&t.p); before = len(reader.Rest) {
		t.bytes = before - len(reader.Rest)
		t.alone = len(t.Results) == 0 && len(reader.Rest) == 0
		if err := t.checkLevel(); err != nil {
			return err
		}
		if t.evaluating != nil {
			t.evaluating(len(t.Results))
		}
		t.evaluate()
		if t.tree.err != nil {
			return t.tree.err
		}
	}
	return reader.Err()
}

// Prepare writes what the entry changes to batch. The Changes are whole then, and all that is to be kept of them has
// memory of its own. Nothing is visible yet.
func (t *Txn) Prepare(batch Batch) error {
	if err := t.writer.write(batch); err != nil {
		return err
	}
	t.settle()
	return nil
}

// End forgets the entry, so that nothing keeps its bytes alive.
func (t *Txn) End() {
	t.tree.end()
	t.quotas.end()
	t.access.end()
	t.end()
}

// evaluate evaluates the proposal t.p and keeps its result.
func (t *Txn) evaluate() {
	p := &t.p
	t.access.begin()
	if takesZxid(p.Op) {
		t.Position.Zxid++
	}
	r := t.addResult()
	r.Op, r.Session, r.Xid, r.Zxid, r.Bytes = p.Op, p.Session, p.Xid, t.Position.Zxid, t.bytes
	r.First = len(t.Results) == 1
	s := span{events: len(t.events), ops: len(t.ops)}
	if p.Reference == 0 || t.resolve() {
		proposalHandler(p.Op)(t, r)
	} else {
		r.Code = jute.SessionMoved
	}
	s.eventsEnd, s.opsEnd = len(t.events), len(t.ops)
	t.spans = append(t.spans, s)
}

// takesZxid tells whether a proposal takes a zxid, whatever comes of it.
func takesZxid(op jute.Op) bool {
	switch op {
	case entry.OpReattachSession, entry.OpFoundEnsemble, entry.OpLoadBegin, entry.OpLoadChunk,
		entry.OpLoadCommit, entry.OpLoadAbort,
		entry.OpRaiseLevel, entry.OpCompareState, entry.OpCountQuota, entry.OpSetIdentities:
		return false
	}
	return true
}

// handlers has what evaluates a proposal, by opcode; lowestOp is the first one's.
var handlers = [...]func(*Txn, *Result){
	entry.OpSetIdentities - lowestOp:   (*Txn).setIdentities,
	entry.OpCountQuota - lowestOp:      func(*Txn, *Result) {},
	entry.OpCompareState - lowestOp:    (*Txn).compareState,
	entry.OpRaiseLevel - lowestOp:      (*Txn).raiseLevel,
	entry.OpLoadAbort - lowestOp:       (*Txn).loadAbort,
	entry.OpLoadCommit - lowestOp:      (*Txn).loadCommit,
	entry.OpLoadChunk - lowestOp:       (*Txn).loadChunk,
	entry.OpLoadBegin - lowestOp:       (*Txn).loadBegin,
	entry.OpFoundEnsemble - lowestOp:   (*Txn).foundEnsemble,
	entry.OpReattachSession - lowestOp: (*Txn).reattachSession,
	jute.OpCloseSession - lowestOp:     (*Txn).closeSession,
	jute.OpCreateSession - lowestOp:    (*Txn).createSession,
	jute.OpError - lowestOp:            (*Txn).answerError,
	jute.OpCreate - lowestOp:           (*Txn).single,
	jute.OpDelete - lowestOp:           (*Txn).single,
	jute.OpSetData - lowestOp:          (*Txn).single,
	jute.OpSetACL - lowestOp:           (*Txn).single,
	jute.OpMulti - lowestOp:            (*Txn).multi,
	jute.OpCreate2 - lowestOp:          (*Txn).single,
	jute.OpCreateContainer - lowestOp:  (*Txn).single,
	jute.OpDeleteContainer - lowestOp:  (*Txn).single,
	jute.OpReconfig - lowestOp:         (*Txn).reconfig,
	jute.OpCreateTTL - lowestOp:        (*Txn).single,
}

// lowestOp is the lowest opcode of a proposal.
const lowestOp = entry.OpSetIdentities

// proposalHandler returns what evaluates op, or nil.
func proposalHandler(op jute.Op) func(*Txn, *Result) {
	at := int64(op) - int64(lowestOp) // of 64 bits: an opcode may be any number of 32
	if at < 0 || at >= int64(len(handlers)) {
		return nil
	}
	return handlers[at]
}

// answerError answers what the proposer has decided; the write has only taken a zxid.
func (t *Txn) answerError(r *Result) { r.Code = t.p.Code }

// single evaluates an operation that stands alone.
func (t *Txn) single(r *Result) {
	t.body.Reset(t.p.Body)
	t.out = OpResult{}
	r.Code = operations[t.p.Op](t, t.p.Op, &t.body, &t.out)
	if r.Code == jute.OK {
		r.Path, r.Stat = t.out.Path, t.out.Stat
	}
}

// operations has what evaluates an operation that stands alone or is part of a multi, by opcode. It decodes its
// record from d, and changes nothing unless it returns OK.
var operations = [...]func(t *Txn, op jute.Op, d *jute.Decoder, out *OpResult) jute.Code{
	jute.OpCreate:          (*Txn).create,
	jute.OpDelete:          (*Txn).delete,
	jute.OpSetData:         (*Txn).setData,
	jute.OpSetACL:          (*Txn).setACL,
	jute.OpCheck:           (*Txn).check,
	jute.OpCreate2:         (*Txn).create,
	jute.OpCreateContainer: (*Txn).create,
	jute.OpDeleteContainer: (*Txn).deleteContainer,
	jute.OpCreateTTL:       (*Txn).create,
}

// checkQuota fails with QuotaExceeded if a hard quota refuses that the tree grows at path, and the proposer holds its
// clients to quotas.
func (t *Txn) checkQuota(path string, bytes, count int64) jute.Code {
	if t.p.Flags&entry.FlagEnforceQuota == 0 {
		return jute.OK
	}
	return t.quotas.check(path, bytes, count)
}

// event keeps one change for the watches.
func (t *Txn) event(typ jute.EventType, path string, list []jute.ACL) {
	t.events = append(t.events, Event{Type: typ, Path: path, Zxid: t.Position.Zxid, ACL: list})
}
