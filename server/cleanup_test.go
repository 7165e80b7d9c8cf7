package server

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/storage/entry"
)

// refusing is a node that takes no deleteContainer of some paths, the first time.
type refusing struct {
	Node
	mu     sync.Mutex
	refuse map[string]error
	asked  map[string]int // how often each path was proposed
	then   func()         // called when one is refused
}

// Propose implements Node.
func (n *refusing) Propose(p *entry.Proposal, w batcher.Waiter) error {
	if p.Op != jute.OpDeleteContainer {
		return n.Node.Propose(p, w)
	}
	var r jute.PathRequest
	d := jute.NewDecoder(p.Body)
	r.Decode(&d)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[r.Path]++
	if err := n.refuse[r.Path]; err != nil {
		delete(n.refuse, r.Path)
		if n.then != nil {
			n.then()
		}
		return err
	}
	return n.Node.Propose(p, w)
}

// proposed is how often the removal of path was proposed.
func (n *refusing) proposed(path string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[path]
}

// startRefusing starts a server with two empty containers, /a and /b, of which the node refuses to remove /a once.
func startRefusing(t *testing.T, then func(r *rig)) (*rig, *refusing, *clock.Manual) {
	t.Helper()
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	node := &refusing{refuse: map[string]error{"/a": quorum.ErrNoLeader}, asked: map[string]int{}}
	r := startRig(t, rigOptions{
		clock: now, ready: func() { now.Advance(ahead) },
		node: func(n Node) Node { node.Node = n; return node },
	})
	node.mu.Lock()
	node.then = func() { then(r) }
	node.mu.Unlock()
	c := r.connect(t)
	for _, path := range []string{"/a", "/b"} {
		c.must(jute.OpCreateContainer, makeNode(path, "", jute.ModeContainer), jute.OK)
		c.mustCreate(path+"/child", "", jute.ModePersistent)
		c.must(jute.OpDelete, &jute.PathVersionRequest{Path: path + "/child", Version: jute.AnyVersion}, jute.OK)
	}
	return r, node, now
}

// The clock is advanced without Step in these tests: the clean-up waits within its tick.

// TestARefusedRemovalEndsNoCleanUp: what one proposal meets keeps neither the next one nor the next check from being
// made.
func TestARefusedRemovalEndsNoCleanUp(t *testing.T) {
	r, node, now := startRefusing(t, func(*rig) {})
	eventually(t, "the other container goes in the same round", func() bool {
		now.Advance(time.Second)
		return !r.exists("/b")
	})
	eventually(t, "the refused one goes in the next", func() bool {
		now.Advance(time.Second)
		return !r.exists("/a")
	})
	if n := node.proposed("/a"); n < 2 {
		t.Errorf("/a was proposed %d times, want again after the refusal", n)
	}
}

// TestCleanUpEndsItsRoundWithTheLeadership: a server that does not lead any more proposes nothing, and goes on when it
// leads again.
func TestCleanUpEndsItsRoundWithTheLeadership(t *testing.T) {
	r, node, now := startRefusing(t, func(r *rig) { r.server.available.leading.Store(false) })
	eventually(t, "a removal is refused", func() bool {
		now.Advance(time.Second)
		return node.proposed("/a") > 0
	})
	for range 3 * 60 {
		now.Advance(time.Second)
	}
	if n := node.proposed("/b"); n != 0 {
		t.Errorf("a server that does not lead has proposed the removal of /b %d times", n)
	}
	r.server.available.leading.Store(true)
	eventually(t, "both go", func() bool {
		now.Advance(time.Second)
		return !r.exists("/a") && !r.exists("/b")
	})
}

// TestCleanUpSearchesInPieces: containers that were never used, more than a piece has, keep those that were from
// nothing, and the search is never so large that it needs a turn among large reads.
func TestCleanUpSearchesInPieces(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	r := startRig(t, rigOptions{clock: now, ready: func() { now.Advance(ahead) }})
	c := r.connect(t)
	made := multi{}
	for i := range 4 * searchContainers {
		path := fmt.Sprintf("/unused%05d", i)
		made = append(made, multi{{jute.OpCreateContainer, makeNode(path, "", jute.ModeContainer)}}...)
	}
	c.must(jute.OpMulti, made, jute.OK)
	for _, path := range []string{"/first", "/zlast"} {
		c.must(jute.OpCreateContainer, makeNode(path, "", jute.ModeContainer), jute.OK)
		c.mustCreate(path+"/child", "", jute.ModePersistent)
		c.must(jute.OpDelete, gone(path+"/child"), jute.OK)
	}
	eventually(t, "both go", func() bool {
		now.Advance(time.Second)
		return !r.exists("/first") && !r.exists("/zlast")
	})
	if n := r.server.readTurns.Taken(); n != 0 {
		t.Errorf("the search has taken %d turns", n)
	}
	if !r.exists("/unused00000") {
		t.Error("a container is gone that was never used")
	}
}
