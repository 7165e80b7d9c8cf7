package quorum

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readFS is a file system whose reads go through a gate.
type readFS struct {
	vfs.FS
	gate func()
}

// Open implements vfs.FS.
func (f readFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return readFile{File: file, gate: f.gate}, nil
}

// readFile is a file of it.
type readFile struct {
	vfs.File
	gate func()
}

// Read implements vfs.File.
func (f readFile) Read(b []byte) (int, error) {
	f.gate()
	return f.File.Read(b)
}

// ReadAt implements vfs.File.
func (f readFile) ReadAt(b []byte, offset int64) (int, error) {
	f.gate()
	return f.File.ReadAt(b, offset)
}

// catchUpBytes is how far behind the member of BenchmarkCatchUp is.
const catchUpBytes = 128 << 20

// BenchmarkCatchUp measures how long a member takes for 128 MiB of entries that it lacks, logs on disk, and what a
// client notices that writes 1 KiB at a time on the leader meanwhile. The slow disk takes a millisecond for each read.
func BenchmarkCatchUp(b *testing.B) {
	for _, c := range []struct {
		name string
		read time.Duration
	}{{"disk", 0}, {"slow-disk", time.Millisecond}} {
		b.Run(c.name, func(b *testing.B) {
			var slow atomic.Bool
			gate := func() {
				if slow.Load() {
					<-time.After(c.read)
				}
			}
			g := newTestGroup(b, 3, 0, func(o *Options) {
				o.TickInterval, o.RetainBytes, o.TailEntries = 100*time.Millisecond, 1<<30, 10
				o.Machine.(*fakeMachine).keep = false
				if err := o.Log.Close(); err != nil {
					b.Fatal(err)
				}
				o.Log = openLog(b, readFS{FS: vfs.Default, gate: gate}, b.TempDir())
			})
			defer func() { g.close(); g.members = nil }()
			lead := g.leader().node
			late := g.follower()
			var pings []time.Duration
			b.SetBytes(catchUpBytes)
			for b.Loop() {
				b.StopTimer()
				g.net.isolate(late.id, true)
				writeMany(b, lead, catchUpBytes)
				slow.Store(c.read > 0)
				stop := make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() { pings = ping(b, lead, pings, stop) })
				b.StartTimer()
				target := lead.Status().Commit
				g.net.isolate(late.id, false)
				eventually(b, "the member has caught up", func() bool { return late.machine.AppliedIndex() >= target })
				b.StopTimer()
				close(stop)
				all.Wait()
				slow.Store(false)
				b.StartTimer()
			}
			slices.Sort(pings)
			if n := len(pings); n > 0 {
				b.ReportMetric(float64(pings[n/2])/1e6, "ms/write-p50")
				b.ReportMetric(float64(pings[n*99/100])/1e6, "ms/write-p99")
				b.ReportMetric(float64(pings[n-1])/1e6, "ms/write-max")
			}
		})
	}
}

// writeMany writes so many bytes.
func writeMany(b *testing.B, n *Node, bytes int) {
	const each = 16 << 10
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { benchProposals(b, n, 64, bytes/each/4, proposal(applied{}, each)) })
	}
	all.Wait()
}

// ping makes one small write after the other until stop is closed, and adds how long each took.
func ping(b *testing.B, n *Node, took []time.Duration, stop <-chan struct{}) []time.Duration {
	for {
		select {
		case <-stop:
			return took
		default:
		}
		w := newWaiter(b)
		began := time.Now()
		if err := n.Propose(proposal(applied{}, 1024), w); err != nil || w.wait().err != nil {
			b.Error("a write failed", err)
			return took
		}
		took = append(took, time.Since(began))
	}
}
