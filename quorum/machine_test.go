package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/crashfs"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// openMachine opens the real state machine on fs, with flushes so frequent that a crash finds it in all its states.
func openMachine(t testing.TB, fs vfs.FS) *state.Machine {
	t.Helper()
	m, err := state.OpenMachine(state.MachineOptions{Dir: "state", FS: fs, Logger: discard, FlushBytes: 8 << 10})
	if err != nil {
		t.Fatalf("open state machine: %v", err)
	}
	return m
}

// realMachine is a state machine that never sends its state.
type realMachine struct{ *state.Machine }

// Checkpoint implements Machine.
func (realMachine) Checkpoint(context.Context, string) (index, term uint64, err error) {
	return 0, 0, errInjected
}

// Install implements Machine.
func (realMachine) Install(string) error { return errInjected }

// ClusterID implements Machine.
func (realMachine) ClusterID() [16]byte { return [16]byte{1} }

// nodePath is the znode that a write makes.
func nodePath(a applied) string { return fmt.Sprintf("/c%d-%d", a.client, a.seq) }

// testSession is the session of all writes.
const testSession jute.SessionID = 0x100

// createSession makes testSession, unless it is there.
func createSession(t testing.TB, n *Node, m *state.Machine) {
	t.Helper()
	v := m.View()
	_, ok := v.Session(testSession)
	v.Close()
	if ok {
		return
	}
	txn := entry.SessionTxn{TimeoutMillis: 10_000}
	w := newWaiter(t)
	p := &entry.Proposal{Op: jute.OpCreateSession, Session: testSession, Body: txn.Append(nil)}
	if err := n.Propose(p, w); err != nil {
		t.Fatal(err)
	}
	if got := w.wait(); got.err != nil {
		t.Fatal(got.err)
	}
}

// createProposal makes nodePath.
func createProposal(a applied) *entry.Proposal {
	r := jute.CreateRequest{
		Path: nodePath(a), Data: []byte("data"),
		ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
	}
	return &entry.Proposal{
		Op: jute.OpCreate, Session: testSession, Xid: jute.Xid(a.seq), Time: 1_700_000_000_000, Body: r.Append(nil),
	}
}

// created is a Waiter that enters the znode into a list.
type created struct {
	t    testing.TB
	mark applied
	list *createdList
	room chan struct{}
}

// createdList is what was acknowledged.
type createdList struct {
	mu    sync.Mutex
	marks []applied
	zxid  jute.Zxid
}

// Applied implements batcher.Waiter.
func (w created) Applied(r *apply.Result) {
	if r.Code != jute.OK || r.Path != nodePath(w.mark) {
		w.t.Errorf("create %v: %v %q", w.mark, r.Code, r.Path)
	}
	w.list.mu.Lock()
	defer w.list.mu.Unlock()
	w.list.marks = append(w.list.marks, w.mark)
	w.list.zxid = max(w.list.zxid, r.Zxid)
	<-w.room
}

// Dropped implements batcher.Waiter.
func (w created) Dropped(error) { <-w.room }

// TestRealMachineSurvivesCrashes runs log and state machine on one disk and stops the power at random moments.
func TestRealMachineSurvivesCrashes(t *testing.T) {
	rounds := uint32(20)
	if testing.Short() {
		rounds = 5
	}
	random := rand.New(rand.NewPCG(11, 12))
	fs := crashfs.New()
	list := &createdList{}
	for round := range rounds {
		m := openMachine(t, fs)
		o := testOptions(openLog(t, fs, "log"), realMachine{m})
		o.TailBytes, o.TailEntries, o.MaxEntryBytes = 8<<10, 50, 4<<10
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		n, err := Start(ctx, o)
		cancel()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		checkCreated(t, m, list)
		createSession(t, n, m)
		clients := createUntilRefused(t, n, list, 3*round)
		for range 1 + random.IntN(100) {
			w := newWaiter(t)
			n.Barrier(w)
			w.wait()
		}
		list.mu.Lock()
		known := &createdList{marks: list.marks, zxid: list.zxid}
		list.mu.Unlock()
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		stopNode(t, n)
		clients.Wait()
		if err := m.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
		fs, list = left, known
	}
	t.Logf("%d znodes acknowledged in %d rounds", len(list.marks), rounds)
}

// createUntilRefused runs three clients that create znodes.
func createUntilRefused(t *testing.T, n *Node, list *createdList, first uint32) *sync.WaitGroup {
	var all sync.WaitGroup
	for client := first; client < first+3; client++ {
		room := make(chan struct{}, 4)
		all.Go(func() {
			for seq := uint32(0); ; seq++ {
				room <- struct{}{}
				a := applied{client, seq}
				if err := n.Propose(createProposal(a), created{t, a, list, room}); err != nil {
					return
				}
			}
		})
	}
	return &all
}

// checkCreated fails unless all that was acknowledged is there.
func checkCreated(t *testing.T, m *state.Machine, list *createdList) {
	t.Helper()
	v := m.View()
	defer v.Close()
	for _, a := range list.marks {
		if _, ok := v.Exists(nodePath(a)); !ok {
			t.Fatalf("acknowledged %s is missing", nodePath(a))
		}
	}
	if v.Zxid() < list.zxid {
		t.Fatalf("zxid went back to %d, %d was acknowledged", v.Zxid(), list.zxid)
	}
}
