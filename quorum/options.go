package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
	"zkd/storage/state"
)

// Observer sees every result of every applied entry, whoever proposed it, in the order of the log.
type Observer interface {
	// Committed is called on the apply goroutine, before the waiter's Applied and before any reader can see the write;
	// during Start too, for what is replayed. r is valid only during the call, which must not block nor open a View.
	Committed(r *apply.Result)
}

// Machine is the state machine that the log drives; *state.Machine is one. Apply and Install are called by one
// goroutine, the rest by any.
type Machine interface {
	// Apply evaluates one entry and hands its results to sink before anything of it is visible. It only reads data, and
	// keeps none of it. An error is final.
	Apply(index, term uint64, data []byte, sink state.Sink) error
	// AppliedIndex is the index of the last entry applied.
	AppliedIndex() uint64
	// DurableIndex is the index up to which no crash can take back what was applied.
	DurableIndex() uint64
	// LastZxid is the zxid of the last write applied.
	LastZxid() jute.Zxid
	// Flush makes durable what is applied at the call.
	Flush(ctx context.Context) error
	// Checkpoint makes a copy of the state in dir, which must not exist, and tells up to which entry it goes, and that
	// entry's term. A failure leaves the machine as it was.
	Checkpoint(ctx context.Context, dir string) (appliedIndex, term uint64, err error)
	// Verify reads the copy of a state in dir from one end to the other, and tells what it is a copy of; it fails if
	// Install would, or would come to a state that is not what it says. goOn is called now and then, its error ends the
	// reading.
	Verify(dir string, goOn func() error) (state.Verified, error)
	// Install replaces the state by the copy in dir, which it takes away. An error is final.
	Install(dir string) error
	// EnsembleConfig is the text of the group's configuration (package ensemble); empty before it was founded.
	EnsembleConfig() string
	// DiskProgress tells whether operations on the files of the state are under way, and how many have ended: a disk
	// with which the former stays and the latter does not change hangs. It must not wait.
	DiskProgress() (inFlight bool, ended uint64)
	// Applying tells what Apply is at, and with which proposal of its entry. It must not wait.
	Applying() (step state.Step, proposal int)
	// ClusterID is the id that the group got when it was founded; zero before.
	ClusterID() [16]byte
	// Level is the group's feature level.
	Level() entry.Level
	// CountingQuotas is how many quotas are being counted, a piece with each entry.
	CountingQuotas() int
}

// Member is one server of the group as raft sees it.
type Member struct {
	ID      uint64
	Learner bool // an observer: it gets all entries and has no vote
}

// Transport carries frames to the other members. A group of one has none.
type Transport interface {
	// Send queues one frame for a member: encode appends the body to a buffer and returns it; it is called during Send
	// or not at all, and does not call the transport. Send never blocks. False: the frame was dropped, because the
	// member is unknown or not connected, or its queue is full. True promises no arrival.
	Send(to uint64, kind uint8, encode func(b []byte) []byte) bool
	// SendInOrder is Send for frames that should arrive in their order, while those of Send may pass them. If kept is
	// not nil the body is what encode appends, then kept, which the transport keeps: nobody changes it any more.
	SendInOrder(to uint64, kind uint8, encode func(b []byte) []byte, kept []byte) bool
}

// SnapshotSender brings checkpoints to members.
type SnapshotSender interface {
	// SendSnapshot brings the directory dir to a member, with header (opaque, at most 1 MiB), and returns when the
	// member's node has dealt with it (Node.Staged has returned there). It ends with ctx, and the error is its cause,
	// unless the last stream before had failed, and nothing went through it: then it is that one's. It only reads dir.
	SendSnapshot(ctx context.Context, to uint64, header []byte, dir string) error
}

// Options says what a Node consists of. ID, Log, Machine, Clock and Rand are needed; the rest has defaults.
type Options struct {
	ID      uint64       // this member, not 0
	Log     *raftlog.Log // open; the node is its only user until Stop has returned, and does not close it
	Machine Machine      // open; only the node applies to it, and does not close it
	Clock   clock.Clock
	// Now is the time of day, for what writes bear and for the comparison with other members' clocks. nil: Clock.Now.
	Now    func() time.Time
	Rand   *rand.Rand // draws what marks this process's entries, seeds the rest; used by Start only
	Logger *slog.Logger
	// Observer may be nil.
	Observer Observer

	// Members are the founders of the group, this member among them, the same on all of them; empty: a group of one.
	// Joining says that this member is none of them but waits for a snapshot from the group. Both are looked at on the
	// first start only.
	Members []Member
	Joining bool
	// Transport and SnapshotSender are nil in a group that stays of one.
	Transport      Transport
	SnapshotSender SnapshotSender
	// WhyAway says, for people, why a member is not connected, "" if nothing is known; nil: nothing ever. It must not
	// block.
	WhyAway func(id uint64) string
	// CheckpointDir is a directory of the node's own, on the file system FS of the state, where checkpoints for other
	// members are made. FS is the operating system's if nil.
	CheckpointDir string
	FS            vfs.FS
	// Bootstrap is the body of the entry.OpFoundEnsemble that a leader proposes if the state has no cluster id. Empty:
	// none is proposed.
	Bootstrap []byte

	// BootstrapChoice is for which bootstrap this member is, as its handshakes know it. nil: they do not.
	BootstrapChoice *BootstrapChoice

	// DiskSpace is what is known of the disks; nil: there is always space. Reclaim gives the space of what was removed
	// back, as far as that is to be had; it is called while there is little, on a goroutine of its own, and ends with
	// ctx.
	DiskSpace DiskSpace
	Reclaim   func(ctx context.Context) error

	// Asking tells whether a server that is no member has asked of late to be let in; the loop goroutine calls it, and
	// it must not block. nil: none has.
	Asking func(id uint64) bool

	// LevelMax is the highest feature level to which this member raises the group; 0: the newest. PeerLevel returns
	// the one to which another member agrees, 0 while that is not known; the loop goroutine calls it, and it must not
	// block. nil: they agree to any.
	LevelMax  entry.Level
	PeerLevel func(id uint64) entry.Level
	// PrepareAddresses has this member listen where the lines of a configuration that is about to be proposed have it,
	// and look which of those that have moved there can be reached where they are to be. tell is called with what is
	// known so far, once at least, on any goroutine, the last time with Done; it does not block. For the same lines it
	// may be asked again, and has to tell all then, too. The loop goroutine calls it, and it must not block. nil:
	// addresses do not matter.
	PrepareAddresses func(members string, moved []uint64, tell func(PreparedAddresses))
	// MayReconfigure finds out whether the state will find that who asks for a reconfig may: nothing is prepared for
	// others. The loop goroutine asks, once for each, and must not wait: tell is called once, on any goroutine. p is
	// valid until it returns. nil: everybody may.
	MayReconfigure func(p *entry.Proposal, tell func(may bool))
	// OnProposed is told on the loop goroutine of the lines of the configuration in a reconfig that is in this
	// member's log, committed or not. It must not block. nil: nobody is told.
	OnProposed func(members string)

	// OnState is told on the loop goroutine, on every change and once at the start. It must not block nor call the
	// node.
	OnState func(State)
	// OnReport is told what other members gave to Report while this one leads, on any goroutine. body is valid during
	// the call. What it blocks is one member's frames.
	OnReport func(from uint64, body []byte)
	// OnForwarded is told whose writes another member has forwarded to this one, which leads: once or more, on any
	// goroutine, before they are applied anywhere. sessions is valid during the call.
	OnForwarded func(sessions []jute.SessionID)
	// OnReplacing is told on the apply goroutine that a snapshot is about to replace the state, another member's or one
	// that an operator restores (during Start too, when the log is replayed): whoever must not see the new one without
	// what led to it, is to be gone when it returns. It must not block.
	OnReplacing func()
	// OnReplaced is told on the apply goroutine that a snapshot has replaced the state, before anything is applied on
	// top of it: what was derived from the entries is stale. It must not block.
	OnReplaced func()

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
	// RetainBytes bounds what the log keeps for members that are behind, away, or get a snapshot: within it they get
	// entries, beyond it a snapshot, or another one. 0: a share of the space on the log's disk.
	RetainBytes int64
	// RemovedGrace is how long a member that a reconfig takes out of the configuration stays one, without a vote, for
	// its clients. 0: it is removed with the reconfig.
	RemovedGrace time.Duration
	// CompareTicks is how many ticks after the last comparison of the members' states the next one begins, if anything
	// was written; one of many entries begins sooner.
	CompareTicks int
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
	defaultCompareTicks        = 300
	defaultFlushInterval       = 30 * time.Second
)

// Limits inside the node.
const (
	// maxApplyingBytes is how much raft hands to the apply goroutine before it waits for it; raft's
	// MaxCommittedSizePerReady.
	maxApplyingBytes = 8 << 20
	// maxMessageBytes is about the size of a message with entries. maxInflightMessages and maxInflightBytes bound what
	// a member sends to another one that has not answered.
	maxMessageBytes     = 1 << 20
	maxInflightMessages = 256
	maxInflightBytes    = 32 << 20
)

// check fills in defaults and tells what is missing.
func (o *Options) check() error {
	if o.ID == 0 || o.Log == nil || o.Machine == nil || o.Clock == nil || o.Rand == nil {
		return errors.New("quorum options: ID, Log, Machine, Clock and Rand must be given")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = o.Clock.Now
	}
	setDefault(&o.MaxEntryBytes, defaultMaxEntryBytes)
	setDefault(&o.MaxOutstandingBytes, defaultMaxOutstandingBytes)
	setDefault(&o.TickInterval, defaultTickInterval)
	setDefault(&o.ElectionTicks, defaultElectionTicks)
	setDefault(&o.TailEntries, defaultTailEntries)
	setDefault(&o.TailBytes, defaultTailBytes)
	setDefault(&o.LevelMax, entry.LevelNewest)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	setDefault(&o.CompareTicks, defaultCompareTicks)
	setDefault(&o.FlushInterval, defaultFlushInterval)
	return o.checkMembers()
}

// founders returns the members of a new group, sorted.
func (o *Options) founders() []Member {
	if len(o.Members) == 0 {
		return []Member{{ID: o.ID}}
	}
	members := slices.Clone(o.Members)
	sort.Slice(members, func(i, j int) bool { return members[i].ID < members[j].ID })
	return members
}

// checkMembers tells what is wrong with the founders.
func (o *Options) checkMembers() error {
	if len(o.Members) == 0 {
		return nil
	}
	voters, mine := 0, false
	last := uint64(0)
	for _, m := range o.founders() {
		if m.ID == last {
			return fmt.Errorf("quorum options: member id %d is 0 or given twice", m.ID)
		}
		last = m.ID
		mine = mine || m.ID == o.ID
		if !m.Learner {
			voters++
		}
	}
	if voters == 0 || !mine && !o.Joining {
		return fmt.Errorf("quorum options: the members %v must have a voter, and member %d among them", o.Members,
			serverid.Number(o.ID))
	}
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
	// ErrHung: the node has not stopped, and may go on with its stores at any moment, so that they must stay open.
	ErrHung = errors.New("its disk does not answer")
	// ErrLeadershipLost means that it will not be known whether the entry was committed: for too long there was no
	// leader or none that could be reached, or a snapshot has taken the entry's place.
	ErrLeadershipLost = errors.New("leadership was lost before the write was committed")
	// ErrNoLeader means that no leader has been known for long: the member takes nothing until there is one.
	ErrNoLeader = errors.New("the group has no leader that this member knows of")
	// ErrNotLeader means that only the leader can do it, and this member is not the one.
	ErrNotLeader = errors.New("this member is not the leader")
	// ErrChangePending means that an earlier change of membership is under way.
	ErrChangePending = errors.New("another change of membership is under way")
	// ErrTransferFailed means that no other member has taken over; this one leads as before.
	ErrTransferFailed = errors.New("no other member has taken over the leadership")
)
