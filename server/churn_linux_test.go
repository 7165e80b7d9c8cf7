package server

import (
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// watchedClock counts short timers: of the pauses that follow connections without a session.
type watchedClock struct {
	*clock.Manual
	pauses atomic.Int64
}

// NewTimer implements clock.Clock.
func (c *watchedClock) NewTimer(d time.Duration) clock.Timer {
	t := c.Manual.NewTimer(d)
	if d <= 20*time.Millisecond {
		c.pauses.Add(1)
	}
	return t
}

// TestWhoHangsUpIsTakenLater: after many connections that have ended without a session the next ones wait, and whoever
// has hung up by then gets none.
func TestWhoHangsUpIsTakenLater(t *testing.T) {
	node := &carried{}
	now := &watchedClock{Manual: clock.NewManual(time.Unix(1_000_000_000, 0))}
	r := startRig(t, rigOptions{clock: now, ready: func() { now.Advance(ahead) },
		node: func(n Node) Node { node.Node = n; return node }})
	for range 600 {
		_ = r.dial(t).net.Close()
	}
	eventually(t, "nobody is taken for a while", func() bool {
		_ = r.dial(t).net.Close() // those before may have been taken before any of them had ended
		return now.pauses.Load() > 0
	})
	hello := frame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil))
	gone := r.dial(t)
	gone.write(hello)
	_ = gone.net.Close()
	stays := r.dial(t)
	stays.write(hello)
	node.wants(t)
	now.Advance(time.Second)
	if payload, err := stays.next(); err != nil || len(payload) == 0 {
		t.Fatalf("who stays has no session: %v", err)
	}
	node.wants(t, "createSession: 0 inline")
}
