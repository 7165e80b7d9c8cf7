//go:build unix

package raftlog

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkRaftLogAppend appends one entry a time with sync to a real disk, compacting 4 MiB behind as a server does,
// and reports the processor time of an append beside its duration.
func BenchmarkRaftLogAppend(b *testing.B) {
	for _, bytes := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", bytes>>10), func(b *testing.B) { benchmarkAppend(b, bytes, true, 0) })
	}
}

// BenchmarkRaftLogAppendNoSync is the same without the disk's share.
func BenchmarkRaftLogAppendNoSync(b *testing.B) {
	for _, bytes := range []int{1 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dKiB", bytes>>10), func(b *testing.B) { benchmarkAppend(b, bytes, false, 0) })
	}
}

// BenchmarkRaftLogMemTable compares sizes of the memtable, which is when write-ahead logs turn over: bytes written to
// tables for each byte appended, and the share of appends into recycled files.
func BenchmarkRaftLogMemTable(b *testing.B) {
	for _, mib := range []int64{1, 4, 8, 16, 32, 64} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) { benchmarkAppend(b, 16<<10, true, mib<<20) })
	}
}

func benchmarkAppend(b *testing.B, bytes int, sync bool, memTableBytes int64) {
	l, err := Open(Options{
		Dir: b.TempDir(), FS: vfs.Default, Logger: slog.New(slog.DiscardHandler), MemTableBytes: memTableBytes,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}()
	data := make([]byte, bytes)
	entries := make([]LogEntry, 1)
	hardState := make([]byte, 24)
	const compactEvery = 4 << 20
	index, pending := uint64(0), 0
	before := cpuTime()
	b.ReportAllocs()
	b.SetBytes(int64(bytes))
	for b.Loop() {
		index++
		entries[0] = LogEntry{Index: index, Term: 1, Data: data}
		if err := l.Append(entries, hardState, sync); err != nil {
			b.Fatal(err)
		}
		if pending += bytes; pending >= compactEvery && index > compactEvery/uint64(bytes) {
			pending = 0
			if err := l.Compact(index-compactEvery/uint64(bytes), 1, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	m := l.Metrics()
	b.ReportMetric(float64(m.FlushedBytes+m.CompactedBytes)/float64(m.AppendedBytes+1), "table-B/B")
}

// cpuTime returns the processor time of the process in nanoseconds, user and system.
func cpuTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
