package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/member"
	"zkd/quorum/warning"
	"zkd/storage/apply"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
)

// Start makes the member part of its group. A member that is the only voter elects itself at once, without waiting for
// an election timeout, and Start returns when everything that was ever acknowledged is applied. A member of several, or
// one that comes to be by its log, is opened and on its way: OnState tells when there is a leader, and a Barrier when
// it has caught up.
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
		return nil, fmt.Errorf("start member %d: %w", serverid.Number(o.ID), err)
	}
	alone := n.loop.member.SoleVoter(o.ID)
	n.start()
	if !alone {
		return n, nil
	}
	if err := n.awaitAlone(ctx); err != nil {
		n.stop(ErrStopped)
		<-n.ended
		return nil, fmt.Errorf("start member %d: %w", serverid.Number(o.ID), err)
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
	view, m, err := openGroup(&o, applied)
	if err != nil {
		return nil, err
	}
	if !m.Empty() {
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
	n.batcher = batcher.New(batcher.Options{
		Origin: o.Rand.Uint64(), MaxEntryBytes: o.MaxEntryBytes, MaxOutstandingBytes: o.MaxOutstandingBytes,
		Clock: o.Clock, Wake: func() { notify(wake) },
	})
	n.inbox = newInbox(wake)
	n.buildLoop(wake, view, m, raw)
	if n.loop.led, err = takeRest(o.Log); err != nil {
		return nil, err
	}
	if n.loop.admission.rejoin, err = openRejoin(o.Log, o.Rand, &m, o.ID); err != nil {
		return nil, err
	}
	newest, err := lastTime(view, view.log.LastIndex())
	if err != nil {
		return nil, err
	}
	n.loop.clocks = newClocks(&n.loop.facts, o.Transport, newest)
	n.buildStorage()
	if newest, err = lastTime(view, applied); err != nil {
		return nil, err
	}
	n.applier.newest.Store(int64(newest))
	n.appender.level = level
	if err := n.checkpointer.clean(); err != nil {
		return nil, err
	}
	n.loop.retention.applied(applied)
	if n.loop.members.logged, err = scanChanges(view, max(applied, m.Index)); err != nil {
		return nil, err
	}
	n.loop.status.publishGroup()
	return n, n.loop.reconfig.tellUnapplied(view, applied)
}

// buildLoop builds the loop and the mailboxes.
func (n *Node) buildLoop(wake chan struct{}, view *logView, m member.Membership, raw *raft.RawNode) {
	o := &n.options
	l := &loop{
		facts: facts{
			id: o.ID, options: o, logger: o.Logger, origin: n.batcher.Origin(), log: o.Log, raft: raw,
			term: view.hard.GetTerm(), commit: view.hard.GetCommit(), appended: o.Log.LastIndex(),
		},
		raw: raw, view: view, batcher: n.batcher, transport: o.Transport, wake: wake,
		inbox: n.inbox, stored: newMailbox[stored](wake), applied: newMailbox[applyNews](wake),
		toAppend:       newMailbox[appendWork](make(chan struct{}, 1)),
		toApply:        newMailbox[applyWork](make(chan struct{}, 1)),
		toCheckpointer: newMailbox[checkpointJob](make(chan struct{}, 1)),
		chunks:         newMailbox[chunk](wake),
		voteTerm:       view.hard.GetTerm(), vote: view.hard.GetVote(),
	}
	l.connect()
	l.admission.warn, l.admission.ownData = warning.NewLimiter(o.Logger, o.Clock), Imported(o.Log)
	l.checkpoints.rand = rand.New(rand.NewPCG(o.Rand.Uint64(), o.Rand.Uint64())) //nolint:gosec // of pauses, no secret
	l.health.installs = func() uint64 { return n.appender.installs.Load() }
	l.health.logReads = func() (bool, uint64) { return n.applier.reading.Load(), n.applier.reads.Load() }
	l.members.set(m)
	l.election.newLeader(raft.None)
	l.progress.state.Store(l.status.state())
	l.progress.following.Store(&following{term: l.term})
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
		replaceState: func(in *install) { l.toApply.put(applyWork{install: in}) },
	}
	n.applier = &applier{
		machine: o.Machine, observer: o.Observer, batcher: n.batcher, log: o.Log, clock: o.Clock, work: l.toApply,
		done: n.applyDone, failing: n.failing, replacing: o.OnReplacing, replaced: o.OnReplaced, member: l.member,
		settled:   &l.progress.reconfigured,
		now:       underApply{clock: o.Clock},
		installed: func(in *install) { l.toAppend.put(appendWork{installed: in}) },
	}
	n.reader = &uncachedReader{log: o.Log, work: newMailbox[entryRange](make(chan struct{}, 1)), done: l.chunks.put}
	l.view.uncached = uncached{log: o.Log, ask: n.reader.work.put}
	n.compactor = &logCompactor{
		log: o.Log, machine: o.Machine, clock: o.Clock, appended: n.appender.bytes.Load, signal: make(chan struct{}, 1),
		tailEntries: o.TailEntries, tailBytes: uint64(o.TailBytes), retainBytes: uint64(o.RetainBytes),
		retain: l.retention.shared, newest: &n.applier.newest, installs: n.appender.installs.Load,
		flushInterval: o.FlushInterval, sizes: slices.Clone(o.Log.SizesAtOpen()),
	}
	if len(n.compactor.sizes) == 0 {
		n.compactor.sizes = []raftlog.LogSize{{Index: o.Log.LastIndex()}}
	}
	n.compactor.sizeAtOpen = n.compactor.sizes[len(n.compactor.sizes)-1].Bytes
	n.spaceMonitor = newSpaceMonitor(o, func() { n.inbox.put(arrival{what: spaceChanged{}}) })
	n.appender.spaceMonitor, l.space.monitor = n.spaceMonitor.signal, n.spaceMonitor
	if o.DiskSpace != nil {
		n.compactor.space = o.DiskSpace.Level
	}
	n.appender.compactor, n.appender.step = n.compactor.signal, max(n.compactor.tailBytes/compactorSteps, 1)
	n.checkpointer = &checkpointer{
		machine: o.Machine, sender: o.SnapshotSender, fs: o.FS, dir: o.CheckpointDir, logger: o.Logger,
		work: l.toCheckpointer, tell: func(what any) { n.inbox.put(arrival{what: what}) }, spawn: n.spawn,
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
	var giveWork sync.WaitGroup // to the append goroutine
	giveWork.Add(2)
	n.spawn(func() error {
		defer giveWork.Done()
		return n.loop.run(n.options.Clock.NewTicker(n.options.TickInterval), n.halt)
	})
	n.spawn(func() error {
		defer giveWork.Done()
		return work(n.applier.work, n.halt, n.applier.apply)
	})
	n.spawn(func() error { return n.append(&giveWork) })
	n.spawn(func() error { return work(n.reader.work, n.halt, n.reader.read) })
	n.spawn(func() error { return n.compactor.run(n.options.Clock.NewTicker(compactorInterval), n.halt) })
	n.spawn(func() error { return n.checkpointer.run(ctx) })
	if n.options.DiskSpace != nil {
		n.spawn(func() error { return n.spaceMonitor.run(n.options.Clock.NewTicker(spaceInterval), n.halt) })
		n.spawn(func() error { return n.spaceMonitor.reclaimAll(ctx) })
	}
	go n.supervise(cancel)
}

// append is the append goroutine. It ends after those who give it work, and writes what they have left: noteRest says
// what is in the log, and raft may know of entries as committed that are not written here yet, of a leader elected just
// before the stop.
func (n *Node) append(giveWork *sync.WaitGroup) error {
	if err := work(n.appender.work, n.halt, n.appender.write); err != nil {
		return err
	}
	giveWork.Wait()
	if n.failing() {
		return nil
	}
	return n.appender.write(n.appender.work.take(nil))
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
	n.loop.inForce.end(cause)
	batches, barriers := n.batcher.Abandon()
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
	n.batcher.ReleaseBarriers(len(barriers))
}

// fail stops the node because of err, which is final: nothing is acknowledged after it.
func (n *Node) fail(err error) {
	if !n.failure.CompareAndSwap(nil, &err) {
		return
	}
	if !errors.Is(err, disk.ErrDiskFailed) { // the store has told
		n.options.Logger.Error("raft member failed", slog.Any("err", err))
	}
	n.stop(err)
	n.fatal <- err
	if n.options.OnFatal != nil {
		n.options.OnFatal(err)
	}
}

// stop turns proposers and frames away and has the goroutines end.
func (n *Node) stop(err error) {
	n.batcher.Refuse(err)
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

// awaitAlone waits until a group of one has applied its log, and is at its feature level. If others get votes by that
// log it is a member of several, which needs them, and may have lost the leadership before they are there.
func (n *Node) awaitAlone(ctx context.Context) error {
	err := n.awaitApplied(ctx)
	if errors.Is(err, ErrLeadershipLost) && !slices.Equal(n.Status().Voters, []uint64{n.options.ID}) {
		return nil
	}
	if err != nil {
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
		return fmt.Errorf("no leader, or the log is not applied yet: %w", context.Cause(ctx))
	}
}

// Applied implements batcher.Waiter.
func (p passage) Applied(*apply.Result) { p <- nil }

// Dropped implements batcher.Waiter.
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
	if err := n.batcher.Add(&raise, raised); err != nil {
		return err
	}
	if err := raised.await(ctx); err != nil {
		return fmt.Errorf("raise the feature level: %w", err)
	}
	o.Logger.Info("feature level raised", slog.Int("level", int(o.LevelMax)))
	return nil
}
