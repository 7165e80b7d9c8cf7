package storage

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
	"zkd/storage/entry"
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
		g := &generator{r: r, config: func() string { return "" }}
		apply := func(entry ...*entry.Proposal) { whole.apply(entry...); pieces.apply(entry...) }
		apply(sessionProposal(1))
		for range 300 {
			record := make([]*entry.Proposal, 1+r.IntN(10))
			for i := range record {
				p := g.proposal()
				for strings.Contains(string(p.Body), "/zookeeper/quota/zookeeper") {
					p = g.proposal() // counts texts of stats, which are others meanwhile
				}
				p.Flags &^= entry.FlagEnforceQuota // goes by what was counted so far
				record[i] = p
			}
			if r.IntN(4) == 0 { // a quota, whatever there is of it
				quota := pick(g, "/zookeeper/quota/a", "/zookeeper/quota/a/b", "/zookeeper/quota/b")
				record = append(record, deleteProposal(quota+schema.StatsName), createProposal(quota, nil, 0),
					createProposal(quota+schema.StatsName, nil, 0))
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
	h.apply(sessionProposal(1), createProposal("/a", []byte("x"), 0), createProposal("/zookeeper/quota/a", nil, 0),
		createProposal("/zookeeper/quota/a/zookeeper_limits", []byte("countHardLimit=1000"), 0))
	for i := range 39 {
		h.apply(createProposal(fmt.Sprintf("/a/%02d", i), []byte("12"), 0))
	}
	h.apply(createProposal("/zookeeper/quota/a/zookeeper_stats", nil, 0))
	h.apply(createProposal("/a/00/early", []byte("333"), 0), deleteProposal("/a/38"), deleteProposal("/a/01"))
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

// TestCountUnderWayInBackup: the stats in a backup say what the count will come to, and a state that was restored from
// it counts nothing.
func TestCountUnderWayInBackup(t *testing.T) {
	h := countedTree(t)
	so := statsText(t, h.m)
	if so == countedText || h.m.CountingQuotas() != 1 {
		t.Fatalf("nothing is left to count: %s", so)
	}
	backup, info := h.backup()
	m, got := restored(t, backup, RestoreOptions{})
	if text := statsText(t, m); text != countedText || m.CountingQuotas() != 0 {
		t.Errorf("restored %q, counting %d", text, m.CountingQuotas())
	}
	checkStore(t, m)
	if info.DataBytes <= h.m.mu.pos.DataBytes || got.Znodes != info.Znodes {
		t.Errorf("%+v, %+v", info, got)
	}
	if statsText(t, h.m) != so {
		t.Error("the backup has changed the state")
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

// TestCountUnderWayInDifferences: two directories whose counts differ differ.
func TestCountUnderWayInDifferences(t *testing.T) {
	var states []*StateInspection
	for i := range 2 {
		h := countedTree(t)
		if i == 1 {
			c := *h.m.counts.of["/a"]
			c.OwedZnodes, c.OwedBytes = 1, 2
			if err := errors.Join(h.m.store.set(c.AppendKey(nil), c.Append(nil)), h.m.store.flushed()); err != nil {
				t.Fatal(err)
			}
		}
		states = append(states, h.inspected("copy"))
	}
	if out := differences(t, states[0], states[0]); out != "" {
		t.Errorf("a state differs from itself: %s", out)
	}
	const want = "/zookeeper/quota/a/zookeeper_stats0, " +
		"data 17 bytes, checksum 0x13c1a24 | 17 bytes, checksum 0x5d51b090, " +
		"count under way begun at 0x2c, come to /a/06, owes 0 znodes of 0 bytes | " +
		"begun at 0x2c, come to /a/06, owes 1 znodes of 2 bytes\n"
	if out := differences(t, states[0], states[1]); out != want {
		t.Errorf("%s, want %s", out, want)
	}
}

// TestCountsAreCompared: the sums of states whose counts differ are others, and without counts they are as before.
func TestCountsAreCompared(t *testing.T) {
	h := countedTree(t)
	sums := h.m.sums()
	c := *h.m.counts.of["/a"]
	c.Cursor += "x"
	h.m.counts.of["/a"] = &c
	if other := h.m.sums(); other.Differs(sums) == "" || other.Znodes != sums.Znodes {
		t.Errorf("%+v, %+v", sums, other)
	}
}

// TestWorkOfAnEntryIsBounded: a multi that makes and deletes the stats of many large quotas over and over again reads
// no more than an entry may, and leaves one count for each.
func TestWorkOfAnEntryIsBounded(t *testing.T) {
	h := raised(t, 20)
	h.apply(sessionProposal(1))
	for i := range 5 {
		top := fmt.Sprintf("/t%d", i)
		h.apply(createProposal(top, nil, 0), createProposal("/zookeeper/quota"+top, nil, 0))
		for k := range 6 { // no parent has more children than an entry may count
			sub := fmt.Sprintf("%s/%d", top, k)
			h.apply(createProposal(sub, nil, 0), createProposal(sub+"/x", nil, 0), createProposal(sub+"/y", nil, 0))
		}
	}
	p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: benchIDs}
	for round := range 1000 {
		path := fmt.Sprintf("/zookeeper/quota/t%d/zookeeper_stats", round%5)
		p.Body = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(p.Body)
		p.Body = append(p.Body, createProposal(path, nil, 0).Body...)
		if round < 995 {
			p.Body = (&jute.MultiHeader{Type: jute.OpDelete, Err: -1}).Append(p.Body)
			p.Body = append(p.Body, deleteProposal(path).Body...)
		}
	}
	p.Body = jute.AppendMultiEnd(p.Body)
	h.apply(p)
	if left := h.m.txn.countLeft; left < 0 || left > h.m.countMax {
		t.Errorf("%d of %d znodes are left to read", left, h.m.countMax)
	}
	if n := h.m.CountingQuotas(); n != 5 || len(h.m.counts.queue) != 5 {
		t.Errorf("%d quotas are counted, %d queued", n, len(h.m.counts.queue))
	}
	if n := h.countUp(); n != 5 { // each has 18 znodes below it
		t.Errorf("counted by %d entries", n)
	}
	for range 200 { // what has ended is forgotten while another count goes on
		h.apply(createProposal("/zookeeper/quota/t0/zookeeper_limits", nil, 0))
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
