package quorum

import (
	"context"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/state"
)

// benchClient proposes and counts what comes back; room holds one token for each request it may have outstanding.
type benchClient struct{ room chan struct{} }

// Applied implements batcher.Waiter.
func (c *benchClient) Applied(*apply.Result) { c.room <- struct{}{} }

// Dropped implements batcher.Waiter.
func (c *benchClient) Dropped(err error) { panic(err) }

// cpuTime is what the process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPropose measures the way of a 1-KiB write from Propose to Applied: a real log on disk, fsync on, a machine
// that does nothing. cpu-ns/op includes the clients' own goroutines.
func BenchmarkPropose(b *testing.B) {
	for _, c := range []struct {
		name                 string
		clients, outstanding int
	}{{"1x1", 1, 1}, {"64x1", 64, 1}, {"32x100", 32, 100}} {
		b.Run(c.name, func(b *testing.B) {
			n := startNode(b, testOptions(openLog(b, vfs.Default, b.TempDir()), &fakeMachine{durable: true}))
			measureProposals(b, n, load{c.clients, c.outstanding}, proposal(applied{}, 1024))
		})
	}
}

// load is how many clients propose, and how many requests each has outstanding.
type load struct{ clients, outstanding int }

// measureProposals proposes b.N times, the proposals in turn, and reports what that cost.
func measureProposals(b *testing.B, n *Node, of load, proposals ...*entry.Proposal) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	before, cpu := n.Status(), cpuTime(b)
	var all sync.WaitGroup
	for client := range of.clients {
		all.Go(func() { benchProposals(b, n, of.outstanding, (b.N+client)/of.clients, proposals...) })
	}
	all.Wait()
	b.StopTimer()
	after := n.Status()
	if requests := float64(after.Proposals - before.Proposals); requests > 0 {
		b.ReportMetric(float64(cpuTime(b)-cpu)/requests, "cpu-ns/op")
		b.ReportMetric(requests/float64(after.Fsync.Count-before.Fsync.Count), "reqs/fsync")
		b.ReportMetric(float64(after.Fsync.P50)/1e3, "µs/fsync-p50")
		b.ReportMetric(float64(after.Commits.P50)/1e3, "µs/commit-p50")
	}
}

// BenchmarkWrite is BenchmarkPropose with the real state machine: setData of 1 KiB on a thousand znodes.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name                 string
		clients, outstanding int
	}{{"64x1", 64, 1}, {"32x100", 32, 100}} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			m, err := state.OpenMachine(state.MachineOptions{Dir: dir + "/state", Logger: discard})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close() // what matters has been measured
			n := startNode(b, testOptions(openLog(b, vfs.Default, dir+"/log"), realMachine{m}))
			defer stopNode(b, n)
			writes := benchZnodes(b, n, m)
			measureProposals(b, n, load{c.clients, c.outstanding}, writes...)
		})
	}
}

// benchZnodes makes a thousand znodes and returns a setData for each.
func benchZnodes(b *testing.B, n *Node, m *state.Machine) []*entry.Proposal {
	b.Helper()
	createSession(b, n, m)
	var writes []*entry.Proposal
	for seq := range uint32(1000) {
		w := newWaiter(b)
		if err := n.Propose(createProposal(applied{1, seq}), w); err != nil || w.wait().err != nil {
			b.Fatalf("create: %v", err)
		}
		r := jute.SetDataRequest{Path: nodePath(applied{1, seq}), Data: make([]byte, 1024), Version: jute.AnyVersion}
		body := r.Append(nil)
		writes = append(writes, &entry.Proposal{Op: jute.OpSetData, Session: testSession, Time: 1, Body: body})
	}
	return writes
}

// benchProposals makes count writes, proposals in turn, at most outstanding at a time.
func benchProposals(b *testing.B, n *Node, outstanding, count int, proposals ...*entry.Proposal) {
	c := &benchClient{room: make(chan struct{}, outstanding)}
	for range outstanding {
		c.room <- struct{}{}
	}
	for i := range count {
		<-c.room
		if err := n.Propose(proposals[i%len(proposals)], c); err != nil {
			b.Error(err)
			return
		}
	}
	for range outstanding {
		<-c.room
	}
}

// BenchmarkRestart measures Start on a log of 100,000 writes of 1 KiB that the machine has lost, as far as they are in
// entries of the given number of writes. Opening the log is not part of it.
func BenchmarkRestart(b *testing.B) {
	const writes = 100_000
	for _, perEntry := range []int{1, 64} {
		b.Run(strconv.Itoa(perEntry)+"-in-an-entry", func(b *testing.B) {
			fs := vfs.NewMem()
			log := openLog(b, fs, "log")
			if _, _, err := openGroup(&Options{ID: 1, Log: log}, 0); err != nil {
				b.Fatal(err)
			}
			for i := range writes / perEntry {
				data := entry.AppendEntryHeader(nil, 1, uint64(i))
				for range perEntry {
					data = entry.AppendProposal(data, proposal(applied{}, 1024))
				}
				entry := raftlog.LogEntry{Index: bootstrapIndex + 1 + uint64(i), Term: bootstrapTerm, Data: data}
				if err := log.Append([]raftlog.LogEntry{entry}, nil, false); err != nil {
					b.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				log := openLog(b, fs, "log")
				m := &fakeMachine{}
				b.StartTimer()
				n, err := Start(context.Background(), testOptions(log, m))
				b.StopTimer()
				if err != nil || int(m.LastZxid()) < writes/perEntry*perEntry {
					b.Fatalf("%v: %d writes replayed", err, m.LastZxid())
				}
				stopNode(b, n)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStart measures Start on an empty log on disk: the first election included.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		log := openLog(b, vfs.Default, b.TempDir())
		b.StartTimer()
		n, err := Start(context.Background(), testOptions(log, &fakeMachine{}))
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		stopNode(b, n)
		b.StartTimer()
	}
}

// BenchmarkBarrier measures one barrier after the other on a member that is idle.
func BenchmarkBarrier(b *testing.B) {
	n := startNode(b, testOptions(openLog(b, vfs.NewMem(), "log"), &fakeMachine{}))
	c := &benchClient{room: make(chan struct{}, 1)}
	b.ReportAllocs()
	for b.Loop() {
		n.Barrier(c)
		<-c.room
	}
}

// BenchmarkGroup measures 1-KiB writes through a follower, or the leader, of three members in one process, logs on
// disk. cpu-ns/op is of all three and the clients.
func BenchmarkGroup(b *testing.B) {
	for _, c := range []struct {
		name                 string
		clients, outstanding int
		leader               bool
	}{
		{"follower/1x1", 1, 1, false}, {"follower/64x1", 64, 1, false}, {"follower/32x100", 32, 100, false},
		{"leader/64x1", 64, 1, true}, {"leader/32x100", 32, 100, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := newTestGroup(b, 3, 0, func(o *Options) {
				o.TickInterval = 100 * time.Millisecond
				if err := o.Log.Close(); err != nil {
					b.Fatal(err)
				}
				o.Log = openLog(b, vfs.Default, b.TempDir())
				o.Machine = &fakeMachine{durable: true}
			})
			n := g.leader().node
			if !c.leader {
				n = g.follower().node
			}
			measureProposals(b, n, load{c.clients, c.outstanding}, proposal(applied{}, 1024))
			g.close()
			g.members = nil
		})
	}
}
