package server

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/storage/entry"
)

// quick makes sessions end soon.
func quick(o *Options) {
	o.TickTime, o.MinTimeout, o.MaxTimeout = 40*time.Millisecond, 80*time.Millisecond, time.Minute
}

// ahead is how far the manual clock is put before the real one, so that deadlines of connections are not reached.
const ahead = 100 * 365 * 24 * time.Hour

// startManual starts a server whose own clock stands still.
func startManual(t *testing.T, set func(*Options)) (*rig, *clock.Manual) {
	t.Helper()
	c := clock.NewManual(time.Unix(1_000_000_000, 0))
	return startRig(t, rigOptions{set: set, clock: c, ready: func() { c.Advance(ahead) }}), c
}

// pass lets time pass in small steps, and after each whatever is due happen.
func pass(m *clock.Manual, d, step time.Duration) {
	for ; d > 0; d -= step {
		m.Step(min(d, step))
	}
}

func TestAnIdleSessionExpiresNeverEarly(t *testing.T) {
	r, now := startManual(t, nil)
	idle, witness := r.connectTimeout(t, 4*time.Second), r.connect(t)
	idle.mustCreate("/e", "", jute.ModeEphemeral)
	witness.must(jute.OpExists, watching("/e"), jute.OK)
	pass(now, 3900*time.Millisecond, 50*time.Millisecond)
	witness.wantSilence()
	idle.wantSilence() // and the ping renews the session
	pass(now, 3900*time.Millisecond, 50*time.Millisecond)
	witness.wantSilence()
	if !r.exists("/e") {
		t.Fatal("a session expired early")
	}
	// Within timeout plus one tick, whenever the tracker gets to it.
	pass(now, 2100*time.Millisecond, 50*time.Millisecond)
	eventually(t, "the ephemeral goes", func() bool {
		now.Step(50 * time.Millisecond)
		return !r.exists("/e")
	})
	idle.wantClosed()
	witness.wantEvents(event{deleted, "/e"})
	if got := r.server.metrics.expired.Load(); got != 1 {
		t.Errorf("%d sessions expired, want 1", got)
	}
	r.reattach(t, idle).wantRefused()
}

// TestWhoIsHeardBeforeItsEndGoesOn: while the end of one session waits for room, the client of the next one is heard.
func TestWhoIsHeardBeforeItsEndGoesOn(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	r, gate := startGated(t, jute.OpCloseSession, rigOptions{clock: now, ready: func() { now.Advance(ahead) }})
	ends, goesOn := r.connectTimeout(t, 4*time.Second), r.connectTimeout(t, 4*time.Second)
	passed := make(chan struct{})
	go func() { // a step ends when the tracker waits for the clock again
		defer close(passed)
		for len(gate.came) == 0 {
			now.Step(50 * time.Millisecond)
		}
	}()
	eventually(t, "one of them expires", func() bool { return len(gate.came) > 0 })
	goesOn.wantSilence() // it pings
	gate.release()
	<-passed
	ends.wantClosed()
	pass(now, 3900*time.Millisecond, 50*time.Millisecond)
	goesOn.wantSilence()
	if got := r.server.metrics.expired.Load(); got != 1 {
		t.Errorf("%d sessions expired, want 1", got)
	}
	eventually(t, "it expires when it is silent", func() bool {
		now.Step(50 * time.Millisecond)
		return r.server.metrics.expired.Load() == 2
	})
	goesOn.wantClosed()
}

// busyNode takes no end of a session that is asked for with a condition as long as it is busy, as one that prepares a
// reconfig.
type busyNode struct {
	Node
	busy atomic.Bool
	came atomic.Int64 // ends that were not taken
}

// ProposeIf implements Node.
func (n *busyNode) ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (bool, error) {
	if n.busy.Load() {
		n.came.Add(1)
		return false, nil
	}
	return n.Node.ProposeIf(p, w, still)
}

// TestAnEndThatIsHeldUpComesAgain: while no session can be ended the client of one is heard.
func TestAnEndThatIsHeldUpComesAgain(t *testing.T) {
	now, node := clock.NewManual(time.Unix(1_000_000_000, 0)), &busyNode{}
	r := startRig(t, rigOptions{clock: now, ready: func() { now.Advance(ahead) }, node: func(n Node) Node {
		node.Node = n
		return node
	}})
	node.busy.Store(true)
	ends, goesOn := r.connectTimeout(t, 4*time.Second), r.connectTimeout(t, 4*time.Second)
	eventually(t, "both are to end", func() bool {
		now.Step(50 * time.Millisecond)
		return node.came.Load() >= 2
	})
	goesOn.wantSilence() // it pings
	node.busy.Store(false)
	eventually(t, "the other one ends", func() bool {
		now.Step(50 * time.Millisecond)
		return r.server.metrics.expired.Load() > 0
	})
	ends.wantClosed()
	goesOn.wantSilence()
	if got := r.server.metrics.expired.Load(); got != 1 {
		t.Errorf("%d sessions expired, want 1", got)
	}
}

// retime gives a session another timeout, which begins now: a client on a slow machine could not do its work within
// one that is short from the start.
func (r *rig) retime(c *client, timeout time.Duration) {
	r.t.Helper()
	if !r.server.tracker.Load().SetTimeout(c.welcome.SessionID, timeout) {
		r.t.Fatal("the session is not tracked")
	}
}

func TestExpiryWithTheRealClock(t *testing.T) {
	r := newRig(t, quick)
	idle, witness := r.connect(t), r.connectTimeout(t, time.Minute)
	idle.mustCreate("/e", "", jute.ModeEphemeral)
	witness.must(jute.OpExists, watching("/e"), jute.OK)
	heard := time.Now()
	r.retime(idle, 200*time.Millisecond)
	witness.wantEvents(event{deleted, "/e"})
	if took := time.Since(heard); took < 200*time.Millisecond {
		t.Errorf("a session with a timeout of 200 ms expired after %v", took)
	}
	idle.wantClosed()
	r.count(1)
}

func TestAnExpiredClientThatDoesNotReadIsLetGo(t *testing.T) {
	r := newRig(t, quick)
	writer := r.connectTimeout(t, time.Minute)
	writer.mustCreate("/big", string(bytesOf('x', 1000000)), jute.ModePersistent)
	deaf := r.connect(t)
	shrink(t, deaf)
	for range 20 {
		deaf.send(jute.OpGetData, look("/big"))
	}
	r.retime(deaf, 200*time.Millisecond)
	r.count(1)
}

func TestASessionOutlivesItsConnection(t *testing.T) {
	r, now := startManual(t, nil)
	c := r.connectTimeout(t, 10*time.Second)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	_ = c.net.Close() // the client is gone
	r.count(0)
	pass(now, 9*time.Second, 100*time.Millisecond)
	again := r.reattach(t, c)
	if again.welcome.SessionID != c.welcome.SessionID {
		t.Fatalf("the session is gone before its timeout: %+v", again.welcome)
	}
	_ = again.net.Close()
	pass(now, 9*time.Second, 100*time.Millisecond)
	if !r.exists("/e") {
		t.Fatal("reattaching did not renew the session")
	}
	eventually(t, "the session expires", func() bool {
		now.Step(100 * time.Millisecond)
		return !r.exists("/e")
	})
}

func TestSessionsSurviveACrashUntilTheirTimeout(t *testing.T) {
	r := newRig(t, nil)
	c := r.connectTimeout(t, 10*time.Second)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	c.mustCreate("/n", "acknowledged", jute.ModePersistent)
	left := r.mem.CrashClone(vfs.CrashCloneCfg{}) // only what was synced
	r.stop()

	manual := clock.NewManual(time.Unix(1_000_000_000, 0))
	r = startRig(t, rigOptions{mem: left, clock: manual, ready: func() { manual.Advance(ahead) }})
	if !r.exists("/e") {
		t.Fatal("the ephemeral is gone after the crash")
	}
	pass(manual, 9900*time.Millisecond, 100*time.Millisecond)
	again := r.reattach(t, c)
	if again.welcome.SessionID != c.welcome.SessionID || again.welcome.TimeoutMillis != 10000 {
		t.Fatalf("reattached as %+v", again.welcome)
	}
	got := again.must(jute.OpGetData, look("/n"), jute.OK)
	if got.data(t) != "acknowledged" {
		t.Errorf("data %q", got.data(t))
	}
	fresh := r.connectTimeout(t, 10*time.Second)
	if fresh.welcome.SessionID == c.welcome.SessionID {
		t.Error("a session id is given twice")
	}
	eventually(t, "the session expires", func() bool {
		manual.Step(100 * time.Millisecond)
		return !r.exists("/e")
	})
	again.wantClosed()
}

// TestACLsKeepTheirBytes: an id with characters outside the basic plane is after a restart what it was before, in the
// znode and for whoever it names.
func TestACLsKeepTheirBytes(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("𝄞:p")}, jute.OK)
	mine := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	c.must(jute.OpCreate, &jute.CreateRequest{Path: "/n", Data: []byte("x"), ACL: mine}, jute.OK)
	before := c.must(jute.OpGetACL, &jute.PathRequest{Path: "/n"}, jute.OK)
	r.stop()

	r = startRig(t, rigOptions{mem: r.mem})
	c = r.connect(t)
	c.must(jute.OpGetData, look("/n"), jute.NoAuth)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("𝄞:p")}, jute.OK)
	after := c.must(jute.OpGetACL, &jute.PathRequest{Path: "/n"}, jute.OK)
	if halves := []byte("\xed\xa0\xb4\xed\xb4\x9e:"); !bytes.Contains(before.body, halves) { // as Java writes them
		t.Errorf("getACL answers %q, want %q in it", before.body, halves)
	}
	if !bytes.Equal(before.body, after.body) {
		t.Errorf("getACL answers %q, and after a restart %q", before.body, after.body)
	}
	if got := c.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "x" {
		t.Errorf("data %q", got.data(t))
	}
}

func TestContainersAndTTLNodesAreCleanedUp(t *testing.T) {
	r, now := startManual(t, nil)
	c := r.connectTimeout(t, 40*time.Second)
	c.must(jute.OpCreateContainer, makeNode("/container", "", jute.ModeContainer), jute.OK)
	c.mustCreate("/container/c", "", jute.ModePersistent)
	c.must(jute.OpCreateTTL, &jute.CreateTTLRequest{Path: "/ttl", ACL: openACL, Flags: jute.ModePersistentTTL,
		TTL: 5000},
		jute.OK)
	c.must(jute.OpDelete, gone("/container/c"), jute.OK)
	if !r.exists("/container") || !r.exists("/ttl") {
		t.Fatal("cleaned up at once")
	}
	eventually(t, "both are cleaned up", func() bool {
		c.wantSilence()
		now.Advance(time.Second) // no Step: the clean-up waits within its tick
		return !r.exists("/container") && !r.exists("/ttl")
	})
}
