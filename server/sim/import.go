package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"

	"zkd/conf"
	"zkd/jute"
	"zkd/server/instance"
	"zkd/storage/crashfs"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/migrate"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// Left is what an Apache ZooKeeper server has left.
type Left struct {
	Kept []LeftZnode // persistent ones, which stay for ever
	Gone []string    // ephemerals of sessions that end, if nobody comes for them
}

// LeftZnode is one of those.
type LeftZnode struct {
	Path, Data string
	Stat       jute.Stat // but for what children change
}

// leftZxid is that of the last transaction of the former leader.
const leftZxid = 5 << 32

// LeaveZooKeeper has a ZooKeeper server leave on the disk what it has after so many transactions, and half as many
// more, drawn from a seed: a snapshot between the two, and a log of all. That was long ago: all of it is synced. The
// server must be down.
func (s *Server) LeaveZooKeeper(seed uint64, steps int) (*Left, error) {
	o := zkdatatest.NewServer(rand.New(rand.NewPCG(seed, 0x7a6b))) //nolint:gosec // a run must repeat
	o.Zxid = leftZxid
	o.Begin()
	for range steps {
		o.Step()
	}
	snapshot := o.Snapshot(0)
	for range steps / 2 {
		o.Step()
	}
	v := s.volume
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := migrate.WriteDir(v.fs, dataDir, snapshot, zkdata.WriteOptions{})
	if err == nil {
		name := fmt.Sprintf("log.%x", int64(o.From))
		err = disk.WriteFile(v.fs, path.Join(dataDir, datadir.ZooKeeperDir, name), string(o.Log))
	}
	if err != nil {
		return nil, err
	}
	synced, err := crashfs.WrittenOf(v.fs.MemFS)
	if err != nil {
		return nil, err
	}
	v.hold(crashfs.Of(synced))
	return left(o.Snapshot(0).Tree), nil
}

// left says what comes of the znodes of a tree. Of containers and znodes with a time to live nothing is said: they are
// removed, or not.
func left(tree []zkdata.Node) *Left {
	l := &Left{}
	for i := range tree {
		n := &tree[i]
		switch {
		case n.Owner == 0 && n.Path != schema.ConfigPath:
			l.Kept = append(l.Kept, LeftZnode{n.Path, string(n.Data), jute.Stat{Czxid: n.Czxid, Mzxid: n.Mzxid,
				Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion}})
		case schema.OwnerKind(n.Owner) == schema.OwnerSession:
			l.Gone = append(l.Gone, n.Path)
		}
	}
	return l
}

// Import runs zkd import on the machine, which ends by itself.
func (s *Server) Import() { s.launch("import", importData) }

// ImportPending tells whether the data of an Apache ZooKeeper server is on the disk, and was not imported to its end.
func (s *Server) ImportPending() bool {
	s.volume.mu.Lock()
	defer s.volume.mu.Unlock()
	return datadir.ImportPending(s.volume.fs, dataDir, "")
}

// importData is what zkd import does.
func importData(ctx context.Context, w instance.World, logger *slog.Logger) error {
	c, err := conf.Load(conf.Sources{Path: zooCfg, ReadFile: w.Files.ReadFile})
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	o := instance.ImportOptions(c, w.FS, logger)
	o.Target.PID = w.System.Process().ID
	_, err = migrate.Import(ctx, o)
	return err
}
