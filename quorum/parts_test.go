package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/clock"
	"zkd/storage"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

// testGatherer is a gatherer without a node.
func testGatherer(maxEntry, maxOutstanding int) (*gatherer, chan struct{}) {
	wake := make(chan struct{}, 1)
	o := &Options{MaxEntryBytes: maxEntry, MaxOutstandingBytes: maxOutstanding, Clock: clock.NewManual(time.Unix(1, 0))}
	return newGatherer(77, o, wake), wake
}

func TestGathererBoundsEntries(t *testing.T) {
	g, _ := testGatherer(1000, 1<<20)
	for seq := range uint32(10) {
		if err := g.add(proposal(applied{1, seq}, 300), newWaiter(t)); err != nil {
			t.Fatal(err)
		}
	}
	var marks []applied
	batches := g.take(5, 0, nil)
	for i, b := range batches {
		if len(b.data) > 1000 || b.number != uint64(i+1) || b.term != 5 {
			t.Errorf("batch %d: number %d, term %d, %d bytes", i, b.number, b.term, len(b.data))
		}
		r, err := entry.NewReader(b.data)
		if err != nil || r.Origin != 77 || r.Batch != b.number {
			t.Fatalf("batch %d: %+v, %v", i, r, err)
		}
		count := 0
		for p := (entry.Proposal{}); r.Next(&p); count++ {
			marks = append(marks, decodeBody(p.Body))
		}
		if count != len(b.waiters) {
			t.Errorf("batch %d: %d proposals, %d waiters", i, count, len(b.waiters))
		}
	}
	if len(batches) < 4 || g.gathered() != 0 {
		t.Errorf("%d batches, %d bytes left", len(batches), g.gathered())
	}
	checkOrder(t, marks, nil, 10)
}

func TestGathererWakesTheLoopOnlyWhenIdle(t *testing.T) {
	g, wake := testGatherer(1000, 1<<20)
	add := func() bool {
		if err := g.add(proposal(applied{}, 0), nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	if add() {
		t.Error("woken, although the loop has not looked yet")
	}
	if got := len(g.take(1, 0, nil)); got != 1 {
		t.Fatalf("%d batches, want 1", got)
	}
	if add() {
		t.Error("woken, although the loop is at work")
	}
	g.take(1, 0, nil)
	if got := len(g.take(1, 0, nil)); got != 0 {
		t.Fatalf("%d batches, want none", got)
	}
	if !add() || add() {
		t.Error("an idle loop must be woken once")
	}
}

func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name         string
		term         uint64 // of the three batches 1, 2, 3
		number, with uint64
		found        bool
		lost, again  []uint64
	}{
		{"the first", 2, 1, 2, true, nil, nil},
		{"of another process, same term", 2, 0, 2, false, nil, nil},
		{"of another process, later term", 2, 0, 3, false, nil, []uint64{1, 2, 3}},
		{"of this process, later term, given up", 2, 9, 3, false, nil, []uint64{1, 2, 3}},
		{"one was passed over", 2, 2, 2, true, []uint64{1}, nil},
		{"earlier term than what is proposed", 4, 0, 3, false, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := testGatherer(1, 1<<20)
			for range 3 {
				if err := g.add(proposal(applied{}, 0), nil); err != nil {
					t.Fatal(err)
				}
			}
			g.take(c.term, 0, nil)
			found, lost := g.claim(c.number, c.with)
			if (found != nil) != c.found || found != nil && found.number != c.number ||
				!slices.Equal(batchNumbers(lost), c.lost) || !slices.Equal(batchNumbers(g.mu.full), c.again) {
				t.Errorf("found %v, lost %v, again %v; want %v, %v, %v", found, batchNumbers(lost),
					batchNumbers(g.mu.full), c.found, c.lost, c.again)
			}
			want := 3 - len(c.lost) - len(c.again)
			if c.found {
				want--
			}
			if left := len(g.mu.proposed); left != want {
				t.Errorf("%d batches are left, want %d", left, want)
			}
		})
	}
}

// batchNumbers are the numbers of batches.
func batchNumbers(batches []*batch) (numbers []uint64) {
	for _, b := range batches {
		numbers = append(numbers, b.number)
	}
	return numbers
}

// TestBatchesOfAnEarlierTermGoFirst takes nothing while the fate of an earlier term's batch is open, and that batch
// before what came after it.
func TestBatchesOfAnEarlierTermGoFirst(t *testing.T) {
	g, _ := testGatherer(1, 1<<20)
	add := func() {
		if err := g.add(proposal(applied{}, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	add()
	g.take(2, 0, nil)
	add()
	add()
	if got := g.take(3, 0, nil); len(got) != 0 {
		t.Fatalf("took %v while batch 1 is open", batchNumbers(got))
	}
	g.claim(0, 3)
	if got := batchNumbers(g.take(3, 2, nil)); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("took %v, want 1 and 2", got)
	}
	if got := g.take(3, 2, nil); len(got) != 0 {
		t.Fatalf("took %v beyond the window", batchNumbers(got))
	}
	g.claim(1, 3)
	if got := batchNumbers(g.take(3, 2, nil)); !slices.Equal(got, []uint64{3}) {
		t.Fatalf("took %v, want 3", got)
	}
}

func TestProposeDoesNotAllocate(t *testing.T) {
	g, _ := testGatherer(1<<20, 1<<20)
	p, w := proposal(applied{}, 1024), newWaiter(t)
	var batches []*batch
	cycle := func() {
		for range 64 {
			if err := g.add(p, w); err != nil {
				t.Fatal(err)
			}
		}
		batches = g.take(1, 0, batches[:0])
		found, _ := g.claim(batches[0].number, 1)
		g.release(found)
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 0 {
		t.Errorf("a batch of 64 proposals allocates %v times", n)
	}
}

// testApplier is an applier without a node.
func testApplier(m *fakeMachine) *applier {
	g, _ := testGatherer(1, 1<<20)
	return &applier{
		machine: m, gather: g, clock: g.clock,
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
		w := applyWork{barriers: []Waiter{waiterFunc(func() { told[index] = m.state.index })}, index: index}
		a.gather.mu.outstanding++
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
	if _, outstanding := a.gather.taken(); outstanding != 0 || len(a.waiting) != 0 {
		t.Errorf("%d outstanding, %d waiting", outstanding, len(a.waiting))
	}
}

// waiterFunc is called by Applied.
type waiterFunc func()

// Applied implements Waiter.
func (f waiterFunc) Applied(*storage.Result) { f() }

// Dropped implements Waiter.
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
	var change proto.Message = &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &id}
	if kind == raftpb.EntryConfChangeV2 {
		change = &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
			{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &id},
		}}
	}
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
			m, err := decodeMembership(blob)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.conf.GetLearners(), []uint64{2, 3}) || !m.soleVoter(1) || m.index != 3 {
				t.Errorf("committed %d: membership %v as of %d", committed, m.conf, m.index)
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
		a.member = membership{index: 5, conf: &raftpb.ConfState{Voters: []uint64{1}}}
		if _, err := a.beginChange(raftEntry(&e)); err != nil || changes != want || a.member.index != max(index, 5) {
			t.Errorf("entry %d: %v, %d changes, want %d; members as of %d", index, err, changes, want, a.member.index)
		}
	}
}

func TestStateOfAnotherFormatIsRefused(t *testing.T) {
	if _, err := decodeHardState(append([]byte{9}, make([]byte, hardStateBytes-1)...)); err == nil {
		t.Error("a hard state of format 9 is read")
	}
	if _, err := decodeMembership(make([]byte, 20)); err == nil {
		t.Error("a membership of format 0 is read")
	}
	hard, err := decodeHardState(appendHardState(nil, 1<<40, 2, 3))
	if err != nil || hard.GetTerm() != 1<<40 || hard.GetVote() != 2 || hard.GetCommit() != 3 {
		t.Errorf("hard state %v, %v", hard, err)
	}
}

// TestKeeperKeepsABoundedTail runs the keeper's work over a log that grows.
func TestKeeperKeepsABoundedTail(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	m := &fakeMachine{}
	var bytes uint64
	k := &keeper{
		log: log, machine: m, clock: clock.NewManual(time.Unix(1, 0)), appended: func() uint64 { return bytes },
		tailEntries: 100, tailBytes: 8000, flushInterval: time.Hour, marks: []raftlog.LogSize{{}},
		retain: newRetained(true), installs: func() uint64 { return 0 },
	}
	k.retain.applied.Store(1 << 62)
	random := rand.New(rand.NewPCG(1, 1))
	shortest := uint64(1000)
	for i := uint64(1); i <= 3000; i++ {
		data := make([]byte, 50+random.IntN(300)*int(i%2000/1000))
		if err := log.Append([]raftlog.LogEntry{{Index: i, Term: 1, Data: data}}, nil, false); err != nil {
			t.Fatal(err)
		}
		bytes += uint64(len(data))
		m.flushed.index = i - min(i, i%50)
		if err := k.compact(); err != nil {
			t.Fatal(err)
		}
		tail := log.LastIndex() + 1 - log.FirstIndex()
		if tail > 100+100/keeperSteps+50 {
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

// TestKeeperFlushesWhatIsOld lets time pass over a write that the machine does not flush by itself.
func TestKeeperFlushesWhatIsOld(t *testing.T) {
	c := clock.NewManual(time.Unix(1, 0))
	m := &fakeMachine{}
	k := &keeper{machine: m, clock: c, flushInterval: 30 * time.Second, installs: func() uint64 { return 0 }}
	step := func(d time.Duration, want int) {
		t.Helper()
		c.Advance(d)
		if err := k.flush(); err != nil {
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
