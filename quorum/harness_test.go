package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/state"
)

// testDeadline bounds every wait of a test.
const testDeadline = time.Minute

// applied is one proposal that the fake machine has applied.
type applied struct{ client, seq uint32 }

// fakeMachine is a state machine whose state is the list of what it applied. flushed is what a crash leaves.
type fakeMachine struct {
	mu       sync.Mutex
	state    fakeState
	flushed  fakeState
	flushes  int
	applyErr error            // returned by the next Apply
	gate     chan struct{}    // if not nil, Apply takes one value first
	keep     bool             // keep the list
	durable  bool             // what is applied is durable at once
	disk     *fakeDisk        // of checkpoints; may be nil
	refuse   map[applied]bool // proposals that come out with another code than OK
	levels   bool             // begin at the oldest feature level, not at the newest
	hanging  atomic.Bool      // operations on its files are under way, and none ends
}

// fakeDisk holds checkpoints of fake machines by their directories.
type fakeDisk struct {
	mu     sync.Mutex
	states map[string]fakeState
}

func newFakeDisk() *fakeDisk { return &fakeDisk{states: map[string]fakeState{}} }

// put stores a checkpoint.
func (d *fakeDisk) put(dir string, s fakeState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.list = slices.Clone(s.list)
	d.states[dir] = s
}

// get returns a checkpoint.
func (d *fakeDisk) get(dir string) (fakeState, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.states[dir]
	return s, ok
}

// fakeState is a fake machine's state.
type fakeState struct {
	index   uint64
	term    uint64
	zxid    jute.Zxid
	list    []applied
	cluster [16]byte
	founded int // how often it was proposed
	level   entry.Level
}

// tellSink gives the result of the nth proposal of an entry to sink, as a machine does.
func tellSink(sink state.Sink, r *entry.Reader, n int, result *apply.Result) error {
	if d, ok := sink.(state.Decider); ok {
		if err := d.Decided([]apply.Result{*result}); err != nil {
			return err
		}
	}
	sink.Result(r.Origin, r.Batch, n, result)
	return nil
}

// Apply implements Machine.
func (m *fakeMachine) Apply(index, term uint64, data []byte, sink state.Sink) error {
	m.mu.Lock()
	gate := m.gate
	m.mu.Unlock()
	if gate != nil {
		<-gate
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applyErr != nil {
		return m.applyErr
	}
	if index <= m.state.index {
		return fmt.Errorf("entry %d after %d", index, m.state.index)
	}
	if len(data) > 0 {
		r, err := entry.NewReader(data)
		if err != nil {
			return err
		}
		var p entry.Proposal
		var result apply.Result
		for n := 0; r.Next(&p); n++ {
			if p.Op == entry.OpFoundEnsemble {
				m.state.founded++
				if m.state.cluster == [16]byte{} {
					copy(m.state.cluster[:], p.Body)
				}
				result = apply.Result{Op: p.Op}
				if err := tellSink(sink, &r, n, &result); err != nil {
					return err
				}
				continue
			}
			if p.Op == entry.OpCompareState { // all fake states are well
				result = apply.Result{Op: p.Op}
				sink.Result(r.Origin, r.Batch, n, &result)
				continue
			}
			if p.Op == entry.OpRaiseLevel {
				var raise entry.RaiseTxn
				if err := raise.Decode(p.Body); err != nil {
					return err
				}
				m.state.level = max(m.state.level, raise.Level)
				result = apply.Result{Op: p.Op}
				sink.Result(r.Origin, r.Batch, n, &result)
				continue
			}
			m.state.zxid++
			if p.Op == jute.OpError {
				result = apply.Result{Op: p.Op, Session: p.Session, Xid: p.Xid, Zxid: m.state.zxid, Code: p.Code}
				sink.Result(r.Origin, r.Batch, n, &result)
				continue
			}
			if m.keep {
				m.state.list = append(m.state.list, decodeBody(p.Body))
			}
			result = apply.Result{Op: p.Op, Session: p.Session, Xid: p.Xid, Zxid: m.state.zxid}
			if m.refuse[decodeBody(p.Body)] {
				result.Code = jute.BadVersion
			}
			if err := tellSink(sink, &r, n, &result); err != nil {
				return err
			}
		}
		if r.Err() != nil {
			return r.Err()
		}
	}
	m.state.index, m.state.term = index, term
	return nil
}

// Checkpoint implements Machine.
func (m *fakeMachine) Checkpoint(_ context.Context, dir string) (index, term uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushed = m.state
	m.flushed.list = slices.Clip(m.flushed.list)
	m.disk.put(dir, m.state)
	return m.state.index, m.state.term, nil
}

// Verify implements Machine.
func (m *fakeMachine) Verify(dir string, _ func() error) (state.Verified, error) {
	s, ok := m.disk.get(dir)
	if !ok {
		return state.Verified{}, errInjected
	}
	return state.Verified{Index: s.index, Term: s.term, ClusterID: m.ClusterID()}, nil
}

// Install implements Machine.
func (m *fakeMachine) Install(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.disk.get(dir)
	if !ok || s.index < m.state.index {
		return fmt.Errorf("install %s of entry %d over entry %d", dir, s.index, m.state.index)
	}
	m.state, m.flushed = s, s
	return nil
}

// ClusterID implements Machine.
func (m *fakeMachine) ClusterID() [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.cluster
}

// hold makes each Apply from now on take a value from the channel returned first, or wait until it is closed.
func (m *fakeMachine) hold() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate = make(chan struct{})
	return m.gate
}

// DiskProgress implements Machine.
func (m *fakeMachine) DiskProgress() (inFlight bool, ended uint64) { return m.hanging.Load(), 0 }

// AppliedIndex implements Machine.
func (m *fakeMachine) AppliedIndex() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.index
}

// DurableIndex implements Machine.
func (m *fakeMachine) DurableIndex() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.durable {
		return m.state.index
	}
	return m.flushed.index
}

// LastZxid implements Machine.
func (m *fakeMachine) LastZxid() jute.Zxid {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.zxid
}

// Flush implements Machine.
func (m *fakeMachine) Flush(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushed = m.state
	m.flushed.list = slices.Clip(m.flushed.list)
	m.flushes++
	return nil
}

// crashed returns a machine with what a crash leaves.
func (m *fakeMachine) crashed() *fakeMachine {
	var left *fakeMachine
	m.whole(func() { left = m.crashedLocked() })
	return left
}

// crashedLocked is crashed, inside whole.
func (m *fakeMachine) crashedLocked() *fakeMachine {
	return &fakeMachine{state: m.flushed, flushed: m.flushed, keep: m.keep, disk: m.disk, levels: m.levels}
}

// whole calls do while the machine's state and what is durable of it stand still.
func (m *fakeMachine) whole(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// list returns what was applied, in order.
func (m *fakeMachine) list() []applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.list)
}

// body encodes a proposal's mark, padded to size.
func body(a applied, size int) []byte {
	b := make([]byte, max(size, 8))
	binary.BigEndian.PutUint32(b, a.client)
	binary.BigEndian.PutUint32(b[4:], a.seq)
	return b
}

// decodeBody reads what body wrote.
func decodeBody(b []byte) applied {
	return applied{client: binary.BigEndian.Uint32(b), seq: binary.BigEndian.Uint32(b[4:])}
}

// proposal is a setData that bears the mark.
func proposal(a applied, size int) *entry.Proposal {
	return &entry.Proposal{
		Op: jute.OpSetData, Session: jute.SessionID(a.client), Xid: jute.Xid(a.seq), Body: body(a, size),
	}
}

// discard logs nothing.
var discard = slog.New(slog.DiscardHandler)

// openLog opens the raft log on fs.
func openLog(t testing.TB, fs vfs.FS, dir string) *raftlog.Log {
	t.Helper()
	return openLogWith(t, raftlog.Options{Dir: dir, FS: fs})
}

// openLogWith opens a log with other options than the defaults.
func openLogWith(t testing.TB, o raftlog.Options) *raftlog.Log {
	t.Helper()
	o.Logger = discard
	log, err := raftlog.Open(o)
	if err != nil {
		t.Fatalf("open raft log: %v", err)
	}
	return log
}

// testOptions are the options of a member over log and machine.
func testOptions(log *raftlog.Log, m Machine) Options {
	return Options{ID: 1, Log: log, Machine: m, Clock: clock.Real(), Rand: rand.New(rand.NewPCG(rand.Uint64(), 1))}
}

// startNode starts a node, stops it at the end of the test, and closes the log.
func startNode(t testing.TB, o Options) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	n, err := Start(ctx, o)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stopNode(t, n) })
	return n
}

// stopNode stops a node that may have failed, and closes its log.
func stopNode(t testing.TB, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := n.Stop(ctx); err != nil && n.err() == nil {
		t.Errorf("stop: %v", err)
	}
	if err := n.options.Log.Close(); err != nil && n.err() == nil {
		t.Errorf("close: %v", err)
	}
}

// answer is what a waiter was told.
type answer struct {
	zxid jute.Zxid
	op   jute.Op
	code jute.Code
	err  error
}

// waiter is a Waiter that checks that it is told once.
type waiter struct {
	t    testing.TB
	once sync.Once
	c    chan answer // of size 1: told once
}

func newWaiter(t testing.TB) *waiter { return &waiter{t: t, c: make(chan answer, 1)} }

// Applied implements batcher.Waiter.
func (w *waiter) Applied(r *apply.Result) { w.tell(answer{zxid: r.Zxid, op: r.Op, code: r.Code}) }

// Dropped implements batcher.Waiter.
func (w *waiter) Dropped(err error) { w.tell(answer{err: err}) }

func (w *waiter) tell(a answer) {
	first := false
	w.once.Do(func() { first = true })
	if !first {
		w.t.Error("a waiter is told twice")
		return
	}
	w.c <- a
}

// wait returns what the waiter is told.
func (w *waiter) wait() answer {
	w.t.Helper()
	select {
	case a := <-w.c:
		return a
	case <-time.After(testDeadline):
		w.t.Fatal("a waiter is not told")
		return answer{}
	}
}

// mustWrite proposes one write and waits until it is applied.
func mustWrite(t testing.TB, n *Node, a applied) answer {
	t.Helper()
	w := newWaiter(t)
	if err := n.Propose(proposal(a, 0), w); err != nil {
		t.Fatalf("propose %v: %v", a, err)
	}
	got := w.wait()
	if got.err != nil {
		t.Fatalf("write %v dropped: %v", a, got.err)
	}
	return got
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

// errInjected is what tests make fail with.
var errInjected = errors.New("injected")
