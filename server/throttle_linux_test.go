package server

import (
	"testing"
	"time"

	"zkd/jute"
	"zkd/server/limits"
)

func TestStaleRequests(t *testing.T) {
	for name, tc := range map[string]struct { // order: each has its own server
		set          func(*limits.RequestThrottle)
		written      bool
		stale, drops int64
	}{
		"dropped":   {func(o *limits.RequestThrottle) { o.DropStale, o.StaleConnection = true, true }, false, 0, 1},
		"kept":      {func(o *limits.RequestThrottle) { o.StaleConnection = true }, true, 1, 0},
		"unchecked": {func(o *limits.RequestThrottle) { o.DropStale = true }, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, node, _ := startThrottled(t, func(o *Options) {
				oneAtATime(o)
				tc.set(&o.Limits.Requests)
			})
			a, b := r.connect(t), r.connect(t)
			a.mustCreate("/n", "", jute.ModePersistent)
			a.send(jute.OpSetData, setTo("/n", "a"))
			node.holds(t, 1)
			gate := r.server.inFlight.Gate
			before := gate.Counts().Waits
			b.pipeline(2, jute.OpCreate, makeNode("/b", "", jute.ModePersistent))
			r.line(before)
			sc := r.connOf(b)
			_ = b.net.Close()
			eventually(t, "the end arrives", func() bool { return sc.Out.PeerClosed() })
			node.release(-1)
			r.count(1)
			a.wantReplies(1, jute.OK)
			if r.exists("/b") != tc.written || gate.Counts().Dropped != tc.drops || gate.Counts().Stale < tc.stale {
				t.Errorf("written %v, %d dropped, %d stale, want %+v",
					r.exists("/b"), gate.Counts().Dropped, gate.Counts().Stale, tc)
			}
		})
	}
}

// endless is the timeout of a session that outlives all the seconds by which a test moves the clock while it waits.
const endless = 500 * time.Hour

func TestTheFirstInLineIsLookedAtAgain(t *testing.T) {
	r, node, now := startThrottled(t, func(o *Options) {
		o.Limits.Requests = limits.RequestThrottle{MaxRequests: 1, Stall: time.Second, DropStale: true,
			StaleConnection: true}
		o.MaxTimeout = endless
	})
	a, b := r.connectTimeout(t, endless), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", "a"))
	node.holds(t, 1)
	before := r.server.inFlight.Gate.Counts().Waits
	b.send(jute.OpGetData, look("/n"))
	r.line(before)
	_ = b.net.Close()
	eventually(t, "the request is dropped while the write is still under way", func() bool {
		now.Advance(time.Second)
		return r.server.inFlight.Gate.Counts().Dropped == 1
	})
	r.count(1)
}
