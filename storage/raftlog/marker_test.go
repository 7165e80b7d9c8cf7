package raftlog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestMarkOfARealFile: on the disk it is written after some fsyncs, and at the close.
func TestMarkOfARealFile(t *testing.T) {
	dir := t.TempDir()
	mark := &syncMarker{}
	if err := mark.openForWrite(vfs.Default, dir); err != nil {
		t.Fatal(err)
	}
	want := func(when string, sequence uint64) {
		t.Helper()
		got, found, damaged, err := loadSyncMarker(vfs.Default, dir)
		if err != nil || !found || damaged || got.sequence != sequence {
			t.Errorf("%s: the mark says %d, found %v, damaged %v, %v; want %d", when, got.sequence, found, damaged, err,
				sequence)
		}
	}
	put := func(sequence, wal uint64) {
		t.Helper()
		if err := mark.put(sequence, wal); err != nil {
			t.Fatal(err)
		}
	}
	if err := mark.begin(1); err != nil {
		t.Fatal(err)
	}
	want("at the beginning", 1)
	put(2, 7)
	want("with the first in a write-ahead log", 2)
	for n := range uint64(syncMarkerEvery - 1) {
		put(3+n, 7)
	}
	want("before there are enough", 2)
	put(2+syncMarkerEvery, 7)
	want("after enough", 2+syncMarkerEvery)
	put(3+syncMarkerEvery, 8)
	want("with the first in the next write-ahead log", 3+syncMarkerEvery)
	put(4+syncMarkerEvery, 8)
	if err := mark.close(); err != nil {
		t.Fatal(err)
	}
	want("after the close", 4+syncMarkerEvery)
}
