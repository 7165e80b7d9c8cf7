package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
)

func TestViewAllocations(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	fill(t, m, 1000, 1024)
	path := benchPath(7)
	if n := fewestAllocs(1000, 0, func() {
		v, node, ok := m.LookData(path)
		if !ok || len(node.Data()) != 1024 || node.Stat().DataLength != 1024 || len(node.ACL()) != 1 {
			t.Error("wrong node")
		}
		v.Close()
		v, _, ok = m.Look(path)
		if !ok || v.Zxid() == 0 {
			t.Error("missing node")
		}
		v.Close()
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// fewestAllocs is how many allocations a run of f makes, the mean of that many runs. What other tests have left running
// counts, too, so more than wanted is looked at again.
func fewestAllocs(runs int, wanted float64, f func()) float64 {
	fewest := testing.AllocsPerRun(runs, f)
	for tries := 1; fewest > wanted && tries < 20; tries++ {
		fewest = min(fewest, testing.AllocsPerRun(runs, f))
	}
	return fewest
}

// TestApplyAllocations pins what a write in a large entry allocates: for SetData the znode and its data, for create
// the path with them.
func TestApplyAllocations(t *testing.T) {
	m := benchMachine(t, MachineOptions{FlushBytes: 1 << 40, FlushReplay: time.Hour, MemTableBytes: 64 << 20})
	fill(t, m, 256, 1024)
	var proposals []*entry.Proposal
	for i := range 256 {
		proposals = append(proposals, entrytest.SetData(benchPath(i), make([]byte, 1024)))
	}
	entry := entrytest.Entries(256, proposals)[0]
	n := fewestAllocs(50, 3*256, func() {
		if err := m.Apply(m.AppliedIndex()+1, 1, entry, discard{}); err != nil {
			t.Error(err)
		}
	})
	if n/256 > 3 {
		t.Errorf("%.1f allocations a setData", n/256)
	}
}

func TestReadOddPaths(t *testing.T) {
	h := newHarness(t, MachineOptions{CacheBytes: 1})
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{}).Append(nil)},
		entrytest.Create("/a", nil, 0), entrytest.Create("/a/b", nil, 0))
	v := h.m.View()
	defer v.Close()
	for path, want := range map[string]bool{ // any order: independent cases
		"": true, "/": true, "/a": true, "/a/b": true, "a": false, "//": false, "/a/": false,
		"//a": false, "/a//b": false, "\x00": false,
		"/a\x00b": false, "n/a\x00b": false, "\x00a": false, "/\x00": false,
		"a\x00b": false, "/a/b/": false, "/zookeeper": true,
	} {
		if _, ok := v.Exists(path); ok != want {
			t.Errorf("%q: %v", path, ok)
		}
		if _, ok := v.Children(path, nil); ok != want {
			t.Errorf("children of %q: %v", path, ok)
		}
	}
	if n := v.CountBelow("/a"); n != 1 {
		t.Errorf("descendants: %d", n)
	}
	if n := v.CountBelow(""); n != 5 {
		t.Errorf("descendants of the root: %d", n)
	}
}

// TestSequenceWraps reads the counter as a signed number that wraps, with a sign among the ten digits.
func TestSequenceWraps(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{}).Append(nil)},
		entrytest.Create("/q",
			nil, 0))
	parent, err := h.m.store.node("/q")
	if err != nil {
		t.Fatal(err)
	}
	parent.Creations = 1<<31 - 2
	if err := h.m.store.db.Set(schema.AppendNodeKey(nil, schema.KindNode, "/q"), parent.AppendHeader(nil),
		pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	h.m.cache.clear()
	out := h.apply(entrytest.Create("/q/", nil, 2), entrytest.Create("/q/", nil, 2), entrytest.Create("/q/", nil, 3))
	for _, want := range []string{"/q/2147483646 ", "/q/2147483647 ", "/q/-2147483648 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	v := h.m.View()
	defer v.Close()
	if n, _ := v.Get("/q"); n.Stat().Cversion != -1 {
		t.Errorf("cversion %d: 2 × creations − children, in 32 bits", n.Stat().Cversion)
	}
}

// TestOpenRefuses checks that what this version cannot read stops it with a message that says what to do.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value []byte
		want       string
	}{
		{"a newer format", schema.KeyFormat, []byte(schema.StateFormatName + "\x00\x03"),
			"has format 3, this version reads 1 to 2"},
		{"something else", schema.KeyFormat, []byte("other"), "is not a zkd state"},
		{"a damaged position", schema.KeyApplied, []byte{1, 2}, "damaged value"},
	} {
		fs := vfs.NewMem()
		m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.store.db.Set(c.key, c.value, pebble.NoSync), m.store.db.Flush(),
			m.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMachine(MachineOptions{Dir: "state", FS: fs}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	fs := vfs.NewMem()
	db, err := pebble.Open("state", &pebble.Options{FS: fs,
		Logger: disk.Logger{Fault: &disk.Fault{Logger: discardLogger()}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set([]byte("other"), []byte("store"), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMachine(MachineOptions{Dir: "state", FS: fs}); err == nil ||
		!strings.Contains(err.Error(), "is not a zkd state") {
		t.Errorf("a foreign store: %v", err)
	}
}

func TestApplyRefuses(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(&entry.Proposal{Op: jute.OpError})
	for _, c := range []struct {
		name  string
		index uint64
		data  []byte
		want  string
	}{
		{"an index again", 1, nil, "do not fit together"},
		{"a newer entry", 2, []byte{9, 0, 0}, "level 9"},
		{"an entry of no version", 2, make([]byte, 20), "never was"},
		{"an entry cut short", 2, []byte{1, 0, 0}, "ends inside"},
		{"a proposal cut short", 2, append(entry.AppendEntryHeader(nil, 1, 1), 0, 0, 0, 9, 1), "ends inside"},
	} {
		if err := h.m.Apply(c.index, 1, c.data, discard{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := h.m.Apply(2, 1, nil, discard{}); err != nil || h.m.AppliedIndex() != 2 || h.m.LastZxid() != 1 {
		t.Errorf("an empty entry: %v, index %d, zxid %d", err, h.m.AppliedIndex(), h.m.LastZxid())
	}
}

// TestFlushComesBeforeTheMemtableIsFull: the store, which flushes a memtable that is full by itself, never needs to,
// however long keys and values are; and the machine's flushes do not come much earlier.
func TestFlushComesBeforeTheMemtableIsFull(t *testing.T) {
	for _, length := range []int{0, 10, 100, 1 << 10, 20 << 10} {
		flushed, byStore := appliedUntilFlush(t, length, false)
		full, _ := appliedUntilFlush(t, length, true)
		if byStore || flushed < full*2/3 {
			t.Errorf("data of %d bytes: flushed after %d entries, by itself: %t; a memtable is full after %d", length,
				flushed, byStore, full)
		}
	}
}

// appliedUntilFlush returns how many entries it takes until a store is flushed that begins with one memtable, which is
// as large as all others, and whether it has flushed itself. Pebble alone leaves it all to the store.
func appliedUntilFlush(t *testing.T, length int, pebbleAlone bool) (entries int, byStore bool) {
	t.Helper()
	m := benchMachine(t, MachineOptions{MemTableBytes: 256 << 10, FlushReplay: time.Hour})
	if pebbleAlone {
		m.opts.FlushBytes = 1 << 40
	}
	before := m.store.db.Metrics().Flush.Count
	for !m.flush.under {
		create := []*entry.Proposal{
			entrytest.Create(fmt.Sprintf("/n%07d", entries), make([]byte, length), jute.ModePersistent),
		}
		if err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(1, create)[0], discard{}); err != nil {
			t.Fatal(err)
		}
		entries++
		metrics := m.store.db.Metrics()
		if !m.flush.under && (metrics.MemTable.Count > 1 || metrics.Flush.Count > before) {
			return entries, true
		}
	}
	return entries, false
}

// TestFlushesArePaced checks that what is not durable stays within the bounds, without any call of Flush.
func TestFlushesArePaced(t *testing.T) {
	h := newHarness(t, MachineOptions{FlushBytes: 10 << 10, FlushReplay: 100 * replayRequest})
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{}).Append(nil)})
	for i := range 1000 {
		h.apply(entrytest.Create(fmt.Sprintf("/n%d", i), make([]byte, 100), 0))
		if lost := h.m.AppliedIndex() - h.m.DurableIndex(); lost > (unflushedFactor+1)*100 {
			t.Fatalf("%d requests are not durable", lost)
		}
	}
	if h.m.DurableIndex() == 0 {
		t.Error("nothing became durable")
	}
}

// TestCheckpoint opens a checkpoint as a machine of its own.
func TestCheckpoint(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{}).Append(nil)},
		entrytest.Create("/a",
			[]byte("x"), 0))
	index, term, err := h.m.Checkpoint(context.Background(), "copy")
	if err != nil || index != 1 || term != 1 {
		t.Fatalf("checkpoint of entry %d, term %d: %v", index, term, err)
	}
	want := dumpState(h.m, true)
	h.apply(entrytest.Create("/later", nil, 0))
	m, err := OpenMachine(MachineOptions{Dir: "copy", FS: h.fs})
	if err != nil {
		t.Fatal(err)
	}
	if got := dumpState(m, true); got != want || m.AppliedIndex() != 1 {
		t.Errorf("checkpoint at %d:\n%s\nwant\n%s", m.AppliedIndex(), got, want)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFailureIsFinal checks that after a failed write of the store the operator is told and nothing more is
// applied.
func TestDiskFailureIsFinal(t *testing.T) {
	fail := errorfs.OnIndex(1 << 30)
	told := make(chan error, 1) // OnFatal is called once
	m, err := OpenMachine(MachineOptions{
		Dir: "state", FS: errorfs.Wrap(vfs.NewMem(),
			fail), Logger: discardLogger(), OnFatal: func(err error) { told <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	fail.Store(0)
	if err := m.Apply(1, 1, entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &entry.Proposal{Op: jute.OpError}),
		discard{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	flushed := make(chan error, 1)
	go func() { flushed <- m.Flush(ctx) }()
	select {
	case err := <-told:
		if !errors.Is(err, disk.ErrDiskFailed) {
			t.Errorf("told %v", err)
		}
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	if err := m.Apply(2, 1, nil, discard{}); !errors.Is(err, disk.ErrDiskFailed) {
		t.Errorf("apply after the failure: %v", err)
	}
	if err := <-flushed; err == nil {
		t.Error("the flush succeeded")
	}
	if m.DurableIndex() != 0 {
		t.Errorf("durable index %d", m.DurableIndex())
	}
	_ = m.Close() // fails as the disk does
}

func FuzzProposal(f *testing.F) {
	p := entrytest.Create("/a", []byte("x"), 2)
	p.Server, p.Code = 3, -5
	f.Add(entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 2), p))
	f.Add([]byte{1})
	f.Add(raiseEntry(entry.RaiseTxn{Level: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := entry.NewReader(b)
		if err != nil {
			return
		}
		again := entry.AppendEntryHeader(nil, r.Origin, r.Batch)
		var p entry.Proposal
		for r.Next(&p) {
			again = entry.AppendProposal(again, &p)
		}
		again[0] = b[0] // it may be more than what the proposals need; that it is less is for Apply to refuse
		if r.Err() == nil && string(again) != string(b) {
			t.Fatalf("encodes as %x, was %x", again, b)
		}
	})
}

// FuzzApply checks that no body of any operation makes apply fail or panic, and that an operation or flag that is not
// known does, before anything of its entry is there.
func FuzzApply(f *testing.F) {
	g := entrytest.Create("/a", []byte("x"), 2)
	f.Add(int32(jute.OpCreate), int64(1), uint16(3), g.Body)
	multi := (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(nil)
	multi = (&jute.CreateRequest{Path: "/b", ACL: acl.Open}).Append(multi)
	f.Add(int32(jute.OpMulti), int64(1), uint16(1), jute.AppendMultiEnd(multi))
	f.Add(int32(jute.OpSetData), int64(1), uint16(0), entrytest.SetData("/zookeeper/quota/a/zookeeper_stats",
		[]byte("count=;;=,bytes")).Body)
	f.Add(int32(jute.OpCreateSession), int64(2), uint16(0), (&entry.SessionTxn{}).Append(nil))
	f.Add(int32(jute.OpCloseSession), int64(1), uint16(0), []byte{})
	f.Add(int32(entry.OpReattachSession), int64(1), uint16(0), []byte{1})
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: vfs.NewMem()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = m.Close() }) // in memory
	if err := m.Apply(1, 1, raiseEntry(entry.RaiseTxn{Level: entry.LevelNewest}), discard{}); err != nil {
		f.Fatal(err) // below it an operation that is new fails, and rightly
	}
	f.Add(int32(entry.OpCompareState), int64(0), uint16(0), (&entry.CompareTxn{}).Append(nil))
	f.Fuzz(func(t *testing.T, op int32, session int64, flags uint16, body []byte) {
		e := entry.AppendEntryHeader(nil, 1, 1)
		e = entry.AppendProposal(e, &entry.Proposal{Op: jute.OpCreateSession, Session: 1,
			Body: (&entry.SessionTxn{}).Append(nil)})
		e = entry.AppendProposal(e, entrytest.Create("/a", nil, 0))
		e = entry.AppendProposal(e, &entry.Proposal{Op: jute.Op(op), Session: jute.SessionID(session),
			Flags: entry.Flags(flags),
			Body:  body})
		before := m.AppliedIndex()
		known := (&entry.Proposal{Op: jute.Op(op), Flags: entry.Flags(flags)}).Level() != 0
		err := m.Apply(before+1, 1, e, discard{})
		tooNew := errors.Is(err, entry.ErrLevel) && m.AppliedIndex() == before
		if err != nil && !tooNew || err == nil && !known {
			t.Fatalf("operation %d, flags %#x: %v", op, flags, err)
		}
	})
}

// FuzzHeader checks that no value of the store makes reading a header panic, and that what is read is written the
// same.
func FuzzHeader(f *testing.F) {
	for _, n := range defaultTree() {
		n.SetData([]byte("x"))
		f.Add(n.AppendHeader(nil))
	}
	n := &schema.Znode{Path: "/a", ACL: []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "ip", ID: "1.1.1.1"}}}, Owner: 5,
		Children: 3}
	n.SetData(nil)
	f.Add(n.AppendHeader(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := schema.DecodeHeader("/a", b)
		if err != nil {
			return
		}
		again, err := schema.DecodeHeader("/a", n.AppendHeader(nil))
		if err != nil {
			t.Fatal(err)
		}
		if again.Stat() != n.Stat() || string(again.Data) != string(n.Data) {
			t.Fatalf("%+v became %+v", n, again)
		}
	})
}
