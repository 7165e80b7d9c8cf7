package quorum

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/quorum/member"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
)

// movers are what the members of a test group do with addresses.
type movers struct {
	mu     sync.Mutex
	deaf   map[uint64]bool    // guarded by mu; who cannot listen
	apart  map[[2]uint64]bool // guarded by mu; the first does not reach the second
	forbid bool               // guarded by mu
	// unprepared has nobody asked, mixed keeps the group at the oldest level; immutable.
	unprepared, mixed bool
	gate              chan struct{}  // immutable; who may is told once it is closed; nil: at once
	permissions       atomic.Int64   // how often it was asked who may
	prepared          int            // guarded by mu; how often a member was asked
	proposed          map[uint64]int // guarded by mu; what each was told to be in its log
}

// newMovingGroup starts a group of three whose members ask m when they are to prepare a move.
func newMovingGroup(t *testing.T, m *movers) *testGroup {
	t.Helper()
	shared := &configurations{texts: map[uint64]string{}}
	m.proposed = map[uint64]int{}
	return newTestGroup(t, 3, 0, func(o *Options) {
		patient(o)
		machine := &configured{fakeMachine: o.Machine.(*fakeMachine), shared: shared} //nolint:errcheck // it is one
		machine.text = movedTo(1, 1, 2, 3)
		o.Machine = machine
		id := o.ID
		o.PrepareAddresses = func(_ string, moved []uint64, tell func(PreparedAddresses)) { tell(m.prepare(id, moved)) }
		if m.mixed {
			machine.levels, o.LevelMax = true, entry.LevelOldest
		}
		if m.unprepared {
			o.PrepareAddresses = nil
		}
		o.MayReconfigure = func(_ *entry.Proposal, tell func(bool)) {
			m.mu.Lock()
			may := !m.forbid
			m.mu.Unlock()
			m.permissions.Add(1)
			go func() {
				if m.gate != nil {
					<-m.gate
				}
				tell(may)
			}()
		}
		o.OnProposed = func(members string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if strings.Contains(members, "server.1=") {
				m.proposed[id]++
			}
		}
	})
}

// prepare is one member's answer.
func (m *movers) prepare(id uint64, moved []uint64) PreparedAddresses {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prepared++
	p := PreparedAddresses{Listens: !m.deaf[id], Done: true}
	for _, to := range moved {
		if to != id && !m.deaf[to] && !m.apart[[2]uint64{id, to}] {
			p.Reached = append(p.Reached, to)
		}
	}
	if m.deaf[id] {
		p.Why = "the port is taken"
	}
	return p
}

// movedTo returns the lines of servers, all on that port.
func movedTo(port int, ids ...uint64) string {
	var lines strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&lines, "server.%d=127.0.0.%d:%d:9999:participant;3\n", id, id, port)
	}
	return lines.String()
}

// moveTo asks for a configuration.
func moveTo(t *testing.T, n *Node, lines string) answer {
	t.Helper()
	return beginMove(t, n, lines).wait()
}

// beginMove is moveTo without its answer.
func beginMove(t *testing.T, n *Node, lines string) *waiter {
	t.Helper()
	r := jute.ReconfigRequest{NewMembers: strings.ReplaceAll(lines, "\n", ","), CurConfigID: -1, Nulls: 3}
	p := entry.Proposal{Op: jute.OpReconfig, Flags: entry.FlagSingleVoter, Body: r.Append(nil)}
	w := newWaiter(t)
	if err := n.Reconfigure(&p, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestMovesArePrepared: a move is proposed if a majority listens at the new addresses and hears each other there.
func TestMovesArePrepared(t *testing.T) {
	m := &movers{}
	g := newMovingGroup(t, m)
	n := g.leader().node
	g.mustWriteSoon(n, applied{1, 1})
	all := []uint64{1, 2, 3}
	deaf := func(ids ...uint64) map[uint64]bool {
		found := map[uint64]bool{}
		for _, id := range ids {
			found[id] = true
		}
		return found
	}
	for i, test := range []struct {
		name  string
		lines string
		deaf  map[uint64]bool
		apart map[[2]uint64]bool
		want  jute.Code
	}{
		{"all listen", movedTo(10, all...), nil, nil, jute.OK},
		{"one cannot listen", movedTo(11, all...), deaf(2), nil, jute.OK},
		{"two cannot listen", movedTo(12, all...), deaf(1, 3), nil, jute.NewConfigNoQuorum},
		{"one of two that move cannot", movedTo(13, 1, 2) + movedTo(11, 3), deaf(1), nil, jute.OK},
		{"nobody reaches another", movedTo(14, all...), nil,
			map[[2]uint64]bool{{1, 2}: true, {2, 3}: true, {3, 1}: true}, jute.NewConfigNoQuorum},
		{"one is reached by none", movedTo(15, all...), nil,
			map[[2]uint64]bool{{1, 2}: true, {3, 2}: true}, jute.OK},
		{"a client port alone", strings.ReplaceAll(movedTo(15, all...), ";3", ";4"), deaf(all...), nil, jute.OK},
	} {
		m.mu.Lock()
		m.deaf, m.apart = test.deaf, test.apart
		m.mu.Unlock()
		if got := moveTo(t, n, test.lines); got.code != test.want || got.err != nil {
			t.Errorf("%d: %s: %v, %v, want %v", i, test.name, got.code, got.err, test.want)
		}
		g.mustWriteSoon(g.leader().node, applied{1, uint32(i) + 2})
	}
	g.agree(8)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range all {
		if m.proposed[id] < 5 { // what is refused is no change
			t.Errorf("member %d was told of %d reconfigs in its log, want 5", id, m.proposed[id])
		}
	}
}

// TestTwoMovesAtOnce: of two moves the one that was asked for on the leader is prepared and taken; the other one is
// then answered, too.
func TestTwoMovesAtOnce(t *testing.T) {
	m := &movers{gate: make(chan struct{})}
	g := newMovingGroup(t, m)
	leader := g.leader().node
	g.mustWriteSoon(leader, applied{1, 1})
	forwarded := beginMove(t, g.follower().node, movedTo(10, 1, 2, 3))
	eventually(t, "the leader has the move of a follower", func() bool { return m.permissions.Load() > 0 })
	own := beginMove(t, leader, movedTo(11, 1, 2, 3))
	eventually(t, "the leader has both", func() bool { return m.permissions.Load() > 1 })
	close(m.gate)
	if got := own.wait(); got.code != jute.OK || got.err != nil {
		t.Errorf("the move on the leader: %v, %v", got.code, got.err)
	}
	got := forwarded.wait()
	if got.code != jute.OK && got.code != jute.ReconfigInProgress || got.err != nil {
		t.Errorf("the other one: %v, %v", got.code, got.err)
	}
}

// TestMovesOfAMixedGroup: while some may be of a version before, nobody is asked, and a majority stays where it is.
func TestMovesOfAMixedGroup(t *testing.T) {
	m := &movers{mixed: true}
	g := newMovingGroup(t, m)
	n := g.leader().node
	g.mustWriteSoon(n, applied{1, 1})
	if got := moveTo(t, n, movedTo(1, 1)+movedTo(10, 2, 3)); got.code != jute.NewConfigNoQuorum {
		t.Errorf("two of three move: %v, %v, want %v", got.code, got.err, jute.NewConfigNoQuorum)
	}
	if got := moveTo(t, n, movedTo(1, 1, 2)+movedTo(10, 3)); got.code != jute.OK || got.err != nil {
		t.Errorf("one of three moves: %v, %v", got.code, got.err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prepared != 0 {
		t.Errorf("members were asked %d times", m.prepared)
	}
}

// TestNothingIsPreparedForStrangers: who may not reconfigure has no port opened, and nobody looked for.
func TestNothingIsPreparedForStrangers(t *testing.T) {
	m := &movers{forbid: true}
	g := newMovingGroup(t, m)
	n := g.leader().node
	g.mustWriteSoon(n, applied{1, 1})
	if got := moveTo(t, n, movedTo(10, 1, 2, 3)); got.err != nil { // the state of this test lets it through
		t.Fatal(got)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prepared != 0 {
		t.Errorf("%d members have prepared the move", m.prepared)
	}
}

// TestAReconfigInTheLogIsToldAtTheStart: it may not be committed yet.
func TestAReconfigInTheLogIsToldAtTheStart(t *testing.T) {
	m := &movers{unprepared: true}
	g := newMovingGroup(t, m)
	lead := g.leader()
	g.mustWriteSoon(lead.node, applied{1, 1})
	for id := uint64(1); id <= 3; id++ {
		g.net.block(lead.id, id, true) // it commits nothing more
	}
	lines := strings.ReplaceAll(movedTo(10, 1, 2, 3), "\n", ",")
	r := jute.ReconfigRequest{NewMembers: lines, CurConfigID: -1, Nulls: 3}
	p := entry.Proposal{Op: jute.OpReconfig, Flags: entry.FlagSingleVoter, Body: r.Append(nil)}
	if err := lead.node.Reconfigure(&p, nil); err != nil {
		t.Fatal(err)
	}
	told := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.proposed[lead.id]
	}
	eventually(t, "it is in the log", func() bool { return told() == 1 })
	eventually(t, "it is on disk", func() bool { s := lead.node.Status(); return s.Commit < s.LastIndex })
	g.kill(lead.id)
	g.start(lead.id)
	if told() < 2 {
		t.Error("after a crash nobody is told of the reconfig in the log")
	}
}

// TestMoveFrames: what is written is read again, what is cut off is refused, what is of a later version left alone.
func TestMoveFrames(t *testing.T) {
	question := &addressQuestion{term: 7, number: 8, moved: []uint64{1, 9}, members: "server.1=…"}
	reply := &addressAnswer{term: 7, number: 8,
		PreparedAddresses: PreparedAddresses{Listens: true, Reached: []uint64{9}, Why: "no route"}}
	for _, test := range []struct {
		want  any
		bytes []byte
	}{{question, question.append(nil)}, {reply, reply.append(nil)}} {
		if got, err := decodeAddresses(test.bytes); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("got %+v, %v, want %+v", got, err, test.want)
		}
		for n := range 20 {
			if got, err := decodeAddresses(test.bytes[:n]); err == nil {
				t.Errorf("of the first %d bytes: %+v", n, got)
			}
		}
	}
	if got, err := decodeAddresses([]byte{99, 1, 2, 3}); got != nil || err != nil {
		t.Errorf("of a later version: %v, %v", got, err)
	}
}

// TestTheWorstOffIsLeftOut of five participants of which one hears nobody.
func TestTheWorstOffIsLeftOut(t *testing.T) {
	all := []uint64{1, 2, 3, 4, 5}
	p := addressChange{members: "some", moved: all, asked: all, answers: map[uint64]PreparedAddresses{}}
	for _, id := range all {
		reached := slices.DeleteFunc(slices.Clone(all), func(to uint64) bool { return to == id })
		if id == 4 {
			reached = nil
		}
		p.answers[id] = PreparedAddresses{Listens: true, Done: true, Reached: reached}
	}
	m := member.Membership{Conf: confOf(all...)}
	r := reconfiguring{facts: &facts{options: &Options{}, member: m}, addressChange: p}
	c := configOf(t, movedTo(1, all...))
	if hear, could := r.hearEachOther(&c, true); hear != 4 || could != 5 {
		t.Errorf("%d hear each other and %d could, want 4 and 5", hear, could)
	}
}

// TestAReconfigThatAdmitsIsTold: the incarnations that it admits stand before its proposal.
func TestAReconfigThatAdmitsIsTold(t *testing.T) {
	lines := movedTo(10, 1, 2, 3, 4)
	p := entry.Proposal{Op: jute.OpReconfig, Body: (&entry.ReconfigTxn{Members: lines}).Append(nil)}
	proposal := entry.AppendProposal(entry.AppendEntryHeader(nil, 77, 1), &p)
	for name, test := range map[string]struct { // order: each for itself
		context []byte
		want    []string
	}{
		"one that moves":       {proposal, []string{lines}},
		"one that adds, too":   {member.AdmissionContext(map[uint64]uint64{4: 14}, proposal), []string{lines}},
		"an admission alone":   {member.AdmissionContext(map[uint64]uint64{4: 14}, nil), nil},
		"one of another zkd":   {member.AdmissionContext(map[uint64]uint64{4: 14}, proposal)[:9], nil},
		"a removal for a time": {member.Returning{Incarnation: 14}.Context(), nil},
		"nothing":              {nil, nil},
	} {
		data, err := proto.Marshal(&raftpb.ConfChangeV2{Context: test.context,
			Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeAddNode, 4)}})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		r := reconfiguring{facts: &facts{options: &Options{OnProposed: func(members string) {
			told = append(told, members)
		}}}}
		r.tellProposed([]*raftpb.Entry{{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}})
		if !slices.Equal(told, test.want) {
			t.Errorf("%s: told %q, want %q", name, told, test.want)
		}
	}
}

// confOf has voters alone.
func confOf(voters ...uint64) *raftpb.ConfState { return &raftpb.ConfState{Voters: voters} }

// configOf parses lines.
func configOf(t *testing.T, lines string) ensemble.Config {
	t.Helper()
	c, err := ensemble.Parse(lines)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
