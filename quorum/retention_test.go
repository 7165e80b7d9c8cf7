package quorum

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage/raftlog"
	"zkd/storage/space"
)

// TestTheCompactorBoundsWhatIsKept appends for a member that never answers, with restarts in between: what was there at
// a start counts, so that the log never has twice its bound.
func TestTheCompactorBoundsWhatIsKept(t *testing.T) {
	const bound, entryBytes = 20_000, 500
	fs := vfs.NewMem()
	index, most := uint64(0), uint64(0)
	for life := range 8 {
		log := openLog(t, fs, "log")
		m, appended := &fakeMachine{}, uint64(0)
		sizes := slices.Clone(log.SizesAtOpen())
		if len(sizes) == 0 {
			sizes = []raftlog.LogSize{{}}
		}
		compactor := &logCompactor{
			log: log, machine: m, clock: clock.NewManual(time.Unix(1, 0)), appended: func() uint64 { return appended },
			tailEntries: 10, tailBytes: 1000, retainBytes: bound, flushInterval: time.Hour, sizes: sizes,
			sizeAtOpen: sizes[len(sizes)-1].Bytes, retain: newRetained(false), newest: &atomic.Int64{},
			installs: func() uint64 { return 0 },
		}
		compactor.retain.applied.Store(1 << 62)
		for range 30 { // less than the bound, of which nothing would be forgotten by itself
			index++
			entry := raftlog.LogEntry{Index: index, Term: 1, Data: make([]byte, entryBytes)}
			if err := log.Append([]raftlog.LogEntry{entry}, nil, false); err != nil {
				t.Fatal(err)
			}
			appended += entryBytes
			m.flushed.index = index
			if err := compactor.work(); err != nil {
				t.Fatal(err)
			}
			kept := (log.LastIndex() + 1 - log.FirstIndex()) * entryBytes
			most = max(most, kept)
			if kept > 2*bound {
				t.Fatalf("life %d: the log has %d bytes", life, kept)
			}
			if told := compactor.retain.kept.Load(); told > kept+2*entryBytes || kept > told+2*entryBytes {
				t.Fatalf("life %d: the log has %d bytes, and the compactor tells %d", life, kept, told)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if most < bound/2 {
		t.Errorf("the log had %d bytes at most, its bound is %d", most, bound)
	}
}

// TestWhoCatchesUpIsNotLeftBehindForSpace: a snapshot would need as much again as there is, on a disk that is
// perhaps as full. What a member lacks that does not answer is forgotten, and all at the very end.
func TestWhoCatchesUpIsNotLeftBehindForSpace(t *testing.T) {
	const entries, entryBytes = 100, 500
	for _, c := range []struct {
		level         space.Level
		away, answers uint64 // what they have
		want          uint64 // the first entry that is kept, more or less a step
	}{
		{space.Ample, 5, 20, 6},
		{space.Tight, 5, 20, 21},
		{space.Tight, 5, math.MaxUint64, 93}, // four tails of two entries
		{space.Low, 5, 20, 21},
		{space.Critical, 5, 20, 93},
	} {
		log := openLog(t, vfs.NewMem(), "log")
		m, appended := &fakeMachine{}, uint64(0)
		compactor := &logCompactor{
			log: log, machine: m, clock: clock.NewManual(time.Unix(1, 0)), appended: func() uint64 { return appended },
			tailEntries: 10, tailBytes: 2 * entryBytes, retainBytes: entries * entryBytes, flushInterval: time.Hour,
			sizes: []raftlog.LogSize{{}}, retain: newRetained(false), newest: &atomic.Int64{},
			installs: func() uint64 { return 0 }, space: func() space.Level { return c.level },
		}
		compactor.retain.applied.Store(1 << 62)
		compactor.retain.floor.Store(min(c.away, c.answers))
		compactor.retain.awaited.Store(c.answers)
		for index := range uint64(entries) {
			entry := raftlog.LogEntry{Index: index + 1, Term: 1, Data: make([]byte, entryBytes)}
			if err := log.Append([]raftlog.LogEntry{entry}, nil, false); err != nil {
				t.Fatal(err)
			}
			appended += entryBytes
			m.flushed.index = index + 1
			if err := compactor.work(); err != nil {
				t.Fatal(err)
			}
		}
		if first := log.FirstIndex(); first > c.want || first+2 < c.want {
			t.Errorf("space is %v, one has %d and is away, one has %d and answers: the log begins with %d, want %d",
				c.level, c.away, c.answers, first, c.want)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRetentionIsTold hands a follower heartbeats of its leader, one of which is of a version that does not tell.
func TestRetentionIsTold(t *testing.T) {
	leader := &retention{facts: &facts{term: 3}, told: 41}
	follower := &retention{facts: &facts{term: 3}}
	beat := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &leader.term}
	leader.tell(beat)
	follower.hear(beat)
	if follower.told != 41 {
		t.Errorf("the follower was told %d, want 41", follower.told)
	}
	earlier := uint64(2)
	follower.hear(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &earlier})
	if follower.told != 41 {
		t.Error("a leader of an earlier term is believed")
	}
	follower.hear(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &leader.term})
	if follower.told != 0 {
		t.Errorf("a leader that tells nothing: %d is kept, want all", follower.told)
	}
}

// TestRetentionByShare asks for the bound on disks of several sizes.
func TestRetentionByShare(t *testing.T) {
	fs := freeFS{FS: vfs.NewMem()}
	log := openLog(t, &fs, "log")
	defer log.Close()
	compactor := &logCompactor{log: log}
	for free, want := range map[uint64]uint64{ // order: each for itself
		0: retainLeast, 800 << 20: 100<<20 + 1<<17, 1 << 40: retainMost, unknownFree: retainUnknown,
	} {
		fs.free.Store(free)
		if got := compactor.bound(1 << 20); got != want {
			t.Errorf("with %d bytes free: %d, want %d", free, got, want)
		}
	}
}

// unknownFree has a freeFS not tell its room.
const unknownFree = 1<<64 - 1

// freeFS tells a room.
type freeFS struct {
	vfs.FS
	free atomic.Uint64 // the log asks, too
}

// GetDiskUsage implements vfs.FS.
func (fs *freeFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if fs.free.Load() == unknownFree {
		return vfs.DiskUsage{}, errInjected
	}
	return vfs.DiskUsage{AvailBytes: fs.free.Load(), TotalBytes: 1 << 50}, nil
}
