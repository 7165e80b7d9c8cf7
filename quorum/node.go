package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"

	"zkd/storage"
)

// Node is one member of a raft group. Its methods may be called by any goroutine.
type Node struct {
	options  Options // immutable
	gather   *gatherer
	inbox    *inbox
	loop     *loop
	appender *appender
	applier  *applier
	keeper   *keeper
	shipper  *shipper

	failure atomic.Pointer[error]
	fatal   chan error // of size 1: only the first failure is told
	halting sync.Once
	halt    chan struct{} // closed when the goroutines are to end
	ended   chan struct{} // closed when they have, and nobody waits any more
	running sync.WaitGroup
}

// Start makes the member part of its group. A member that is the only voter elects itself at once, without waiting for
// an election timeout, and Start returns when everything that was ever acknowledged is applied. A member of several is
// opened and on its way: OnState tells when there is a leader, and a Barrier when it has caught up.
//
// On the very first start Options.Members are the group. Entries behind the machine's applied index are applied again,
// and the observer sees their results. If ctx ends before, or the log does not fit the machine, nothing is left
// running.
func Start(ctx context.Context, o Options) (*Node, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	n, err := newNode(o)
	if err != nil {
		return nil, fmt.Errorf("start member %d: %w", o.ID, err)
	}
	alone := n.loop.member.soleVoter(o.ID)
	n.start()
	if !alone {
		return n, nil
	}
	if err := n.awaitApplied(ctx); err != nil {
		n.stop(ErrStopped)
		<-n.ended
		return nil, fmt.Errorf("start member %d: %w", o.ID, err)
	}
	return n, nil
}

// newNode builds the parts.
func newNode(o Options) (*Node, error) {
	applied := o.Machine.AppliedIndex()
	view, member, err := openGroup(&o, applied)
	if err != nil {
		return nil, err
	}
	n := &Node{
		options: o, fatal: make(chan error, 1), halt: make(chan struct{}), ended: make(chan struct{}),
	}
	wake := make(chan struct{}, 1)
	n.gather = newGatherer(o.Rand.Uint64(), &n.options, wake)
	n.inbox = newInbox(wake)
	n.buildLoop(wake, view, member)
	if n.loop.rejoin, err = openRejoin(o.Log, o.Rand, &member, o.ID); err != nil {
		return nil, err
	}
	n.buildStorage()
	if err := n.shipper.clean(); err != nil {
		return nil, err
	}
	if !member.empty() {
		applied = max(applied, bootstrapIndex)
	}
	n.loop.retain.applied.Store(applied)
	n.loop.raw, err = raft.NewRawNode(raftConfig(&o, view, applied))
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	n.loop.publishGroup()
	return n, nil
}

// buildLoop builds the loop and the mailboxes.
func (n *Node) buildLoop(wake chan struct{}, view *logView, member membership) {
	o := &n.options
	l := &loop{
		id: o.ID, options: o, view: view, gather: n.gather, transport: o.Transport, logger: o.Logger, wake: wake,
		inbox: n.inbox, stored: newMailbox[stored](wake), applied: newMailbox[applyNews](wake),
		toAppend: newMailbox[appendWork](make(chan struct{}, 1)),
		toApply:  newMailbox[applyWork](make(chan struct{}, 1)),
		toShip:   newMailbox[shipWork](make(chan struct{}, 1)),
		retain:   newRetention(),
		term:     view.hard.GetTerm(), voteTerm: view.hard.GetTerm(), vote: view.hard.GetVote(),
		commit: view.hard.GetCommit(), appended: o.Log.LastIndex(),
	}
	l.encodeRaft = l.appendSending
	l.setMember(member)
	l.noteLeader(raft.None)
	l.progress.state.Store(l.state())
	l.progress.commit.Store(l.commit)
	view.offer = l.offer
	n.loop = l
}

// buildStorage builds the parts that work for the loop.
func (n *Node) buildStorage() {
	o, l := &n.options, n.loop
	n.appender = &appender{
		log: o.Log, clock: o.Clock, work: l.toAppend, done: l.stored.put,
		restore: func(in *install) { l.toApply.put(applyWork{install: in}) },
	}
	n.applier = &applier{
		machine: o.Machine, observer: o.Observer, gather: n.gather, log: o.Log, clock: o.Clock, work: l.toApply,
		done: n.applyDone, failing: n.failing, renewing: o.OnRestoring, renewed: o.OnRestored, member: l.member,
		settled:  &l.progress.reconfigured,
		restored: func(in *install) { l.toAppend.put(appendWork{restored: in}) },
	}
	n.keeper = &keeper{
		log: o.Log, machine: o.Machine, clock: o.Clock, appended: n.appender.bytes.Load, signal: make(chan struct{}, 1),
		tailEntries: o.TailEntries, tailBytes: uint64(o.TailBytes), lagBytes: uint64(o.LagBytes),
		retain: l.retain, installs: n.appender.installs.Load, flushInterval: o.FlushInterval,
		marks: []logMark{{index: o.Log.LastIndex()}},
	}
	n.appender.keeper, n.appender.step = n.keeper.signal, max(n.keeper.tailBytes/keeperSteps, 1)
	n.shipper = &shipper{
		machine: o.Machine, shipper: o.Shipper, fs: o.FS, dir: o.CheckpointDir, logger: o.Logger, work: l.toShip,
		tell: func(what any) { n.inbox.put(arrival{what: what}) }, spawn: n.spawn,
	}
}

// raftConfig is how raft runs here.
func raftConfig(o *Options, view *logView, applied uint64) *raft.Config {
	return &raft.Config{
		ID:                        o.ID,
		ElectionTick:              o.ElectionTicks,
		HeartbeatTick:             1,
		Storage:                   view,
		Applied:                   applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxMessageBytes,
		MaxCommittedSizePerReady:  maxApplyingBytes,
		MaxInflightMsgs:           maxInflightMessages,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		Logger:                    raftLogger{o.Logger},
	}
}

// start begins the goroutines.
func (n *Node) start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.spawn(func() error { return n.loop.run(n.options.Clock.NewTicker(n.options.TickInterval), n.halt) })
	n.spawn(func() error { return work(n.appender.work, n.halt, n.appender.write) })
	n.spawn(func() error { return work(n.applier.work, n.halt, n.applier.apply) })
	n.spawn(func() error { return n.keeper.run(n.options.Clock.NewTicker(keeperInterval), n.halt) })
	n.spawn(func() error { return n.shipper.run(ctx) })
	go n.supervise(cancel)
}

// work hands what comes into a mailbox to do, all there is at a time, until halt is closed or an error.
func work[T any](m *mailbox[T], halt <-chan struct{}, do func([]T) error) error {
	var items []T
	for {
		select {
		case <-m.signal:
		case <-halt:
			return nil
		}
		items = m.take(items)
		if err := do(items); err != nil {
			return err
		}
	}
}

// spawn starts a goroutine of the node. An error that it returns stops the node; ErrStopped says that it stops already.
func (n *Node) spawn(run func() error) {
	n.running.Go(func() {
		if err := run(); err != nil && !errors.Is(err, ErrStopped) {
			n.fail(err)
		}
	})
}

// supervise waits for the goroutines' end, then tells all who still wait that nothing will be known.
func (n *Node) supervise(cancel context.CancelFunc) {
	defer close(n.ended)
	<-n.halt
	cancel()
	n.running.Wait()
	n.abandon()
}

// abandon tells all who still wait that nothing will be known.
func (n *Node) abandon() {
	cause := ErrStopped
	if err := n.err(); err != nil {
		cause = err
	}
	batches, barriers := n.gather.abandon()
	for _, b := range batches {
		n.applier.drop(b, cause)
	}
	barriers = append(barriers, n.loop.reads.gathered...)
	barriers = append(barriers, n.loop.reads.asked...)
	for _, w := range append(n.applier.waiting, n.loop.toApply.take(nil)...) {
		barriers = append(barriers, w.barriers...)
	}
	for _, w := range barriers {
		w.Dropped(cause)
	}
	n.gather.releaseBarriers(len(barriers))
}

// fail stops the node because of err, which is final: nothing is acknowledged after it.
func (n *Node) fail(err error) {
	if !n.failure.CompareAndSwap(nil, &err) {
		return
	}
	n.options.Logger.Error("member stops", slog.Any("err", err))
	n.stop(err)
	n.fatal <- err
	if n.options.OnFatal != nil {
		n.options.OnFatal(err)
	}
}

// stop turns proposers and frames away and has the goroutines end.
func (n *Node) stop(err error) {
	n.gather.refuse(err)
	n.inbox.close()
	n.halting.Do(func() { close(n.halt) })
}

// err is the failure that has stopped the node, or nil.
func (n *Node) err() error {
	if p := n.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// failing tells whether the node has failed.
func (n *Node) failing() bool { return n.failure.Load() != nil }

// applyDone delivers the apply goroutine's news to the loop.
func (n *Node) applyDone(news applyNews, wake bool) {
	if wake {
		n.loop.applied.put(news)
		return
	}
	n.loop.applied.putQuietly(news)
}

// awaitApplied waits until all that was committed when it was called is applied.
func (n *Node) awaitApplied(ctx context.Context) error {
	through := make(passage, 1)
	n.Barrier(through)
	select {
	case err := <-through:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no leader, or the log is not applied yet: %w", ctx.Err())
	}
}

// passage is a Waiter that tells one goroutine; of size 1, as it is told once.
type passage chan error

// Applied implements Waiter.
func (p passage) Applied(*storage.Result) { p <- nil }

// Dropped implements Waiter.
func (p passage) Dropped(err error) { p <- err }

// Propose has p committed and applied, and tells w the result; w may be nil. p is encoded before Propose returns and
// may then be used again. It blocks while too much is outstanding, in line with others. An error means that p was not
// taken and w is not told.
func (n *Node) Propose(p *storage.Proposal, w Waiter) error { return n.gather.add(p, w) }

// Barrier tells w when this member has applied all that was committed in the group at the call: a read made then is
// linearizable, as sync of ZooKeeper is meant to give (org.apache.zookeeper.server.FinalRequestProcessor, OpCode.sync).
// The result has the last zxid and nothing else. Many barriers share one round.
func (n *Node) Barrier(w Waiter) {
	if err := n.gather.addBarrier(w); err != nil {
		w.Dropped(err)
	}
}

// Fatal receives once why the node has stopped by itself.
func (n *Node) Fatal() <-chan error { return n.fatal }

// Stop takes nothing more, hands the leadership over if it has it, answers what was taken, makes the state durable and
// ends the goroutines. If ctx ends before, what is left is dropped. Stopping twice is allowed. The error says why not
// all was answered, or what had failed before.
func (n *Node) Stop(ctx context.Context) error {
	var cut error
	drained := n.gather.refuse(ErrStopped)
	if n.options.Transport != nil {
		// Not to succeed costs the others an election, no more.
		if err := n.TransferLeadership(ctx); err != nil && !errors.Is(err, ErrNotLeader) {
			n.options.Logger.Warn("stops without a successor", slog.Any("err", err))
		}
	}
	select {
	case <-drained:
	case <-n.halt:
	case <-ctx.Done():
		cut = fmt.Errorf("stop member %d before all was answered: %w", n.options.ID, ctx.Err())
	}
	n.stop(ErrStopped)
	select {
	case <-n.ended:
	case <-ctx.Done():
		return fmt.Errorf("stop member %d: its disk does not answer: %w", n.options.ID, ctx.Err())
	}
	if err := n.err(); err != nil {
		return fmt.Errorf("member %d had failed: %w", n.options.ID, err)
	}
	if err := n.options.Machine.Flush(ctx); err != nil {
		return errors.Join(cut, fmt.Errorf("stop member %d: flush the state: %w", n.options.ID, err))
	}
	return cut
}
