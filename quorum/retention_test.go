package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage/raftlog"
)

// TestKeeperBoundsWhatIsKept appends for a member that never answers, with restarts in between: what was there at a
// start counts, so that the log never has twice its bound.
func TestKeeperBoundsWhatIsKept(t *testing.T) {
	const bound, entryBytes = 20_000, 500
	fs := vfs.NewMem()
	index, most := uint64(0), uint64(0)
	for life := range 8 {
		log := openLog(t, fs, "log")
		m, appended := &fakeMachine{}, uint64(0)
		marks := slices.Clone(log.SizesAtOpen())
		if len(marks) == 0 {
			marks = []raftlog.LogSize{{}}
		}
		k := &keeper{
			log: log, machine: m, clock: clock.NewManual(time.Unix(1, 0)), appended: func() uint64 { return appended },
			tailEntries: 10, tailBytes: 1000, retainBytes: bound, flushInterval: time.Hour, marks: marks,
			old: marks[len(marks)-1].Bytes, retain: newRetained(false), installs: func() uint64 { return 0 },
		}
		k.retain.applied.Store(1 << 62)
		for range 30 { // less than the bound, of which nothing would be forgotten by itself
			index++
			entry := raftlog.LogEntry{Index: index, Term: 1, Data: make([]byte, entryBytes)}
			if err := log.Append([]raftlog.LogEntry{entry}, nil, false); err != nil {
				t.Fatal(err)
			}
			appended += entryBytes
			m.flushed.index = index
			if err := k.keep(); err != nil {
				t.Fatal(err)
			}
			kept := (log.LastIndex() + 1 - log.FirstIndex()) * entryBytes
			most = max(most, kept)
			if kept > 2*bound {
				t.Fatalf("life %d: the log has %d bytes", life, kept)
			}
			if told := k.retain.kept.Load(); told > kept+2*entryBytes || kept > told+2*entryBytes {
				t.Fatalf("life %d: the log has %d bytes, and the keeper tells %d", life, kept, told)
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
	fs := roomFS{FS: vfs.NewMem()}
	log := openLog(t, &fs, "log")
	defer log.Close()
	k := &keeper{log: log}
	for free, want := range map[uint64]uint64{ // order: each for itself
		0: retainLeast, 800 << 20: 100<<20 + 1<<17, 1 << 40: retainMost, noRoom: retainUnknown,
	} {
		fs.free = free
		if got := k.bound(1 << 20); got != want {
			t.Errorf("with %d bytes free: %d, want %d", free, got, want)
		}
	}
}

// noRoom has a roomFS not tell its room.
const noRoom = 1<<64 - 1

// roomFS tells a room.
type roomFS struct {
	vfs.FS
	free uint64
}

// GetDiskUsage implements vfs.FS.
func (fs *roomFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if fs.free == noRoom {
		return vfs.DiskUsage{}, errInjected
	}
	return vfs.DiskUsage{AvailBytes: fs.free, TotalBytes: 1 << 50}, nil
}
