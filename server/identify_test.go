package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/server/auth"
	"zkd/storage/entry"
)

// carried writes down how proposals say who their clients are.
type carried struct {
	Node
	lose atomic.Bool // lists are taken and never applied

	mu  sync.Mutex
	got []string
}

func (n *carried) Propose(p *entry.Proposal, w batcher.Waiter) error {
	n.note(p)
	if n.lose.Load() && p.Op == entry.OpSetIdentities {
		return nil
	}
	return n.Node.Propose(p, w)
}

func (n *carried) ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (bool, error) {
	n.note(p)
	return n.Node.ProposeIf(p, w, still)
}

// note writes a proposal down.
func (n *carried) note(p *entry.Proposal) {
	said := fmt.Sprintf("%s: %d inline", p.Op, len(p.Identities))
	switch {
	case p.Op == entry.OpSetIdentities:
		ids, err := entry.IdentityList(p.Body).Decode()
		said = fmt.Sprintf("list of %d (%v)", len(ids), err)
	case p.Reference != 0:
		said = fmt.Sprintf("%s: refers", p.Op)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, said)
}

// wants compares what was proposed since the last call.
func (n *carried) wants(t *testing.T, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if diff := cmp.Diff(want, n.got); diff != "" {
		t.Errorf("proposals (-want +got):\n%s", diff)
	}
	n.got = nil
}

// forget forgets what was proposed.
func (n *carried) forget() {
	n.mu.Lock()
	n.got = nil
	n.mu.Unlock()
}

// carriedRig is a server whose proposals are written down, of a group that agrees to a level.
func carriedRig(t *testing.T, level entry.Level, lose bool) (*rig, *carried) {
	node := &carried{}
	node.lose.Store(lose)
	return startRig(t, rigOptions{level: level, node: func(n Node) Node { node.Node = n; return node }}), node
}

// user returns a long name.
func user(i int) string { return fmt.Sprintf("user%d-%s", i, strings.Repeat("x", 40)) }

// ownedBy is a list that lets one user of the scheme digest do everything.
func ownedBy(t *testing.T, name string) []jute.ACL {
	t.Helper()
	r, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	var ids auth.Identities
	ids.Start(loopback, auth.Bounds{})
	if code := ids.Add(r, loopback, auth.SchemeDigest, []byte(name+":p")); code != jute.OK {
		t.Fatalf("identity of %s: %v", name, code)
	}
	i := slices.IndexFunc(ids.Snapshot(), func(id jute.ID) bool { return id.Scheme == auth.SchemeDigest })
	return []jute.ACL{{Perms: jute.PermAll, ID: ids.Snapshot()[i]}}
}

// setNode is a setData of path.
func setNode(path string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: path, Version: jute.AnyVersion}
}

// TestIdentitiesTravelOnce: a long list of what a connection has proven is proposed before its first write, and after
// something was added; its writes refer to it, and have its rights. Short ones travel with each write.
func TestIdentitiesTravelOnce(t *testing.T) {
	r, node := carriedRig(t, entry.LevelNewest, false)
	c := r.connect(t)
	node.forget()
	c.must(jute.OpCreate, &jute.CreateRequest{Path: "/a", ACL: ownedBy(t, user(1))}, jute.OK)
	c.must(jute.OpSetData, setNode("/a"), jute.NoAuth)
	node.wants(t, "create: 1 inline", "setData: 1 inline")
	c.prove(user(0), jute.OK)
	c.prove(user(2), jute.OK)
	c.must(jute.OpSetData, setNode("/a"), jute.NoAuth)
	c.must(jute.OpSetData, setNode("/a"), jute.NoAuth)
	node.wants(t, "list of 3 (<nil>)", "setData: refers", "setData: refers")
	c.prove(user(1), jute.OK)
	c.must(jute.OpSetData, setNode("/a"), jute.OK)
	c.must(jute.OpCreate, makeNode("/b", "", jute.ModeEphemeral), jute.OK)
	node.wants(t, "list of 4 (<nil>)", "setData: refers", "create: refers")

	again := r.reattach(t, c)
	node.forget()
	again.must(jute.OpSetData, setNode("/a"), jute.NoAuth)
	node.wants(t, "setData: 1 inline")
	for i := range 3 {
		again.prove(user(i), jute.OK)
	}
	again.must(jute.OpSetData, setNode("/a"), jute.OK)
	node.wants(t, "list of 4 (<nil>)", "setData: refers")
	again.must(jute.OpCloseSession, nil, jute.OK)
	node.wants(t, "closeSession: refers")
}

// TestIdentitiesTravelWithEachWriteBelowTheLevel: while a member does not know lists, none is proposed.
func TestIdentitiesTravelWithEachWriteBelowTheLevel(t *testing.T) {
	r, node := carriedRig(t, entry.LevelIdentities-1, false)
	c := r.connect(t)
	for i := range 3 {
		c.prove(user(i), jute.OK)
	}
	node.forget()
	c.must(jute.OpCreate, makeNode("/a", "", jute.ModePersistent), jute.OK)
	node.wants(t, "create: 4 inline")
}

// TestALostListEndsTheConnection: a write whose list has not become part of the log is not evaluated as if it came from
// nobody, and its client connects again.
func TestALostListEndsTheConnection(t *testing.T) {
	r, node := carriedRig(t, entry.LevelNewest, true)
	c := r.connect(t)
	for i := range 3 {
		c.prove(user(i), jute.OK)
	}
	c.send(jute.OpCreate, makeNode("/a", "", jute.ModePersistent))
	c.wantClosed()
	if r.exists("/a") {
		t.Error("the write was made")
	}
	node.lose.Store(false)
	again := r.reattach(t, c)
	if again.welcome.SessionID != c.welcome.SessionID {
		t.Fatal("the session is gone")
	}
	for i := range 3 {
		again.prove(user(i), jute.OK)
	}
	again.must(jute.OpCreate, makeNode("/a", "", jute.ModePersistent), jute.OK)
}
