package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/quorum/member"
	"zkd/storage/apply"
	"zkd/storage/raftlog"
)

// testBatcher is a batcher without a node.
func testBatcher(maxEntry, maxOutstanding int) *batcher.Batcher {
	return batcher.New(batcher.Options{
		Origin: 77, MaxEntryBytes: maxEntry, MaxOutstandingBytes: maxOutstanding,
		Clock: clock.NewManual(time.Unix(1, 0)), Wake: func() {},
	})
}

// testApplier is an applier without a node.
func testApplier(m *fakeMachine) *applier {
	return &applier{
		machine: m, batcher: testBatcher(1, 1<<20), clock: clock.NewManual(time.Unix(1, 0)),
		done: func(applyNews, bool) {}, failing: func() bool { return false },
	}
}

// applyMessage is an apply message of empty entries.
func applyMessage(indexes ...uint64) applyWork {
	m := &raftpb.Message{}
	for _, i := range indexes {
		m.Entries = append(m.Entries, raftEntry(&raftlog.LogEntry{Index: i, Term: 1}))
	}
	return applyWork{message: m}
}

// TestBarrierPassesWithItsEntry hands out a barrier before the entries that it waits for, as happens when many are
// being applied.
func TestBarrierPassesWithItsEntry(t *testing.T) {
	m := &fakeMachine{}
	a := testApplier(m)
	told := map[uint64]uint64{} // by index: what was applied when the barrier passed
	for index := uint64(3); index <= 5; index++ {
		if err := a.batcher.AddBarrier(waiterFunc(func() { told[index] = m.state.index })); err != nil {
			t.Fatal(err)
		}
		w := applyWork{barriers: a.batcher.TakeBarriers(nil), index: index}
		if err := a.apply([]applyWork{w}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.apply([]applyWork{applyMessage(2, 3), applyMessage(4), applyMessage(5, 6)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[uint64]uint64{3: 3, 4: 4, 5: 5}, told); diff != "" {
		t.Errorf("applied when a barrier passed (-want +got):\n%s", diff)
	}
	if outstanding := a.batcher.Status().OutstandingBytes; outstanding != 0 || len(a.waiting) != 0 {
		t.Errorf("%d outstanding, %d waiting", outstanding, len(a.waiting))
	}
}

// waiterFunc is called by Applied.
type waiterFunc func()

// Applied implements batcher.Waiter.
func (f waiterFunc) Applied(*apply.Result) { f() }

// Dropped implements batcher.Waiter.
func (f waiterFunc) Dropped(error) {}

// TestNothingIsAppliedAfterAFailure fails the node between two entries.
func TestNothingIsAppliedAfterAFailure(t *testing.T) {
	m := &fakeMachine{}
	a := testApplier(m)
	a.failing = func() bool { return m.state.index >= 3 }
	if err := a.apply([]applyWork{applyMessage(2, 3, 4), applyMessage(5)}); err != nil {
		t.Fatal(err)
	}
	if m.state.index != 3 {
		t.Errorf("applied up to %d, want 3", m.state.index)
	}
}

// changeEntry is an entry that adds a learner.
func changeEntry(t *testing.T, index uint64, kind raftpb.EntryType, id uint64) raftlog.LogEntry {
	t.Helper()
	if kind == raftpb.EntryConfChangeV2 {
		return changesEntry(t, index, member.Step(raftpb.ConfChangeAddLearnerNode, id))
	}
	return marshaledEntry(t, index, kind, &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &id})
}

// changesEntry is an entry with a change of membership in these steps.
func changesEntry(t *testing.T, index uint64, steps ...*raftpb.ConfChangeSingle) raftlog.LogEntry {
	t.Helper()
	return marshaledEntry(t, index, raftpb.EntryConfChangeV2, &raftpb.ConfChangeV2{Changes: steps})
}

func marshaledEntry(t *testing.T, index uint64, kind raftpb.EntryType, change proto.Message) raftlog.LogEntry {
	t.Helper()
	data, err := proto.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	return raftlog.LogEntry{Index: index, Term: bootstrapTerm, Kind: uint8(kind), Data: data}
}

// TestMembershipChangesAreAppliedAndKept starts on a log that ends in changes, committed and not, once and again after
// a crash that the membership has survived and the state has not.
func TestMembershipChangesAreAppliedAndKept(t *testing.T) {
	for _, committed := range []uint64{1, 2, 3} {
		fs := vfs.NewMem()
		log := openLog(t, fs, "log")
		if _, _, err := openGroup(&Options{ID: 1, Log: log}, 0); err != nil {
			t.Fatal(err)
		}
		entries := []raftlog.LogEntry{
			changeEntry(t, 2, raftpb.EntryConfChange, 2), changeEntry(t, 3, raftpb.EntryConfChangeV2, 3),
		}
		if err := log.Append(entries, appendHardState(nil, bootstrapTerm, 0, committed), true); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			n := startNode(t, testOptions(log, &fakeMachine{}))
			mustWrite(t, n, applied{})
			stopNode(t, n)
			log = openLog(t, fs, "log")
			blob, _ := log.Meta(membershipKey)
			m, err := member.Decode(blob)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.Conf.GetLearners(), []uint64{2, 3}) || !m.SoleVoter(1) || m.Index != 3 {
				t.Errorf("committed %d: membership %v as of %d", committed, m.Conf, m.Index)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMembershipChangeIsNotRepeated applies a change that the membership on disk has in it: brought into force twice, a
// joint one would make raft panic.
func TestMembershipChangeIsNotRepeated(t *testing.T) {
	changes := 0
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	a := &applier{log: log, done: func(n applyNews, _ bool) {
		if n.change != nil {
			changes++
		}
	}}
	for index, want := range map[uint64]int{4: 0, 5: 0, 6: 1} { // order: only 6 changes anything
		changes = 0
		e := changeEntry(t, index, raftpb.EntryConfChange, 9)
		a.member = member.Membership{Index: 5, Conf: &raftpb.ConfState{Voters: []uint64{1}}}
		if _, err := a.beginChange(raftEntry(&e)); err != nil || changes != want || a.member.Index != max(index, 5) {
			t.Errorf("entry %d: %v, %d changes, want %d; members as of %d", index, err, changes, want, a.member.Index)
		}
	}
}

func TestStateOfAnotherFormatIsRefused(t *testing.T) {
	if _, err := decodeHardState(append([]byte{9}, make([]byte, hardStateBytes-1)...)); err == nil {
		t.Error("a hard state of format 9 is read")
	}
	if _, err := member.Decode(make([]byte, 20)); err == nil {
		t.Error("a membership of format 0 is read")
	}
	hard, err := decodeHardState(appendHardState(nil, 1<<40, 2, 3))
	if err != nil || hard.GetTerm() != 1<<40 || hard.GetVote() != 2 || hard.GetCommit() != 3 {
		t.Errorf("hard state %v, %v", hard, err)
	}
}

// TestTheCompactorKeepsABoundedTail runs the compactor's work over a log that grows.
func TestTheCompactorKeepsABoundedTail(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	m := &fakeMachine{}
	var bytes uint64
	compactor := &logCompactor{
		log: log, machine: m, clock: clock.NewManual(time.Unix(1, 0)), appended: func() uint64 { return bytes },
		tailEntries: 100, tailBytes: 8000, flushInterval: time.Hour, sizes: []raftlog.LogSize{{}},
		retain: newRetained(true), newest: &atomic.Int64{}, installs: func() uint64 { return 0 },
	}
	compactor.retain.applied.Store(1 << 62)
	random := rand.New(rand.NewPCG(1, 1))
	shortest := uint64(1000)
	for i := uint64(1); i <= 3000; i++ {
		data := make([]byte, 50+random.IntN(300)*int(i%2000/1000))
		if err := log.Append([]raftlog.LogEntry{{Index: i, Term: 1, Data: data}}, nil, false); err != nil {
			t.Fatal(err)
		}
		bytes += uint64(len(data))
		m.flushed.index = i - min(i, i%50)
		if err := compactor.compact(); err != nil {
			t.Fatal(err)
		}
		tail := log.LastIndex() + 1 - log.FirstIndex()
		if tail > 100+100/compactorSteps+50 {
			t.Fatalf("at %d the tail has %d entries", i, tail)
		}
		if log.FirstIndex() > m.flushed.index+1 {
			t.Fatalf("at %d entries from %d on are left, durable is %d", i, log.FirstIndex(), m.flushed.index)
		}
		if i > 200 {
			shortest = min(shortest, tail)
		}
	}
	if shortest < 20 {
		t.Errorf("the tail was down to %d entries", shortest)
	}
}

// TestTheCompactorFlushesWhatIsOld lets time pass over a write that the machine does not flush by itself.
func TestTheCompactorFlushesWhatIsOld(t *testing.T) {
	c := clock.NewManual(time.Unix(1, 0))
	m := &fakeMachine{}
	compactor := &logCompactor{
		machine: m, clock: c, flushInterval: 30 * time.Second, installs: func() uint64 { return 0 },
	}
	step := func(d time.Duration, want int) {
		t.Helper()
		c.Advance(d)
		if err := compactor.flush(); err != nil {
			t.Fatal(err)
		}
		if m.flushes != want {
			t.Errorf("at %v: %d flushes, want %d", c.Since(time.Unix(1, 0)), m.flushes, want)
		}
	}
	step(time.Hour, 0) // nothing to flush
	m.state.index = 5
	step(time.Second, 0) // seen
	step(29*time.Second, 0)
	m.state.index = 6
	step(time.Second, 1)
	if m.flushed.index != 6 {
		t.Errorf("durable %d, want 6", m.flushed.index)
	}
	step(time.Hour, 1)
}

func TestLatencySummary(t *testing.T) {
	var l latency
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Microsecond)
	}
	s := l.summary()
	if s.Count != 1000 || s.Max != time.Millisecond || s.Total != 500500*time.Microsecond {
		t.Errorf("summary %+v", s)
	}
	for _, q := range []struct {
		got, exact time.Duration
	}{{s.P50, 500 * time.Microsecond}, {s.P99, 990 * time.Microsecond}, {s.P999, 999 * time.Microsecond}} {
		if q.got < q.exact || q.got > q.exact*5/4 {
			t.Errorf("quantile %v, want %v to a quarter more", q.got, q.exact)
		}
	}
	for d := time.Duration(0); d < 1<<42; d = d*3/2 + 1 {
		b := latencyBucket(d)
		if latencyBound(b) < d && b < latencyBuckets-1 || b > 0 && latencyBound(b-1) > d+time.Microsecond {
			t.Errorf("%v is in bucket %d up to %v", d, b, latencyBound(b))
		}
	}
	if diff := cmp.Diff(LatencySummary{}, new(latency).summary()); diff != "" {
		t.Errorf("nothing added:\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	for name, spoil := range map[string]func(*Options){
		"no id": func(o *Options) { o.ID = 0 }, "no log": func(o *Options) { o.Log = nil },
		"no machine": func(o *Options) { o.Machine = nil }, "no clock": func(o *Options) { o.Clock = nil },
		"no random numbers": func(o *Options) { o.Rand = nil },
	} {
		o := testOptions(log, &fakeMachine{})
		spoil(&o)
		if n, err := Start(context.Background(), o); err == nil {
			stopNode(t, n)
			t.Errorf("%s: started", name)
		}
	}
	if errors.Is(ErrStopped, ErrLeadershipLost) {
		t.Error("two errors are one")
	}
}
