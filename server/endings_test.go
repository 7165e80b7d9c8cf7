package server

import (
	"fmt"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// ownMany has c own so many ephemerals below /many.
func ownMany(c *client, n int) {
	c.must(jute.OpCreate, makeNode("/many", "", jute.ModePersistent), jute.OK)
	for i := 0; i < n; i += 500 {
		var multi []byte
		for j := i; j < min(n, i+500); j++ {
			multi = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(multi)
			multi = makeNode(fmt.Sprintf("/many/%05d", j), "", jute.ModeEphemeral).Append(multi)
		}
		c.must(jute.OpMulti, raw(jute.AppendMultiEnd(multi)), jute.OK)
	}
}

// TestASessionThatOwnsMuchEndsInPieces: no entry deletes more than a piece, and the client is answered when all is
// gone.
func TestASessionThatOwnsMuchEndsInPieces(t *testing.T) {
	for _, one := range []struct {
		name  string
		level entry.Level
		owned int
		want  []string
	}{
		{"in pieces", entry.LevelPieces, 2*apply.EndZnodesMax + 1, []string{"closeSession: 1 inline",
			"closeSession: 1 inline", "closeSession: 1 inline"}},
		{"a piece is one", entry.LevelPieces, apply.EndZnodesMax, []string{"closeSession: 1 inline"}},
		{"below the level", entry.LevelPieces - 1, apply.EndZnodesMax + 1, []string{"closeSession: 1 inline"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			r, node := carriedRig(t, one.level, false)
			c, other := r.connect(t), r.connect(t)
			ownMany(c, one.owned)
			node.forget()
			c.must(jute.OpCloseSession, nil, jute.OK)
			if last := fmt.Sprintf("/many/%05d", one.owned-1); r.exists(last) {
				t.Errorf("%s is there when the end of its session is answered", last)
			}
			c.wantClosed()
			node.wants(t, one.want...)
			other.must(jute.OpDelete, &jute.PathVersionRequest{Path: "/many", Version: jute.AnyVersion}, jute.OK)
			r.reattach(t, c).wantRefused()
		})
	}
}

// TestASessionThatExpiresEndsInPieces: all of them, without a client.
func TestASessionThatExpiresEndsInPieces(t *testing.T) {
	node := &carried{}
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	r := startRig(t, rigOptions{clock: now, ready: func() { now.Advance(ahead) }, level: entry.LevelPieces,
		node: func(n Node) Node { node.Node = n; return node }})
	c := r.connectTimeout(t, 4*time.Second)
	ownMany(c, apply.EndZnodesMax+1)
	node.forget()
	pass(now, 4*time.Second, 50*time.Millisecond)
	eventually(t, "the ephemerals go", func() bool {
		now.Step(50 * time.Millisecond)
		return !r.exists(fmt.Sprintf("/many/%05d", apply.EndZnodesMax))
	})
	c.wantClosed()
	node.wants(t, "closeSession: 0 inline", "closeSession: 0 inline")
	if got := r.server.metrics.expired.Load(); got != 1 {
		t.Errorf("%d sessions expired, want 1", got)
	}
}
