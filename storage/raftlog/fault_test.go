package raftlog

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
	"zkd/storage/disk"
)

// TestRaftLogDiskFailureIsFinal makes each disk operation of a run fail in turn: the write under way fails, all after
// it fail, the owner is told once, and a healthy disk brings back all that was acknowledged.
func TestRaftLogDiskFailureIsFinal(t *testing.T) {
	failures := 0
	for n := int64(0); n < 160; n += 1 + n/40 {
		disk := vfs.NewCrashableMem()
		var countdown atomic.Int64
		countdown.Store(1 << 40)
		told := make(chan struct{}, 2)
		opts := testLogOptions(crashfs.FaultAt(disk, &countdown, syscall.ENOSPC), "log")
		opts.OnFatal = func(error) { told <- struct{}{} }
		l, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		countdown.Store(n)
		acked := uint64(0)
		for index := uint64(1); index <= 60 && err == nil; index++ {
			if err = l.Append(testEntries(index, 1, 1, 20<<10), []byte("s"), true); err == nil {
				acked = index
			}
			if err == nil && index%20 == 0 {
				err = l.Compact(index-10, 1, nil)
			}
		}
		if err != nil {
			failures++
			checkStopped(t, l, err)
			<-told // maybe later: a goroutine of the store may have met the failure first
		}
		clone := disk.CrashClone(vfs.CrashCloneCfg{})
		closeErr := l.Close()
		if err != nil && closeErr == nil {
			t.Fatalf("failure %d: close says nothing of it", n)
		}
		if err != nil && len(told) > 0 { // without one, the close may have met it
			t.Fatalf("failure %d: the owner was told twice", n)
		}
		checkAcked(t, clone, acked)
	}
	if failures < 40 {
		t.Errorf("only %d runs met a failure", failures)
	}
}

// checkStopped insists that a log that failed takes nothing more, and says why.
func checkStopped(t *testing.T, l *Log, err error) {
	t.Helper()
	if !errors.Is(err, disk.ErrDiskFailed) || !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "in log:") {
		t.Fatalf("failure is worded %v", err)
	}
	last := l.LastIndex()
	if again := l.Append(testEntries(last+1, 1, 1, 10), nil, false); !errors.Is(again, disk.ErrDiskFailed) {
		t.Fatalf("append after the failure: %v", again)
	}
	if again := l.SetMeta("name", nil); !errors.Is(again, disk.ErrDiskFailed) {
		t.Fatalf("set blob after the failure: %v", again)
	}
	if l.LastIndex() != last || l.Err() == nil {
		t.Fatal("something was published after the failure")
	}
}

// checkAcked opens what a crash leaves of disk and looks for the acknowledged entries.
func checkAcked(t *testing.T, disk *vfs.MemFS, acked uint64) {
	t.Helper()
	l, err := Open(testLogOptions(disk, "log"))
	if err != nil {
		t.Fatalf("after a failure, with the disk healthy again: %v", err)
	}
	defer l.Close() //nolint:errcheck // what was read is what counts
	if l.LastIndex() < acked {
		t.Fatalf("entry %d was acknowledged, the log ends at %d", acked, l.LastIndex())
	}
	first := l.FirstIndex()
	want := testEntries(first, 1, int(l.LastIndex()+1-first), 20<<10)
	if !slices.EqualFunc(mustEntries(t, l, first, l.LastIndex()+1), want, sameEntry) {
		t.Fatal("entries are not what was appended")
	}
}

// TestRaftLogFirstStart lets the very first open fail at each disk operation in turn, and crash there: the next start
// opens by itself.
func TestRaftLogFirstStart(t *testing.T) {
	for n := int64(0); n < 80; n++ {
		disk := vfs.NewCrashableMem()
		var countdown atomic.Int64
		countdown.Store(n)
		l, err := Open(testLogOptions(crashfs.FaultAt(disk, &countdown, syscall.EIO), "log"))
		clone := disk.CrashClone(vfs.CrashCloneCfg{})
		if err == nil {
			_ = l.Close() // may fail by design
		}
		again := openTestLog(t, clone, "log")
		mustAppend(t, again, testEntries(1, 1, 1, 10), "s")
	}
}
