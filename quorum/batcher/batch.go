package batcher

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/apply"
)

// Waiter is told what became of one proposal or barrier: exactly one of its methods is called, exactly once.
type Waiter interface {
	// Applied is called on the apply goroutine, before any reader can see the write. r and all it points to are valid
	// only during the call, which must not block nor open a View.
	Applied(r *apply.Result)
	// Dropped says that nothing will be known: the node stops, has failed, or leadership was lost. The write may have
	// happened or not. It may be called on any goroutine, before Barrier has returned too, and must not block.
	Dropped(err error)
}

// Batch is what becomes one raft entry: the encoded proposals and, in the same order, who waits for them.
//
// It is filled under the batcher's lock, then owned by the loop until raft has the entry, then by the apply goroutine.
type Batch struct {
	Number uint64
	Term   uint64               // in which it was proposed or forwarded
	Prev   uint64               // the batch before it in the stream to the leader; 0 at the beginning
	Change *raftpb.ConfChangeV2 // comes into force if its one proposal succeeds; nil in all but such a batch
	Reconf bool                 // its one proposal is a reconfig, of which the leader makes a change
	Window bool                 // the loop waits for it to be applied, to forward another one
	Data   []byte               // the entry; raft copies it, so the buffer is used again
	Kept   bool                 // the transport has kept Data, which must not change then
	Began  time.Time            // when its first proposal was added

	bytes   int // what its proposals count for in Status.OutstandingBytes
	waiters []Waiter
}

// TakeWaiter returns who waits for proposal n, for the caller to tell; nil: nobody does any more.
func (b *Batch) TakeWaiter(n int) Waiter {
	w := b.waiters[n]
	b.waiters[n] = nil
	return w
}

// Unanswered returns the first proposal that somebody waits for; ok is false if there is none.
func (b *Batch) Unanswered() (n int, ok bool) {
	for n, w := range b.waiters {
		if w != nil {
			return n, true
		}
	}
	return 0, false
}

// Drop tells the waiters that are left that nothing will be known.
func (b *Batch) Drop(err error) {
	for n := range b.waiters {
		if w := b.TakeWaiter(n); w != nil {
			w.Dropped(err)
		}
	}
}
