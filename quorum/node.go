package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/storage/entry"
	"zkd/storage/serverid"
	"zkd/storage/space"
)

// Node is one member of a raft group. Its methods may be called by any goroutine.
type Node struct {
	options      Options // immutable
	batcher      *batcher.Batcher
	inbox        *inbox
	loop         *loop
	appender     *appender
	applier      *applier
	reader       *uncachedReader
	compactor    *logCompactor
	checkpointer *checkpointer
	spaceMonitor *spaceMonitor

	failure atomic.Pointer[error]
	fatal   chan error // of size 1: only the first failure is told
	halting sync.Once
	halt    chan struct{} // closed when the goroutines are to end
	ended   chan struct{} // closed when they have, and nobody waits any more
	running sync.WaitGroup
	rested  atomic.Bool // noteRest was called, which is once
}

// Propose has p committed and applied, and tells w the result; w may be nil. p is encoded before Propose returns and
// may then be used again. It blocks while too much is outstanding, queued behind others. An error means that p was not
// taken and w is not told.
func (n *Node) Propose(p *entry.Proposal, w batcher.Waiter) error {
	_, err := n.ProposeIf(p, w, nil)
	return err
}

// ProposeIf is Propose if still says so, asked when there is room, and nothing that was asked of this member before
// holds p up, as a reconfig does that is being prepared. It tells whether p was taken. With a leader, what comes from
// other members after still was asked is behind p. still must not block.
func (n *Node) ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (taken bool, err error) {
	if needs, level := p.Level(), n.Level(); needs == 0 || needs > level {
		return false, errTooNew(p, level)
	}
	return n.batcher.AddIf(p, w, still)
}

// Time is the time of day as the leader gives it to writes. A member that does not lead tells its own clock's. Any
// goroutine may call it.
func (n *Node) Time() jute.Millis {
	if n.loop.progress.state.Load().Role != RoleLeader {
		return jute.Millis(n.options.Now().UnixMilli())
	}
	return n.loop.clocks.next()
}

// Reconfigure has the group brought to the configuration that p, an OpReconfig with the client's record as its body,
// asks for. It tells w as Propose does, and blocks, keeps nothing and fails as that does; any member may be asked.
func (n *Node) Reconfigure(p *entry.Proposal, w batcher.Waiter) error {
	asked := *p
	asked.Body = (&entry.ReconfigTxn{Request: p.Body}).Append(nil)
	return n.batcher.AddChange(nil, &asked, w)
}

// Knows tells whether this member has met a member with that id, which did not leave the group since. Any goroutine may
// call it.
func (n *Node) Knows(id uint64) bool {
	_, ok := slices.BinarySearch(n.loop.progress.group.Load().known, id)
	return ok
}

// Barrier tells w when this member has applied all that was committed in the group at the call: a read made then is
// linearizable, as sync of ZooKeeper is meant to give (org.apache.zookeeper.server.FinalRequestProcessor, OpCode.sync).
// The result has the last zxid and nothing else. Many barriers share one round.
func (n *Node) Barrier(w batcher.Waiter) {
	if err := n.batcher.AddBarrier(w); err != nil {
		w.Dropped(err)
	}
}

// TransferLeadership hands the leadership to the voter that has most of the log and returns when that one leads. If
// nobody has taken over within about an election timeout this member leads on: ErrTransferFailed. A member that does
// not lead answers ErrNotLeader.
func (n *Node) TransferLeadership(ctx context.Context) error {
	request := transferRequest{told: make(chan error, 1)}
	if !n.inbox.put(arrival{what: request}) {
		return ErrStopped
	}
	select {
	case err := <-request.told:
		return err
	case <-n.halt:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("transfer the leadership: %w", ctx.Err())
	}
}

// Level returns the feature level of the ensemble, as of what is applied here. Any goroutine may call it.
func (n *Node) Level() entry.Level { return n.options.Machine.Level() }

// SpaceLevel is the level that counts for the group: what the leader has found, as far as this member knows. Any
// goroutine may call it.
func (n *Node) SpaceLevel() space.Level { return space.Level(n.loop.progress.space.Load()) }

// Fatal receives once why the node has stopped by itself.
func (n *Node) Fatal() <-chan error { return n.fatal }

// endTimeout is how long the goroutines may take to end once all that was taken is answered, or dropped, and Stop has
// no time left. They take none unless the disk hangs.
const endTimeout = 2 * time.Second

// Stop takes nothing more, transfers the leadership if it has it, answers what was taken, makes the state durable and
// ends the goroutines. Barriers are dropped if too few of the others are connected for anybody to answer them: nothing
// depends on them once clients are gone, while writes may yet be committed. If ctx ends before, what is left is
// dropped; if goroutines are left then, the error is ErrHung. Stopping twice is allowed. The error says why not all was
// answered, or what had failed before.
func (n *Node) Stop(ctx context.Context) error {
	var cut error
	drained := n.batcher.Refuse(ErrStopped)
	if n.options.Transport != nil {
		// Not to succeed costs the others an election, no more.
		if err := n.TransferLeadership(ctx); err != nil && !errors.Is(err, ErrNotLeader) {
			n.options.Logger.Info("stopped without leadership transfer", slog.Any("err", err))
		}
		n.inbox.put(arrival{what: stopping{}}) // refused only by a loop that has ended
	}
	select {
	case <-drained:
	case <-n.halt:
	case <-ctx.Done():
		cut = fmt.Errorf("stop member %d before all was answered: %w", serverid.Number(n.options.ID), ctx.Err())
	}
	n.stop(ErrStopped)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
	}
	hung := func() error { // ctx has ended
		why := fmt.Errorf("stop member %d: %w: %w", serverid.Number(n.options.ID), ErrHung, ctx.Err())
		return errors.Join(cut, why)
	}
	select {
	case <-n.ended:
	case <-ctx.Done():
		return hung()
	}
	if err := n.err(); err != nil {
		return fmt.Errorf("member %d had failed: %w", serverid.Number(n.options.ID), err)
	}
	if err := n.options.Machine.Flush(ctx); err != nil {
		return errors.Join(cut, fmt.Errorf("stop member %d: flush the state: %w", serverid.Number(n.options.ID), err))
	}
	if n.rested.Swap(true) {
		return cut
	}
	noted := make(chan error, 1)
	go func() { noted <- noteRest(n.loop, n.appender) }()
	select {
	case err := <-noted:
		return errors.Join(cut, err)
	case <-ctx.Done():
		return hung()
	}
}

// InForce tells when the configuration of this version, or of a later one, is in force on this member: everybody in it
// is a member, nobody else has a vote, no observer has one or leads, and the membership is not joint; or when this
// member does not belong to the group any more. An error is the end of the node. told is called once, on any goroutine,
// and must not block.
func (n *Node) InForce(version int64, told func(error)) {
	if !n.inbox.put(arrival{what: inForceRequest{version, told}}) {
		told(ErrStopped)
	}
}
