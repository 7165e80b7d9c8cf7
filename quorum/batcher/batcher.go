package batcher

import (
	"errors"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage/entry"
)

// ProposalBytesMax is the largest proposal that is taken, its identities counted: an entry holds it alone and travels
// in one frame of package transport, of 64 MiB, with what raft and a reconfig add to it.
const ProposalBytesMax = 62 << 20

// ErrTooLarge means a proposal that no frame between members can carry. Nothing of it has happened.
var ErrTooLarge = errors.New("the write is larger than servers can send each other")

// Options are what a Batcher is handed; all are needed.
type Options struct {
	Origin              uint64 // which process its batches are of
	MaxEntryBytes       int    // the size at which a batch takes no further proposal
	MaxOutstandingBytes int    // how much may be unanswered before Add blocks
	Clock               clock.Clock
	Wake                func() // wakes the loop; called under the lock too, so it must not block, nor call the Batcher
}

// Batcher collects proposals into batches and remembers the batches that are not answered.
//
// The proposers fill one batch while earlier ones are on their way; the loop takes what there is when raft can have it.
// What is outstanding is bounded: a proposer that meets the bound waits in a queue.
type Batcher struct {
	options Options // immutable

	mu struct {
		sync.Mutex
		refusal     error    // why nothing is taken any more
		suspension  error    // why nothing is taken for now
		idle        bool     // the loop sleeps and would take a proposal at once
		number      uint64   // of the last batch
		open        *Batch   // the one that fills; nil if none
		full        []*Batch // those before it, oldest first; bounded by outstanding
		proposed    []*Batch // taken by the loop and not applied, oldest first, of one term; bounded likewise
		free        freeBatches
		barriers    []Waiter          // not yet taken by the loop; each counts one byte
		outstanding int               // bytes of what is not answered
		reconfigs   int               // batches with one that are not answered
		queue       []*queuedProposer // proposers that wait for room, first come first; one per blocked goroutine
		drained     chan struct{}     // closed when refusal is set and outstanding is 0
		proposals   uint64            // taken since the start
		touched     bool              // something was proposed since the last idle check
	}
}

// New returns an empty batcher.
func New(o Options) *Batcher {
	b := &Batcher{options: o}
	b.mu.drained = make(chan struct{})
	return b
}

// Origin is what all its batches bear: it marks the entries of this process.
func (b *Batcher) Origin() uint64 { return b.options.Origin }

// Status is what a Batcher holds at a moment.
type Status struct {
	Proposals        uint64 // taken since the start
	OutstandingBytes int    // of what is taken and not answered
	Queued           int    // proposers that wait for room
	Barriers         int    // that the loop has not taken
}

// Status returns what the batcher holds now.
func (b *Batcher) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{
		Proposals: b.mu.proposals, OutstandingBytes: b.mu.outstanding,
		Queued: len(b.mu.queue), Barriers: len(b.mu.barriers),
	}
}

// proposalOverheadBytes is about what a proposal without body and identities adds to an entry.
const proposalOverheadBytes = 48

// proposalBytes is about how much p adds to an entry, never 0.
func proposalBytes(p *entry.Proposal) int {
	n := proposalOverheadBytes + len(p.Body)
	if p.Reference != 0 {
		return n
	}
	for i := range p.Identities {
		n += 8 + len(p.Identities[i].Scheme) + len(p.Identities[i].ID)
	}
	return n
}

// Add encodes p into the open batch, or, if it must be alone in its entry, into one of its own. It blocks while too
// much is outstanding.
func (b *Batcher) Add(p *entry.Proposal, w Waiter) error {
	_, err := b.AddIf(p, w, nil)
	return err
}

// AddIf adds p if still, asked when there is room, says so, and no reconfig is unanswered: behind one the leader's own
// proposals may wait for seconds, and those of others go ahead. It tells whether it has. still must not block, nor call
// the Batcher; nil is Add.
func (b *Batcher) AddIf(p *entry.Proposal, w Waiter, still func() bool) (added bool, err error) {
	size := proposalBytes(p)
	if size > ProposalBytesMax {
		return false, ErrTooLarge
	}
	b.mu.Lock()
	if err := b.reserveLocked(size); err != nil {
		b.mu.Unlock()
		return false, err
	}
	if still != nil && (b.mu.reconfigs > 0 || !still()) {
		b.freeLocked(size)
		b.mu.Unlock()
		return false, nil
	}
	err = b.addAndUnlock(p, w, size)
	return err == nil, err
}

// addAndUnlock adds p, which has its room.
func (b *Batcher) addAndUnlock(p *entry.Proposal, w Waiter, size int) error {
	if size >= b.options.MaxEntryBytes {
		return b.addLargeAndUnlock(p, w, size)
	}
	alone := p.Op == entry.OpLoadCommit
	batch := b.mu.open
	if batch != nil && (alone || len(batch.Data)+size > b.options.MaxEntryBytes) {
		b.sealLocked()
		batch = nil
	}
	if batch == nil {
		batch = b.openLocked()
	}
	if alone {
		b.sealLocked()
	}
	b.fillLocked(batch, p, w, size)
	return nil
}

// addLargeAndUnlock encodes p, which has its room and is larger than what an entry has of small ones, into a batch of
// its own. The lock is released while it is copied.
func (b *Batcher) addLargeAndUnlock(p *entry.Proposal, w Waiter, size int) error {
	b.mu.Unlock()
	data := entry.AppendEntryHeader(make([]byte, 0, size+batchBufferBytes), b.options.Origin, 0)
	data = entry.AppendProposal(data, p)
	b.mu.Lock()
	if err := b.refusalLocked(); err != nil {
		b.freeLocked(size)
		b.mu.Unlock()
		return err
	}
	b.sealLocked()
	batch := b.openLocked()
	b.sealLocked()
	level := data[0]
	entry.AppendEntryHeader(data[:0], b.options.Origin, batch.Number)
	data[0] = level
	batch.Data = data
	batch.waiters = append(batch.waiters, w)
	batch.bytes += size
	b.mu.proposals++
	b.wakeAndUnlock(false)
	return nil
}

// AddChange encodes p into a batch of its own, which is to become a change of membership: cc, or if that is nil what
// the leader makes of p. It blocks while too much is outstanding.
func (b *Batcher) AddChange(cc *raftpb.ConfChangeV2, p *entry.Proposal, w Waiter) error {
	size := proposalBytes(p)
	if size > ProposalBytesMax {
		return ErrTooLarge
	}
	b.mu.Lock()
	if err := b.reserveLocked(size); err != nil {
		b.mu.Unlock()
		return err
	}
	b.sealLocked()
	batch := b.openLocked()
	batch.Change, batch.Reconf = cc, cc == nil
	if batch.Reconf {
		b.mu.reconfigs++
	}
	b.sealLocked()
	b.fillLocked(batch, p, w, size)
	return nil
}

// AddBarrier takes a barrier for the loop.
func (b *Batcher) AddBarrier(w Waiter) error {
	b.mu.Lock()
	if err := b.refusalLocked(); err != nil {
		b.mu.Unlock()
		return err
	}
	b.mu.outstanding++
	b.mu.barriers = append(b.mu.barriers, w)
	b.wakeAndUnlock(len(b.mu.barriers) == 1) // the loop takes all at once
	return nil
}

// openLocked begins a batch.
func (b *Batcher) openLocked() *Batch {
	batch := b.mu.free.take()
	if batch == nil {
		batch = &Batch{Data: make([]byte, 0, batchBufferBytes)}
	}
	b.mu.number++
	batch.Number = b.mu.number
	batch.Began = b.options.Clock.Now()
	batch.Data = entry.AppendEntryHeader(batch.Data, b.options.Origin, batch.Number)
	b.mu.open = batch
	b.mu.touched = true
	return batch
}

// batchBufferBytes is the size of a new batch's buffer: sixteen writes of 1 KiB. Buffers grow, and are used again.
const batchBufferBytes = 16 << 10

// sealLocked puts the open batch, if there is one, to those that take no more.
func (b *Batcher) sealLocked() {
	if b.mu.open != nil {
		b.mu.full = append(b.mu.full, b.mu.open)
		b.mu.open = nil
	}
}

// fillLocked encodes p into batch and releases the lock.
func (b *Batcher) fillLocked(batch *Batch, p *entry.Proposal, w Waiter, size int) {
	b.mu.free.grow(batch, size)
	batch.Data = entry.AppendProposal(batch.Data, p)
	batch.waiters = append(batch.waiters, w)
	batch.bytes += size
	b.mu.proposals++
	b.wakeAndUnlock(false)
}

// wakeAndUnlock releases the lock and wakes the loop if it waits for a proposal, or must.
func (b *Batcher) wakeAndUnlock(must bool) {
	wake := b.mu.idle || must
	b.mu.idle = false
	b.mu.Unlock()
	if wake {
		b.options.Wake()
	}
}

// Take moves what was added to the batches that wait to be applied, as proposed in term, and appends it to dst: all
// of it, or with a window only as many batches as make window of them wait. If there is nothing, the next proposal will
// wake the loop.
//
// As long as a batch of another term waits nothing is taken: it may come to be applied, or else must be proposed again
// before what was added after it. Who finds out wakes the loop.
func (b *Batcher) Take(term uint64, window int, dst []*Batch) []*Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.proposed) > 0 && b.mu.proposed[0].Term != term {
		return dst
	}
	if window > 0 && len(b.mu.proposed) >= window {
		return dst
	}
	before := len(dst)
	b.sealLocked()
	n := len(b.mu.full)
	if window > 0 {
		n = min(n, window-len(b.mu.proposed))
	}
	dst = append(dst, b.mu.full[:n]...)
	b.mu.full = slices.Delete(b.mu.full, 0, n)
	b.mu.idle = len(dst) == before
	for _, batch := range dst[before:] {
		batch.Term, batch.Prev, batch.Window = term, 0, window > 0
		b.mu.proposed = append(b.mu.proposed, batch)
	}
	return dst
}

// AddedBytes returns the bytes that take would take.
func (b *Batcher) AddedBytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, batch := range b.mu.full {
		n += len(batch.Data)
	}
	if b.mu.open != nil {
		n += len(b.mu.open.Data)
	}
	return n
}

// TakeBarriers appends the barriers that wait for the loop to dst.
func (b *Batcher) TakeBarriers(dst []Waiter) []Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, b.mu.barriers...)
	clear(b.mu.barriers)
	b.mu.barriers = b.mu.barriers[:0]
	return dst
}

// PutBack takes batches back that were just taken and not proposed: they come first when Take is called again.
func (b *Batcher) PutBack(batches []*Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.proposed = slices.DeleteFunc(b.mu.proposed, func(batch *Batch) bool { return slices.Contains(batches, batch) })
	b.mu.full = slices.Insert(b.mu.full, 0, batches...)
	b.mu.idle = false
}

// Reject answers a batch that can never be proposed.
func (b *Batcher) Reject(batch *Batch, err error) {
	b.retract(batch)
	batch.Drop(err)
	b.Release(batch)
}

// retract takes batch, which cannot be proposed at all, out of the proposed batches.
func (b *Batcher) retract(batch *Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.mu.proposed, batch); i >= 0 {
		b.mu.proposed = slices.Delete(b.mu.proposed, i, i+1)
	}
}

// EachProposed calls do for each batch that was taken in term and is not applied, oldest first. Nobody changes, applies
// or forgets it meanwhile: do must not call the batcher.
func (b *Batcher) EachProposed(term uint64, do func(batch *Batch)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, batch := range b.mu.proposed {
		if batch.Term == term {
			do(batch)
		}
	}
}

// InFlightBytes is how long the batches together are that were taken and are not applied.
func (b *Batcher) InFlightBytes() (bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, batch := range b.mu.proposed {
		bytes += len(batch.Data)
	}
	return bytes
}

// Oldest is the number of the oldest proposed batch, 0 if none is.
func (b *Batcher) Oldest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.proposed) == 0 {
		return 0
	}
	return b.mu.proposed[0].Number
}

// Claim returns the proposed batch with this number, or nil, if an entry of term that holds it is to be applied. An
// entry of a term is never applied after one of a later term: what was proposed in earlier ones and is not applied yet
// never will be, and is to be taken again. lost are batches that were passed over within the term, which the loop and
// the leader do not let happen.
func (b *Batcher) Claim(number, term uint64) (found *Batch, lost []*Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.mu.proposed) && b.mu.proposed[n].Term < term && b.mu.proposed[n].Number != number {
		n++
	}
	if n > 0 {
		b.mu.full = slices.Insert(b.mu.full, 0, b.mu.proposed[:n]...)
		b.mu.proposed = slices.Delete(b.mu.proposed, 0, n)
		b.options.Wake()
	}
	n = slices.IndexFunc(b.mu.proposed, func(batch *Batch) bool { return batch.Number >= number })
	if number == 0 || n < 0 || b.mu.proposed[n].Number != number {
		return nil, nil
	}
	found, lost = b.mu.proposed[n], slices.Clone(b.mu.proposed[:n])
	b.mu.proposed = slices.Delete(b.mu.proposed, 0, n+1)
	return found, lost
}

// Abandon takes away all batches that are not answered, and the barriers that the loop has not taken.
func (b *Batcher) Abandon() ([]*Batch, []Waiter) {
	barriers := b.TakeBarriers(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealLocked()
	batches := append(b.mu.proposed, b.mu.full...)
	b.mu.proposed, b.mu.full = nil, nil
	b.mu.idle = true
	return batches, barriers
}

// Shrink forgets the free batches if nothing was proposed since the last call.
func (b *Batcher) Shrink() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.touched {
		b.mu.free = freeBatches{}
	}
	b.mu.touched = false
}
