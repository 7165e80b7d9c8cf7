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

// TestAnEndThatItsServerCannotFinish: the server that has proposed the first piece is cut off. Nobody comes back to the
// session, and the leader expires it to its end.
func TestAnEndThatItsServerCannotFinish(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.expires(1)
	g.serves(1, 2, 3)
	raise := entry.RaiseTxn{Level: entry.LevelPieces}
	if err := g.at(1).Propose(&entry.Proposal{Op: entry.OpRaiseLevel, Body: raise.Append(nil)}, nil); err != nil {
		t.Fatal(err)
	}
	g.caughtUp(2)
	c := g.at(2).connectTimeout(t, 4*time.Second)
	ownMany(c, 2*apply.EndZnodesMax+1)
	before := 0
	g.change(2, func(m *member) { m.paused, before = true, len(g.log) })
	c.send(jute.OpCloseSession, nil)
	eventually(t, "the first piece is proposed", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.log) > before
	})
	g.change(2, func(m *member) { m.cut = true })
	g.caughtUp(1)
	left := fmt.Sprintf("/many/%05d", apply.EndZnodesMax)
	if g.at(1).exists("/many/00000") || !g.at(1).exists(left) {
		t.Fatal("the first piece is not what it should be")
	}
	g.at(1).reattach(t, c).wantRefused()
	eventually(t, "the leader goes on", func() bool {
		now.Step(50 * time.Millisecond)
		return !g.at(1).exists(fmt.Sprintf("/many/%05d", 2*apply.EndZnodesMax))
	})
	g.caughtUp(3)
	if g.at(3).exists(left) {
		t.Errorf("server 3 has %s", left)
	}
	if got := g.at(1).server.metrics.expired.Load(); got != 1 {
		t.Errorf("%d sessions expired, want 1", got)
	}
	g.change(2, func(m *member) { m.paused, m.cut = false, false })
	if r := c.receive(); r.Err != jute.SessionExpired {
		t.Errorf("the client is answered %v", r.Err)
	}
	c.wantClosed()
}
