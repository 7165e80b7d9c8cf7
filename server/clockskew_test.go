package server

import (
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// setClock is the real clock, but the time of day is what a test sets it to.
type setClock struct {
	clock.Clock
	off atomic.Int64 // nanoseconds
}

// Now implements clock.Clock.
func (c *setClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.off.Load())) }

// set sets the clock that far before the real one.
func (c *setClock) set(off time.Duration) { c.off.Store(int64(off)) }

// startSkewed starts three servers whose clocks can be set, and which look for overdue znodes all the time.
func startSkewed(t *testing.T) (leader *rig, others []*rig, clocks map[*rig]*setClock) {
	t.Helper()
	byID := map[uint64]*setClock{}
	rigs, _ := startRaft(t, func(id uint64, o *Options) {
		byID[id] = &setClock{Clock: clock.Real()}
		o.Clock, o.ContainerCheck = byID[id], 20*time.Millisecond
	})
	clocks = map[*rig]*setClock{}
	for _, r := range rigs {
		clocks[r] = byID[r.options.ServerID]
	}
	leader, others = leaderOf(t, rigs...)
	return leader, others, clocks
}

// knowClocks waits until each server knows how far the clocks of the others are from its own.
func knowClocks(t *testing.T, clocks map[*rig]*setClock) {
	t.Helper()
	byID := map[uint64]*setClock{}
	for r, c := range clocks {
		byID[r.options.ServerID] = c
	}
	eventually(t, "the clocks are compared", func() bool {
		for r, own := range clocks {
			known := r.node.Status().Clocks
			if len(known) != len(clocks)-1 {
				return false
			}
			for _, c := range known {
				skew := time.Duration(byID[c.ID].off.Load() - own.off.Load())
				// An answer that was under way when a clock was set says little.
				if c.Error > time.Minute || (c.Skew-skew).Abs() > c.Error+time.Minute {
					return false
				}
			}
		}
		return true
	})
}

// createTTL makes a znode with a time to live through the server of c.
func createTTL(c *client, path string, ttl time.Duration) {
	c.t.Helper()
	c.must(jute.OpCreateTTL, &jute.CreateTTLRequest{Path: path, ACL: openACL, Flags: jute.ModePersistentTTL,
		TTL: jute.Millis(ttl.Milliseconds())}, jute.OK)
}

// makeTTL is createTTL, and returns the mtime.
func makeTTL(c *client, path string, ttl time.Duration) time.Time {
	c.t.Helper()
	createTTL(c, path, ttl)
	var answer jute.StatResponse
	reply := c.must(jute.OpExists, look(path), jute.OK)
	reply.decodeBody(c.t, &answer)
	return time.UnixMilli(int64(answer.Stat.Mtime))
}

// TestATTLEndsByTheLeadersClock: a client of a server whose clock is half an hour late has its full ten minutes.
func TestATTLEndsByTheLeadersClock(t *testing.T) {
	leader, others, clocks := startSkewed(t)
	clocks[others[0]].set(-30 * time.Minute)
	clocks[others[1]].set(30 * time.Minute)
	knowClocks(t, clocks) // whoever leads from here on has the time of most
	late, early := others[0].connect(t), others[1].connect(t)
	before := time.Now()
	for path, c := range map[string]*client{"/late": late, "/early": early} {
		at := makeTTL(c, path, 10*time.Minute)
		if at.Before(before.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("%s is dated %v, the leader's clock says %v", path, at, time.Now())
		}
	}
	// Through the leader, which answers once it has applied this and what came before. It may be gone when one asks for
	// it.
	createTTL(leader.connect(t), "/short", time.Millisecond)
	eventually(t, "the short one ends, so others would have", func() bool { return !leader.exists("/short") })
	if !leader.exists("/late") || !leader.exists("/early") {
		t.Error("ten minutes have ended at once")
	}
	for _, c := range clocks { // any order
		c.off.Add(int64(11 * time.Minute))
	}
	eventually(t, "ten minutes end", func() bool { return !leader.exists("/late") && !leader.exists("/early") })
}

// TestALeaderWithAWrongClockGoesByTheOthers, and says whose clock is off.
func TestALeaderWithAWrongClockGoesByTheOthers(t *testing.T) {
	leader, others, clocks := startSkewed(t)
	clocks[leader].set(time.Hour)
	knowClocks(t, clocks)
	for i, r := range append(others, leader) {
		c := r.connect(t)
		before := time.Now()
		at := makeTTL(c, "/n"+string(rune('0'+i)), time.Hour)
		if at.Before(before.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("a write through server %d is dated %v, most clocks say %v", r.options.ServerID, at, time.Now())
		}
	}
	for _, r := range others {
		for _, c := range r.node.Status().Clocks {
			if c.Far != (c.ID == leader.options.ServerID) {
				t.Errorf("server %d says of the clocks %+v", r.options.ServerID, r.node.Status().Clocks)
			}
		}
	}
}
