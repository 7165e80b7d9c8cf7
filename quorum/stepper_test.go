package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/crashfs"
	"zkd/storage/raftlog"
)

// stepGroup is a group of members without goroutines, with all that is on its way between them.
type stepGroup struct {
	t       *testing.T
	random  *rand.Rand
	disk    *fakeDisk
	members []*stepMember
	frames  []stepFrame
	trace   []string
	away    uint64 // a member that stands still; 0: none

	crashes  int
	unsynced int // percent of what is not synced that survives a crash

	restored, finished int // installs of snapshots, and those that a start has finished

	refuses uint64 // a member that takes no checkpoint; 0: none
	ends    uint64 // a member that crashes while it installs the next one; 0: none
	offered int    // checkpoints that it was offered
	holds   bool   // what is to be sent is held back
	hangs   bool   // until it is given up
	hung    uint64 // a member whose disk stores nothing of its log; 0: none

	slow bool        // what is sent in order gets nowhere
	late []stepFrame // that is it
}

// stepFrame is a frame on its way.
type stepFrame struct {
	from, to uint64
	frame
}

// stepMember is one member of a stepGroup; its fields survive a crash, but for the stepper.
type stepMember struct {
	id      uint64
	g       *stepGroup
	fs      *crashfs.FS
	machine *fakeMachine
	stepper *Stepper

	founders    []Member
	clock       clock.Clock // nil: one that stands still
	tailBytes   int64       // of the log in memory; 0: the default
	retainBytes int64       // 0: little
}

// Send implements Transport.
func (m *stepMember) Send(to uint64, kind uint8, encode func([]byte) []byte) bool {
	m.g.frames = append(m.g.frames, stepFrame{m.id, to, frame{kind, encode(nil)}})
	return true
}

// SendInOrder implements Transport.
func (m *stepMember) SendInOrder(to uint64, kind uint8, encode func([]byte) []byte, kept []byte) bool {
	if m.g.slow {
		m.g.late = append(m.g.late, stepFrame{m.id, to, frame{kind, append(encode(nil), kept...)}})
		return true
	}
	return m.Send(to, kind, func(b []byte) []byte { return append(encode(b), kept...) })
}

// SendSnapshot implements SnapshotSender.
func (m *stepMember) SendSnapshot(ctx context.Context, to uint64, header []byte, dir string) error {
	if to == m.g.refuses {
		m.g.offered++
		return errInjected
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	state, ok := m.g.disk.get(dir)
	if !ok {
		return errInjected
	}
	other := m.g.members[to-1]
	if err := other.stepper.Node().CheckSnapshot(m.id, header); err != nil {
		return err
	}
	staging := fmt.Sprintf("staged-%d-%d", to, state.index)
	m.g.disk.put(staging, state)
	if err := other.stepper.Staged(m.id, header, staging, func(error) {}); err != nil || to != m.g.ends {
		return err
	}
	m.g.ends = 0
	for other.stepper.Node().appender.installs.Load()%2 == 0 {
		_, turned := other.stepper.Turn()
		if _, err := other.stepper.Append(); err != nil || turned != nil {
			return errors.Join(err, turned)
		}
	}
	other.crash()
	return errInjected
}

// start opens the member on what it has.
func (m *stepMember) start() {
	m.g.t.Helper()
	log := openLogWith(m.g.t, raftlog.Options{Dir: "log", FS: m.fs, TailBytes: m.tailBytes})
	if blob, ok := log.Meta(installingKey); ok { // what DataDir.FinishInstall does
		in, err := decodeInstall(blob)
		if err != nil {
			m.g.t.Fatal(err)
		}
		if m.machine.state.index < in.member.Index {
			m.g.finished++
			if err := m.machine.Install(fmt.Sprintf("staged-%d-%d", m.id, in.member.Index)); err != nil {
				m.g.t.Fatal(err)
			}
		}
	}
	o := testOptions(log, m.machine)
	o.OnReplaced = func() { m.g.restored++ }
	o.ID, o.Transport, o.SnapshotSender, o.FS, o.CheckpointDir = m.id, m, m, m.fs, fmt.Sprintf("checkpoints-%d", m.id)
	o.Members = m.founders
	if o.Clock = m.clock; o.Clock == nil {
		o.Clock = clock.NewManual(time.Unix(1, 0))
	}
	o.Rand = rand.New(rand.NewPCG(m.g.random.Uint64(), 1))
	o.TailEntries, o.TailBytes, o.RetainBytes, o.MaxEntryBytes = 4, 200, 400, 200
	if m.retainBytes > 0 {
		o.RetainBytes = m.retainBytes
	}
	o.OnState = func(s State) { m.g.trace = append(m.g.trace, fmt.Sprintf("%d: %+v", m.id, s)) }
	var err error
	if m.stepper, err = NewStepper(o); err != nil {
		m.g.t.Fatal(err)
	}
}

// crash ends the member and loses what it has not synced; the others hear of it.
func (m *stepMember) crash() {
	m.g.crashes++
	m.stepper.End()
	left := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.g.unsynced, RNG: rand.New(rand.NewPCG(1, 1))})
	if err := m.stepper.node.options.Log.Close(); err != nil {
		m.g.t.Fatal(err)
	}
	m.fs, m.machine = left, m.machine.crashed()
	m.start()
	for _, other := range m.g.members {
		if other != m {
			other.stepper.Node().Lost(m.id)
			other.stepper.Node().Connected(m.id)
			m.stepper.Node().Connected(other.id)
		}
	}
}

// step does one thing at random.
func (g *stepGroup) step() {
	m := g.members[g.random.IntN(len(g.members))]
	if m.id == g.away {
		return
	}
	var err error
	switch n := g.random.IntN(100); {
	case n < 40:
		g.deliver()
	case n < 60:
		_, err = m.stepper.Turn()
	case n < 75:
		_, err = m.stepper.Append()
	case n < 90:
		_, err = m.stepper.Apply()
	case n < 93:
		if g.random.IntN(4) == 0 {
			err = m.machine.Flush(context.Background())
		}
		if err == nil {
			_, err = m.stepper.Compact()
		}
	case n < 96:
		m.stepper.Checkpoint(context.Background())
	case n < 98:
		_, err = m.stepper.Read()
	default:
		err = m.stepper.Tick()
	}
	if err != nil {
		g.t.Fatalf("member %d: %v", m.id, err)
	}
}

// deliver delivers a frame, mostly in order, or loses or doubles it.
func (g *stepGroup) deliver() {
	if len(g.frames) == 0 {
		return
	}
	i := 0
	if g.random.IntN(10) == 0 {
		i = g.random.IntN(len(g.frames))
	}
	f := g.frames[i]
	fate := g.random.IntN(50)
	if fate != 1 {
		g.frames = append(g.frames[:i], g.frames[i+1:]...)
	}
	if s := g.members[f.to-1].stepper; fate != 0 && f.to != g.away && s.CanReceive(f.from) {
		s.Node().Receive(f.from, f.kind, f.body)
	}
}

// settle gives everybody who is there turns without faults until nothing is left to do.
func (g *stepGroup) settle(ticks int) {
	for range ticks {
		for _, m := range g.present() {
			if err := m.stepper.Tick(); err != nil {
				g.t.Fatal(err)
			}
		}
		rounds := 0
		for busy := true; busy; {
			if rounds++; rounds > 10_000 {
				g.t.Fatal("the group does not come to rest")
			}
			busy = false
			for _, f := range g.frames {
				if f.to != g.away {
					g.members[f.to-1].stepper.Node().Receive(f.from, f.kind, f.body)
				}
				busy = true
			}
			g.frames = g.frames[:0]
			for _, m := range g.present() {
				for _, part := range []func() (bool, error){
					m.stepper.Turn, m.append, m.stepper.Apply, m.stepper.Read,
				} {
					worked, err := part()
					if err != nil {
						g.t.Fatalf("member %d: %v", m.id, err)
					}
					busy = busy || worked
				}
				busy = !m.held() && m.stepper.Checkpoint(context.Background()) || busy
			}
		}
	}
}

// append has the member's disk store what there is, unless it hangs.
func (m *stepMember) append() (worked bool, err error) {
	if m.id == m.g.hung {
		return false, nil
	}
	return m.stepper.Append()
}

// held tells whether the next thing to be sent is held back.
func (m *stepMember) held() bool {
	s := m.stepper
	if len(s.jobs) == 0 {
		s.jobs = s.node.checkpointer.work.take(nil)
	}
	if len(s.jobs) == 0 || s.jobs[0].send == nil {
		return false
	}
	return m.g.holds || m.g.hangs && s.jobs[0].send.ctx.Err() == nil
}

// present are the members that are not away.
func (g *stepGroup) present() []*stepMember {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *stepMember) bool { return m.id == g.away })
}

// runStepGroup runs a group of three under a seed and returns what happened. Each client's writes must have come out in
// order, once, without a gap up to where it stopped, and nothing that was acknowledged may be missing.
func runStepGroup(t *testing.T, seed uint64, steps, unsynced int) []string {
	g := newStepGroup(t, seed)
	g.unsynced = unsynced
	acks := &ledger{acked: map[uint32]uint32{}}
	clients := map[uint64]*stepClient{}
	for n := range steps {
		g.step()
		m := g.members[g.random.IntN(3)]
		if g.random.IntN(8) == 0 {
			c := clients[m.id]
			if c == nil || c.ended {
				c = &stepClient{id: uint32(n), acks: acks}
				clients[m.id] = c
			}
			c.write(m)
		}
		installing := m.stepper.Node().appender.installs.Load()%2 == 1
		if g.random.IntN(3000) == 0 || installing && g.random.IntN(20) == 0 {
			m.crash()
		}
		if g.random.IntN(2000) == 0 {
			g.away = uint64(g.random.IntN(4))
		}
	}
	g.away = 0
	g.settle(200)
	lead := g.members[0].stepper.Node().Status().Leader
	for _, m := range g.members {
		checkOrder(t, m.machine.list(), acks.snapshot(), -1)
		if diff := cmp.Diff(g.members[0].machine.list(), m.machine.list(), cmp.AllowUnexported(applied{})); diff != "" {
			t.Fatalf("seed %d: members 1 and %d differ:\n%s", seed, m.id, diff)
		}
		if s := m.stepper.Node().Status(); s.Leader != lead || lead == 0 {
			t.Fatalf("seed %d: after the faults: %+v", seed, s)
		}
	}
	list := g.members[0].machine.list()
	t.Logf("seed %d: %d writes, %d crashes, %d installs and %d finished, term %d", seed, len(list), g.crashes,
		g.restored, g.finished, g.members[0].stepper.Node().Status().Term)
	g.trace = append(g.trace, fmt.Sprint(list))
	g.close()
	return g.trace
}

// newStepGroup starts a group of three under a seed.
func newStepGroup(t *testing.T, seed uint64) *stepGroup {
	g := &stepGroup{t: t, random: rand.New(rand.NewPCG(seed, 1)), disk: newFakeDisk()}
	for id := uint64(1); id <= 3; id++ {
		m := &stepMember{id: id, g: g, fs: crashfs.New(), machine: &fakeMachine{keep: true, disk: g.disk}}
		m.tailBytes = 1 + int64(seed%512) // little, so that what the log does not have in memory is read
		m.founders = []Member{{ID: 1}, {ID: 2}, {ID: 3}}
		g.members = append(g.members, m)
		m.start()
	}
	for _, m := range g.members {
		for _, other := range g.members {
			if other != m {
				m.stepper.Node().Connected(other.id)
			}
		}
	}
	return g
}

// close ends the members.
func (g *stepGroup) close() {
	for _, m := range g.members {
		m.stepper.End()
		if err := m.stepper.node.options.Log.Close(); err != nil {
			g.t.Error(err)
		}
	}
}

// stepClient writes 0, 1, 2 … until a write of it is dropped.
type stepClient struct {
	id, seq uint32
	acks    *ledger
	ended   bool
}

// write proposes the next write.
func (c *stepClient) write(m *stepMember) {
	w := &stepWaiter{c, c.seq}
	if err := m.stepper.Node().Propose(proposal(applied{c.id, c.seq}, 30), w); err != nil {
		c.ended = true
		return
	}
	c.seq++
}

// stepWaiter waits for one write of a stepClient.
type stepWaiter struct {
	c   *stepClient
	seq uint32
}

// Applied implements batcher.Waiter.
func (w *stepWaiter) Applied(*apply.Result) { w.c.acks.acked[w.c.id] = w.seq + 1 }

// Dropped implements batcher.Waiter.
func (w *stepWaiter) Dropped(error) { w.c.ended = true }

// TestStepperUnderFaults loses, doubles and reorders frames and crashes members, part by part.
func TestStepperUnderFaults(t *testing.T) {
	seeds, steps := uint64(30), 20_000
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		cryptotest.SetGlobalRandom(t, seed)
		runStepGroup(t, seed, steps, 50)
	}
}

// TestStepperRepeats runs one seed twice.
func TestStepperRepeats(t *testing.T) {
	var traces [2][]string
	for n := range traces {
		cryptotest.SetGlobalRandom(t, 7)
		traces[n] = runStepGroup(t, 7, 10_000, 0)
	}
	if diff := cmp.Diff(traces[0], traces[1]); diff != "" {
		t.Errorf("the second run differs:\n%s", diff)
	}
}

// TestLeaderPostponesReadIndex asks the only voter for a read index when it leads and has not committed anything of its
// term yet: its commit index on disk is older than what was acknowledged.
func TestLeaderPostponesReadIndex(t *testing.T) {
	g := &stepGroup{t: t, random: rand.New(rand.NewPCG(1, 1)), disk: newFakeDisk()}
	m := &stepMember{id: 1, g: g, fs: crashfs.New(), machine: &fakeMachine{keep: true, disk: g.disk}}
	m.founders = []Member{{ID: 1}, {ID: 2, Learner: true}}
	m.start()
	var last uint64
	for round := range 2 {
		for m.stepper.Node().Status().Role != RoleLeader {
			m.all(m.stepper.Turn)
			if m.stepper.Node().Status().Role != RoleLeader {
				m.all(m.stepper.Append)
			}
		}
		ask := &raftpb.Message{
			Type: raftpb.MsgReadIndex.Enum(), From: proto.Uint64(2), To: proto.Uint64(1),
			Entries: []*raftpb.Entry{{Data: []byte("question")}},
		}
		body, err := appendRaft(nil, ask)
		if err != nil {
			t.Fatal(err)
		}
		m.stepper.Node().Receive(2, frameRaft, body)
		m.all(m.stepper.Turn)
		if got := g.readIndexes(); len(got) > 0 {
			t.Errorf("round %d: answered %d before anything is committed", round, got)
		}
		for range 3 {
			m.all(m.stepper.Append)
			m.all(m.stepper.Turn)
		}
		if got := g.readIndexes(); len(got) != 1 || got[0] <= last {
			t.Errorf("round %d: answered %d, want one beyond %d", round, got, last)
		}
		last = m.stepper.Node().Status().LastIndex
		if round == 0 {
			m.stepper.End()
			if err := m.stepper.node.options.Log.Close(); err != nil {
				t.Fatal(err)
			}
			g.frames = nil
			m.start()
		}
	}
	m.stepper.End()
	if err := m.stepper.node.options.Log.Close(); err != nil {
		t.Fatal(err)
	}
}

// all gives a part turns as long as it has something to do.
func (m *stepMember) all(turn func() (bool, error)) {
	m.g.t.Helper()
	for {
		worked, err := turn()
		if err != nil {
			m.g.t.Fatal(err)
		}
		if !worked {
			return
		}
	}
}

// readIndexes are the answers to questions for a read index that are on their way.
func (g *stepGroup) readIndexes() (indexes []uint64) {
	for _, f := range g.frames {
		if m, err := decodeRaft(f.body, f.from, f.to); err == nil && m.GetType() == raftpb.MsgReadIndexResp {
			indexes = append(indexes, m.GetIndex())
		}
	}
	return indexes
}
