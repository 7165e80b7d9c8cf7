package raftlog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestSizesAtOpen opens a log that has been compacted, with entries small and large: the steps are short, ascending,
// and sum up to what there is.
func TestSizesAtOpen(t *testing.T) {
	fs := vfs.NewMem()
	l := openTestLog(t, fs, "log")
	if got := l.SizesAtOpen(); len(got) != 0 {
		t.Errorf("a new log has %v", got)
	}
	total := uint64(0)
	for i := uint64(1); i <= 300; i++ {
		size := uint64(8 << 10)
		if i == 200 {
			size = 2 * logSizeStep
		}
		if i > 100 {
			total += size
		}
		if err := l.Append([]LogEntry{{Index: i, Term: 1, Data: make([]byte, size)}}, nil, i == 300); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Compact(100, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTestLog(t, fs, "log")
	defer l.Close()
	sizes := l.SizesAtOpen()
	if first, last := sizes[0], sizes[len(sizes)-1]; first != (LogSize{Index: 100}) ||
		last != (LogSize{Index: 300, Bytes: total}) {
		t.Errorf("from %v to %v, want from entry 100 to 300 with %d bytes", first, last, total)
	}
	for i := 1; i < len(sizes); i++ {
		step := sizes[i].Bytes - sizes[i-1].Bytes
		if sizes[i].Index <= sizes[i-1].Index || step > logSizeStep && sizes[i].Index != 200 {
			t.Errorf("after %v comes %v", sizes[i-1], sizes[i])
		}
	}
	if n := len(sizes); n > 12 {
		t.Errorf("%d steps for %d bytes", n, total)
	}
}
