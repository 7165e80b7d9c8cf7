package quorum

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/quorum/member"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/invariants"
	"zkd/storage/raftlog"
	"zkd/storage/state"
)

// applyWork is one thing for the apply goroutine: committed entries, or a snapshot that replaces the state, or barriers
// that are through when index is applied.
type applyWork struct {
	message  *raftpb.Message // MsgStorageApply, or nil
	install  *install        // or nil
	barriers []batcher.Waiter
	index    uint64
	at       time.Time // of a message: when its entries were known to be committed
}

// applyNews is what the apply goroutine tells the loop: a change of membership has come into force, or responses can be
// delivered. A change comes before the responses of its entry.
type applyNews struct {
	change    *membershipChange
	point     *entry.CompareTxn // the sums of this member's state at a checksum point
	responses []*raftpb.Message
}

// membershipChange is a change that has come into force: raft is to do as much.
type membershipChange struct {
	change *raftpb.ConfChangeV2
	after  member.Membership
}

// quietApplyBytes is how much may be applied before the loop is woken to hear of it. It must be well below
// maxApplyingBytes, at which raft hands out no more; with less, the loop hears of it when it wakes for another reason,
// at the latest at the next tick.
const quietApplyBytes = maxApplyingBytes / 8

// applier applies committed entries in order and tells those who wait. It is the apply goroutine's alone but for the
// mailbox and the counters.
type applier struct {
	machine  Machine
	observer Observer // may be nil
	batcher  *batcher.Batcher
	log      *raftlog.Log
	clock    clock.Clock
	work     *mailbox[applyWork] // from the loop

	uncached []raftlog.LogEntry // read and not applied yet
	reading  atomic.Bool        // it waits for the log's disk
	reads    atomic.Uint64      // how often that has answered

	done      func(news applyNews, wake bool) // tells the loop
	failing   func() bool                     // the node has failed
	installed func(*install)                  // tells the append goroutine
	replacing func()                          // Options.OnReplacing, or nil
	replaced  func()                          // Options.OnReplaced, or nil

	member    member.Membership
	committed time.Time         // of the message that is applied
	change    *membershipChange // in the entry that is applied, until its proposal has come out well
	failure   error             // of bringing it into force
	batch     *batcher.Batch    // the one that is applied, if it is ours
	waiting   []applyWork       // barriers whose index is not applied yet, in its order; bounded by the batcher
	wake      bool              // the loop waits for something in the message that is applied
	quiet     int               // bytes applied since the loop was woken
	result    apply.Result
	index     uint64         // of the entry that is applied
	began     time.Time      // when it began to be
	results   int            // that it has
	share     time.Duration  // what each of them has taken to be applied
	settled   *atomic.Uint64 // progress.reconfigured
	now       underApply     // that entry, for others to see
	newest    atomic.Int64   // milliseconds: the time of the last entry applied that bears one; 0: not known
	commits   latency        // from the first proposal of a batch until it is applied
}

var (
	_ state.ReplaceObserver = (*applier)(nil)
	_ state.Decider         = (*applier)(nil)
)

// apply does all works in order. An error is final.
func (a *applier) apply(works []applyWork) error {
	for i := range works {
		if a.failing() {
			return nil
		}
		w := &works[i]
		if err := a.applyWork(w); err != nil {
			return err
		}
		a.passBarriers()
	}
	return nil
}

// applyWork does one work.
func (a *applier) applyWork(w *applyWork) error {
	switch {
	case w.message != nil:
		a.committed = w.at
		return a.applyMessage(w.message)
	case w.install != nil:
		return a.replaceState(w.install)
	default:
		a.waiting = append(a.waiting, *w)
		w.barriers = nil
		return nil
	}
}

// applyMessage applies the entries of one message and has its responses delivered.
func (a *applier) applyMessage(m *raftpb.Message) error {
	a.wake = false
	for i, e := range m.GetEntries() {
		if a.failing() {
			return nil
		}
		if withoutData(e) {
			var err error
			if e, err = a.readData(m.GetEntries()[i:]); err != nil {
				return err
			}
		}
		a.wake = a.wake || e.GetType() != raftpb.EntryNormal // raft may wait for it, to campaign
		if err := a.applyEntry(e); err != nil {
			return err
		}
		a.quiet += len(e.GetData())
		if len(a.waiting) > 0 {
			a.passBarriers()
		}
	}
	a.wake = a.wake || a.machine.CountingQuotas() > 0 // a leader may have to let the count go on
	if a.wake = a.wake || a.quiet >= quietApplyBytes; a.wake {
		a.quiet = 0
	}
	a.done(applyNews{responses: m.GetResponses()}, a.wake)
	return nil
}

// readData returns the first of some entries without data that follow one another, with its data: a piece of them is
// read at a time.
func (a *applier) readData(heads []*raftpb.Entry) (*raftpb.Entry, error) {
	a.wake = true // raft waits for the answer
	first := heads[0]
	if len(a.uncached) == 0 {
		a.reading.Store(true)
		uncached, err := a.log.Entries(nil, first.GetIndex(), first.GetIndex()+uint64(len(heads)), chunkBytes)
		a.reading.Store(false)
		a.reads.Add(1)
		if err != nil {
			return nil, fmt.Errorf("read entry %d of the raft log to apply it: %w", first.GetIndex(), err)
		}
		a.uncached = uncached
	}
	e := &a.uncached[0]
	if e.Index != first.GetIndex() || e.Term != first.GetTerm() {
		invariants.Violated("a committed entry is another one", slog.Uint64("index", e.Index),
			slog.Uint64("term", e.Term), slog.Uint64("want", first.GetIndex()),
			slog.Uint64("want_term", first.GetTerm()))
	}
	a.uncached = a.uncached[1:]
	return raftEntry(e), nil
}

// applyEntry applies one entry.
func (a *applier) applyEntry(e *raftpb.Entry) error {
	index, term, data := e.GetIndex(), e.GetTerm(), e.GetData()
	if e.GetType() != raftpb.EntryNormal {
		var err error
		if data, err = a.beginChange(e); err != nil {
			return fmt.Errorf("change of membership in entry %d: %w", index, err)
		}
	}
	if at, ok := entry.Time(data); ok {
		a.newest.Store(int64(at)) // before it is applied, and can be forgotten
	}
	a.index = index
	a.began = a.clock.Now()
	a.now.begin(index, a.began, data)
	defer a.now.end()
	number := a.ownBatch(data)
	found, lost := a.batcher.Claim(number, term)
	for _, b := range lost {
		a.drop(b, ErrLeadershipLost)
	}
	a.batch = found
	err := a.machine.Apply(index, term, data, a)
	if err == nil {
		err = a.failure
	}
	a.batch, a.change = nil, nil
	if err != nil {
		if found != nil {
			a.drop(found, err)
		}
		return err
	}
	if found != nil {
		a.wake = a.wake || found.Window
		a.answered(found, index)
	}
	return nil
}

// ownBatch returns the number of the batch that an entry holds, or 0 if it is not of this process. An entry that cannot
// be read is left to the machine to refuse.
func (a *applier) ownBatch(data []byte) uint64 {
	if len(data) == 0 {
		return 0
	}
	reader, err := entry.NewReader(data)
	if err != nil || reader.Origin != a.batcher.Origin() {
		return 0
	}
	return reader.Batch
}

// Decided notes how many results there are, and makes a change of membership durable whose proposal has come out well.
// The machine calls it during Apply.
func (a *applier) Decided(results []apply.Result) error {
	a.results = len(results)
	for i := range results {
		if a.change != nil && results[i].Code == jute.OK {
			a.endChange()
		}
	}
	return a.failure
}

// Result tells the observer and the waiter of one proposal. The machine calls it during Apply.
func (a *applier) Result(origin, _ uint64, n int, r *apply.Result) {
	if r.First {
		a.share = a.clock.Since(a.began) / time.Duration(max(a.results, 1))
	}
	if r.Point != nil {
		a.done(applyNews{point: r.Point}, true)
	}
	if r.Op == jute.OpReconfig { // before the client can know, and ask for the next one
		a.settled.Store(a.index)
	}
	if a.observer != nil {
		a.observer.Committed(r)
	}
	if a.batch == nil || origin != a.batcher.Origin() {
		return
	}
	if w := a.batch.TakeWaiter(n); w != nil {
		w.Applied(r)
	}
}

// Replacing says that a load is about to replace the state. For whoever reads it, that is as if a snapshot were
// installed. The machine calls it during Apply.
func (a *applier) Replacing() {
	if a.replacing != nil {
		a.replacing()
	}
}

// Replaced says that it has.
func (a *applier) Replaced() {
	if a.replaced != nil {
		a.replaced()
	}
}

// answered gives an applied batch back.
func (a *applier) answered(b *batcher.Batch, index uint64) {
	if n, ok := b.Unanswered(); ok {
		invariants.Violated("a proposal has no result", slog.Uint64("index", index), slog.Int("n", n))
	}
	a.commits.add(a.clock.Since(b.Began))
	a.batcher.Release(b)
}

// drop answers a batch that will not be applied.
func (a *applier) drop(b *batcher.Batch, err error) {
	b.Drop(err)
	a.batcher.Release(b)
}

// passBarriers lets through those whose index is applied.
func (a *applier) passBarriers() {
	applied := a.machine.AppliedIndex()
	n := 0
	for n < len(a.waiting) && a.waiting[n].index <= applied {
		group := &a.waiting[n]
		for _, w := range group.barriers {
			a.result = apply.Result{Op: jute.OpSync, Zxid: a.machine.LastZxid()}
			w.Applied(&a.result)
		}
		a.batcher.ReleaseBarriers(len(group.barriers))
		n++
	}
	a.waiting = slices.Delete(a.waiting, 0, n)
}

// beginChange reads the change of membership in e and returns the proposal that decides whether it comes into force. A
// change without one, which raft or a leader of itself makes, does so at once. If the membership on disk is newer,
// because the entry is applied again after a crash, nothing is to be done.
func (a *applier) beginChange(e *raftpb.Entry) (data []byte, err error) {
	cc, err := member.DecodeChange(e)
	if err != nil {
		return nil, err
	}
	if e.GetIndex() <= a.member.Index {
		c, err := member.ReadContext(cc.GetContext())
		return c.Proposal, err
	}
	after, data, err := a.member.Changed(e.GetIndex(), cc)
	if err != nil {
		return nil, err
	}
	a.change = &membershipChange{change: cc, after: after}
	if len(data) == 0 {
		a.endChange()
	}
	return data, a.failure
}

// endChange makes the change durable and has the loop bring it into force. It does so before the entry can be durable
// in the state: what is on disk of the membership is never older. For a change that depends on a proposal this is
// inside Machine.Apply, which waits for the fsync and holds no lock meanwhile, so that reads go on: there is no other
// moment between the outcome and its durability.
func (a *applier) endChange() {
	if a.failure = storeMembership(a.log, &a.change.after); a.failure == nil {
		a.member = a.change.after
		a.done(applyNews{change: a.change}, true)
	}
	a.change = nil
}
