package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// raised opens a machine at the newest level that counts so many znodes in a piece.
func raised(t testing.TB, piece int64) *harness {
	t.Helper()
	h := newHarness(t, MachineOptions{countPiece: piece})
	h.apply(&entry.Proposal{Op: entry.OpRaiseLevel, Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)})
	return h
}

// countUp applies entries of a leader with nothing else to propose until no quota is being counted, and returns how
// many.
func (h *harness) countUp() (entries int) {
	h.t.Helper()
	for ; h.m.CountingQuotas() > 0; entries++ {
		if entries > 1<<20 {
			h.t.Fatal("counts do not end")
		}
		h.apply(&entry.Proposal{Op: entry.OpCountQuota})
	}
	return entries
}

// TestPiecesMakeTheCountAtOnce applies the same load to machines that count at once and in pieces: once all is counted,
// they are the same.
func TestPiecesMakeTheCountAtOnce(t *testing.T) {
	begun := 0
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 0))
		whole, pieces := raised(t, 1<<40), raised(t, 1+int64(seed%3))
		g := entrytest.NewGenerator(r, func() string { return "" })
		apply := func(entry ...*entry.Proposal) { whole.apply(entry...); pieces.apply(entry...) }
		apply(entrytest.Session(1))
		for range 300 {
			record := make([]*entry.Proposal, 1+r.IntN(10))
			for i := range record {
				p := g.Proposal()
				for strings.Contains(string(p.Body), "/zookeeper/quota/zookeeper") {
					p = g.Proposal() // counts texts of stats, which are others meanwhile
				}
				p.Flags &^= entry.FlagEnforceQuota // goes by what was counted so far
				record[i] = p
			}
			if r.IntN(4) == 0 { // a quota, whatever there is of it
				quota := entrytest.Pick(g, "/zookeeper/quota/a", "/zookeeper/quota/a/b", "/zookeeper/quota/b")
				record = append(record, entrytest.Delete(quota+schema.StatsName), entrytest.Create(quota, nil, 0),
					entrytest.Create(quota+schema.StatsName, nil, 0))
			}
			apply(record...)
			begun = max(begun, pieces.m.CountingQuotas())
		}
		for n := pieces.countUp(); n > 0; n-- {
			whole.apply(&entry.Proposal{Op: entry.OpCountQuota})
		}
		if diff := cmp.Diff(storeContent(t, whole.m), storeContent(t, pieces.m)); diff != "" {
			t.Errorf("seed %d: at once -, in pieces +\n%s", seed, diff)
		}
	}
	if begun < 2 {
		t.Errorf("%d quotas at the most were counted in pieces at a time", begun)
	}
}

// countedTree returns a machine with a quota on /a whose 40 znodes are being counted, some of them already.
func countedTree(t testing.TB) *harness {
	t.Helper()
	h := raised(t, 7)
	h.apply(entrytest.Session(1), entrytest.Create("/a", []byte("x"), 0),
		entrytest.Create("/zookeeper/quota/a", nil, 0),
		entrytest.Create("/zookeeper/quota/a/zookeeper_limits", []byte("countHardLimit=1000"), 0))
	for i := range 39 {
		h.apply(entrytest.Create(fmt.Sprintf("/a/%02d", i), []byte("12"), 0))
	}
	h.apply(entrytest.Create("/zookeeper/quota/a/zookeeper_stats", nil, 0))
	h.apply(entrytest.Create("/a/00/early", []byte("333"), 0), entrytest.Delete("/a/38"), entrytest.Delete("/a/01"))
	return h
}

// statsText returns the text of the stats of /a.
func statsText(t testing.TB, m *Machine) string {
	t.Helper()
	v := m.View()
	defer v.Close()
	n, _ := v.Get("/zookeeper/quota/a/zookeeper_stats")
	return string(n.Data())
}

// countedText is what the stats of countedTree come to.
const countedText = "count=39,bytes=78" // 1 + 39 × 2 - 2 - 2 + 3

// TestCountUnderWayElsewhere: a settled Reader says what the count will come to, as backups and exports need it, and a
// state that is filled from it counts nothing.
func TestCountUnderWayElsewhere(t *testing.T) {
	h := countedTree(t)
	so := statsText(t, h.m)
	if so == countedText || h.m.CountingQuotas() != 1 {
		t.Fatalf("nothing is left to count: %s", so)
	}
	r, err := h.m.ReadCheckpoint(t.Context(), "checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	settled, err := r.Settled()
	if err != nil {
		t.Fatal(err)
	}
	info, err := settled.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if info.DataBytes <= h.m.mu.Position.DataBytes || info.Znodes != h.m.mu.Position.Nodes {
		t.Errorf("%+v, position %+v", info, h.m.mu.Position)
	}
	o := MachineOptions{FS: h.fs, Dir: "elsewhere"}
	f, err := OpenFiller(o)
	if err != nil {
		t.Fatal(err)
	}
	err = settled.Each(f.Znode, f.Session)
	if err = errors.Join(err, f.Finish(info.Position()), f.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := OpenMachine(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	if text := statsText(t, m); text != countedText || m.CountingQuotas() != 0 {
		t.Errorf("filled with %q, counting %d", text, m.CountingQuotas())
	}
	if statsText(t, h.m) != so {
		t.Error("reading has changed the state")
	}
	if n := h.countUp(); n < 3 || statsText(t, h.m) != countedText {
		t.Errorf("%q after %d entries", statsText(t, h.m), n)
	}
}

// TestCountUnderWayAndRestore: the state of a snapshot of ZooKeeper's has its quotas counted, and none under way.
func TestCountUnderWayAndRestore(t *testing.T) {
	h := countedTree(t)
	content := h.snapshotOf(zkdata.WriteOptions{})
	if out := h.upload(content); !strings.Contains(out, " ok") {
		t.Fatal(out)
	}
	if text := statsText(t, h.m); text != countedText || h.m.CountingQuotas() != 0 {
		t.Errorf("restored %q, counting %d", text, h.m.CountingQuotas())
	}
	checkStore(t, h.m)
}

// TestCountsAreCompared: the sums of states whose counts differ are others, and without counts they are as before.
func TestCountsAreCompared(t *testing.T) {
	h := countedTree(t)
	sums := h.m.mu.Sums()
	h.m.mu.Counts.Of("/a").Cursor += "x"
	if other := h.m.mu.Sums(); other.Differs(sums) == "" || other.Znodes != sums.Znodes {
		t.Errorf("%+v, %+v", sums, other)
	}
}

// readKeys counts the keys that scans read.
type readKeys struct {
	apply.Store
	n int
}

// Scan implements Store.
func (r *readKeys) Scan(lower, upper []byte) (apply.Cursor, error) {
	at, err := r.Store.Scan(lower, upper)
	return readCursor{at, r}, err
}

// readCursor tells of what is read.
type readCursor struct {
	apply.Cursor
	read *readKeys
}

// ValueAndErr implements Cursor.
func (c readCursor) ValueAndErr() ([]byte, error) {
	c.read.n++
	return c.Cursor.ValueAndErr()
}

// TestWorkOfAnEntryIsBounded: a multi that makes and deletes the stats of many large quotas over and over again reads
// no more than an entry may, and leaves one count for each.
func TestWorkOfAnEntryIsBounded(t *testing.T) {
	h := raised(t, 20)
	h.apply(entrytest.Session(1))
	for i := range 5 {
		top := fmt.Sprintf("/t%d", i)
		h.apply(entrytest.Create(top, nil, 0), entrytest.Create("/zookeeper/quota"+top, nil, 0))
		for k := range 6 { // no parent has more children than an entry may count
			sub := fmt.Sprintf("%s/%d", top, k)
			h.apply(entrytest.Create(sub, nil, 0), entrytest.Create(sub+"/x", nil, 0),
				entrytest.Create(sub+"/y", nil, 0))
		}
	}
	p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: entrytest.Identities}
	for round := range 1000 {
		path := fmt.Sprintf("/zookeeper/quota/t%d/zookeeper_stats", round%5)
		p.Body = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(p.Body)
		p.Body = append(p.Body, entrytest.Create(path, nil, 0).Body...)
		if round < 995 {
			p.Body = (&jute.MultiHeader{Type: jute.OpDelete, Err: -1}).Append(p.Body)
			p.Body = append(p.Body, entrytest.Delete(path).Body...)
		}
	}
	p.Body = jute.AppendMultiEnd(p.Body)
	read := &readKeys{Store: &h.m.shown}
	h.m.txn = apply.New(apply.Options{Base: &h.m.mu.Base, Store: read, Replacement: replacements{h.m}, CountZnodes: 20})
	h.apply(p)
	if read.n == 0 || read.n > 20+5 { // the first key of a walk may be the one too many
		t.Errorf("%d znodes are read", read.n)
	}
	if n := h.m.CountingQuotas(); n != 5 {
		t.Errorf("%d quotas are counted", n)
	}
	if n := h.countUp(); n != 5 { // each has 18 znodes below it
		t.Errorf("counted by %d entries", n)
	}
	for range 200 { // what has ended is forgotten while another count goes on
		h.apply(entrytest.Create("/zookeeper/quota/t0/zookeeper_limits", nil, 0))
	}
	checkStore(t, h.m)
}

// TestDamagedCountIsRefused opens states with counts that nobody has written.
func TestDamagedCountIsRefused(t *testing.T) {
	whole := schema.NewCount(1, "/a")
	for i, c := range []struct{ key, value []byte }{
		{whole.AppendKey(nil)[:schema.CountingKeyFixedBytes], whole.Append(nil)},
		{whole.AppendKey(nil), whole.Append(nil)[:schema.CountingFixedBytes]},
		{whole.AppendKey(nil), append([]byte{schema.CountingVersion + 1}, whole.Append(nil)[1:]...)},
	} {
		fs := vfs.NewMem()
		m := openLevelMachine(t, fs)
		err := errors.Join(m.store.db.Set(c.key, c.value, pebble.NoSync), m.store.flushed())
		closeMachine(t, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMachine(MachineOptions{Dir: "state", FS: fs}); !errors.Is(err, schema.ErrDamagedValue) {
			t.Errorf("%d: %v", i, err)
		}
	}
	again, err := schema.DecodeCount(whole.AppendKey(nil), whole.Append(nil))
	if err != nil || *again != *whole || !bytes.HasPrefix(whole.AppendKey(nil), []byte{schema.KindCounting}) {
		t.Errorf("%+v: %v", again, err)
	}
}
