package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/member"
)

// frame is one frame on its way.
type frame struct {
	kind uint8
	body []byte
}

// link is one direction between two members: frames arrive in order, delivered by a goroutine.
type link struct {
	net      *testNet
	from, to uint64
	queue    chan frame // of size linkFrames; what does not fit is dropped
}

// linkFrames is how many frames a link holds.
const linkFrames = 4096

// run delivers frames until the queue is closed.
func (l *link) run() {
	var late *frame
	for f := range l.queue {
		deliveries, hold := l.net.fate(l.from, l.to, f.kind)
		if hold && late == nil {
			late = &f
			continue
		}
		for range deliveries {
			l.net.deliver(l, f)
		}
		if late != nil {
			l.net.deliver(l, *late)
			late = nil
		}
	}
}

// testNet is a network between the members of a group.
type testNet struct {
	mu     sync.Mutex
	nodes  map[uint64]*Node                      // guarded by mu
	links  map[[2]uint64]*link                   // guarded by mu
	cut    map[[2]uint64]bool                    // guarded by mu; frames from the first to the second are lost
	sent   map[uint8]int                         // guarded by mu; frames by kind
	random *rand.Rand                            // guarded by mu
	chaos  func(r *rand.Rand) (n int, late bool) // guarded by mu; how often a forward arrives, and whether late
	all    sync.WaitGroup
}

func newTestNet() *testNet {
	return &testNet{
		nodes: map[uint64]*Node{}, links: map[[2]uint64]*link{}, cut: map[[2]uint64]bool{}, sent: map[uint8]int{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// fate says how often a frame arrives, and whether the next one overtakes it.
func (t *testNet) fate(from, to uint64, kind uint8) (deliveries int, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cut[[2]uint64{from, to}] {
		return 0, false
	}
	if t.chaos != nil && (kind == frameForward || kind == frameRefusal) {
		return t.chaos(t.random)
	}
	return 1, false
}

// deliver hands a frame to its receiver.
func (t *testNet) deliver(l *link, f frame) {
	t.mu.Lock()
	n := t.nodes[l.to]
	if t.nodes[l.from] == nil || t.cut[[2]uint64{l.from, l.to}] {
		n = nil
	}
	t.mu.Unlock()
	if n != nil {
		n.Receive(l.from, f.kind, f.body)
	}
}

// transport is one member's Transport.
type transport struct {
	net *testNet
	id  uint64
}

// Send implements Transport.
func (t transport) Send(to uint64, kind uint8, encode func([]byte) []byte) bool {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.net.nodes[t.id] == nil || t.net.nodes[to] == nil {
		return false
	}
	key := [2]uint64{t.id, to}
	l := t.net.links[key]
	if l == nil {
		l = &link{net: t.net, from: t.id, to: to, queue: make(chan frame, linkFrames)}
		t.net.links[key] = l
		t.net.all.Go(l.run)
	}
	t.net.sent[kind]++
	select {
	case l.queue <- frame{kind: kind, body: encode(nil)}:
		return true
	default:
		return false
	}
}

// SendInOrder implements Transport: a link keeps the order of all frames.
func (t transport) SendInOrder(to uint64, kind uint8, encode func([]byte) []byte, kept []byte) bool {
	return t.Send(to, kind, func(b []byte) []byte { return append(encode(b), kept...) })
}

// join connects a member with all others.
func (t *testNet) join(n *Node) {
	id := n.options.ID
	t.mu.Lock()
	others := maps.Clone(t.nodes)
	t.nodes[id] = n
	t.mu.Unlock()
	for peer, other := range others { // order: each pair for itself
		n.Connected(peer)
		other.Connected(id)
	}
}

// leave takes a member off the net; the others' connections to it break.
func (t *testNet) leave(id uint64) {
	t.mu.Lock()
	delete(t.nodes, id)
	others := maps.Clone(t.nodes)
	t.mu.Unlock()
	for _, other := range others { // order: each pair for itself
		other.Lost(id)
	}
}

// block loses the frames from one member to another, or delivers them again, without a word to either.
func (t *testNet) block(from, to uint64, blocked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut[[2]uint64{from, to}] = blocked
}

// isolate blocks a member in both directions, and breaks the connections, or ends that.
func (t *testNet) isolate(id uint64, isolated bool) {
	t.mu.Lock()
	nodes := maps.Clone(t.nodes)
	for peer := range nodes { // order: each pair for itself
		t.cut[[2]uint64{id, peer}], t.cut[[2]uint64{peer, id}] = isolated, isolated
	}
	t.mu.Unlock()
	for peer, n := range nodes { // order: each pair for itself
		switch {
		case peer == id:
		case isolated:
			n.Lost(id)
			nodes[id].Lost(peer)
		default:
			n.Connected(id)
			nodes[id].Connected(peer)
		}
	}
}

// close ends the deliveries. No node may run any more.
func (t *testNet) close() {
	t.mu.Lock()
	for _, l := range t.links { // order: all of them
		close(l.queue)
	}
	t.mu.Unlock()
	t.all.Wait()
}

// testMember is one member of a test group and what it keeps on disk.
type testMember struct {
	id      uint64
	fs      *vfs.MemFS
	machine *fakeMachine
	node    *Node // nil while it is down
	states  *stateLog
}

// stateLog collects what OnState was told.
type stateLog struct {
	mu     sync.Mutex
	states []State
}

func (s *stateLog) add(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states = append(s.states, state)
}

// last is the last state.
func (s *stateLog) last() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.states) == 0 {
		return State{}
	}
	return s.states[len(s.states)-1]
}

// testGroup is a group of members in one process.
type testGroup struct {
	t        testing.TB
	net      *testNet
	disk     *fakeDisk
	founders []Member
	members  map[uint64]*testMember
	set      func(o *Options)
}

// patience is how many ticks of silence a test group takes for the loss of its leader. Three times as many without a
// leader, or ten times as many without an answer, and a member gives up on what it was asked for: no slow machine may
// have a test wait for that long by accident.
const patience = 100

// patient is for a test that wants no election but the first: a member that the system lets wait is no reason for one.
func patient(o *Options) { o.ElectionTicks = 10 * patience }

// newTestGroup makes a group of voters 1…voters and learners behind them, and starts all of it. All of them found it:
// on a slow machine one that comes late would be added later, and until then the others need each other.
func newTestGroup(t testing.TB, voters, learners int, set func(o *Options)) *testGroup {
	g := &testGroup{t: t, net: newTestNet(), disk: newFakeDisk(), members: map[uint64]*testMember{}, set: set}
	for id := uint64(1); id <= uint64(voters+learners); id++ {
		g.founders = append(g.founders, Member{ID: id, Learner: id > uint64(voters)})
	}
	t.Cleanup(g.close)
	for _, m := range g.founders {
		g.start(m.ID)
	}
	older := func(id uint64) bool {
		o := g.members[id].node.options
		return o.Transport == nil || o.PeerLevel != nil || o.LevelMax < levelAdmissions
	}
	if !slices.ContainsFunc(g.up(), older) {
		eventually(t, "all have founded the group", func() bool { return g.recorded() == len(g.founders) })
	}
	return g
}

// recorded counts the members that run and know the incarnations of all founders from the log.
func (g *testGroup) recorded() (n int) {
	g.t.Helper()
	for _, id := range g.up() {
		blob, _ := g.members[id].node.options.Log.Meta(membershipKey)
		m, err := member.Decode(blob)
		if err != nil {
			g.t.Fatal(err)
		}
		if m.Recorded && len(m.Incarnations) == len(g.founders) {
			n++
		}
	}
	return n
}

// close ends everything.
func (g *testGroup) close() {
	if g.members == nil {
		return // by the test
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if g.members[id].node != nil {
			g.kill(id)
		}
	}
	g.net.close()
}

// start starts a member: on what it has on disk, or as a new one.
func (g *testGroup) start(id uint64) *testMember {
	g.t.Helper()
	m := g.members[id]
	if m == nil {
		m = &testMember{id: id, fs: vfs.NewMem(), machine: &fakeMachine{keep: true, disk: g.disk}, states: &stateLog{}}
		g.members[id] = m
	}
	o := testOptions(openLog(g.t, m.fs, "log"), m.machine)
	o.ID, o.Members, o.Transport, o.SnapshotSender = id, g.founders, transport{g.net, id}, testSnapshotSender{g, id}
	o.CheckpointDir, o.FS = fmt.Sprintf("member-%d", id), m.fs
	o.TickInterval, o.ElectionTicks = 10*time.Millisecond, patience
	o.OnState = m.states.add
	o.Joining = !slices.ContainsFunc(g.founders, func(f Member) bool { return f.ID == id })
	if g.set != nil {
		g.set(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	n, err := Start(ctx, o)
	if err != nil {
		g.t.Fatalf("start member %d: %v", id, err)
	}
	m.node = n
	g.net.join(n)
	return m
}

// kill ends a member without a word to anybody.
func (g *testGroup) kill(id uint64) {
	m := g.members[id]
	m.node.stop(ErrStopped)
	g.net.leave(id)
	<-m.node.ended
	if err := m.node.err(); err != nil {
		g.t.Errorf("member %d had failed: %v", id, err)
	}
	if err := m.node.options.Log.Close(); err != nil {
		g.t.Errorf("member %d: close: %v", id, err)
	}
	m.node = nil
}

// stop stops a member as an operator does.
func (g *testGroup) stop(id uint64) {
	g.t.Helper()
	m := g.members[id]
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := m.node.Stop(ctx); err != nil {
		g.t.Errorf("stop member %d: %v", id, err)
	}
	g.net.leave(id)
	if err := m.node.options.Log.Close(); err != nil {
		g.t.Errorf("member %d: close: %v", id, err)
	}
	m.node = nil
}

// up are the members that run, sorted.
func (g *testGroup) up() (ids []uint64) {
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if g.members[id].node != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// leader waits until all members that run, but the given ones, agree on a leader among them.
func (g *testGroup) leader(without ...uint64) *testMember {
	g.t.Helper()
	var lead uint64
	eventually(g.t, "the members agree on a leader", func() bool {
		lead = 0
		for _, id := range g.up() {
			if slices.Contains(without, id) {
				continue
			}
			s := g.members[id].node.Status()
			if len(s.Voters) == 0 || s.Role == RoleRemoved {
				continue // waits to be added, or was removed
			}
			if s.Leader == 0 || lead != 0 && s.Leader != lead {
				return false
			}
			lead = s.Leader
		}
		m := g.members[lead]
		return m != nil && m.node != nil && !slices.Contains(without, lead) && m.node.Status().Role == RoleLeader
	})
	return g.members[lead]
}

// follower is the first member with a vote that runs and does not lead.
func (g *testGroup) follower() *testMember {
	lead := g.leader().id
	for _, id := range g.up() {
		if id != lead && !g.founders[id-1].Learner {
			return g.members[id]
		}
	}
	return nil
}

// agree waits until all members that run have applied the same, count writes at least.
func (g *testGroup) agree(count int) []applied {
	g.t.Helper()
	var list []applied
	eventually(g.t, "the members have applied the same", func() bool {
		for n, id := range g.up() {
			if got := g.members[id].machine.list(); n == 0 {
				list = got
			} else if !slices.Equal(got, list) {
				return false
			}
		}
		return len(list) >= count
	})
	return list
}

// testSnapshotSender copies a checkpoint from one member of a test group to another one.
type testSnapshotSender struct {
	g  *testGroup
	id uint64
}

// SendSnapshot implements SnapshotSender.
func (s testSnapshotSender) SendSnapshot(ctx context.Context, to uint64, header []byte, dir string) error {
	state, ok := s.g.disk.get(dir)
	if !ok {
		return fmt.Errorf("no checkpoint %s", dir)
	}
	staging := fmt.Sprintf("member-%d/staged", to)
	s.g.disk.put(staging, state)
	s.g.net.mu.Lock()
	n := s.g.net.nodes[to]
	if s.g.net.cut[[2]uint64{s.id, to}] {
		n = nil
	}
	s.g.net.mu.Unlock()
	if n == nil {
		return errInjected
	}
	return n.Staged(s.id, header, staging)
}

// mustWriteSoon writes through a member, again as long as it takes nothing, or the write is lost with a leader.
func (g *testGroup) mustWriteSoon(n *Node, a applied) {
	g.t.Helper()
	eventually(g.t, "the member takes a write", func() bool {
		w := newWaiter(g.t)
		err := n.Propose(proposal(a, 0), w)
		if err == nil {
			err = w.wait().err
		}
		if errors.Is(err, ErrLeadershipLost) { // then the write may be there nevertheless
			eventually(g.t, "the member hears of a leader", func() bool { return barrier(g.t, n).err == nil })
			return slices.ContainsFunc(g.up(), func(id uint64) bool {
				return slices.Contains(g.members[id].machine.list(), a)
			})
		}
		if err != nil && !errors.Is(err, ErrNoLeader) {
			g.t.Fatalf("write %v: %v", a, err)
		}
		return err == nil
	})
}

// barrier waits for a barrier.
func barrier(t testing.TB, n *Node) answer {
	t.Helper()
	w := newWaiter(t)
	n.Barrier(w)
	return w.wait()
}
