package state

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// discard is a Sink that reads nothing.
type discard struct{}

func (discard) Result(_, _ uint64, _ int, _ *apply.Result) {}

// benchMachine opens a machine in a temporary directory, or in ZKD_BENCH_DIR, with one session, 1.
func benchMachine(tb testing.TB, o MachineOptions) *Machine {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	m, err := OpenMachine(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	if m.AppliedIndex() == 0 {
		body := (&entry.SessionTxn{TimeoutMillis: 10000}).Append(nil)
		p := entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: body}
		if err := m.Apply(1, 1, entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &p), discard{}); err != nil {
			tb.Fatal(err)
		}
	}
	return m
}

// fill creates n znodes below a hundred parents with data of size bytes.
func fill(tb testing.TB, m *Machine, n, size int) {
	tb.Helper()
	data := make([]byte, size)
	var proposals []*entry.Proposal
	apply := func() {
		for _, e := range entrytest.Entries(256, proposals) {
			if err := m.Apply(m.AppliedIndex()+1, 1, e, discard{}); err != nil {
				tb.Fatal(err)
			}
		}
		proposals = proposals[:0]
	}
	for i := range 100 {
		proposals = append(proposals, entrytest.Create(fmt.Sprintf("/p%02d", i), nil, jute.ModePersistent))
	}
	for i := range n {
		proposals = append(proposals, entrytest.Create(benchPath(i), data, jute.ModePersistent))
		if len(proposals) >= 1<<14 {
			apply()
		}
	}
	apply()
	if got := m.LastZxid(); int(got) != n+101 {
		tb.Fatalf("zxid %d after %d creates", got, n+100)
	}
}

// benchPath is the path of the ith znode that fill makes.
func benchPath(i int) string { return fmt.Sprintf("/p%02d/node-%07d", i%100, i) }

// BenchmarkApplySetData sets 1 KiB on 1,000 znodes, 256 requests an entry; an op is one request.
func BenchmarkApplySetData(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 1024)
	data := make([]byte, 1024)
	var proposals []*entry.Proposal
	for i := range 256 * 16 {
		proposals = append(proposals, entrytest.SetData(benchPath(i*7919%1000), data))
	}
	benchEntries(b, m, entrytest.Entries(256, proposals), 256)
}

// BenchmarkApplySetDataWide sets 1 KiB on a million znodes in turn.
func BenchmarkApplySetDataWide(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 100000, 100)
	data := make([]byte, 1024)
	var proposals []*entry.Proposal
	for i := range 256 * 100 {
		proposals = append(proposals, entrytest.SetData(benchPath(i*7919%100000), data))
	}
	benchEntries(b, m, entrytest.Entries(256, proposals), 256)
}

// benchEntries applies the entries in turn.
func benchEntries(b *testing.B, m *Machine, entries [][]byte, size int) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%size == 0 {
			if err := m.Apply(m.AppliedIndex()+1, 1, entries[n/size%len(entries)], discard{}); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
}

// BenchmarkApplyCreate creates znodes of 100 bytes below one parent, 256 requests an entry, in a tree of 100,000.
func BenchmarkApplyCreate(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			m := benchMachine(b, MachineOptions{})
			fill(b, m, 100000, 100)
			data := make([]byte, size)
			b.ReportAllocs()
			n := 0
			buf := make([]byte, 0, 1<<20)
			p := entrytest.Create("/p00/n", data, jute.ModePersistent)
			for b.Loop() {
				if n%256 == 0 {
					buf = entry.AppendEntryHeader(buf[:0], 1, 1)
					for i := range 256 {
						r := jute.CreateRequest{Path: fmt.Sprintf("/p00/new-%010d", n+i), Data: data, ACL: acl.Open}
						p.Body = r.Append(p.Body[:0])
						buf = entry.AppendProposal(buf, p)
					}
					if err := m.Apply(m.AppliedIndex()+1, 1, buf, discard{}); err != nil {
						b.Fatal(err)
					}
				}
				n++
			}
		})
	}
}

// BenchmarkGet reads 1 KiB from the cache.
func BenchmarkGet(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 1024)
	b.ReportAllocs()
	path := benchPath(500)
	for b.Loop() {
		v := m.View()
		n, ok := v.Get(path)
		if !ok || len(n.Data()) != 1024 {
			b.Fatal(ok)
		}
		v.Close()
	}
}

// BenchmarkGetCold reads 100 bytes from the store.
func BenchmarkGetCold(b *testing.B) {
	m := benchMachine(b, MachineOptions{CacheBytes: 1})
	fill(b, m, 100000, 100)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		v := m.View()
		if _, ok := v.Get(benchPath(i * 7919 % 100000)); !ok {
			b.Fatal(i)
		}
		v.Close()
		i++
	}
}

// benchState returns a machine with ZKD_BENCH_NODES znodes in dir, and skips the benchmark if there is no such number.
func benchState(b *testing.B, dir string) *Machine {
	b.Helper()
	if os.Getenv("ZKD_BENCH_NODES") == "" {
		b.Skip("set ZKD_BENCH_NODES")
	}
	var nodes int
	if _, err := fmt.Sscan(os.Getenv("ZKD_BENCH_NODES"), &nodes); err != nil {
		b.Fatal(err)
	}
	m, err := OpenMachine(MachineOptions{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), entrytest.Session(1))
	if err := m.Apply(1, 1, entry, discard{}); err != nil {
		b.Fatal(err)
	}
	fill(b, m, nodes, 100)
	return m
}

// BenchmarkRestart opens a state of ZKD_BENCH_NODES znodes.
func BenchmarkRestart(b *testing.B) {
	dir := b.TempDir()
	m := benchState(b, dir)
	lost := m.AppliedIndex() - m.DurableIndex()
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		m, err := OpenMachine(MachineOptions{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		v := m.View()
		if _, ok := v.Get(benchPath(1)); !ok {
			b.Fatal("first read")
		}
		v.Close()
		best = min(best, time.Since(start))
		b.StopTimer()
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
	b.ReportMetric(float64(lost*256), "requests-to-replay")
}

// BenchmarkInstall replaces a state of ZKD_BENCH_NODES znodes by a checkpoint of itself, while another goroutine
// reads: an op is one Install, and beside it are the mean of Checkpoint and the longest that a read has waited.
func BenchmarkInstall(b *testing.B) {
	dir := b.TempDir() + "/state"
	m := benchState(b, dir)
	ctx, stop := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() {
		most := time.Duration(0)
		for i := 0; ctx.Err() == nil; i++ {
			start := time.Now()
			v := m.View()
			if _, ok := v.Get(benchPath(i % 1000)); !ok {
				b.Error("a read of nothing")
			}
			v.Close()
			most = max(most, time.Since(start))
		}
		longest <- most
	}()
	checkpoints := time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		start := time.Now()
		if _, _, err := m.Checkpoint(ctx, dir+datadir.StagedSuffix); err != nil {
			b.Fatal(err)
		}
		checkpoints += time.Since(start)
		b.StartTimer()
		if err := m.Install(dir + datadir.StagedSuffix); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	b.ReportMetric(float64(checkpoints.Microseconds())/1000/float64(b.N), "checkpoint-ms")
	b.ReportMetric(float64((<-longest).Microseconds())/1000, "longest-wait-ms")
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkChildren lists directories of 10 and 1,000 children.
func BenchmarkChildren(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("children=%d", n), func(b *testing.B) {
			m := benchMachine(b, MachineOptions{})
			fill(b, m, 100*n, 100)
			b.ReportAllocs()
			var names []string
			for b.Loop() {
				v := m.View()
				names, _ = v.Children("/p07", names[:0])
				v.Close()
				if len(names) != n {
					b.Fatal(len(names))
				}
			}
		})
	}
}

// BenchmarkCloseSession ends sessions without ephemerals, 256 an entry, each after it was made in the entry before.
func BenchmarkCloseSession(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 10000, 100)
	body := (&entry.SessionTxn{TimeoutMillis: 10000}).Append(nil)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%256 == 0 {
			for _, op := range []jute.Op{jute.OpCreateSession, jute.OpCloseSession} {
				var proposals []*entry.Proposal
				for i := range 256 {
					proposals = append(proposals, &entry.Proposal{Op: op, Session: jute.SessionID(100 + i), Body: body})
				}
				if err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(256, proposals)[0], discard{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		n++
	}
}

// BenchmarkMultiOfTen sets ten znodes of 100 bytes in one multi, 64 multis an entry; an op is one multi.
func BenchmarkMultiOfTen(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 100)
	var proposals []*entry.Proposal
	for i := range 640 {
		p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: entrytest.Identities}
		for j := range 10 {
			p.Body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(p.Body)
			r := jute.SetDataRequest{Path: benchPath((i*10 + j) % 1000), Data: make([]byte, 100), Version: -1}
			p.Body = r.Append(p.Body)
		}
		p.Body = jute.AppendMultiEnd(p.Body)
		proposals = append(proposals, p)
	}
	benchEntries(b, m, entrytest.Entries(64, proposals), 64)
}

// BenchmarkMultiOfMany makes 14,000 znodes in one multi and removes them in the next one: what fits into
// jute.maxbuffer. An op is one multi; nobody else's write is applied meanwhile.
func BenchmarkMultiOfMany(b *testing.B) {
	const znodes = 14_000
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 100)
	multi := func(op jute.Op, record func(b []byte, path string) []byte) *entry.Proposal {
		p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: entrytest.Identities}
		for i := range znodes {
			p.Body = (&jute.MultiHeader{Type: op, Err: -1}).Append(p.Body)
			p.Body = record(p.Body, fmt.Sprintf("/m%05d", i))
		}
		p.Body = jute.AppendMultiEnd(p.Body)
		return p
	}
	proposals := []*entry.Proposal{
		multi(jute.OpCreate, func(b []byte, path string) []byte {
			r := jute.CreateRequest{Path: path, ACL: []jute.ACL{{Perms: jute.PermAll,
				ID: jute.ID{Scheme: "world", ID: "anyone"}}}}
			return r.Append(b)
		}),
		multi(jute.OpDelete, func(b []byte, path string) []byte {
			r := jute.PathVersionRequest{Path: path, Version: -1}
			return r.Append(b)
		}),
	}
	benchEntries(b, m, entrytest.Entries(1, proposals), 1)
}

// BenchmarkApplySingle sets 1 KiB, one request an entry: what an entry itself costs.
func BenchmarkApplySingle(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 1024)
	var proposals []*entry.Proposal
	for i := range 1000 {
		proposals = append(proposals, entrytest.SetData(benchPath(i), make([]byte, 1024)))
	}
	benchEntries(b, m, entrytest.Entries(1, proposals), 1)
}
