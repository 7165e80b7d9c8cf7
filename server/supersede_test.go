package server

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// gatedNode has one operation wait within Propose, and notes the order in which operations were proposed.
type gatedNode struct {
	Node
	gated jute.Op
	came  chan struct{} // one token for each that waits
	open  chan struct{} // closed: nobody waits any more

	mu  sync.Mutex
	ops []jute.Op // guarded by mu
}

// startGated starts a server whose node has op wait.
func startGated(t *testing.T, op jute.Op, o rigOptions) (*rig, *gatedNode) {
	t.Helper()
	g := &gatedNode{gated: op, came: make(chan struct{}, 10), open: make(chan struct{})} // more than a test has wait
	o.node = func(n Node) Node {
		g.Node = n
		return g
	}
	r := startRig(t, o)
	t.Cleanup(g.release) // before the rig stops
	return r, g
}

// Propose implements Node.
func (g *gatedNode) Propose(p *entry.Proposal, w batcher.Waiter) error {
	g.pass(p.Op)
	return g.Node.Propose(p, w)
}

// ProposeIf implements Node.
func (g *gatedNode) ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (bool, error) {
	g.pass(p.Op)
	return g.Node.ProposeIf(p, w, still)
}

// pass has an operation that is gated wait.
func (g *gatedNode) pass(op jute.Op) {
	if op == g.gated {
		g.came <- struct{}{}
		<-g.open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ops = append(g.ops, op)
}

// release lets all go.
func (g *gatedNode) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// proposed tells whether an operation was proposed.
func (g *gatedNode) proposed(op jute.Op) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.ops, op)
}

// comesBack sends the handshake of a client that comes back to its session on another connection.
func comesBack(t *testing.T, r *rig, before *client, passwd []byte) *client {
	t.Helper()
	c, req := r.dial(t), before.again()
	req.Passwd = passwd
	c.write(frame(req.Append(nil)))
	return c
}

// TestNothingIsProposedBehindAReattach: what a client has sent on one connection, and is not proposed when it comes
// back on another one, never is: the session may have gone on elsewhere meanwhile.
func TestNothingIsProposedBehindAReattach(t *testing.T) {
	r, node := startGated(t, entry.OpReattachSession, rigOptions{})
	first := r.connect(t)
	first.mustCreate("/a", "old", jute.ModePersistent)
	wrong := bytes.Clone(first.welcome.Passwd)
	wrong[0] ^= 1
	comesBack(t, r, first, wrong)
	<-node.came
	first.must(jute.OpSetData, setTo("/a", "mine"), jute.OK) // a stranger has not harmed it

	second := comesBack(t, r, first, first.welcome.Passwd)
	<-node.came
	_, _ = first.net.Write(first.encode(jute.OpSetData, setTo("/a", "late"))) // it may know already that it is closed
	first.wantClosed()
	node.release()
	second.welcomed()
	if got := second.must(jute.OpGetData, look("/a"), jute.OK); got.data(t) != "mine" {
		t.Errorf("the session reads %q", got.data(t))
	}
}

// startProposing starts a server at which a client's write of /a, which is "old", is being proposed.
func startProposing(t *testing.T, data string) (*rig, *gatedNode, *client) {
	r, node := startGated(t, jute.OpSetData, rigOptions{})
	first := r.connect(t)
	first.mustCreate("/a", "old", jute.ModePersistent)
	first.send(jute.OpSetData, setTo("/a", data))
	<-node.came
	return r, node, first
}

// comesBackBehind has a client come back while a write of its connection before is being proposed: it waits until that
// is, and then reads want.
func comesBackBehind(t *testing.T, r *rig, node *gatedNode, first *client, want string) {
	t.Helper()
	other := r.connect(t)
	second := comesBack(t, r, first, first.welcome.Passwd)
	first.wantClosed()
	for range 20 { // as good as certainly enough for the reattach to be proposed too early
		other.must(jute.OpGetData, look("/a"), jute.OK)
	}
	if node.proposed(entry.OpReattachSession) {
		t.Error("the reattach comes before a write that was begun before")
	}
	node.release()
	second.welcomed()
	if got := second.must(jute.OpGetData, look("/a"), jute.OK); got.data(t) != want {
		t.Errorf("the session reads %q", got.data(t))
	}
}

// TestAReattachIsBehindWhatIsProposed: a client that comes back while a write of its connection before is being
// proposed waits until it is.
func TestAReattachIsBehindWhatIsProposed(t *testing.T) {
	r, node, first := startProposing(t, "new")
	comesBackBehind(t, r, node, first, "new")
}

// applied waits for a proposal of the test's own.
type applied chan *apply.Result

// Applied implements batcher.Waiter.
func (a applied) Applied(r *apply.Result) { a <- &apply.Result{Code: r.Code} }

// Dropped implements batcher.Waiter.
func (a applied) Dropped(error) { close(a) }

// TestAReattachIsBehindWhatIsProposedAfterAMove: so does one whose session has been at another server meanwhile, which
// has cut its connection here. The write was sent there before: it is answered SessionMoved.
func TestAReattachIsBehindWhatIsProposedAfterAMove(t *testing.T) {
	r, node, first := startProposing(t, "late")
	const elsewhere = 7
	txn := entry.SessionTxn{TimeoutMillis: first.welcome.TimeoutMillis, Owner: elsewhere}
	copy(txn.Passwd[:], first.welcome.Passwd)
	moved := make(applied, 1)
	p := &entry.Proposal{Op: entry.OpReattachSession, Session: first.welcome.SessionID, Server: elsewhere,
		Body: txn.Append(nil)}
	if err := node.Node.Propose(p, moved); err != nil {
		t.Fatal(err)
	}
	if result, ok := <-moved; !ok || result.Code != jute.OK {
		t.Fatalf("the session has not moved: %+v", result)
	}
	first.wantClosed() // before it comes back
	comesBackBehind(t, r, node, first, "old")
}
