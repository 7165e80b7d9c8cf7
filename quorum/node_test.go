package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"zkd/compat-tests/leak"
	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

func TestMain(m *testing.M) {
	// Pebble leaves this goroutine behind when its Open fails, or Close after a failed write.
	const granter = "github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"
	leak.VerifyTestMain(m, goleak.IgnoreAnyFunction(granter))
}

func TestSingleMemberServesAndSurvivesRestart(t *testing.T) {
	fs := vfs.NewMem()
	m := &fakeMachine{keep: true}
	var want []applied
	for round := range uint32(3) {
		n := startNode(t, testOptions(openLog(t, fs, "log"), m))
		s := n.Status()
		if s.Role != RoleLeader || s.Leader != 1 || s.Term != uint64(round)+2 {
			t.Errorf("round %d: status %+v, want leader of term %d", round, s, round+2)
		}
		for seq := range uint32(10) {
			a := applied{client: round, seq: seq}
			want = append(want, a)
			if got := mustWrite(t, n, a); int(got.zxid) != len(want) {
				t.Errorf("write %v got zxid %d, want %d", a, got.zxid, len(want))
			}
		}
		stopNode(t, n)
		if m.DurableIndex() != m.AppliedIndex() {
			t.Errorf("after Stop %d is durable, want all %d", m.DurableIndex(), m.AppliedIndex())
		}
	}
	if diff := cmp.Diff(want, m.list(), cmp.AllowUnexported(applied{})); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func TestStartReplaysWhatTheMachineHasLost(t *testing.T) {
	fs := vfs.NewMem()
	m := &fakeMachine{keep: true}
	n := startNode(t, testOptions(openLog(t, fs, "log"), m))
	for seq := range uint32(100) {
		mustWrite(t, n, applied{seq: seq})
	}
	want := m.list()
	lost := m.crashed()
	stopNode(t, n)
	seen := &observer{}
	o := testOptions(openLog(t, fs, "log"), lost)
	o.Observer = seen
	startNode(t, o)
	if diff := cmp.Diff(want, lost.list(), cmp.AllowUnexported(applied{})); diff != "" {
		t.Errorf("when Start returned, applied (-want +got):\n%s", diff)
	}
	if len(seen.zxids) != len(want) {
		t.Errorf("the observer saw %d results of the replay, want %d", len(seen.zxids), len(want))
	}
}

// observer is an Observer that remembers zxids. It needs no lock while nothing is written.
type observer struct{ zxids []jute.Zxid }

// Committed implements Observer.
func (o *observer) Committed(r *apply.Result) { o.zxids = append(o.zxids, r.Zxid) }

// orderWaiter checks that the observer has seen the result before.
type orderWaiter struct {
	*waiter
	seen *observer
}

// Applied implements batcher.Waiter.
func (w orderWaiter) Applied(r *apply.Result) {
	if n := len(w.seen.zxids); n == 0 || w.seen.zxids[n-1] != r.Zxid {
		w.t.Errorf("zxid %d is applied before it is observed", r.Zxid)
	}
	w.waiter.Applied(r)
}

func TestManyProposersAreAppliedInOrderOnce(t *testing.T) {
	const clients, each = 32, 200
	m, seen := &fakeMachine{keep: true}, &observer{}
	o := testOptions(openLog(t, vfs.NewMem(), "log"), m)
	o.Observer = seen
	o.MaxEntryBytes = 1 << 10
	o.MaxOutstandingBytes = 4 << 10
	n := startNode(t, o)
	var all sync.WaitGroup
	for client := range uint32(clients) {
		all.Go(func() {
			waiters := make([]*waiter, each)
			for seq := range waiters {
				waiters[seq] = newWaiter(t)
				p := proposal(applied{client, uint32(seq)}, 10)
				if err := n.Propose(p, orderWaiter{waiters[seq], seen}); err != nil {
					t.Errorf("propose: %v", err)
					return
				}
				clear(p.Body) // encoded: it may be used again
			}
			last := jute.Zxid(0)
			for _, w := range waiters {
				got := w.wait()
				if got.err != nil || got.zxid <= last {
					t.Errorf("client %d: answer %+v after zxid %d", client, got, last)
				}
				last = got.zxid
			}
		})
	}
	all.Wait()
	checkOrder(t, m.list(), nil, clients*each)
	if got := len(seen.zxids); got != clients*each {
		t.Errorf("observed %d results, want %d", got, clients*each)
	}
	// The last batch is given back after its waiters are told.
	eventually(t, "nothing is outstanding", func() bool { return n.Status().OutstandingBytes == 0 })
	if s := n.Status(); s.Proposals != clients*each || s.Entries < clients*each*10/(2<<10) {
		t.Errorf("status %+v", s)
	}
}

// checkOrder fails unless each client's marks are 0, 1, 2 … without a gap, and those of acked are there.
func checkOrder(t testing.TB, list []applied, acked map[uint32]uint32, total int) {
	t.Helper()
	next := map[uint32]uint32{}
	for i, a := range list {
		if a.seq != next[a.client] {
			t.Fatalf("applied %d is %v, want sequence %d", i, a, next[a.client])
		}
		next[a.client]++
	}
	for client, count := range acked {
		if next[client] < count {
			t.Fatalf("client %d: %d writes were acknowledged, %d are there", client, count, next[client])
		}
	}
	if total >= 0 && len(list) != total {
		t.Fatalf("%d writes applied, want %d", len(list), total)
	}
}

// TestLogKeepsItsOwnBytes reads back what the log keeps in memory: it must not share the buffers of the batches, which
// are used again.
func TestLogKeepsItsOwnBytes(t *testing.T) {
	n := startNode(t, testOptions(openLog(t, vfs.NewMem(), "log"), &fakeMachine{}))
	const writes = 50
	for seq := range uint32(writes) {
		mustWrite(t, n, applied{1, seq})
	}
	log := n.options.Log
	entries, err := log.Entries(nil, log.FirstIndex(), log.LastIndex()+1, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var marks []applied
	for _, e := range entries {
		if len(e.Data) == 0 {
			continue
		}
		r, err := entry.NewReader(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		for p := (entry.Proposal{}); r.Next(&p); {
			marks = append(marks, decodeBody(p.Body))
		}
	}
	checkOrder(t, marks, nil, writes)
}

func TestNilWaiterAndLargeProposal(t *testing.T) {
	m := &fakeMachine{keep: true}
	o := testOptions(openLog(t, vfs.NewMem(), "log"), m)
	o.MaxEntryBytes, o.MaxOutstandingBytes = 100, 100
	n := startNode(t, o)
	if err := n.Propose(proposal(applied{1, 0}, 100_000), nil); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, n, applied{1, 1})
	checkOrder(t, m.list(), map[uint32]uint32{1: 2}, 2)
}

func TestOutstandingBytesBlockInTurn(t *testing.T) {
	m := &fakeMachine{keep: true}
	o := testOptions(openLog(t, vfs.NewMem(), "log"), m)
	o.MaxOutstandingBytes = 1000
	n := startNode(t, o)
	gate := m.hold()
	var all sync.WaitGroup
	for seq := range uint32(5) {
		w := newWaiter(t)
		all.Go(func() {
			if err := n.Propose(proposal(applied{1, seq}, 1000), w); err != nil {
				t.Errorf("propose: %v", err)
			}
			w.wait()
		})
		eventually(t, "it is taken or queued", func() bool {
			return int(n.Status().Proposals)+queueLen(n) == int(seq)+1
		})
	}
	if got := queueLen(n); got != 4 {
		t.Errorf("%d proposers wait, want 4", got)
	}
	close(gate)
	all.Wait()
	checkOrder(t, m.list(), nil, 5)
}

// queueLen is how many proposers wait for room.
func queueLen(n *Node) int { return n.batcher.Status().Queued }

func TestBarrierWaitsForWhatWasCommitted(t *testing.T) {
	m := &fakeMachine{keep: true}
	n := startNode(t, testOptions(openLog(t, vfs.NewMem(), "log"), m))
	gate := m.hold()
	write := newWaiter(t)
	if err := n.Propose(proposal(applied{1, 0}, 0), write); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write is committed", func() bool { s := n.Status(); return s.Commit > s.Applied })
	barriers := make([]*waiter, 100)
	for i := range barriers {
		barriers[i] = newWaiter(t)
		n.Barrier(barriers[i])
	}
	eventually(t, "the loop has asked", func() bool { return n.batcher.Status().Barriers == 0 })
	for _, b := range barriers {
		select {
		case got := <-b.c:
			t.Fatalf("a barrier is through before the write is applied: %+v", got)
		default:
		}
	}
	close(gate)
	for _, b := range barriers {
		if got := b.wait(); got.err != nil || got.op != jute.OpSync || got.zxid != 1 {
			t.Fatalf("barrier answered %+v, want sync at zxid 1", got)
		}
	}
	if got := write.wait(); got.err != nil {
		t.Error(got.err)
	}
}

func TestStopAnswersWhatWasTaken(t *testing.T) {
	m := &fakeMachine{keep: true}
	n := startNode(t, testOptions(openLog(t, vfs.NewMem(), "log"), m))
	gate := m.hold()
	var waiters []*waiter
	for seq := range uint32(10) {
		waiters = append(waiters, newWaiter(t))
		if err := n.Propose(proposal(applied{1, seq}, 0), waiters[seq]); err != nil {
			t.Fatal(err)
		}
	}
	waiters = append(waiters, newWaiter(t))
	n.Barrier(waiters[10])
	stopped := make(chan error)
	go func() { stopped <- n.Stop(context.Background()) }()
	eventually(t, "the node refuses", func() bool {
		return errors.Is(n.Propose(proposal(applied{2, 0}, 0), nil), ErrStopped)
	})
	close(gate)
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	for i, w := range waiters {
		if got := w.wait(); got.err != nil {
			t.Errorf("waiter %d was dropped: %v", i, got.err)
		}
	}
	late := newWaiter(t)
	n.Barrier(late)
	if got := late.wait(); !errors.Is(got.err, ErrStopped) {
		t.Errorf("a barrier after Stop is told %+v, want ErrStopped", got)
	}
}

func TestStopWithoutTimeDropsTheRest(t *testing.T) {
	m := &fakeMachine{keep: true}
	o := testOptions(openLog(t, vfs.NewMem(), "log"), m)
	o.MaxOutstandingBytes = 10
	n := startNode(t, o)
	gate := m.hold()
	taken := newWaiter(t)
	if err := n.Propose(proposal(applied{1, 0}, 0), taken); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write is committed", func() bool { s := n.Status(); return s.Commit > s.Applied })
	blocked := make(chan error)
	go func() { blocked <- n.Propose(proposal(applied{1, 1}, 0), newWaiter(t)) }()
	eventually(t, "the second is queued", func() bool { return queueLen(n) == 1 })
	barrier := newWaiter(t)
	n.Barrier(barrier)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want the deadline", err)
	}
	if err := <-blocked; !errors.Is(err, ErrStopped) {
		t.Errorf("the blocked proposer is told %v, want ErrStopped", err)
	}
	close(gate)
	if got := barrier.wait(); got.err != nil && !errors.Is(got.err, ErrStopped) {
		t.Errorf("barrier: %+v", got)
	}
	taken.wait()
}

func TestApplyErrorIsFatal(t *testing.T) {
	m := &fakeMachine{keep: true}
	o := testOptions(openLog(t, vfs.NewMem(), "log"), m)
	told := make(chan error, 2)
	o.OnFatal = func(err error) { told <- err }
	n := startNode(t, o)
	mustWrite(t, n, applied{1, 0})
	m.mu.Lock()
	m.applyErr = errInjected
	m.mu.Unlock()
	w := newWaiter(t)
	if err := n.Propose(proposal(applied{1, 1}, 0), w); err != nil {
		t.Fatal(err)
	}
	if got := w.wait(); !errors.Is(got.err, errInjected) {
		t.Errorf("the waiter is told %+v, want the error", got)
	}
	for _, c := range []<-chan error{n.Fatal(), told} {
		if err := <-c; !errors.Is(err, errInjected) {
			t.Errorf("fatal error %v, want the injected one", err)
		}
	}
	if err := n.Propose(proposal(applied{1, 2}, 0), w); !errors.Is(err, errInjected) {
		t.Errorf("a failed node answers a proposal with %v", err)
	}
	if err := n.Stop(context.Background()); !errors.Is(err, errInjected) {
		t.Errorf("stop of a failed node: %v", err)
	}
}

func TestStartRefusesWhatDoesNotFit(t *testing.T) {
	filled := func(t *testing.T) *raftlog.Log {
		fs := vfs.NewMem()
		n := startNode(t, testOptions(openLog(t, fs, "log"), &fakeMachine{}))
		mustWrite(t, n, applied{})
		stopNode(t, n)
		return openLog(t, fs, "log")
	}
	for _, c := range []struct {
		name  string
		log   func(t *testing.T) *raftlog.Log
		state fakeState
	}{
		{"state without log", func(t *testing.T) *raftlog.Log {
			return openLog(t, vfs.NewMem(), "log")
		}, fakeState{index: 5}},
		{"state ahead of the log", filled, fakeState{index: 100}},
		{"log that begins behind the state", func(t *testing.T) *raftlog.Log {
			log := filled(t)
			if err := log.Compact(3, 2, nil); err != nil {
				t.Fatal(err)
			}
			return log
		}, fakeState{index: 1}},
		{"log without members", func(t *testing.T) *raftlog.Log {
			log := openLog(t, vfs.NewMem(), "log")
			if err := log.Append([]raftlog.LogEntry{{Index: 1, Term: 1}}, nil, true); err != nil {
				t.Fatal(err)
			}
			return log
		}, fakeState{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := c.log(t)
			defer log.Close()
			n, err := Start(context.Background(), testOptions(log, &fakeMachine{state: c.state}))
			if err == nil {
				stopNode(t, n)
				t.Fatal("started")
			}
			t.Log(err)
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	m := &fakeMachine{applyErr: errInjected} // behind the gate: Start cannot succeed
	gate := m.hold()
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		n, err := Start(ctx, testOptions(log, m))
		if n != nil {
			t.Error("started, although nothing is applied")
			stopNode(t, n)
		}
		done <- err
	}()
	eventually(t, "the log has the first entry", func() bool { return log.LastIndex() == 2 })
	cancel()
	close(gate)
	if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, errInjected) {
		t.Errorf("start: %v, want it to be canceled", err)
	}
}
