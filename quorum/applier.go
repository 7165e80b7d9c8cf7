package quorum

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage"
	"zkd/storage/invariants"
)

// applyWork is one thing for the apply goroutine: committed entries, or barriers that are through when index is
// applied.
type applyWork struct {
	message  *raftpb.Message // MsgStorageApply, or nil
	barriers []Waiter
	index    uint64
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
	gather   *gatherer
	log      *storage.RaftLog
	clock    clock.Clock
	work     *mailbox[applyWork] // from the loop

	done    func(responses []*raftpb.Message, wake bool)                    // tells the loop
	change  func(cc *raftpb.ConfChangeV2) (conf *raftpb.ConfState, ok bool) // has the loop change raft's membership
	failing func() bool                                                     // the node has failed

	member  membership
	batch   *batch      // the one that is applied, if it is ours
	waiting []applyWork // barriers whose index is not applied yet, in order of index; bounded by the gatherer's limit
	quiet   int         // bytes applied since the loop was woken
	result  storage.Result
	commits latency // from the first proposal of a batch until it is applied
}

var _ storage.Sink = (*applier)(nil)

// apply does all works in order. An error is final.
func (a *applier) apply(works []applyWork) error {
	for i := range works {
		if a.failing() {
			return nil
		}
		w := &works[i]
		if w.message == nil {
			a.waiting = append(a.waiting, *w)
			w.barriers = nil
		} else if err := a.applyMessage(w.message); err != nil {
			return err
		}
		a.passBarriers()
	}
	return nil
}

// applyMessage applies the entries of one message and has its responses delivered.
func (a *applier) applyMessage(m *raftpb.Message) error {
	wake := false
	for _, e := range m.GetEntries() {
		if a.failing() {
			return nil
		}
		wake = wake || e.GetType() != raftpb.EntryNormal // raft may wait for it, to campaign
		if err := a.applyEntry(e); err != nil {
			return err
		}
		a.quiet += len(e.GetData())
		if len(a.waiting) > 0 {
			a.passBarriers()
		}
	}
	if wake = wake || a.quiet >= quietApplyBytes; wake {
		a.quiet = 0
	}
	a.done(m.GetResponses(), wake)
	return nil
}

// applyEntry applies one entry.
func (a *applier) applyEntry(e *raftpb.Entry) error {
	index, term, data := e.GetIndex(), e.GetTerm(), e.GetData()
	if e.GetType() != raftpb.EntryNormal {
		if err := a.changeMembership(e); err != nil {
			return fmt.Errorf("change of membership in entry %d: %w", index, err)
		}
		data = nil
	}
	number := a.ownBatch(data)
	found, lost := a.gather.claim(number, term)
	for _, b := range lost {
		a.drop(b, ErrLeadershipLost)
	}
	a.batch = found
	err := a.machine.Apply(index, term, data, a)
	a.batch = nil
	if err != nil {
		if found != nil {
			a.drop(found, err)
		}
		return err
	}
	if found != nil {
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
	reader, err := storage.NewEntryReader(data)
	if err != nil || reader.Origin != a.gather.origin {
		return 0
	}
	return reader.Batch
}

// Result tells the observer and the waiter of one proposal. The machine calls it during Apply.
func (a *applier) Result(origin, _ uint64, n int, r *storage.Result) {
	if a.observer != nil {
		a.observer.Committed(r)
	}
	if a.batch == nil || origin != a.gather.origin {
		return
	}
	if w := a.batch.waiters[n]; w != nil {
		a.batch.waiters[n] = nil
		w.Applied(r)
	}
}

// answered gives an applied batch back.
func (a *applier) answered(b *batch, index uint64) {
	for n, w := range b.waiters {
		if w != nil {
			invariants.Violated("a proposal has no result", slog.Uint64("index", index), slog.Int("n", n))
		}
	}
	a.commits.add(a.clock.Since(b.began))
	a.gather.release(b)
}

// drop answers a batch that will not be applied.
func (a *applier) drop(b *batch, err error) {
	dropBatch(b, err)
	a.gather.release(b)
}

// passBarriers lets through those whose index is applied.
func (a *applier) passBarriers() {
	applied := a.machine.AppliedIndex()
	n := 0
	for n < len(a.waiting) && a.waiting[n].index <= applied {
		group := &a.waiting[n]
		for _, w := range group.barriers {
			a.result = storage.Result{Op: jute.OpSync, Zxid: a.machine.LastZxid()}
			w.Applied(&a.result)
		}
		a.gather.releaseBarriers(len(group.barriers))
		n++
	}
	if n > 0 {
		rest := copy(a.waiting, a.waiting[n:])
		clear(a.waiting[rest:])
		a.waiting = a.waiting[:rest]
	}
}

// changeMembership brings a change of membership into force and makes it durable, before the entry counts as applied:
// what is on disk is never older than what is applied. If it is newer, because the entry is applied again after a
// crash, nothing is to be done.
func (a *applier) changeMembership(e *raftpb.Entry) error {
	if e.GetIndex() <= a.member.index {
		return nil
	}
	cc, err := decodeChange(e)
	if err != nil {
		return err
	}
	conf, ok := a.change(cc)
	if !ok {
		return ErrStopped
	}
	a.member = membership{index: e.GetIndex(), conf: conf}
	return storeMembership(a.log, &a.member)
}

// decodeChange reads the change in an entry of either form.
func decodeChange(e *raftpb.Entry) (*raftpb.ConfChangeV2, error) {
	if e.GetType() == raftpb.EntryConfChange {
		var cc raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		return cc.AsV2(), nil
	}
	var cc raftpb.ConfChangeV2
	if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return &cc, nil
}
