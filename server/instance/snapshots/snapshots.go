package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/jute"
	"zkd/server/admin"
	"zkd/storage/migrate"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// keptSnapshots is the directory, in dataDir, of the snapshots that were asked for without streaming. It is not
// version-2, which may still hold what an import has left as it was.
const keptSnapshots = "snapshots"

// WriteOptions is how snapshots in ZooKeeper's format are written.
func WriteOptions(c *conf.Storage) zkdata.WriteOptions {
	return zkdata.WriteOptions{Compression: zkdata.Compression(c.SnapshotCompression),
		OmitLastZxid: !c.SerializeLastProcessedZxid}
}

// Snapshots takes snapshots of the running server in ZooKeeper's format. Many requests use it at once.
type Snapshots struct {
	fs      vfs.FS // of the state
	machine *state.Machine
	scratch string // a directory of its own, on the state's file system
	keep    string
	options zkdata.WriteOptions
	busy    chan struct{} // of size 1: one is made at a time, so that the disk holds one checkpoint
}

// New returns what takes snapshots, and removes what earlier processes have left in scratch.
func New(c *conf.Storage, fs vfs.FS, machine *state.Machine, scratch string) (*Snapshots, error) {
	if err := fs.RemoveAll(scratch); err != nil {
		return nil, fmt.Errorf("remove what is left of earlier snapshots in %s: %w", scratch, err)
	}
	return &Snapshots{fs: fs, machine: machine, scratch: scratch, keep: filepath.Join(c.DataDir, keptSnapshots),
		options: WriteOptions(c), busy: make(chan struct{}, 1)}, nil
}

// Take implements admin.SnapshotSource. The state is that of one moment, at the snapshot's zxid: it needs no log behind
// it. Whoever asks while another is made waits until it is, or was fetched, or until ctx ends.
func (s *Snapshots) Take(ctx context.Context, keep bool) (admin.Snapshot, error) {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return admin.Snapshot{}, ctx.Err()
	}
	snap, err := s.take(ctx, keep)
	if err != nil {
		err = errors.Join(err, s.clear())
		<-s.busy
	}
	return snap, err
}

// take makes a file of the state, and opens it.
func (s *Snapshots) take(ctx context.Context, keep bool) (snap admin.Snapshot, err error) {
	if err := s.fs.MkdirAll(s.scratch, 0o750); err != nil {
		return snap, err
	}
	written := filepath.Join(s.scratch, "snapshot")
	if snap.Zxid, err = s.write(ctx, written); err != nil {
		return snap, err
	}
	if keep {
		name := filepath.Join(s.keep, migrate.SnapshotName(snap.Zxid, s.options.Compression))
		if err := s.settle(written, name); err != nil {
			return snap, err
		}
		written = name
	}
	file, err := s.fs.Open(written)
	if err != nil {
		return snap, err
	}
	info, err := file.Stat()
	if err != nil {
		return snap, errors.Join(err, file.Close())
	}
	snap.Bytes, snap.Body = info.Size(), &taken{Reader: file, file: file, of: s}
	return snap, nil
}

// write writes the snapshot of a checkpoint to a file, and removes the checkpoint.
func (s *Snapshots) write(ctx context.Context, name string) (zxid jute.Zxid, err error) {
	checkpoint := filepath.Join(s.scratch, "checkpoint")
	state, err := s.machine.ReadCheckpoint(ctx, checkpoint)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	file, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	if err = private(file); err == nil {
		err = zkdata.WriteSnapshot(&interruptedWriter{ctx: ctx, w: file}, migrate.SourceOf(state), s.options)
	}
	return state.Position().Zxid, errors.Join(err, file.Close())
}

// private lets nobody else read a file, where the file system knows whose a file is.
func private(file vfs.File) error {
	if f, ok := file.(interface{ Chmod(mode fs.FileMode) error }); ok {
		return f.Chmod(0o600)
	}
	return nil
}

// settle makes a file durable, under its name.
func (s *Snapshots) settle(from, to string) error {
	dir := filepath.Dir(to)
	if err := s.fs.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file, err := s.fs.Open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := s.fs.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(s.syncDir(dir), s.syncDir(filepath.Dir(dir)))
}

// syncDir makes durable the names in a directory.
func (s *Snapshots) syncDir(name string) error {
	dir, err := s.fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// clear removes what is left of a snapshot.
func (s *Snapshots) clear() error { return s.fs.RemoveAll(s.scratch) }

// interruptedWriter writes until a context ends.
type interruptedWriter struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	w   io.Writer
}

// Write implements io.Writer.
func (i *interruptedWriter) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(p)
}

// taken is the content of a snapshot; closing it lets the next one be made.
type taken struct {
	io.Reader
	file vfs.File
	of   *Snapshots
}

// Close implements io.Closer. It must be called once.
func (t *taken) Close() error {
	err := errors.Join(t.file.Close(), t.of.clear())
	<-t.of.busy
	return err
}
