package quorum

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage"
)

// Waiter is told what became of one proposal or barrier: exactly one of its methods is called, exactly once.
type Waiter interface {
	// Applied is called on the apply goroutine, before any reader can see the write. r and all it points to are valid
	// only during the call, which must not block nor open a View.
	Applied(r *storage.Result)
	// Dropped says that nothing will be known: the node stops, has failed, or leadership was lost. The write may have
	// happened or not. It may be called on any goroutine, before Barrier has returned too, and must not block.
	Dropped(err error)
}

// Observer sees every result of every applied entry, whoever proposed it, in the order of the log.
type Observer interface {
	// Committed is called on the apply goroutine, before the waiter's Applied and before any reader can see the write;
	// during Start too, for what is replayed. r is valid only during the call, which must not block nor open a View.
	Committed(r *storage.Result)
}

// Machine is the state machine that the log drives; *storage.Machine is one. Apply is called by one goroutine, the rest
// by any.
type Machine interface {
	// Apply evaluates one entry and hands its results to sink before anything of it is visible. It only reads data, and
	// keeps none of it. An error is final.
	Apply(index, term uint64, data []byte, sink storage.Sink) error
	// AppliedIndex is the index of the last entry applied.
	AppliedIndex() uint64
	// DurableIndex is the index up to which no crash can take back what was applied.
	DurableIndex() uint64
	// LastZxid is the zxid of the last write applied.
	LastZxid() jute.Zxid
	// Flush makes durable what is applied at the call.
	Flush(ctx context.Context) error
}

var _ Machine = (*storage.Machine)(nil)

// Transport carries raft's messages to the other members. A group of one has none.
type Transport interface {
	// Send takes over messages, none of which is to this member. It must not block: what cannot be sent is dropped. The
	// messages and the bytes that they point to are only read.
	Send(messages []*raftpb.Message)
}

// Options says what a Node consists of. ID, Log, Machine, Clock and Rand are needed; the rest has defaults.
type Options struct {
	ID      uint64           // this member, not 0
	Log     *storage.RaftLog // open; the node is its only user until Stop has returned, and does not close it
	Machine Machine          // open; only the node applies to it, and does not close it
	Clock   clock.Clock
	Rand    *rand.Rand // draws the random number that marks this process's entries; used by Start only
	Logger  *slog.Logger
	// Observer may be nil.
	Observer Observer
	// OnFatal is told once why the node has stopped by itself, on the goroutine that met the failure. It must not
	// block.
	OnFatal func(error)

	// MaxEntryBytes is the size at which a raft entry takes no further proposal; one that is larger alone is an entry
	// by itself.
	MaxEntryBytes int
	// MaxOutstandingBytes is how much may be proposed and not answered before Propose blocks.
	MaxOutstandingBytes int
	// TickInterval is raft's tick; ElectionTicks of them without a leader begin an election.
	TickInterval  time.Duration
	ElectionTicks int
	// TailEntries and TailBytes bound what the log keeps of entries that are no longer needed here, for members that
	// come back after a small absence.
	TailEntries uint64
	TailBytes   int64
	// FlushInterval bounds in time how old an applied write can be that a crash leaves to replay.
	FlushInterval time.Duration
}

// Defaults of Options. They are guesses but for defaultTailBytes: with a quarter of the log's memtable most entries are
// forgotten before the log would write them a second time.
const (
	defaultMaxEntryBytes       = 1 << 20
	defaultMaxOutstandingBytes = 32 << 20
	defaultTickInterval        = 100 * time.Millisecond
	defaultElectionTicks       = 10
	defaultTailEntries         = 10_000
	defaultTailBytes           = 2 << 20
	defaultFlushInterval       = 30 * time.Second
)

// Limits inside the node.
const (
	// maxApplyingBytes is how much raft hands to the apply goroutine before it waits for it; raft's
	// MaxCommittedSizePerReady.
	maxApplyingBytes = 8 << 20
	// maxMessageBytes and maxInflightMessages bound what a member sends to another one that has not answered.
	maxMessageBytes     = 1 << 20
	maxInflightMessages = 256
)

// check fills in defaults and tells what is missing.
func (o *Options) check() error {
	if o.ID == 0 || o.Log == nil || o.Machine == nil || o.Clock == nil || o.Rand == nil {
		return errors.New("quorum options: ID, Log, Machine, Clock and Rand must be given")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.MaxEntryBytes, defaultMaxEntryBytes)
	setDefault(&o.MaxOutstandingBytes, defaultMaxOutstandingBytes)
	setDefault(&o.TickInterval, defaultTickInterval)
	setDefault(&o.ElectionTicks, defaultElectionTicks)
	setDefault(&o.TailEntries, defaultTailEntries)
	setDefault(&o.TailBytes, defaultTailBytes)
	setDefault(&o.FlushInterval, defaultFlushInterval)
	return nil
}

// setDefault gives v the value def if it has none.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// The errors that proposers and waiters meet.
var (
	// ErrStopped means that the node takes no more, or has stopped before the answer was known.
	ErrStopped = errors.New("node is stopped")
	// ErrLeadershipLost means that another leader took over before the entry was known to be committed.
	ErrLeadershipLost = errors.New("leadership was lost before the write was committed")
)
