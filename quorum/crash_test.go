package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/storage/apply"
	"zkd/storage/crashfs"
	"zkd/storage/raftlog"
)

// ledger counts what each client was told, and checks that it is told in order.
type ledger struct {
	mu    sync.Mutex
	acked map[uint32]uint32 // by client: writes acknowledged
}

// snapshot returns what is acknowledged by now.
func (l *ledger) snapshot() map[uint32]uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[uint32]uint32, len(l.acked))
	for client, count := range l.acked { // order: a copy
		out[client] = count
	}
	return out
}

// ledgerWaiter enters one write into a ledger.
type ledgerWaiter struct {
	ledger *ledger
	mark   applied
	room   chan struct{} // holds one value for each write under way
}

// Applied implements batcher.Waiter.
func (w ledgerWaiter) Applied(*apply.Result) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.acked[w.mark.client] = w.mark.seq + 1
	<-w.room
}

// Dropped implements batcher.Waiter.
func (w ledgerWaiter) Dropped(error) { <-w.room }

// load runs clients that write until the node refuses.
func (l *ledger) load(n *Node, firstClient uint32, random *rand.Rand) *sync.WaitGroup {
	var all sync.WaitGroup
	for client := firstClient; client < firstClient+4; client++ {
		room := make(chan struct{}, 1+random.IntN(8))
		size := 8 + random.IntN(300)
		all.Go(func() {
			for seq := uint32(0); ; seq++ {
				room <- struct{}{}
				w := ledgerWaiter{l, applied{client, seq}, room}
				if err := n.Propose(proposal(w.mark, size), w); err != nil {
					return
				}
			}
		})
	}
	return &all
}

// TestCrashLosesNothingAcknowledged stops the power at random moments of random load, and starts again from what that
// has left.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	random := rand.New(rand.NewPCG(uint64(rounds), 7))
	fs, m := crashfs.New(), &fakeMachine{keep: true}
	acks := &ledger{acked: map[uint32]uint32{}}
	for round := range uint32(rounds) {
		o := testOptions(openLog(t, fs, "log"), m)
		o.TailBytes, o.TailEntries = 4<<10, 50 // the log is compacted all the time
		o.MaxEntryBytes, o.MaxOutstandingBytes = 1<<10, 1<<20
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		n, err := Start(ctx, o)
		cancel()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		checkOrder(t, m.list(), acks.snapshot(), -1)
		clients := acks.load(n, 4*round, random)
		for range 1 + random.IntN(3) {
			awaitApplied(t, m, uint64(random.IntN(40)))
			if err := m.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		awaitApplied(t, m, uint64(random.IntN(40)))
		known := acks.snapshot()
		var left *crashfs.FS
		var machine *fakeMachine
		m.whole(func() {
			left = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
			machine = m.crashedLocked()
		})
		stopNode(t, n)
		clients.Wait()
		fs, m, acks = left, machine, &ledger{acked: known}
	}
	t.Logf("%d writes in %d rounds", len(m.list()), rounds)
}

// awaitApplied waits until the machine has applied this many entries more.
func awaitApplied(t *testing.T, m *fakeMachine, entries uint64) {
	t.Helper()
	target := m.AppliedIndex() + entries
	eventually(t, "the load is applied", func() bool { return m.AppliedIndex() >= target })
}

// TestFirstStartSurvivesACrashAtEveryPoint ends the first start at each of its operations on the disk.
func TestFirstStartSurvivesACrashAtEveryPoint(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for point := int32(0); ; point++ {
		fs := crashfs.New()
		var operations atomic.Int32
		acked, opened := firstStart(t, errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && operations.Add(1) > point {
				return errInjected // the disk is gone for good
			}
			return nil
		})))
		percents := []int{0, 100}
		if opened { // a log that was never open is storage's to test
			percents = append(percents, 25, 50, 75)
		}
		for _, percent := range percents {
			left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
			m := &fakeMachine{keep: true}
			n := startNode(t, testOptions(openLog(t, left, "log"), m))
			checkOrder(t, m.list(), map[uint32]uint32{1: acked}, -1)
			mustWrite(t, n, applied{2, 0})
			if blob, ok := n.options.Log.Meta(membershipKey); !ok || len(blob) == 0 {
				t.Fatal("no membership is stored")
			}
			stopNode(t, n)
		}
		if acked > 0 && operations.Load() <= point { // all points were tried
			if point < 5 {
				t.Fatalf("only %d points", point)
			}
			t.Logf("%d points", point)
			return
		}
	}
}

// firstStart starts a member on an empty disk that may fail, writes once, and returns how many writes were
// acknowledged, and whether it came as far as to open the log.
func firstStart(t *testing.T, fs vfs.FS) (acked uint32, opened bool) {
	t.Helper()
	log, err := raftlog.Open(raftlog.Options{Dir: "log", FS: fs, Logger: discard})
	if err != nil {
		return 0, false
	}
	defer log.Close() // its error is the injected one
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	n, err := Start(ctx, testOptions(log, &fakeMachine{}))
	if err != nil {
		return 0, true
	}
	defer n.Stop(ctx) // likewise
	w := newWaiter(t)
	if err := n.Propose(proposal(applied{1, 0}, 0), w); err != nil {
		return 0, true
	}
	if w.wait().err != nil {
		return 0, true
	}
	return 1, true
}

// TestFailedSyncIsFinal fails one fsync of the log under load: nothing that was written after it is acknowledged, and
// what was acknowledged before is there after a crash.
func TestFailedSyncIsFinal(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 20 {
		fs, m := crashfs.New(), &fakeMachine{keep: true}
		var armed atomic.Int32
		failing := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			isSync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData ||
				op.Kind == errorfs.OpFileSyncTo
			if armed.Load() > 0 && isSync && strings.HasSuffix(op.Path, ".log") {
				armed.Store(2)
				return errInjected
			}
			return nil
		}))
		n := startNode(t, testOptions(openLog(t, failing, "log"), m))
		acks := &ledger{acked: map[uint32]uint32{}}
		clients := acks.load(n, 0, random)
		awaitApplied(t, m, uint64(1+random.IntN(20)))
		armed.Store(1)
		select {
		case <-n.Fatal():
		case <-time.After(testDeadline):
			t.Fatal("the node did not stop")
		}
		left := fs.CrashClone(vfs.CrashCloneCfg{}) // only what was synced
		clients.Wait()
		stopNode(t, n)
		if armed.Load() != 2 {
			t.Fatalf("round %d: stopped without the fault", round)
		}
		again := &fakeMachine{keep: true}
		n = startNode(t, testOptions(openLog(t, left, "log"), again))
		checkOrder(t, again.list(), acks.snapshot(), -1)
		stopNode(t, n)
		if !slices.Equal(m.list(), again.list()[:len(m.list())]) {
			t.Fatalf("round %d: what was applied is not what is in the log", round)
		}
	}
}
