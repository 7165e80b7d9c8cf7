package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// TestMachineAgainstOracle applies random proposals to the machine and to the oracle, with restarts and crashes that
// forget what was not synced in between, and compares results, events and state. ZKD_MODEL_OPS sets their number (a
// million: some minutes), ZKD_MODEL_SEED the seed, which a failure prints.
func TestMachineAgainstOracle(t *testing.T) {
	ops := envNumber(t, "ZKD_MODEL_OPS", 12000)
	seed := uint64(envNumber(t, "ZKD_MODEL_SEED", 1))
	counts := 0
	for worlds := 4; worlds > 0; worlds-- {
		counts += runModel(t, seed, ops/4)
		seed++
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
		FlushBytes: []int64{1, 2 << 10, 32 << 10, 1 << 20}[r.IntN(4)], FlushRequests: []int{10, 1000}[r.IntN(2)],
	}
}

// runModel compares machine and oracle over so many proposals, and returns how many quotas were counted in pieces.
func runModel(t *testing.T, seed uint64, ops int) (counts int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	options := modelOptions(r)
	options.countPiece = []int64{1, 2, 7, countZnodesMax}[r.IntN(4)]
	h := newHarness(t, options)
	g := &generator{r: r, config: func() string { return h.m.EnsembleConfig() }}
	o := newOracle()
	o.piece = int(options.countPiece)
	for done := 0; done < ops; {
		if o.level < entry.LevelCounting && r.IntN(30) == 0 {
			raise := &entry.Proposal{Op: entry.OpRaiseLevel,
				Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)}
			o.apply(raise)
			h.apply(raise)
		}
		record := make([]*entry.Proposal, 1+r.IntN(1+r.IntN(40)))
		var want strings.Builder
		o.begin()
		for i := range record {
			record[i] = g.proposal()
			result := o.apply(record[i])
			formatResult(&want, &result)
		}
		if diff := cmp.Diff(want.String(), h.apply(record...)); diff != "" {
			t.Fatalf("seed %d, entry %d: oracle -, machine +\n%s", seed, len(h.log), diff)
		}
		done += len(record)
		compare := r.IntN(200) == 0 || done >= ops
		switch r.IntN(300) {
		case 0:
			h.close()
			h.opts = modelOptions(r)
			h.opts.countPiece = options.countPiece
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
				ahead[i] = g.proposal()
				o.apply(ahead[i])
			}
			h.restore(ahead...)
			compare = true
		}
		if compare {
			compareState(t, seed, o, h)
		}
	}
	return o.finished
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
	settled, _, err := m.store.settled()
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for target, c := range m.counts.of { // order does not matter: a map
		target = strings.TrimSuffix(target, "/")
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
	counted, err := m.store.countSums()
	if err != nil {
		t.Fatal(err)
	}
	if counted != m.mu.sums {
		t.Errorf("sums %x, counted %x", m.mu.sums, counted)
	}
	if written, found, err := m.store.writtenSums(m.store.db, m.mu.pos.Index); err != nil ||
		found && written != counted {
		t.Errorf("sums on disk %x (%v), counted %x", written, err, counted)
	}
}

// checkStore checks that the indexes of the store are those of its znodes, and that nothing is left over.
func checkStore(t *testing.T, m *Machine) {
	t.Helper()
	want := map[string]bool{string(schema.KeyFormat): true, string(schema.KeyApplied): true}
	if m.ClusterID() != (entry.ClusterID{}) {
		want[string(schema.KeyEnsemble)] = true
	}
	got := storeContent(t, m)
	for key, value := range got { // order does not matter: a set is filled
		switch key[0] {
		case schema.KindMeta:
			if key == string(schema.KeyRestored) && m.mu.restored > 0 || key == string(schema.KeyUpload) &&
				m.mu.upload != nil ||
				key == string(schema.KeySums) { // a state to which nothing was applied yet has none
				want[key] = true
			}
			if key == string(schema.KeyLevel) && m.mu.level >= entry.LevelKnown {
				want[key] = true
			}
		case schema.KindCounting:
			if c, err := schema.DecodeCount([]byte(key), []byte(value)); err != nil {
				t.Error(err)
			} else if is := m.counts.of[c.Target]; is != nil && *is == *c {
				want[key] = true
			}
		case schema.KindUpload:
			if m.mu.upload != nil {
				want[key] = true
			}
		case schema.KindSession:
			want[key] = true
		case schema.KindNode:
			n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, []byte(key))), []byte(value))
			if err != nil {
				t.Fatal(err)
			}
			want[key] = true
			data := n.Data
			if !n.Inline() {
				apart := string(schema.AppendNodeKey(nil, schema.KindData, n.Path))
				want[apart] = true
				data = []byte(got[apart])
			}
			name := strings.TrimSuffix(n.Path, "/")
			if crc := crc32.ChecksumIEEE(append([]byte(name), data...)); crc != n.CRC {
				t.Errorf("%s: checksum %#x, stored %#x", n.Path, crc, n.CRC)
			}
			if id := schema.SessionOwner(n); id != 0 {
				want[string(schema.AppendEphemeralKey(nil, id, n.Path))] = true
			}
			if key := schema.AppendExpiryKey(nil, n.Path, n); len(key) > 0 {
				want[string(key)] = true
			}
		}
	}
	for key := range got { // order does not matter: errors only
		if !want[key] {
			t.Errorf("%q is left over in the store", key)
		}
		delete(want, key)
	}
	for key := range want { // order does not matter: errors only
		t.Errorf("%q is missing in the store", key)
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
	g := &generator{r: r, config: func() string { return "" }}
	var log [][]*entry.Proposal
	for range 300 {
		entry := make([]*entry.Proposal, 1+r.IntN(30))
		for i := range entry {
			entry[i] = g.proposal()
		}
		log = append(log, entry)
	}
	var first map[string]string
	for i, o := range []MachineOptions{
		{}, {CacheBytes: 1, FlushBytes: 1, MemTableBytes: 256 << 10}, {CacheBytes: 100 << 10, FlushRequests: 50},
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

// generator makes random proposals about few paths and sessions, so that they meet.
type generator struct {
	r      *rand.Rand
	time   jute.Millis
	config func() string // the present configuration of the ensemble, as a leader knows it
}

// pick returns one of the choices.
func pick[T any](g *generator, choices ...T) T { return choices[g.r.IntN(len(choices))] }

// path returns a path; seldom one that is malformed.
func (g *generator) path() string {
	switch g.r.IntN(60) {
	case 0:
		return pick(g, "", "a", "/", "//", "/a/", "/a//b", "/zookeeper", "/zookeeper/config", "/./a", "/a/../b",
			"nul/\x00")
	case 1, 2, 3:
		return "/zookeeper/quota" + pick(g, "", "/a", "/a/b", "/b", "/zookeeper") + pick(g, "", "/zookeeper_limits",
			"/zookeeper_limits", "/zookeeper_stats")
	}
	var b strings.Builder
	for range 1 + g.r.IntN(3) {
		b.WriteString("/" + pick(g, "a", "b", "c", "d-"))
	}
	return b.String()
}

// data returns data of all kinds of sizes.
func (g *generator) data() []byte {
	switch g.r.IntN(12) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{byte(g.r.Uint32())}, schema.InlineDataBytesMax-1+g.r.IntN(3))
	case 3:
		return bytes.Repeat([]byte{byte(g.r.Uint32())}, g.r.IntN(5000))
	}
	return binary.BigEndian.AppendUint32(nil, g.r.Uint32())[:1+g.r.IntN(4)]
}

// acl returns an ACL list; mostly the open one.
func (g *generator) acl() []jute.ACL {
	switch g.r.IntN(20) {
	case 0:
		return nil
	case 1:
		return []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "auth"}}}
	case 2:
		return []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	case 3:
		return []jute.ACL{
			{Perms: jute.Perms(g.r.IntN(32)), ID: jute.ID{Scheme: "world", ID: "anyone"}},
			{Perms: 31, ID: jute.ID{Scheme: "digest", ID: "me:x"}},
			{Perms: 31, ID: jute.ID{Scheme: "ip", ID: "10.0.0.0/8"}},
		}
	}
	return acl.Open
}

// version returns an expected version.
func (g *generator) version() jute.Version { return pick[jute.Version](g, -1, -1, -1, 0, 1, 2) }

// proposal returns a random proposal.
func (g *generator) proposal() *entry.Proposal {
	g.time += jute.Millis(g.r.IntN(50))
	p := &entry.Proposal{
		Session: pick(g, jute.SessionID(1), 2, 0xff, 0xffff), Time: g.time, Xid: 9,
		Flags: pick(g, entry.FlagExtendedTypes, entry.FlagExtendedTypes|entry.FlagEnforceQuota, entry.FlagEnforceQuota),
		Identities: pick(g, []jute.ID{{Scheme: "ip", ID: "10.1.1.1"}}, []jute.ID{{Scheme: "ip", ID: "1.1.1.1"}},
			[]jute.ID{{Scheme: "digest", ID: "me:x"}}, []jute.ID{{Scheme: "super"}}),
	}
	if g.r.IntN(6) == 0 {
		p.Flags |= entry.FlagLocalSession
	}
	switch n := g.r.IntN(100); {
	case n == 99 && g.r.IntN(4) == 0:
		g.found(p)
	case n >= 98:
		g.reconfig(p)
	case n < 8:
		p.Op = pick(g, jute.OpCreateSession, jute.OpCreateSession, entry.OpReattachSession)
		s := entry.SessionTxn{TimeoutMillis: int32(g.r.IntN(9)), Owner: 1}
		s.Passwd[0] = byte(g.r.IntN(2))
		p.Body = s.Append(nil)
	case n < 10:
		p.Op = jute.OpCloseSession
	case n < 11:
		p.Op, p.Code = jute.OpError, jute.MarshallingError
	case n < 14:
		p.Op = jute.OpDeleteContainer
		p.Body = (&jute.PathRequest{Path: pick(g, g.path(), "/a", "/b")}).Append(nil)
		if len(p.Body) < 6 || strings.Contains(g.pathOf(p.Body), "zookeeper") ||
			!strings.HasPrefix(g.pathOf(p.Body), "/") {
			p.Body = (&jute.PathRequest{Path: "/c"}).Append(nil)
		}
	case n < 26:
		p.Op = jute.OpMulti
		for range g.r.IntN(6) {
			op := pick(g, jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpCheck,
				jute.OpCreateContainer, jute.OpCreateTTL)
			p.Body = (&jute.MultiHeader{Type: op, Err: -1}).Append(p.Body)
			p.Body = g.record(op, p.Body)
		}
		p.Body = jute.AppendMultiEnd(p.Body)
	default:
		p.Op = pick(g, jute.OpCreate, jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpDelete, jute.OpSetData,
			jute.OpSetACL,
			jute.OpCreateContainer, jute.OpCreateTTL)
		p.Body = g.record(p.Op, nil)
	}
	return p
}

// pathOf reads the path of a PathRequest.
func (g *generator) pathOf(body []byte) string {
	d := jute.NewDecoder(body)
	var r jute.PathRequest
	r.Decode(&d)
	return r.Path
}

// record adds a random record of op.
func (g *generator) record(op jute.Op, b []byte) []byte {
	path, data := g.path(), g.data()
	if strings.HasSuffix(path, "/zookeeper_limits") {
		data = fmt.Appendf(nil, "count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d", g.r.IntN(3000)-1,
			g.r.IntN(8)-1)
	}
	if strings.HasSuffix(path, "/zookeeper_stats") && op == jute.OpSetData {
		data = pick(g, []byte("count=1,bytes=1"), []byte("nonsense"), nil)
		if data != nil && data[0] == 'n' {
			data = []byte("count=,bytes=x") // without pairs of other names, which the oracle does not keep
		}
	}
	switch op {
	case jute.OpCreateTTL:
		mode := pick(g, jute.ModePersistentTTL, jute.ModePersistentTTL, jute.ModePersistentSequentialTTL,
			jute.ModePersistent)
		r := jute.CreateTTLRequest{Path: path, Data: data, ACL: g.acl(), Flags: mode, TTL: pick[jute.Millis](g, 0, 1,
			100, 1000)}
		return r.Append(b)
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		mode := pick(g, jute.ModePersistent, jute.ModePersistent, jute.ModeEphemeral, jute.ModePersistentSequential,
			jute.ModeEphemeralSequential, jute.ModeContainer, jute.ModePersistentTTL)
		if op == jute.OpCreateContainer && g.r.IntN(4) > 0 {
			mode = jute.ModeContainer
		}
		return (&jute.CreateRequest{Path: path, Data: data, ACL: g.acl(), Flags: mode}).Append(b)
	case jute.OpSetData:
		return (&jute.SetDataRequest{Path: path, Data: data, Version: g.version()}).Append(b)
	case jute.OpSetACL:
		return (&jute.SetACLRequest{Path: path, ACL: g.acl(), Version: g.version()}).Append(b)
	}
	return (&jute.PathVersionRequest{Path: path, Version: g.version()}).Append(b)
}
