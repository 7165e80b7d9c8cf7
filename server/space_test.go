package server

import (
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/acl"
	"zkd/storage/space"
)

// spaceNode is a Node with so much room.
type spaceNode struct {
	Node
	level *atomic.Uint32
}

// SpaceLevel implements roomy.
func (n spaceNode) SpaceLevel() space.Level { return space.Level(n.level.Load()) }

// TestWritesWithoutSpace refuses what grows, in its turn and without a transaction, and takes what does not.
func TestWritesWithoutSpace(t *testing.T) {
	var level atomic.Uint32
	r := startRig(t, rigOptions{node: func(n Node) Node { return spaceNode{n, &level} }})
	c := r.connect(t)
	c.mustCreate("/a", "12345", 0)
	c.mustCreate("/b", "", 0)
	level.Store(uint32(space.Low))
	before := r.machine.LastZxid()
	create := &jute.CreateRequest{Path: "/c", ACL: acl.Open}
	set := func(data string) *jute.SetDataRequest {
		return &jute.SetDataRequest{Path: "/a", Data: []byte(data), Version: -1}
	}
	if got := c.must(jute.OpCreate, create, jute.SystemError); got.Zxid != before {
		t.Errorf("the refusal has zxid %d, the last is %d", got.Zxid, before)
	}
	c.must(jute.OpSetData, set("123456"), jute.SystemError)
	if got := r.machine.LastZxid(); got != before {
		t.Errorf("refusals have taken zxids %d to %d", before, got)
	}
	if got := r.server.metrics.rejectedForSpace.Load(); got != 2 {
		t.Errorf("%d writes are counted as refused, want 2", got)
	}
	c.must(jute.OpSetData, set("1234"), jute.OK)
	c.must(jute.OpGetData, &jute.PathWatchRequest{Path: "/a"}, jute.OK)
	another := r.connect(t) // a new session
	level.Store(uint32(space.Critical))
	c.must(jute.OpSetData, set("1"), jute.SystemError)
	another.must(jute.OpDelete, &jute.PathVersionRequest{Path: "/b", Version: -1}, jute.OK)
	another.must(jute.OpCloseSession, nil, jute.OK)
	level.Store(uint32(space.Ample))
	c.must(jute.OpCreate, create, jute.OK)
}

// timersClock is a clock that tells of each timer that is due before a refusal of a connection may be the next.
type timersClock struct {
	*clock.Manual
	waits chan time.Duration
}

// NewTimer implements clock.Clock.
func (c timersClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.Manual.NewTimer(d)
	if d > 0 && d < refusalInterval {
		c.waits <- d
	}
	return timer
}

// TestRefusalsForWantOfSpaceAreSpaced: who tries again at once waits, who has sent several requests together does not.
func TestRefusalsForWantOfSpaceAreSpaced(t *testing.T) {
	var level atomic.Uint32
	now := timersClock{clock.NewManual(time.Unix(1_000_000_000, 0)), make(chan time.Duration, 100)}
	r := startRig(t, rigOptions{node: func(n Node) Node { return spaceNode{n, &level} }, clock: now,
		ready: func() { now.Advance(ahead) }})
	c := r.connect(t)
	level.Store(uint32(space.Low))
	create := &jute.CreateRequest{Path: "/c", ACL: acl.Open}
	c.pipeline(10, jute.OpCreate, create) // the clock stands: they have come together
	c.wantReplies(10, jute.SystemError)
	if n := len(now.waits); n != 0 {
		t.Errorf("%d of the refusals of requests that came together have waited", n)
	}
	const since = time.Millisecond
	now.Advance(since)
	c.send(jute.OpCreate, create)
	if wait := <-now.waits; wait != refusalInterval-since {
		t.Errorf("the next refusal waits for %v, want %v", wait, refusalInterval-since)
	}
	if got := r.server.metrics.rejectedForSpace.Load(); got != 10 {
		t.Errorf("%d writes are refused, want 10 and one that waits", got)
	}
	now.Advance(refusalInterval - since)
	c.wantReplies(1, jute.SystemError)
	now.Advance(refusalInterval)
	c.must(jute.OpCreate, create, jute.SystemError)
}
