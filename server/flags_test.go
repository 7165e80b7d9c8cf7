package server

import (
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/batcher"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// linearizable is the auth packet that has the reads of a connection wait.
func linearizable(option string) *jute.AuthPacket {
	return &jute.AuthPacket{Scheme: "zkd", Auth: []byte(option)}
}

// barriersHeld waits until so many barriers wait at a server.
func (g *group) barriersHeld(id uint64, n int) {
	g.t.Helper()
	eventually(g.t, "barriers wait", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(id).barriers) == n
	})
}

// reads are all requests that are made linearizable.
func reads() map[jute.Op]record {
	return map[jute.Op]record{
		jute.OpExists: look("/n"), jute.OpGetData: look("/n"), jute.OpGetChildren: look("/"),
		jute.OpGetChildren2: look("/"), jute.OpGetACL: &jute.PathRequest{Path: "/n"},
		jute.OpGetEphemerals:        &jute.PathRequest{Path: "/"},
		jute.OpGetAllChildrenNumber: &jute.PathRequest{Path: "/"},
		jute.OpMultiRead:            raw(jute.AppendMultiEnd(nil)),
	}
}

// TestLinearizableReadsSeeWhatWasCommitted: a server that is behind answers with what was committed before the read
// came, to those who ask for that, and with what it has to the others.
func TestLinearizableReadsSeeWhatWasCommitted(t *testing.T) {
	for _, wide := range []bool{true, false} {
		t.Run(map[bool]string{true: "by the server", false: "by the connection"}[wide], func(t *testing.T) {
			g := startGroup(t, groupOptions{set: func(_ uint64, o *Options) { o.LinearizableReads = wide }})
			g.elect(1)
			g.serves(1, 2)
			writer, reader := g.at(1).connect(t), g.at(2).connect(t)
			writer.mustCreate("/n", "old", jute.ModePersistent)
			g.caughtUp(2)
			if !wide {
				reader.must(jute.OpAuth, linearizable("linearizable"), jute.OK)
			}
			before := reader.must(jute.OpWhoAmI, nil, jute.OK)
			if got := g.at(1).connect(t).must(jute.OpWhoAmI, nil, jute.OK); string(got.body) != string(before.body) {
				t.Errorf("the option has made the connection %q", before.body)
			}
			g.change(2, func(m *member) { m.paused = true })
			writer.must(jute.OpSetData, setTo("/n", "new"), jute.OK)
			for op, body := range reads() {
				reader.send(op, body)
				g.barriersHeld(2, 1)
				g.change(2, func(m *member) { m.paused = false })
				reader.receive()
				g.caughtUp(2)
				g.change(2, func(m *member) { m.paused = true })
				writer.must(jute.OpSetData, setTo("/n", "newer"), jute.OK)
			}
			any := jute.WatcherTypeRequest{Path: "/n", Type: jute.WatcherAny}
			reader.must(jute.OpCheckWatches, &any, jute.NoWatcher)
			reader.send(jute.OpGetData, watching("/n"))
			g.barriersHeld(2, 1)
			g.change(2, func(m *member) { m.paused = false })
			if got := reader.receive(); got.data(t) != "newer" {
				t.Errorf("data %q", got.data(t))
			}
			writer.must(jute.OpSetData, setTo("/n", "newest"), jute.OK)
			reader.wantEvents(event{changed, "/n"})
			g.change(2, func(m *member) { m.paused = true })
			writer.must(jute.OpSetData, setTo("/n", "last"), jute.OK)
			reader.must(jute.OpAuth, linearizable("local"), jute.OK)
			if got := reader.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "newest" {
				t.Errorf("a local read sees %q, want what is applied here", got.data(t))
			}
			g.change(2, func(m *member) { m.paused = false })
		})
	}
}

// TestLinearizableReadsShareBarriers: what is pipelined waits once, and keeps its order.
func TestLinearizableReadsShareBarriers(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(2)
	c := g.at(2).connect(t)
	c.mustCreate("/n", "0", jute.ModePersistent)
	c.must(jute.OpAuth, linearizable("linearizable"), jute.OK)
	g.change(2, func(m *member) { m.barriersAsked = 0 })
	var frames []byte
	const each = 20
	for i := range each {
		frames = append(frames, c.encode(jute.OpSetData, setTo("/n", string(rune('a'+i))))...)
		frames = append(frames, c.encode(jute.OpGetData, look("/n"))...)
	}
	c.write(frames)
	for i := range each {
		if r := c.receive(); r.Err != jute.OK {
			t.Fatalf("write %d is answered %v", i, r.Err)
		}
		if r := c.receive(); r.data(t) != string(rune('a'+i)) {
			t.Fatalf("read %d sees %q", i, r.data(t))
		}
	}
	g.change(2, func(m *member) {
		if m.barriersAsked < 1 || m.barriersAsked > each/2 {
			t.Errorf("%d barriers for %d pipelined reads", m.barriersAsked, each)
		}
	})
}

func TestAnUnknownOptionFailsLikeAuthentication(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.must(jute.OpAuth, linearizable("linearizable"), jute.OK)
	c.must(jute.OpExists, look("/"), jute.OK) // alone, too
	c.must(jute.OpAuth, linearizable("lineariseable"), jute.AuthFailed)
	c.wantClosed()
}

// reconfiguringNode is a member that takes reconfigs.
type reconfiguringNode struct {
	Node
	asked chan entry.Proposal
	takes bool                 // it takes them, and proposes a setData in their place, which comes out as one
	told  chan func(err error) // who is to be told that a configuration is in force
}

func (n *reconfiguringNode) Reconfigure(p *entry.Proposal, w batcher.Waiter) error {
	n.asked <- *p
	if n.takes {
		p.Op, p.Body = jute.OpSetData, setTo("/n", "reconfigured").Append(nil)
		return n.Propose(p, asReconfig{w})
	}
	p.Op, p.Code = jute.OpError, jute.NewConfigNoQuorum
	return n.Propose(p, w)
}

func (n *reconfiguringNode) InForce(_ int64, told func(error)) { n.told <- told }

// asReconfig tells of a write as of a reconfig.
type asReconfig struct{ batcher.Waiter }

func (w asReconfig) Applied(r *apply.Result) {
	as := *r
	as.Op, as.Data = jute.OpReconfig, []byte("members")
	w.Waiter.Applied(&as)
}

// TestAReconfigIsAnsweredWhenItIsInForce: nothing of its connection comes before its answer, and others do not wait.
func TestAReconfigIsAnsweredWhenItIsInForce(t *testing.T) {
	told := make(chan func(error), 1)
	r := startRig(t, rigOptions{
		set:  func(o *Options) { o.ReconfigEnabled, o.Ensemble = true, &Ensemble{} },
		node: func(n Node) Node { return &reconfiguringNode{n, make(chan entry.Proposal, 2), true, told} },
	})
	r.server.SetState(quorum.State{Leader: 1, Term: 1, Role: quorum.RoleLeader})
	eventually(t, "the server serves", func() bool { return r.server.available.serving() == stateServing })
	c, other := r.connect(t), r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	c.send(jute.OpReconfig, &jute.ReconfigRequest{LeavingServers: "2"})
	c.send(jute.OpSetData, setTo("/n", "later"))
	c.send(jute.OpGetData, look("/n"))
	eventually(t, "the server asks whether it is in force", func() bool { return len(told) == 1 })
	tell := <-told
	if got := other.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "reconfigured" {
		t.Errorf("another connection reads %q", got.data(t))
	}
	for _, served := range r.server.connections.all() {
		if served.session == c.welcome.SessionID && !served.Out.Writing() {
			t.Error("it is answered before it is in force")
		}
	}
	tell(nil)
	if got := c.receive(); got.Err != jute.OK || got.data(t) != "members" {
		t.Errorf("the answer is %v, %q", got.Err, got.data(t))
	}
	if got := c.receive(); got.Err != jute.OK {
		t.Errorf("the write behind it is answered %v", got.Err)
	}
	if got := c.receive(); got.data(t) != "later" {
		t.Errorf("the read behind it has %q", got.data(t))
	}
	c.send(jute.OpReconfig, &jute.ReconfigRequest{LeavingServers: "2"})
	(<-told)(quorum.ErrStopped)
	c.wantClosed()
}

func TestReconfigGoesToTheNode(t *testing.T) {
	asked := make(chan entry.Proposal, 1)
	start := func(enabled, ensemble bool) *client {
		r := startRig(t, rigOptions{
			set: func(o *Options) {
				o.ReconfigEnabled = enabled
				if ensemble {
					o.Ensemble = &Ensemble{}
				}
			},
			node: func(n Node) Node { return &reconfiguringNode{Node: n, asked: asked} },
		})
		r.server.SetState(quorum.State{Leader: 1, Term: 1, Role: quorum.RoleLeader})
		eventually(t, "the server serves", func() bool { return r.server.available.serving() == stateServing })
		return r.connect(t)
	}
	body := &jute.ReconfigRequest{LeavingServers: "2"}
	start(false, true).must(jute.OpReconfig, body, jute.ReconfigDisabled)
	start(true, false).must(jute.OpReconfig, body, jute.Unimplemented)
	if len(asked) > 0 {
		t.Fatal("a reconfig that is refused has come to the node")
	}
	c := start(true, true)
	c.must(jute.OpReconfig, body, jute.NewConfigNoQuorum)
	p := <-asked
	if p.Op != jute.OpReconfig || p.Session != c.welcome.SessionID || p.Server != 1 || len(p.Identities) != 1 {
		t.Errorf("proposed as %+v", p)
	}
	c.send(jute.OpReconfig, raw{1})
	if r := c.receive(); r.Err != jute.MarshallingError {
		t.Errorf("an unreadable one is answered %v", r.Err)
	}
}

// startLocal starts a group with local sessions.
func startLocal(t *testing.T, upgrading bool) *group {
	t.Helper()
	g := startGroup(t, groupOptions{set: func(id uint64, o *Options) {
		noLeader(false)(id, o)
		o.LocalSessions, o.LocalSessionsUpgrading = true, upgrading
	}})
	g.elect(1)
	g.serves(1, 2, 3)
	return g
}

// ephemeralIn is a multi that makes a persistent znode and an ephemeral one.
func ephemeralIn(persistent, ephemeral string) record {
	var b []byte
	for path, mode := range map[string]jute.CreateMode{persistent: jute.ModePersistent, ephemeral: jute.ModeEphemeral} {
		h := jute.MultiHeader{Type: jute.OpCreate}
		b = makeNode(path, "", mode).Append(h.Append(b))
	}
	return raw(jute.AppendMultiEnd(b))
}

func TestLocalSessionsStayHere(t *testing.T) {
	g := startLocal(t, false)
	zxid := g.at(2).machine.LastZxid()
	c := g.at(2).connect(t)
	if got := g.at(2).machine.LastZxid(); got != zxid {
		t.Errorf("a local session took zxid %#x", got)
	}
	top := uint64(c.welcome.SessionID) >> 56
	if top != 2 || c.welcome.TimeoutMillis != longMillis || c.welcome.ReadOnly {
		t.Errorf("welcomed with %+v", c.welcome)
	}
	c.mustCreate("/n", "", jute.ModePersistent)
	before := g.at(2).machine.LastZxid()
	if r := c.must(jute.OpCreate, makeNode("/e", "", jute.ModeEphemeral), jute.EphemeralOnLocalSession); r.Zxid !=
		before+1 {
		t.Errorf("a refusal has zxid %#x, want that of a write", r.Zxid)
	}
	c.must(jute.OpMulti, ephemeralIn("/m", "/e"), jute.OK)
	if g.at(2).exists("/e") || g.at(2).exists("/m") {
		t.Error("a local session owns a znode, or a multi was done by half")
	}
	c.must(jute.OpMulti, raw(jute.AppendMultiEnd(nil)), jute.OK)

	c2 := g.at(2).reattach(t, c)
	if c2.welcome.SessionID != c.welcome.SessionID {
		t.Fatalf("reattached as %+v", c2.welcome)
	}
	c.wantClosed()
	g.at(3).reattach(t, c).wantRefused()
	wrong := g.at(2).dial(t)
	wrong.hello(&jute.ConnectRequest{TimeoutMillis: 10_000, SessionID: c.welcome.SessionID,
		Passwd: make([]byte, 16), HasReadOnly: true})
	wrong.wantRefused()
	c2.must(jute.OpSetData, setTo("/n", "x"), jute.OK)
	g.lose()
	c2.wantClosed()
	g.elect(3)
	g.serves(2)
	c3 := g.at(2).reattach(t, c)
	if c3.welcome.SessionID != c.welcome.SessionID {
		t.Fatal("a local session did not survive an election")
	}
	c3.must(jute.OpCloseSession, nil, jute.OK)
	c3.wantClosed()
	g.at(2).reattach(t, c).wantRefused()
}

func TestLocalSessionsBecomeGlobalForEphemerals(t *testing.T) {
	for name, write := range map[string]record{
		"create": makeNode("/e", "", jute.ModeEphemeral), "multi": ephemeralIn("/m", "/e"),
	} {
		t.Run(name, func(t *testing.T) {
			g := startLocal(t, true)
			c := g.at(2).connect(t)
			c.mustCreate("/n", "", jute.ModePersistent)
			op := jute.OpCreate
			if name == "multi" {
				op = jute.OpMulti
			}
			before := g.at(2).machine.LastZxid()
			if r := c.must(op, write, jute.OK); r.Zxid != before+2 {
				t.Errorf("the write has zxid %#x, want one for the session before it", r.Zxid)
			}
			if n := g.at(2).server.locals.count(); n != 0 {
				t.Errorf("%d local sessions are left", n)
			}
			g.caughtUp(3)
			moved := g.at(3).reattach(t, c)
			if moved.welcome.SessionID != c.welcome.SessionID || moved.welcome.TimeoutMillis != longMillis {
				t.Fatalf("it cannot move: %+v", moved.welcome)
			}
			c.wantClosed()
			moved.must(jute.OpCloseSession, nil, jute.OK)
			if g.at(3).exists("/e") {
				t.Error("the ephemeral outlives its session")
			}
		})
	}
}

// TestAnUpgradeWithoutALeaderEndsWithItsConnection: the session that is made later is nobody's, until its client comes
// back to it. It is no session of the server alone any more, so that it lives as long as its client is heard.
func TestAnUpgradeWithoutALeaderEndsWithItsConnection(t *testing.T) {
	g := startLocal(t, true)
	g.change(2, func(m *member) { m.paused = true })
	c := g.at(2).connect(t)
	c.send(jute.OpCreate, makeNode("/e", "", jute.ModeEphemeral))
	eventually(t, "it is proposed", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(2).waiters) == 1
	})
	g.at(2).server.Replaced() // closes the connection
	c.wantClosed()
	g.at(2).count(0)
	g.change(2, func(m *member) { m.paused = false })
	g.caughtUp(2)
	again := g.at(2).reattach(t, c)
	if again.welcome.SessionID != c.welcome.SessionID {
		t.Error("the session is gone")
	}
	if n := g.at(2).server.locals.count(); n != 0 {
		t.Error("the session of the group is one of the server alone, too")
	}
	if g.at(2).exists("/e") {
		t.Error("the create went on without its connection")
	}
}

func TestALocalSessionExpires(t *testing.T) {
	g := startGroup(t, groupOptions{members: 1, set: func(_ uint64, o *Options) {
		quick(o)
		o.LocalSessions = true
	}})
	g.elect(1)
	g.serves(1)
	c := g.at(1).connect(t)
	began := time.Now()
	if !g.at(1).server.locals.tracker.SetTimeout(c.welcome.SessionID, 100*time.Millisecond) { // short from now on
		t.Fatal("the session is not tracked")
	}
	c.wantClosed()
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("expired after %v", took)
	}
	g.at(1).reattach(t, c).wantRefused()
	if g.at(1).server.locals.count() != 0 {
		t.Error("it is still there")
	}
}
