package quorum

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/raftlog"
)

// uncachedLog is a log whose memory has only the newest entry, with the view of a leader or another member, and what
// the read goroutine was asked for.
type uncachedLog struct {
	t     *testing.T
	log   *raftlog.Log
	view  *logView
	leads bool
	asked []entryRange
}

// newUncachedLog returns one with count entries of the given size, of term 1.
func newUncachedLog(t *testing.T, count, size int) *uncachedLog {
	c := &uncachedLog{t: t, leads: true}
	c.log = openLogWith(t, raftlog.Options{Dir: "log", FS: vfs.NewMem(), TailBytes: 1})
	t.Cleanup(func() {
		if err := c.log.Close(); err != nil {
			t.Error(err)
		}
	})
	c.view = &logView{log: c.log, leads: func() bool { return c.leads }}
	c.view.offer = func() (*raftpb.Snapshot, error) { return nil, errInjected }
	c.view.uncached = uncached{log: c.log, ask: func(r entryRange) { c.asked = append(c.asked, r) }}
	c.append(1, 1, count, size)
	return c
}

// append appends entries, each with its index and term as the first bytes of its data.
func (c *uncachedLog) append(first, term uint64, count, size int) {
	c.t.Helper()
	for i := range uint64(count) {
		e := raftlog.LogEntry{Index: first + i, Term: term, Data: make([]byte, size)}
		e.Data[0], e.Data[1] = byte(e.Index), byte(term)
		if err := c.log.Append([]raftlog.LogEntry{e}, nil, false); err != nil {
			c.t.Fatal(err)
		}
	}
}

// read does what the read goroutine was asked for, and hands it over.
func (c *uncachedLog) read() {
	c.t.Helper()
	asked := c.asked
	c.asked = nil
	r := &uncachedReader{log: c.log, done: func(k chunk) { c.view.uncached.came(&k) }}
	if err := r.read(asked); err != nil {
		c.t.Fatal(err)
	}
	c.view.uncached.next()
}

// want insists on what raft gets, by index; none: it is told to wait, and asks for a snapshot, of which there is none.
func (c *uncachedLog) want(lo, hi, maxBytes uint64, indexes ...uint64) []*raftpb.Entry {
	c.t.Helper()
	entries, err := c.view.Entries(lo, hi, maxBytes)
	var got []uint64
	for _, e := range entries {
		got = append(got, e.GetIndex())
	}
	if !slices.Equal(got, indexes) {
		c.t.Fatalf("entries [%d, %d) up to %d bytes: %v (%v), want %v", lo, hi, maxBytes, got, err, indexes)
	}
	if len(indexes) > 0 {
		return entries
	}
	if !errors.Is(err, raft.ErrCompacted) {
		c.t.Fatalf("entries [%d, %d): %v", lo, hi, err)
	}
	if _, err := c.view.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		c.t.Fatalf("a snapshot is offered for entries that are yet to be read: %v", err)
	}
	return nil
}

// TestEntriesAreReadElsewhere asks for entries that are not in memory: raft is told to wait once, the read goroutine is
// asked once, and then raft has them, as many as it wants at a time.
func TestEntriesAreReadElsewhere(t *testing.T) {
	c := newUncachedLog(t, 10, 100)
	c.want(10, 11, 0, 10) // in memory
	c.want(3, 11, 250)
	c.want(3, 11, 250)
	if want := []entryRange{{3, 10}}; !slices.Equal(c.asked, want) {
		t.Fatalf("asked for %v, want %v", c.asked, want)
	}
	c.read()
	for _, e := range c.want(3, 11, 250, 3, 4) {
		if e.GetTerm() != 1 || len(e.GetData()) != 100 || e.GetData()[0] != byte(e.GetIndex()) || withoutData(e) {
			t.Errorf("entry %v", e)
		}
	}
	c.want(5, 11, 0, 5)
	c.want(6, 8, 1<<20, 6, 7)
	c.want(6, 11, 1<<20, 6, 7, 8, 9)
	if len(c.asked) > 0 {
		t.Errorf("asked for %v", c.asked)
	}
	if _, err := c.view.Snapshot(); !errors.Is(err, errInjected) {
		t.Errorf("a snapshot that is needed is not asked for: %v", err)
	}
}

// TestOldEntriesAreNotSent reads entries, then another leader replaces some of them: while a chunk is on its way, and
// when it is there.
func TestOldEntriesAreNotSent(t *testing.T) {
	c := newUncachedLog(t, 10, 100)
	c.want(3, 11, 1<<20)
	c.read()
	c.append(6, 2, 7, 100) // instead of 6 to 10
	c.want(3, 5, 1<<20, 3, 4)
	c.want(3, 12, 1<<20)
	c.read()
	entries := c.want(3, 12, 1<<20, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	for i, e := range entries {
		if term := byte(1 + min(i/3, 1)); e.GetData()[1] != term || e.GetTerm() != uint64(term) {
			t.Errorf("entry %d is of term %d, its data of %d", e.GetIndex(), e.GetTerm(), e.GetData()[1])
		}
	}
	c.view.uncached.forgetAll()
	c.want(4, 12, 1<<20)
	asked := c.asked
	c.asked = nil
	var came chunk
	if err := (&uncachedReader{log: c.log, done: func(k chunk) { came = k }}).read(asked); err != nil {
		t.Fatal(err)
	}
	c.append(4, 3, 9, 100) // before the chunk is handed over
	c.view.uncached.came(&came)
	c.want(4, 12, 1<<20)
	c.read()
	for _, e := range c.want(4, 12, 1<<20, 4, 5, 6, 7, 8, 9, 10, 11) {
		if e.GetTerm() != 3 || e.GetData()[1] != 3 {
			t.Errorf("entry %d is of term %d, its data of %d", e.GetIndex(), e.GetTerm(), e.GetData()[1])
		}
	}
}

// TestForgottenEntriesNeedASnapshot has the log forget entries that are on their way.
func TestForgottenEntriesNeedASnapshot(t *testing.T) {
	c := newUncachedLog(t, 10, 100)
	c.want(3, 11, 1<<20)
	if err := c.log.Compact(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	c.read()
	if len(c.view.uncached.chunks) > 0 || len(c.view.uncached.wanted) > 0 {
		t.Errorf("there are %d chunks, %v wanted", len(c.view.uncached.chunks), c.view.uncached.wanted)
	}
	if _, err := c.view.Entries(3, 11, 1<<20); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("entries that are forgotten: %v", err)
	}
	if _, err := c.view.Snapshot(); !errors.Is(err, errInjected) {
		t.Errorf("no snapshot is asked for: %v", err)
	}
}

// TestReadEntriesAreBounded sends from the begin of a long log to its end: the next chunk is read before the last one
// is used up, one at a time, what is kept is bounded, and forgotten when nobody uses it.
func TestReadEntriesAreBounded(t *testing.T) {
	const count, size = 60, 1 << 20
	c := newUncachedLog(t, count, size)
	waits, most := 0, 0
	for next := uint64(1); next < count; {
		entries, err := c.view.Entries(next, count+1, size)
		if err != nil {
			waits++
		}
		for _, e := range entries {
			if e.GetIndex() != next || e.GetData()[0] != byte(next) {
				t.Fatalf("entry %d instead of %d", e.GetIndex(), next)
			}
			next++
		}
		if len(c.asked) > 1 {
			t.Fatalf("asked for %v at once", c.asked)
		}
		c.read()
		most = max(most, c.view.uncached.bytes)
	}
	if waits != 1 || most > chunksBytesMax || most < chunksBytesMax-chunkBytes {
		t.Errorf("waited %d times, kept up to %d bytes", waits, most)
	}
	for range chunkIdleTicks + 1 {
		c.view.uncached.tick()
	}
	if len(c.view.uncached.chunks) != 0 || c.view.uncached.bytes != 0 {
		t.Errorf("%d chunks, %d bytes are kept", len(c.view.uncached.chunks), c.view.uncached.bytes)
	}
	for lo := uint64(1); lo < count; lo++ {
		c.view.uncached.want(lo)
	}
	if len(c.asked) != 1 || len(c.view.uncached.wanted) > chunksWantedMax {
		t.Errorf("asked for %v, %d wanted", c.asked, len(c.view.uncached.wanted))
	}
	c.view.uncached.forgetAll()
	c.read()
	if len(c.asked) > 0 || len(c.view.uncached.wanted) > 0 {
		t.Errorf("what is not wanted any more is read: %v, %v", c.asked, c.view.uncached.wanted)
	}
}

// TestCommittedEntriesComeWithoutData asks as raft does for what is to be applied, and before it campaigns: nothing is
// read, and the apply goroutine reads the data.
func TestCommittedEntriesComeWithoutData(t *testing.T) {
	c := newUncachedLog(t, 5, 100)
	change := raftlog.LogEntry{Index: 6, Term: 2, Kind: uint8(raftpb.EntryConfChangeV2), Data: []byte{1}}
	if err := c.log.Append([]raftlog.LogEntry{change}, nil, false); err != nil {
		t.Fatal(err)
	}
	c.append(7, 2, 2000, 10)
	c.view.applying = true
	heads, err := c.view.Entries(2, 2001, 1<<30)
	if err != nil || len(heads) != headsMax {
		t.Fatalf("%d entries: %v", len(heads), err)
	}
	c.view.applying, c.leads = false, false
	scanned, err := c.view.Entries(2, 2001, 1<<30)
	if err != nil || len(scanned) != 1999 {
		t.Fatalf("%d entries: %v", len(scanned), err)
	}
	a := &applier{log: c.log}
	for i, e := range scanned {
		index := uint64(i) + 2
		if !withoutData(e) || e.GetIndex() != index || (e.GetType() == raftpb.EntryConfChangeV2) != (index == 6) {
			t.Fatalf("entry %d: %v", index, e)
		}
		if e, err = a.readData(scanned[i:]); err != nil || withoutData(e) || e.GetIndex() != index {
			t.Fatalf("entry %d is read as %v: %v", index, e, err)
		}
		if index != 6 && e.GetData()[0] != byte(index) || (e.GetType() == raftpb.EntryConfChangeV2) != (index == 6) {
			t.Fatalf("entry %d is read as %v", index, e)
		}
	}
	if len(c.asked) > 0 || !a.wake || a.reads.Load() != 1 {
		t.Errorf("the read goroutine is asked for %v, the loop is woken: %v, read %d times", c.asked, a.wake,
			a.reads.Load())
	}
}

// TestHungReadsHoldUpNobody has a member come back while the leader's log cannot be read: the leader leads on, the
// others' writes go on, and the member has what it lacks when the log is read again, without a snapshot.
func TestHungReadsHoldUpNobody(t *testing.T) {
	g := newStallGroup(t, 3)
	for _, m := range g.members { // a log that keeps what the third will lack, and has little of it in memory
		m.tailBytes, m.retainBytes = 1, 1<<20
		m.stepper.End()
		if err := m.stepper.node.options.Log.Close(); err != nil {
			t.Fatal(err)
		}
		m.start()
	}
	for _, m := range g.members {
		for _, other := range g.members {
			if other != m {
				m.stepper.Node().Lost(other.id)
				m.stepper.Node().Connected(other.id)
			}
		}
	}
	g.ticks(3 * timeout)
	lead := g.leader()
	if lead == 0 {
		t.Fatal("nobody leads")
	}
	late, other := lead%3+1, (lead+1)%3+1
	term := g.members[lead-1].stepper.Node().Status().Term
	g.dead[late] = true
	for range 3 * timeout {
		g.write(other)
		g.ticks(1)
	}
	g.hungReads[lead] = true
	g.dead[late] = false
	for _, id := range []uint64{lead, other} {
		g.members[id-1].stepper.Node().Connected(late)
		g.members[late-1].stepper.Node().Connected(id)
	}
	before := len(g.members[late-1].machine.list())
	g.writesGoOn(other, 5*timeout, 1)
	s := g.members[lead-1].stepper.Node().Status()
	if s.Role != RoleLeader || s.Term != term || s.DiskTransfers != 0 {
		t.Errorf("a leader that cannot read its log shows %+v", s)
	}
	if now := len(g.members[late-1].machine.list()); now != before {
		t.Errorf("the member has %d writes, of which nothing was read", now-before)
	}
	if c := &g.members[lead-1].stepper.node.loop.view.uncached; !c.reading || c.told == 0 {
		t.Errorf("it reads: %v, and told so after %d ticks", c.reading, c.told)
	}
	g.hungReads[lead] = false
	for rounds := 0; g.round(); rounds++ { // without a tick: no heartbeat is needed
		if rounds > 10_000 {
			t.Fatal("the group does not come to rest")
		}
	}
	g.agree()
	if g.restored > 0 {
		t.Error("the member got a snapshot")
	}
}

// TestALogThatCannotBeReadIsFinal: whoever runs the read goroutine hears of it.
func TestALogThatCannotBeReadIsFinal(t *testing.T) {
	c := newUncachedLog(t, 10, 100)
	if err := c.log.Close(); err != nil {
		t.Fatal(err)
	}
	r := &uncachedReader{log: c.log, done: func(chunk) { t.Error("something was read") }}
	if err := r.read([]entryRange{{3, 5}}); !errors.Is(err, raftlog.ErrLogClosed) {
		t.Errorf("a log that cannot be read: %v", err)
	}
}
