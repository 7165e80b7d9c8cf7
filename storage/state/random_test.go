package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/schema/schematest"
)

// TestMachineAgainstOracle applies random proposals to the machine and to the oracle, with restarts and crashes that
// forget what was not synced in between, and compares results, events and state. ZKD_MODEL_OPS sets their number (a
// million: some minutes), ZKD_MODEL_SEED the seed, which a failure prints.
func TestMachineAgainstOracle(t *testing.T) {
	ops := envNumber(t, "ZKD_MODEL_OPS", 12000)
	seed := uint64(envNumber(t, "ZKD_MODEL_SEED", 1))
	counts, ended, kept := 0, 0, 0
	for worlds := 4; worlds > 0; worlds-- {
		o := runModel(t, seed, ops/4)
		counts, ended, kept = counts+o.finished, ended+o.ended, kept+o.kept
		seed++
	}
	if kept == 0 {
		t.Error("no list of children was in memory")
	}
	if ended == 0 {
		t.Error("no session ended in pieces")
	}
	if counts == 0 {
		t.Error("no quota was counted in pieces to its end")
	}
}

// envNumber returns a number from the environment.
func envNumber(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// modelOptions are options that make all paths of caching and flushing common.
func modelOptions(r *rand.Rand) MachineOptions {
	return MachineOptions{
		CacheBytes: []int64{1, 64 << 10, 16 << 20}[r.IntN(3)], MemTableBytes: []int64{256 << 10, 1 << 20}[r.IntN(2)],
		FlushBytes:  []int64{1, 2 << 10, 32 << 10, 1 << 20}[r.IntN(4)],
		FlushReplay: []time.Duration{60 * replayRequest, time.Second}[r.IntN(2)],
		ListBytes:   []int64{1, 1500, 16 << 20}[r.IntN(3)],
	}
}

// runModel compares machine and oracle over so many proposals, and returns the oracle.
func runModel(t *testing.T, seed uint64, ops int) *oracle {
	t.Helper()
	r, lists := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	options := modelOptions(r)
	options.countPiece = []int64{1, 2, 7, apply.CountZnodesMax}[r.IntN(4)]
	options.endPiece = []int{1, 2, 3, apply.EndZnodesMax}[r.IntN(4)]
	h := newHarness(t, options)
	g := entrytest.NewGenerator(r, func() string { return h.m.EnsembleConfig() })
	o := newOracle()
	o.piece, o.endPiece = int(options.countPiece), options.endPiece
	for done := 0; done < ops; {
		if o.level < entry.LevelNewest && r.IntN(30) == 0 {
			raise := &entry.Proposal{Op: entry.OpRaiseLevel,
				Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)}
			o.apply(raise)
			h.apply(raise)
			g.Refers = true
		}
		record := make([]*entry.Proposal, 1+r.IntN(1+r.IntN(40)))
		var want strings.Builder
		o.begin()
		for i := range record {
			record[i] = g.Proposal()
			result := o.apply(record[i])
			formatResult(&want, &result)
		}
		if diff := cmp.Diff(want.String(), h.apply(record...)); diff != "" {
			t.Fatalf("seed %d, entry %d: oracle -, machine +\n%s", seed, len(h.log), diff)
		}
		done += len(record)
		o.kept += listSome(t, lists, h.m, o)
		compare := r.IntN(200) == 0 || done >= ops
		switch r.IntN(300) {
		case 0:
			h.close()
			h.opts = modelOptions(r)
			h.opts.countPiece, h.opts.endPiece = options.countPiece, options.endPiece
			h.open()
			compare = true
		case 1:
			h.crash()
			compare = true
		case 2:
			if err := h.m.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			if h.m.DurableIndex() != uint64(len(h.log)) {
				t.Fatalf("durable index %d after a flush at %d", h.m.DurableIndex(), len(h.log))
			}
		case 3:
			ahead := make([]*entry.Proposal, r.IntN(5))
			if len(ahead) > 0 {
				o.begin()
			}
			for i := range ahead {
				ahead[i] = g.Proposal()
				o.apply(ahead[i])
			}
			h.install(ahead...)
			compare = true
		}
		if compare {
			compareState(t, seed, o, h)
		}
	}
	return o
}

// compareState compares all that can be read, and the store with itself.
func compareState(t *testing.T, seed uint64, o *oracle, h *harness) {
	t.Helper()
	want, digest := o.dump()
	if diff := cmp.Diff(want, dumpState(h.m, true)); diff != "" {
		t.Fatalf("seed %d, after entry %d: oracle -, machine +\n%s", seed, len(h.log), diff)
	}
	v := h.m.View()
	got := v.Digest()
	v.Close()
	if got != digest {
		t.Fatalf("seed %d, after entry %d: digest %#x, want %#x", seed, len(h.log), got, digest)
	}
	checkStore(t, h.m)
	checkSums(t, h.m)
	compareCounts(t, o, h.m)
}

// compareCounts compares the counts of quotas that are under way, and what they come to.
func compareCounts(t *testing.T, o *oracle, m *Machine) {
	t.Helper()
	settled, _, err := m.store.reader().settled()
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, c := range m.mu.Counts.All() {
		target := strings.TrimSuffix(c.Target, "/")
		got[target] = fmt.Sprintf("%d %q %s", c.Began, c.Cursor[1:],
			settled["/zookeeper/quota"+target+"/zookeeper_stats"].Data)
	}
	for target, c := range o.counts { // order does not matter: a map
		want[target] = fmt.Sprintf("%d %q count=%d,bytes=%d", c.began, c.cursor, c.znodes, c.size)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != m.CountingQuotas() {
		t.Fatalf("counts: oracle -, machine + (%d)\n%s", m.CountingQuotas(), diff)
	}
}

// checkSums checks that the sums that go along with the entries are those of all that is there, in memory and on disk.
func checkSums(t *testing.T, m *Machine) {
	t.Helper()
	counted, err := m.store.reader().countSums()
	if err != nil {
		t.Fatal(err)
	}
	if counted != m.mu.Kept {
		t.Errorf("sums %x, counted %x", m.mu.Kept, counted)
	}
	if written, found, err := m.store.reader().writtenSums(m.mu.Position.Index); err != nil ||
		found && written != counted {
		t.Errorf("sums on disk %x (%v), counted %x", written, err, counted)
	}
}

// checkStore checks that the store agrees with itself and with what is in memory.
func checkStore(t *testing.T, m *Machine) {
	t.Helper()
	content := storeContent(t, m)
	schematest.Check(t, content)
	pos, err := schema.DecodePosition([]byte(content[string(schema.KeyApplied)]))
	if err != nil || pos != m.mu.Position {
		t.Errorf("position %+v on disk (%v), %+v in memory", pos, err, m.mu.Position)
	}
	for _, r := range []struct {
		key []byte
		is  bool
	}{
		{schema.KeyEnsemble, m.ClusterID() != entry.ClusterID{}}, {schema.KeyLoaded, m.mu.Loaded > 0},
		{schema.KeyUpload, m.mu.Upload != nil}, {schema.KeyLevel, m.mu.Level >= entry.LevelKnown},
	} {
		if _, found := content[string(r.key)]; found != r.is {
			t.Errorf("%q on disk: %t, in memory %t", r.key, found, r.is)
		}
	}
	counts := map[string]schema.Count{}
	for key, value := range content { // order does not matter: a map to a map
		if key[0] == schema.KindCounting {
			c, err := schema.DecodeCount([]byte(key), []byte(value))
			if err != nil {
				t.Fatal(err)
			}
			counts[c.Target] = *c
		}
	}
	for _, is := range m.mu.Counts.All() {
		if counts[is.Target] != *is {
			t.Errorf("count of %q: %+v on disk, %+v in memory", is.Target, counts[is.Target], *is)
		}
	}
	if len(counts) != m.mu.Counts.Len() {
		t.Errorf("%d counts on disk, %d in memory", len(counts), m.mu.Counts.Len())
	}
}

// storeContent returns all keys and values.
func storeContent(t *testing.T, m *Machine) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := m.store.scanRange(nil, []byte{0xff}, func(key, value []byte) (bool, error) {
		all[string(key)] = string(value)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMachineIsDeterministic applies the same log to machines with other options and expects the same bytes.
func TestMachineIsDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 0))
	g := entrytest.NewGenerator(r, func() string { return "" })
	var log [][]*entry.Proposal
	for range 300 {
		entry := make([]*entry.Proposal, 1+r.IntN(30))
		for i := range entry {
			entry[i] = g.Proposal()
		}
		log = append(log, entry)
	}
	var first map[string]string
	for i, o := range []MachineOptions{
		{}, {CacheBytes: 1, FlushBytes: 1, MemTableBytes: 256 << 10},
		{CacheBytes: 100 << 10, FlushReplay: time.Millisecond},
	} {
		h := newHarness(t, o)
		for n, entry := range log {
			h.apply(entry...)
			if i > 0 && n%100 == 99 {
				h.crash()
			}
		}
		content := storeContent(t, h.m)
		if first == nil {
			first = content
		} else if diff := cmp.Diff(first, content); diff != "" {
			t.Errorf("machine %d differs from the first:\n%s", i, diff)
		}
	}
}
