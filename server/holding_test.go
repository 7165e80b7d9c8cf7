package server

import (
	"slices"
	"sync"
	"testing"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/storage/entry"
)

// holdingNode keeps setData back until it is told to let it go.
type holdingNode struct {
	Node

	mu   sync.Mutex
	open bool
	held []heldProposal
}

// heldProposal is a proposal that is kept back.
type heldProposal struct {
	p entry.Proposal
	w batcher.Waiter
}

// startHolding starts a server whose node holds setData.
func startHolding(t *testing.T, o rigOptions) (*rig, *holdingNode) {
	t.Helper()
	h := &holdingNode{}
	o.node = func(n Node) Node {
		h.Node = n
		return h
	}
	r := startRig(t, o)
	t.Cleanup(func() { h.release(-1) }) // before the rig stops
	return r, h
}

// Propose holds setData and passes on the rest.
func (h *holdingNode) Propose(p *entry.Proposal, w batcher.Waiter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Op != jute.OpSetData || h.open {
		return h.Node.Propose(p, w)
	}
	held := *p
	held.Body = slices.Clone(p.Body)
	h.held = append(h.held, heldProposal{held, w})
	return nil
}

// release lets n proposals go, the first first; -1 lets all go, and those to come.
func (h *holdingNode) release(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n < 0 {
		h.open, n = true, len(h.held)
	}
	for _, held := range h.held[:n] {
		if err := h.Node.Propose(&held.p, held.w); err != nil {
			held.w.Dropped(err)
		}
	}
	h.held = h.held[n:]
}

// drop drops what is held.
func (h *holdingNode) drop(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.held {
		held.w.Dropped(err)
	}
	h.held = nil
}

// holds waits until n proposals are held.
func (h *holdingNode) holds(t *testing.T, n int) {
	t.Helper()
	eventually(t, "proposals reach the node", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.held) == n
	})
}

// connOf returns the server's end of a client's connection.
func (r *rig) connOf(c *client) *conn { return r.server.connectionOf(c.welcome.SessionID) }

// pipeline sends n requests in one write.
func (c *client) pipeline(n int, op jute.Op, body record) {
	c.t.Helper()
	var b []byte
	for range n {
		b = append(b, c.encode(op, body)...)
	}
	c.write(b)
}

// wantReplies takes n replies in the order of xids, the last of which is the client's last.
func (c *client) wantReplies(n int, want jute.Code) {
	c.t.Helper()
	for i := range n {
		if got := c.receive(); got.Xid != c.xid-jute.Xid(n-1-i) || got.Err != want {
			c.t.Fatalf("reply %d of %d: %+v, want code %v", i, n, got.ReplyHeader, want)
		}
	}
}
