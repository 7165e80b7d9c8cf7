package batcher

import (
	"errors"
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
		refusal     error             // why nothing is taken any more
		suspension  error             // why nothing is taken for now
		idle        bool              // the loop sleeps and would take a proposal at once
		number      uint64            // of the last batch
		open        *Batch            // the one that fills; nil if none
		full        []*Batch          // those before it, oldest first; bounded by outstanding
		proposed    []*Batch          // taken by the loop and not applied, oldest first, of one term; bounded likewise
		free        []*Batch          // at most maxFreeBatches
		barriers    []Waiter          // not yet taken by the loop; each counts one byte
		outstanding int               // bytes of what is not answered
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
	size := proposalBytes(p)
	if size > ProposalBytesMax {
		return ErrTooLarge
	}
	b.mu.Lock()
	if err := b.reserveLocked(size); err != nil {
		b.mu.Unlock()
		return err
	}
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
	var batch *Batch
	if n := len(b.mu.free); n > 0 {
		batch = b.mu.free[n-1]
		b.mu.free = b.mu.free[:n-1]
	} else {
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

// maxFreeBatches is how many batches wait to be used again: one that fills, one on its way to disk, one that is
// applied, one more.
const maxFreeBatches = 4

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

// Shrink forgets the free batches if nothing was proposed since the last call.
func (b *Batcher) Shrink() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.touched {
		clear(b.mu.free)
		b.mu.free = b.mu.free[:0]
	}
	b.mu.touched = false
}
