package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// group is several servers over one log, which stands for agreement: what is proposed while there is a leader is in the
// log at once, and each member applies the log to a machine of its own.
type group struct {
	t testing.TB

	mu      sync.Mutex
	changed sync.Cond
	log     []groupEntry // entry i has index i+2: raft's first is the bootstrap of the group
	leader  uint64       // 0 is none
	term    uint64
	members []*member
	stopped bool
}

// member is one server of a group. What is not said is guarded by group.mu.
type member struct {
	*rig  // its server, machine and address; immutable
	group *group
	id    uint64

	cut      bool // it does not reach the others
	paused   bool // it applies nothing
	deaf     bool // it applies without telling the server, as if from a snapshot
	applied  int  // entries of the log
	batch    uint64
	waiters  map[uint64]batcher.Waiter // by batch
	held     []heldEntry               // proposed without a leader
	barriers []heldBarrier
	reports  [][]byte // sent by this member
	lost     bool     // reports are taken and go nowhere
	done     chan struct{}

	barriersAsked int
}

// groupEntry is what one member has proposed, and the term in which it got into the log.
type groupEntry struct {
	data []byte
	term uint64
}

// heldEntry is a proposal that waits for a leader.
type heldEntry struct {
	data  []byte
	batch uint64
}

// heldBarrier is a barrier that waits until so many entries are applied; -1 waits for a leader.
type heldBarrier struct {
	entries int
	w       batcher.Waiter
}

// groupOptions says what differs from the usual.
type groupOptions struct {
	clock   clock.Clock
	set     func(id uint64, o *Options)
	members int // default 3
}

// startGroup starts servers 1 to 3 without a leader, and stops them at the end of the test.
func startGroup(t testing.TB, o groupOptions) *group {
	t.Helper()
	g := &group{t: t}
	g.changed.L = &g.mu
	if o.members == 0 {
		o.members = 3
	}
	for id := range uint64(o.members) {
		g.make(id+1, o)
	}
	if now, ok := o.clock.(*clock.Manual); ok {
		now.Advance(ahead) // before there are tickers
	}
	for _, m := range g.members {
		m.start()
	}
	t.Cleanup(g.stop)
	return g
}

// make makes one member.
func (g *group) make(id uint64, o groupOptions) {
	g.t.Helper()
	m := &member{rig: &rig{t: g.t, served: make(chan error, 1)}, group: g, id: id,
		waiters: map[uint64]batcher.Waiter{}, done: make(chan struct{})}
	var err error
	m.machine, err = state.OpenMachine(state.MachineOptions{Dir: "state", FS: vfs.NewMem(), Logger: discard,
		OnFatal: func(err error) { g.t.Errorf("machine of server %d: %v", id, err) }})
	if err != nil {
		g.t.Fatalf("open the machine: %v", err)
	}
	m.options = testOptions(g.t, m.machine)
	m.options.ServerID, m.options.Ensemble = id, &Ensemble{}
	m.options.LeaderGrace = time.Hour
	if o.clock != nil {
		m.options.Clock = o.clock
	}
	if o.set != nil {
		o.set(id, &m.options)
	}
	m.server = New(m.options)
	g.members = append(g.members, m)
}

// start starts it.
func (m *member) start() {
	m.t.Helper()
	go m.run()
	m.server.Start(m)
	l := listen(m.t)
	m.addr = l.Addr().String()
	go func() { m.served <- m.server.Serve(l) }()
}

// stop ends everything.
func (g *group) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	for _, m := range g.members {
		g.drop(m.id, quorum.ErrStopped)
		err := m.server.Shutdown(ctx)
		if serving := <-m.served; !errors.Is(serving, net.ErrClosed) { // Serve may have begun later
			err = errors.Join(err, serving)
		}
		if err != nil {
			g.t.Errorf("stop server %d: %v", m.id, err)
		}
		if n := m.server.inFlight.Count(); n != 0 {
			g.t.Errorf("server %d: %d requests are still counted as under way after the stop", m.id, n)
		}
	}
	g.mu.Lock()
	g.stopped = true
	g.changed.Broadcast()
	g.mu.Unlock()
	for _, m := range g.members {
		<-m.done
		if err := m.machine.Close(); err != nil {
			g.t.Errorf("close the machine: %v", err)
		}
	}
}

// at returns server id.
func (g *group) at(id uint64) *member { return g.members[id-1] }

// elect makes a server the leader of all that reach it, who are told.
func (g *group) elect(leader uint64) {
	g.mu.Lock()
	g.leader = leader
	g.term++
	states := make([]quorum.State, len(g.members))
	for i, m := range g.members {
		states[i] = quorum.State{Term: g.term, Role: quorum.RoleFollower}
		if m.cut {
			continue
		}
		states[i].Leader = leader
		if m.id == leader {
			states[i].Role = quorum.RoleLeader
		}
		g.releaseLocked(m)
	}
	g.changed.Broadcast()
	g.mu.Unlock()
	for i, m := range g.members {
		m.server.SetState(states[i])
	}
}

// lose takes the leader away from all.
func (g *group) lose() { g.elect(0) }

// change changes a member under the lock.
func (g *group) change(id uint64, f func(m *member)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g.at(id))
	g.changed.Broadcast()
}

// await waits until something is so with a member, which is looked at under the lock.
func (g *group) await(id uint64, what string, so func(m *member) bool) {
	g.t.Helper()
	eventually(g.t, what, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return so(g.at(id))
	})
}

// drop tells who waits for what a member holds that its outcome is not known.
func (g *group) drop(id uint64, err error) {
	g.mu.Lock()
	m := g.at(id)
	var waiters []batcher.Waiter
	for _, h := range m.held {
		waiters = append(waiters, m.waiters[h.batch])
		delete(m.waiters, h.batch)
	}
	for _, b := range m.barriers {
		waiters = append(waiters, b.w)
	}
	m.held, m.barriers = nil, nil
	g.mu.Unlock()
	for _, w := range waiters {
		if w != nil {
			w.Dropped(err)
		}
	}
}

// serves waits until servers serve.
func (g *group) serves(ids ...uint64) {
	g.t.Helper()
	for _, id := range ids {
		eventually(g.t, "the server serves", func() bool {
			return g.at(id).server.available.serving() == stateServing
		})
	}
}

// expires waits until the sessions' time is kept by the leader alone.
func (g *group) expires(leader uint64) {
	g.t.Helper()
	for _, m := range g.members {
		eventually(g.t, "the tracker knows its part", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			tracker := m.server.tracker.Load()
			return m.cut || tracker != nil && tracker.Expiring() == (m.id == leader)
		})
	}
}

// releaseLocked lets go what a member holds, if it has a leader.
func (g *group) releaseLocked(m *member) {
	if m.cut || g.leader == 0 {
		return
	}
	for _, h := range m.held {
		g.log = append(g.log, groupEntry{h.data, g.term})
	}
	m.held = nil
	for i := range m.barriers {
		if m.barriers[i].entries < 0 {
			m.barriers[i].entries = len(g.log)
		}
	}
}

// ProposeIf implements Node.
func (m *member) ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (bool, error) {
	if still != nil && !still() {
		return false, nil
	}
	return true, m.Propose(p, w)
}

// Propose implements Node.
func (m *member) Propose(p *entry.Proposal, w batcher.Waiter) error {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	m.batch++
	data := entry.AppendProposal(entry.AppendEntryHeader(nil, m.id, m.batch), p)
	m.waiters[m.batch] = w
	m.held = append(m.held, heldEntry{data, m.batch})
	g.releaseLocked(m)
	g.changed.Broadcast()
	return nil
}

// Barrier implements Node.
func (m *member) Barrier(w batcher.Waiter) {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	m.barriersAsked++
	m.barriers = append(m.barriers, heldBarrier{-1, w})
	g.releaseLocked(m)
	g.changed.Broadcast()
}

// Report implements reporter.
func (m *member) Report(encode func(b []byte) []byte) bool {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.cut || g.leader == 0 {
		return false
	}
	body := encode(nil)
	m.reports = append(m.reports, body)
	if !m.lost {
		g.at(g.leader).server.Heard(m.id, body)
	}
	return true
}

// run is the apply goroutine.
func (m *member) run() {
	defer close(m.done)
	g := m.group
	for {
		g.mu.Lock()
		for !g.stopped && m.nothingToDoLocked() {
			g.changed.Wait()
		}
		var passed []batcher.Waiter
		var entry groupEntry
		if !m.nothingToDoLocked() {
			passed = m.passedLocked()
			if m.canApplyLocked() {
				entry = g.log[m.applied]
				m.applied++
			}
		}
		index, stopped := uint64(m.applied+1), g.stopped
		g.mu.Unlock()
		if stopped {
			return
		}
		for _, w := range passed {
			w.Applied(&apply.Result{Zxid: m.machine.LastZxid()})
		}
		if entry.data == nil {
			continue
		}
		if err := m.machine.Apply(index, entry.term, entry.data, m); err != nil {
			g.t.Errorf("apply: %v", err)
		}
	}
}

// canApplyLocked reports whether an entry waits.
func (m *member) canApplyLocked() bool { return !m.paused && !m.cut && m.applied < len(m.group.log) }

// nothingToDoLocked reports whether run has to wait.
func (m *member) nothingToDoLocked() bool {
	for _, b := range m.barriers {
		if b.entries >= 0 && b.entries <= m.applied {
			return false
		}
	}
	return !m.canApplyLocked()
}

// passedLocked takes the barriers that have passed.
func (m *member) passedLocked() (passed []batcher.Waiter) {
	left := m.barriers[:0]
	for _, b := range m.barriers {
		if b.entries >= 0 && b.entries <= m.applied {
			passed = append(passed, b.w)
		} else {
			left = append(left, b)
		}
	}
	m.barriers = left
	return passed
}

// Result implements state.Sink.
func (m *member) Result(origin, batch uint64, _ int, r *apply.Result) {
	g := m.group
	g.mu.Lock()
	var w batcher.Waiter
	if origin == m.id {
		w = m.waiters[batch]
		delete(m.waiters, batch)
	}
	deaf := m.deaf
	g.mu.Unlock()
	if !deaf {
		m.server.Committed(r)
	}
	if w != nil {
		w.Applied(r)
	}
}

// caughtUp waits until a server has applied the whole log.
func (g *group) caughtUp(id uint64) {
	g.t.Helper()
	g.await(id, "the log is applied", func(m *member) bool {
		return m.applied == len(g.log) && m.machine.AppliedIndex() == uint64(len(g.log)+1)
	})
}

// canReadOnly is a ConnectRequest of a client that can do with reads.
func canReadOnly(session jute.SessionID, passwd []byte) *jute.ConnectRequest {
	return &jute.ConnectRequest{TimeoutMillis: longMillis, SessionID: session, Passwd: passwd, HasReadOnly: true,
		ReadOnly: true}
}
