package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// EnsembleConfig implements Machine.
func (*fakeMachine) EnsembleConfig() string { return "" }

// CountingQuotas implements Machine.
func (*fakeMachine) Applying() (state.Step, int) { return state.StepEvaluate, 1 }

func (*fakeMachine) CountingQuotas() int { return 0 }

// configured is a machine that evaluates reconfigs, as storage does.
type configured struct {
	*fakeMachine

	shared *configurations
	mu     sync.Mutex
	text   string // guarded by mu
}

// configurations are those of checkpoints, by index.
type configurations struct {
	mu    sync.Mutex
	texts map[uint64]string // guarded by mu
}

// EnsembleConfig implements Machine.
func (m *configured) EnsembleConfig() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text
}

// Apply implements Machine.
func (m *configured) Apply(index, term uint64, data []byte, sink state.Sink) error {
	var p entry.Proposal
	var txn entry.ReconfigTxn
	if len(data) == 0 {
		return m.fakeMachine.Apply(index, term, data, sink)
	}
	reader, err := entry.NewReader(data)
	if err != nil || !reader.Next(&p) || p.Op != jute.OpReconfig {
		return m.fakeMachine.Apply(index, term, data, sink)
	}
	if err := txn.Decode(p.Body); err != nil {
		return err
	}
	result := apply.Result{Op: p.Op, Code: p.Code}
	present, err := ensemble.Parse(m.EnsembleConfig())
	if err != nil {
		return err
	}
	next, code, _ := present.Apply(decodeRequest(txn.Request), ensemble.Rules{SingleVoter: true})
	switch {
	case p.Code != jute.OK:
	case code != jute.OK:
		result.Code = code
	case txn.BaseVersion != present.Version || txn.Members != next.Members():
		result.Code = jute.ReconfigInProgress
	case p.Xid == forbidden:
		result.Code = jute.NoAuth
	default:
		next.Version = int64(index)
		m.mu.Lock()
		m.text = next.Text()
		m.mu.Unlock()
	}
	if err := tellSink(sink, &reader, 0, &result); err != nil {
		return err
	}
	return m.fakeMachine.Apply(index, term, nil, sink)
}

// forbidden is the number of a reconfig for which the client has no permission.
const forbidden = 7

func decodeRequest(body []byte) *jute.ReconfigRequest {
	var d jute.Decoder
	var r jute.ReconfigRequest
	d.Reset(body)
	r.Decode(&d)
	return &r
}

// Checkpoint implements Machine.
func (m *configured) Checkpoint(ctx context.Context, dir string) (index, term uint64, err error) {
	index, term, err = m.fakeMachine.Checkpoint(ctx, dir)
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.texts[index] = m.EnsembleConfig()
	return index, term, err
}

// Install implements Machine.
func (m *configured) Install(dir string) error {
	if err := m.fakeMachine.Install(dir); err != nil {
		return err
	}
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = m.shared.texts[m.AppliedIndex()]
	return nil
}

// lineOf is the line of a server.
func lineOf(id uint64, role string) string {
	return fmt.Sprintf("server.%d=127.0.0.1:1:2:%s;3", id, role)
}

// newConfiguredGroup starts a group of voters whose members may change. Every server has asked to be let in, but those
// from 100 on.
func newConfiguredGroup(t testing.TB, voters int, set ...func(o *Options)) *testGroup {
	shared := &configurations{texts: map[uint64]string{}}
	var lines strings.Builder
	for id := 1; id <= voters; id++ {
		lines.WriteString(lineOf(uint64(id), "participant") + "\n")
	}
	return newTestGroup(t, voters, 0, func(o *Options) {
		patient(o)
		m := &configured{fakeMachine: o.Machine.(*fakeMachine), shared: shared} //nolint:errcheck // it is one
		if !o.Joining {
			m.text = lines.String()
		}
		o.Machine = m
		o.Asking = func(id uint64) bool { return id < 100 }
		for _, more := range set {
			more(o)
		}
	})
}

// reconfigure asks a member for a change of the configuration.
func reconfigure(t testing.TB, n *Node, p entry.Proposal, joining, leaving string) *waiter {
	t.Helper()
	r := jute.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, CurConfigID: -1, Nulls: 4}
	p.Op, p.Flags, p.Body = jute.OpReconfig, entry.FlagSingleVoter, r.Append(nil)
	w := newWaiter(t)
	if err := n.Reconfigure(&p, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// mustReconfigure asks for a change that goes well.
func mustReconfigure(t testing.TB, n *Node, joining, leaving string) {
	t.Helper()
	if got := reconfigure(t, n, entry.Proposal{}, joining, leaving).wait(); got.code != jute.OK || got.err != nil {
		t.Fatalf("%q join and %q leave: %v, %v", joining, leaving, got.code, got.err)
	}
}

// awaitMembers waits until the leader has these voters and learners.
func (g *testGroup) awaitMembers(voters, learners []uint64) {
	g.t.Helper()
	eventually(g.t, fmt.Sprintf("the voters are %v and the learners %v", voters, learners), func() bool {
		for _, id := range g.up() {
			s := g.members[id].node.Status()
			if s.Role == RoleLeader {
				return slices.Equal(s.Voters, voters) && slices.Equal(s.Learners, learners)
			}
		}
		return false
	})
}

func TestReconfigureThroughAFollower(t *testing.T) {
	g := newConfiguredGroup(t, 3)
	g.leader()
	n := g.follower().node
	g.mustWriteSoon(n, applied{1, 1})
	mustReconfigure(t, n, lineOf(4, "observer")+","+lineOf(5, "participant"), "")
	g.awaitMembers([]uint64{1, 2, 3}, []uint64{4, 5}) // nobody waits for what has no data
	g.mustWriteSoon(n, applied{1, 2})
	g.start(4)
	g.start(5)
	g.awaitMembers([]uint64{1, 2, 3, 5}, []uint64{4})
	mustReconfigure(t, n, lineOf(4, "participant")+","+lineOf(5, "observer"), "")
	g.awaitMembers([]uint64{1, 2, 3, 4}, []uint64{5})
	mustReconfigure(t, n, strings.Replace(lineOf(4, "participant"), ";3", ";4", 1), "")
	g.mustWriteSoon(g.members[4].node, applied{2, 1})
	g.agree(3)
	for _, id := range g.up() {
		text := g.members[id].node.options.Machine.EnsembleConfig()
		want := g.leader().node.options.Machine.EnsembleConfig()
		if text != want || !strings.Contains(text, ";0.0.0.0:4") {
			t.Errorf("member %d has the configuration %s", id, text)
		}
	}
}

func TestReconfigureIsRefused(t *testing.T) {
	g := newConfiguredGroup(t, 3)
	lead := g.leader()
	n := lead.node
	g.mustWriteSoon(n, applied{1, 1})
	// The first one stays under way until the followers are back.
	for id := range g.members {
		g.net.block(lead.id, id, true)
	}
	first := reconfigure(t, n, entry.Proposal{}, lineOf(4, "observer"), "")
	eventually(t, "the first is proposed", func() bool { return n.Status().LastIndex > n.Status().Commit })
	second := reconfigure(t, n, entry.Proposal{}, lineOf(5, "observer"), "")
	eventually(t, "the second is proposed", func() bool { return n.Status().LastIndex > n.Status().Commit+1 })
	for id := range g.members {
		g.net.block(lead.id, id, false)
	}
	if a, b := first.wait(), second.wait(); a.code != jute.OK || b.code != jute.ReconfigInProgress {
		t.Errorf("two at once are answered %v and %v", a, b)
	}
	n = g.leader().node
	for _, c := range []struct {
		p                entry.Proposal
		joining, leaving string
		want             jute.Code
	}{
		{entry.Proposal{Xid: forbidden}, lineOf(5, "observer"), "", jute.NoAuth},
		{entry.Proposal{}, lineOf(101, "participant") + "," + lineOf(102, "participant"), "1,2",
			jute.NewConfigNoQuorum},
		{entry.Proposal{}, "garbage", "", jute.BadArguments},
		{entry.Proposal{}, "", "garbage", jute.MarshallingError},
		{entry.Proposal{}, lineOf(101, "observer"), "", jute.OK},
	} {
		if got := reconfigure(t, n, c.p, c.joining, c.leaving).wait(); got.code != c.want || got.err != nil {
			t.Errorf("%q join and %q leave: %v, want %v", c.joining, c.leaving, got, c.want)
		}
	}
	g.awaitMembers([]uint64{1, 2, 3}, []uint64{4, 101})
}

// TestReconfigureReplacesAll has three members replaced by three others in one step: nobody leaves before those who
// come can decide without them.
func TestReconfigureReplacesAll(t *testing.T) {
	g := newConfiguredGroup(t, 3)
	n := g.leader().node
	g.mustWriteSoon(n, applied{1, 1})
	var joining []string
	for id := uint64(4); id <= 6; id++ {
		joining = append(joining, lineOf(id, "participant"))
	}
	mustReconfigure(t, n, strings.Join(joining, ","), "1,2,3")
	g.awaitMembers([]uint64{1, 2, 3}, []uint64{4, 5, 6})
	g.mustWriteSoon(n, applied{1, 2})
	for id := uint64(4); id <= 6; id++ {
		g.start(id)
	}
	g.awaitMembers([]uint64{4, 5, 6}, nil)
	for id := uint64(1); id <= 3; id++ {
		eventually(t, "who was removed knows", func() bool { return g.members[id].states.last().Role == RoleRemoved })
		g.kill(id)
	}
	g.mustWriteSoon(g.leader().node, applied{1, 3})
	g.agree(3)
}

// TestAReconfigWaitsForTheEmptiedOneOfTwo: of two voters one has lost its disk, and counts by the word of the other one
// until that has listed it again. A reconfig that is asked for before puts nothing into the log that ends that word.
func TestAReconfigWaitsForTheEmptiedOneOfTwo(t *testing.T) {
	for name, c := range map[string]struct {
		line             func(emptied uint64) string // who joins; empty: the emptied one leaves
		voters, learners int
	}{
		"a third one joins":   {func(uint64) string { return lineOf(3, "participant") }, 3, 0},
		"an observer joins":   {func(uint64) string { return lineOf(3, "observer") }, 2, 1},
		"it leaves":           {func(uint64) string { return "" }, 1, 0},
		"it becomes observer": {func(id uint64) string { return lineOf(id, "observer") }, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newConfiguredGroup(t, 2, func(o *Options) { o.ElectionTicks = patience / 2 })
			n := g.leader().node
			emptied := g.follower().id
			joining, leaving := c.line(emptied), ""
			if joining == "" {
				leaving = fmt.Sprint(emptied)
			}
			for seq := range uint32(10) {
				g.mustWriteSoon(n, applied{1, seq})
			}
			g.kill(emptied)
			heard := make(chan error, 1)
			n.InForce(0, func(err error) { heard <- err }) // it comes to the loop after the news of who is away
			if err := <-heard; err != nil {
				t.Fatal(err)
			}
			first := reconfigure(t, n, entry.Proposal{}, joining, leaving)
			g.wipe(emptied)
			if got := first.wait(); got.code != jute.OK || got.err != nil {
				g.mustWriteSoon(n, applied{2, 1})
				mustReconfigure(t, n, joining, leaving)
			}
			if c.voters+c.learners > 2 {
				g.start(3)
			}
			eventually(t, "the members are as asked for", func() bool {
				s := n.Status()
				return len(s.Voters) == c.voters && len(s.Learners) == c.learners
			})
			g.mustWriteSoon(n, applied{2, 2})
		})
	}
}

func TestDataOfAnotherMember(t *testing.T) {
	g := newTestGroup(t, 1, 0, func(o *Options) { o.Transport, o.SnapshotSender = nil, nil })
	g.leader()
	g.stop(1)
	log := openLog(t, g.members[1].fs, "log")
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := testOptions(log, g.members[1].machine)
	o.ID = 2
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the data is of server 1") {
		t.Errorf("another member starts with the data of member 1: %v", err)
	}
	o.ID, o.Members = 1, []Member{{ID: 1}, {ID: 2}}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "stood alone") {
		t.Errorf("a group of one becomes one of two by its configuration: %v", err)
	}
}
