package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"zkd/compat-tests/leak"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/state"
)

func TestMain(m *testing.M) {
	// Pebble leaves this goroutine behind when its Close comes after a failed write.
	const granter = "github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"
	leak.VerifyTestMain(m, goleak.IgnoreAnyFunction(granter))
}

// testDeadline bounds every wait of a test.
const testDeadline = time.Minute

// longSession is the timeout of sessions that are not to expire, however slow the machine is.
const (
	longSession = 5 * time.Minute
	longMillis  = int32(longSession / time.Millisecond)
)

// superDigest is the digest of super:superpw.
const superDigest = "super:g9oN2HttPfn8MMWJZ2r45Np/LIA="

// rig is a server over a raft group of one, with its stores in memory and a real listener on the loopback.
type rig struct {
	t       testing.TB
	options Options
	mem     *vfs.MemFS
	log     *raftlog.Log
	machine *state.Machine
	server  *Server
	node    *quorum.Node
	addr    string
	served  chan error
	failed  atomic.Bool // the node or a store has given up
	broken  bool        // the test breaks the disk: closing may fail
	stopped bool
}

// rigOptions says what differs from the usual.
type rigOptions struct {
	set   func(*Options)         // changes the server's options
	mem   *vfs.MemFS             // what an earlier rig has left; default a new one
	wrap  func(fs vfs.FS) vfs.FS // around mem
	clock clock.Clock            // of the server alone; default the real one
	ready func()                 // called between New and Start
	node  func(Node) Node        // around the server's node
	level entry.Level            // the highest to which the group agrees; default the newest
}

// newRig starts a server, and stops it at the end of the test.
func newRig(t testing.TB, set func(*Options)) *rig { return startRig(t, rigOptions{set: set}) }

// startRig starts a server, and stops it at the end of the test.
func startRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, mem: o.mem, served: make(chan error, 1), broken: o.wrap != nil}
	if r.mem == nil {
		r.mem = vfs.NewCrashableMem()
	}
	var fs vfs.FS = r.mem
	if o.wrap != nil {
		fs = o.wrap(fs)
	}
	r.openStores(fs)
	r.options = testOptions(t, r.machine)
	if o.clock != nil {
		r.options.Clock = o.clock
	}
	if o.set != nil {
		o.set(&r.options)
	}
	r.server = New(r.options)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	var err error
	r.node, err = quorum.Start(ctx, quorum.Options{
		ID: 1, LevelMax: o.level, Log: r.log, Machine: r.machine, Clock: clock.Real(), Now: r.options.Clock.Now,
		Logger: discard, Observer: r.server,
		Rand: mathrand.New(mathrand.NewPCG(mathrand.Uint64(), 1)), OnFatal: func(error) { r.failed.Store(true) },
	})
	if err != nil {
		t.Fatalf("start the node: %v", err)
	}
	if o.ready != nil {
		o.ready()
	}
	var node Node = r.node
	if o.node != nil {
		node = o.node(node)
	}
	r.server.Start(node)
	l := listen(t)
	r.addr = l.Addr().String()
	go func() { r.served <- r.server.Serve(l) }()
	t.Cleanup(r.stop)
	return r
}

// discard logs nothing.
var discard = slog.New(slog.DiscardHandler)

// openStores opens the log and the state.
func (r *rig) openStores(fs vfs.FS) {
	r.t.Helper()
	var err error
	onFatal := func(error) { r.failed.Store(true) }
	r.log, err = raftlog.Open(raftlog.Options{Dir: "log", FS: fs, Logger: discard, OnFatal: onFatal})
	if err != nil {
		r.t.Fatalf("open the raft log: %v", err)
	}
	r.machine, err = state.OpenMachine(state.MachineOptions{Dir: "state", FS: fs, Logger: discard,
		OnFatal: onFatal})
	if err != nil {
		r.t.Fatalf("open the machine: %v", err)
	}
}

// testOptions are the options of a server with long timeouts.
func testOptions(t testing.TB, m *state.Machine) Options {
	t.Helper()
	registry, err := auth.New(auth.Options{SuperDigest: superDigest})
	if err != nil {
		t.Fatalf("authentication: %v", err)
	}
	return Options{
		ServerID: 1, Machine: m, Clock: clock.Real(), Logger: discard, Registry: registry, Random: rand.Reader,
		Commands: fourletter.New(fourletter.Options{Whitelist: "*"}),
		Flags:    entry.FlagExtendedTypes,
		TickTime: 2 * time.Second, MinTimeout: 4 * time.Second, MaxTimeout: longSession,
		HandshakeTimeout: time.Hour, MaxFrameBytes: 0xfffff,
		Environment: func() []fourletter.Setting { return nil },
		DirSizes:    func() fourletter.DirSizes { return fourletter.DirSizes{} },
		OpenFiles:   func() int64 { return 1 }, MaxOpenFiles: func() int64 { return 2 },
	}
}

// stop ends the server and closes the stores. It may be called twice.
func (r *rig) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	err := r.server.Shutdown(ctx)
	if served := <-r.served; !errors.Is(served, net.ErrClosed) { // it may not have begun to serve
		err = errors.Join(err, served)
	}
	err = errors.Join(err, r.node.Stop(ctx), r.machine.Close(), r.log.Close())
	if err != nil && !r.broken {
		r.t.Errorf("stop: %v", err)
	}
	if n := r.server.inFlight.Count(); n != 0 {
		r.t.Errorf("%d requests are still counted as under way after the stop", n)
	}
	if n := r.server.memory.Used(limits.Unread) + r.server.memory.Used(limits.Requests); n != 0 {
		r.t.Errorf("%d bytes are still counted as held by clients after the stop", n)
	}
	if n := r.server.connections.count(); n != 0 {
		r.t.Errorf("%d connections are left after the stop", n)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(testDeadline)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", testDeadline, what)
		}
	}
}

// count waits until the server has n connections.
func (r *rig) count(n int) {
	r.t.Helper()
	eventually(r.t, "the number of connections", func() bool { return r.server.connections.count() == n })
}

// exists asks the state machine.
func (r *rig) exists(path string) bool {
	v := r.machine.View()
	defer v.Close()
	_, ok := v.Exists(path)
	return ok
}

// commandsOf are the four-letter commands with a whitelist.
func commandsOf(whitelist string) *fourletter.Commands {
	return fourletter.New(fourletter.Options{Whitelist: whitelist})
}
