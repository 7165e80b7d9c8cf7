package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"

	"zkd/jute"
	"zkd/quorum/warning"
	"zkd/storage"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/space"
)

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
	if err := n.awaitAlone(ctx); err != nil {
		n.stop(ErrStopped)
		<-n.ended
		return nil, fmt.Errorf("start member %d: %w", o.ID, err)
	}
	return n, nil
}

// newNode builds the parts.
func newNode(o Options) (*Node, error) {
	applied := o.Machine.AppliedIndex()
	level, err := openLevel(&o)
	if err != nil {
		return nil, err
	}
	view, member, err := openGroup(&o, applied)
	if err != nil {
		return nil, err
	}
	if !member.empty() {
		applied = max(applied, bootstrapIndex)
	}
	raw, err := raft.NewRawNode(raftConfig(&o, view, applied))
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	n := &Node{
		options: o, fatal: make(chan error, 1), halt: make(chan struct{}), ended: make(chan struct{}),
	}
	wake := make(chan struct{}, 1)
	n.gather = newGatherer(o.Rand.Uint64(), &n.options, wake)
	n.inbox = newInbox(wake)
	n.buildLoop(wake, view, member, raw)
	if n.loop.admission.rejoin, err = openRejoin(o.Log, o.Rand, &member, o.ID); err != nil {
		return nil, err
	}
	last, err := lastTime(view)
	if err != nil {
		return nil, err
	}
	n.loop.clocks = newClocks(&n.loop.facts, o.Transport, last)
	n.buildStorage()
	n.appender.level = level
	if err := n.shipper.clean(); err != nil {
		return nil, err
	}
	n.loop.retention.applied(applied)
	if n.loop.members.logged, err = scanChanges(view, max(applied, member.index)); err != nil {
		return nil, err
	}
	n.loop.status.publishGroup()
	return n, n.loop.reconfig.tellUnapplied(view, applied)
}

// buildLoop builds the loop and the mailboxes.
func (n *Node) buildLoop(wake chan struct{}, view *logView, member membership, raw *raft.RawNode) {
	o := &n.options
	l := &loop{
		facts: facts{
			id: o.ID, options: o, logger: o.Logger, origin: n.gather.origin, log: o.Log, raft: raw,
			term: view.hard.GetTerm(), commit: view.hard.GetCommit(), appended: o.Log.LastIndex(),
		},
		raw: raw, view: view, gather: n.gather, transport: o.Transport, wake: wake,
		inbox: n.inbox, stored: newMailbox[stored](wake), applied: newMailbox[applyNews](wake),
		toAppend: newMailbox[appendWork](make(chan struct{}, 1)),
		toApply:  newMailbox[applyWork](make(chan struct{}, 1)),
		toShip:   newMailbox[shipWork](make(chan struct{}, 1)),
		chunks:   newMailbox[chunk](wake),
		voteTerm: view.hard.GetTerm(), vote: view.hard.GetVote(),
	}
	l.connect()
	l.admission.warn, l.admission.ownData = warning.NewLimiter(o.Logger, o.Clock), Imported(o.Log)
	l.checkpoints.rand = rand.New(rand.NewPCG(o.Rand.Uint64(), o.Rand.Uint64())) //nolint:gosec // of pauses, no secret
	l.health.installs = func() uint64 { return n.appender.installs.Load() }
	l.health.logReads = func() (bool, uint64) { return n.applier.reading.Load(), n.applier.reads.Load() }
	l.members.set(member)
	l.election.newLeader(raft.None)
	l.progress.state.Store(l.status.state())
	l.progress.commit.Store(l.commit)
	view.offer = l.checkpoints.offer
	view.leads = func() bool { return l.raw.BasicStatus().RaftState == raft.StateLeader }
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
	n.reader = &coldReader{log: o.Log, work: newMailbox[coldRange](make(chan struct{}, 1)), done: l.chunks.put}
	l.view.cold = cold{log: o.Log, ask: n.reader.work.put}
	n.keeper = &keeper{
		log: o.Log, machine: o.Machine, clock: o.Clock, appended: n.appender.bytes.Load, signal: make(chan struct{}, 1),
		tailEntries: o.TailEntries, tailBytes: uint64(o.TailBytes), retainBytes: uint64(o.RetainBytes),
		retain: l.retention.keeper, installs: n.appender.installs.Load, flushInterval: o.FlushInterval,
		marks: slices.Clone(o.Log.SizesAtOpen()),
	}
	if len(n.keeper.marks) == 0 {
		n.keeper.marks = []raftlog.LogSize{{Index: o.Log.LastIndex()}}
	}
	n.keeper.old = n.keeper.marks[len(n.keeper.marks)-1].Bytes
	n.looker = newRoomLooker(o, func() { n.inbox.put(arrival{what: roomChanged{}}) })
	n.appender.looker, l.space.looker = n.looker.signal, n.looker
	if o.Room != nil {
		n.keeper.scarce = func() bool { return o.Room.Level() != space.Ample }
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
	n.spawn(func() error { return work(n.reader.work, n.halt, n.reader.read) })
	n.spawn(func() error { return n.keeper.run(n.options.Clock.NewTicker(keeperInterval), n.halt) })
	n.spawn(func() error { return n.shipper.run(ctx) })
	if n.options.Room != nil {
		n.spawn(func() error { return n.looker.run(n.options.Clock.NewTicker(roomInterval), n.halt) })
		n.spawn(func() error { return n.looker.reclaimAll(ctx) })
	}
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
	barriers = append(barriers, n.loop.reads.take()...)
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
	return through.await(ctx)
}

// awaitAlone waits until a group of one has applied its log, and is at its feature level.
func (n *Node) awaitAlone(ctx context.Context) error {
	if err := n.awaitApplied(ctx); err != nil {
		return err
	}
	return n.raiseAlone(ctx)
}

// passage is a Waiter that tells one goroutine; of size 1, as it is told once.
type passage chan error

// await waits for what is told.
func (p passage) await(ctx context.Context) error {
	select {
	case err := <-p:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no leader, or the log is not applied yet: %w", ctx.Err())
	}
}

// Applied implements Waiter.
func (p passage) Applied(*storage.Result) { p <- nil }

// Dropped implements Waiter.
func (p passage) Dropped(err error) { p <- err }

// raiseAlone raises the level of a group of one that has nobody to ask, and returns when it is.
func (n *Node) raiseAlone(ctx context.Context) error {
	o := &n.options
	if o.Transport != nil || o.Machine.Level() >= o.LevelMax {
		return nil
	}
	raise := entry.Proposal{
		Op: entry.OpRaiseLevel, Time: jute.Millis(o.Clock.Now().UnixMilli()), Server: o.ID,
		Body: (&entry.RaiseTxn{Level: o.LevelMax}).Append(nil),
	}
	raised := make(passage, 1)
	if err := n.gather.add(&raise, raised); err != nil {
		return err
	}
	if err := raised.await(ctx); err != nil {
		return fmt.Errorf("raise the feature level: %w", err)
	}
	o.Logger.Info("the feature level is raised", slog.Int("level", int(o.LevelMax)))
	return nil
}
