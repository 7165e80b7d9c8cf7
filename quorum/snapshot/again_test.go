package snapshot

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/storage/crashfs"
	"zkd/storage/space"
)

// readingFS counts how often files are opened to be read.
type readingFS struct {
	vfs.FS
	opened *atomic.Int64
}

// Open implements vfs.FS.
func (fs readingFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	fs.opened.Add(1)
	return fs.FS.Open(name, o...)
}

// TestHashesAreReadOnce sends a checkpoint to a member without room again and again, then to another one, and then the
// next checkpoint, which has most tables of the first: of each file the hash is read once.
func TestHashesAreReadOnce(t *testing.T) {
	var opened atomic.Int64
	r := newRig(t, content(), func(o *SenderOptions, _ *ReceiverOptions) {
		o.FS = readingFS{o.FS, &opened}
	})
	disk := r.to.(*crashfs.FS)
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1})
	for range 5 {
		if err := r.send(); err == nil || !strings.Contains(err.Error(), "no room in data") {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != int64(len(content())) {
		t.Errorf("%d files were opened for 5 transfers that were refused, want %d", n, len(content()))
	}
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40})
	opened.Store(0)
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
	sent := 0
	for _, text := range content() { // order: a count
		if text != "" {
			sent++
		}
	}
	if n := opened.Load(); n != int64(sent) {
		t.Errorf("%d files were opened to be sent, want %d", n, sent)
	}
	link(t, r.from, "checkpoint/000001.sst", "next/000001.sst")
	writeFiles(t, r.from, "next", map[string]string{"000009.sst": "new", "MANIFEST-000003": "changed"})
	opened.Store(0)
	if _, err := r.sender.scan(context.Background(), "next", nil, false); err != nil || opened.Load() != 2 {
		t.Errorf("%d files were opened for the next checkpoint, want 2; %v", opened.Load(), err)
	}
}

// link makes a link in a directory that may not be there.
func link(t *testing.T, fs vfs.FS, from, to string) {
	t.Helper()
	if err := errors.Join(fs.MkdirAll(fs.PathDir(to), 0o700), fs.Link(from, to)); err != nil {
		t.Fatal(err)
	}
}

// TestNextSnapshotKeepsWhatBothHave breaks off a transfer, and sends another checkpoint that has one of its tables:
// what is there of that is not sent again.
func TestNextSnapshotKeepsWhatBothHave(t *testing.T) {
	table := content()["000001.sst"]
	for _, there := range []int{testChunk, len(table)} { // a part of the table, or all of it
		written := int64(0)
		r := newRig(t, map[string]string{"000001.sst": table, "000002.sst": strings.Repeat("x", testChunk)},
			func(o *SenderOptions, _ *ReceiverOptions) { o.BytesPerSecond = 1 << 30 })
		r.sender.chunk = testChunk
		r.wrap = func(_ int, conn net.Conn) net.Conn {
			return &faultyConn{Conn: conn, written: &written, broken: int64(there) + 600}
		}
		ctx, cancel := context.WithCancel(context.Background())
		r.sender.opts.Clock = stopping{cancel, r.sender.opts.Clock}
		if err := r.sender.SendSnapshot(ctx, 2, []byte("header"), "checkpoint"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.streams.Wait()
		next := map[string]string{"000003.sst": "new"}
		writeFiles(t, r.from, "next", next)
		link(t, r.from, "checkpoint/000001.sst", "next/000001.sst")
		written, r.sender.opts.Clock = 0, still()
		r.wrap = func(_ int, conn net.Conn) net.Conn { return &faultyConn{Conn: conn, written: &written} }
		if err := r.sender.SendSnapshot(context.Background(), 2, []byte("header"), "next"); err != nil {
			t.Fatal(err)
		}
		next["000001.sst"] = table
		r.wantHanded(next)
		if most := int64(len(table)-there) + 600; written > most {
			t.Errorf("%d bytes were there, and %d were sent, want at most %d", there, written, most)
		}
	}
}

// TestLeftoversExpire breaks off a transfer for good: what is staged is removed after a while.
func TestLeftoversExpire(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	r := newRig(t, content(), func(_ *SenderOptions, o *ReceiverOptions) {
		o.Clock, o.Silence = manual, 100*keptFor
	})
	r.breakOff()
	if files := readFiles(t, r.to, "data/staging"); len(files) == 0 {
		t.Fatal("nothing is staged")
	}
	manual.AwaitEvents(1)
	manual.Advance(keptFor)
	r.receiver.running.Wait()
	if _, err := r.to.Stat("data/staging"); !isMissing(err) {
		t.Errorf("what was staged is there: %v", err)
	}
	r.wrap, r.sender.opts.Clock = nil, still()
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
}

// TestLeftoversOfAGivenUpTransfer: what is staged stays while its snapshot would be taken, now or later, and is gone as
// soon as it would not be.
func TestLeftoversOfAGivenUpTransfer(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	fits, asked := make(chan error), atomic.Bool{}
	r := newRig(t, content(), func(_ *SenderOptions, o *ReceiverOptions) {
		o.Clock, o.Silence = manual, 100*keptFor
		o.Fits = func(from uint64, header []byte) error {
			if from != 1 || string(header) != "header" {
				t.Errorf("asked for a snapshot %q of server %d", header, from)
			}
			if !asked.Load() { // the stream itself
				return nil
			}
			return <-fits
		}
	})
	r.breakOff()
	asked.Store(true)
	manual.AwaitEvents(1)
	for _, err := range []error{nil, ErrLater} {
		manual.Advance(keptAskEach)
		fits <- err
	}
	if files := readFiles(t, r.to, "data/staging"); len(files) == 0 {
		t.Fatal("what could be gone on with is removed")
	}
	manual.Advance(keptAskEach)
	fits <- errors.New("another member leads")
	r.receiver.running.Wait()
	if _, err := r.to.Stat("data/staging"); !isMissing(err) {
		t.Errorf("what was staged is there: %v", err)
	}
}

// TestAUnitIsLeftAlone: a state is taken if the disk has a unit of room beside it, whatever size the disk has.
func TestAUnitIsLeftAlone(t *testing.T) {
	for _, total := range []int64{256 << 20, 10 << 30, 1 << 40} {
		room := space.Unit(total) + 1000
		st := staging{fs: sizedFS{vfs.NewMem(), total, room}, dir: "data/staging"}
		if err := st.checkSpace(1000); err != nil {
			t.Errorf("%d bytes of %d are free: %v", room, total, err)
		}
		if err := st.checkSpace(1001); !refusedWith(err, codeSpace) {
			t.Errorf("%d bytes of %d are free, and one more is taken: %v", room, total, err)
		}
	}
}

// sizedFS has a size and room.
type sizedFS struct {
	vfs.FS
	total, room int64
}

// GetDiskUsage implements vfs.FS.
func (fs sizedFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: uint64(fs.total), AvailBytes: uint64(fs.room)}, nil
}

// shrinkingFS has less room with each question.
type shrinkingFS struct {
	vfs.FS
	room *int64
}

// GetDiskUsage implements vfs.FS.
func (fs shrinkingFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	*fs.room -= 2 * syncBytes
	return vfs.DiskUsage{AvailBytes: uint64(max(*fs.room, 0))}, nil
}

// TestRoomIsWatched has others fill the disk while a snapshot is received: it is given up before the end is reached,
// and so is one that meets the end.
func TestRoomIsWatched(t *testing.T) {
	files := map[string]string{"000001.sst": strings.Repeat("x", 2*syncBytes)}
	room := int64(4*syncBytes + syncBytes/2)
	r := newRig(t, files, func(o *SenderOptions, ro *ReceiverOptions) {
		o.BytesPerSecond = 1 << 30
		ro.FS = shrinkingFS{ro.FS, &room}
	})
	err := r.send()
	if !refusedWith(err, codeSpace) || r.attempts != 1 {
		t.Errorf("%d attempts, %v", r.attempts, err)
	}
	r.streams.Wait()
	if _, err := r.to.Stat("data/staging"); !isMissing(err) {
		t.Errorf("what was staged is there: %v", err)
	}
	st := staging{fs: vfs.NewMem(), dir: "data/staging", missing: 70, received: 20}
	if err := st.outOfSpace(syscall.ENOSPC); !strings.Contains(err.Error(), "needs 50 bytes more") {
		t.Errorf("the refusal of a disk that does not tell its room: %v", err)
	}
}
