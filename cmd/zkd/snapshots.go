package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/jute"
	"zkd/server/admin"
	"zkd/storage"
	"zkd/storage/zkdata"
)

// snapshotSuffix makes the directory where snapshots are made from the state's, beside which it is.
const snapshotSuffix = ".snapshots"

// keptSnapshots is the directory, in dataDir, of the snapshots that were asked for without streaming. It is not
// version-2, which may still hold what an import has left as it was.
const keptSnapshots = "snapshots"

// writeOptions is how snapshots in ZooKeeper's format are written.
func writeOptions(c *conf.Storage) zkdata.WriteOptions {
	return zkdata.WriteOptions{Compression: zkdata.Compression(c.SnapshotCompression),
		OmitLastZxid: !c.SerializeLastProcessedZxid}
}

// snapshots takes snapshots of the running server in ZooKeeper's format. Many requests use it at once.
type snapshots struct {
	machine *storage.Machine
	scratch string // a directory of its own, on the state's file system
	keep    string
	options zkdata.WriteOptions
	busy    chan struct{} // of size 1: one is made at a time, so that the disk holds one checkpoint
}

// newSnapshots returns what takes snapshots, and removes what earlier processes have left in scratch.
func newSnapshots(c *conf.Storage, machine *storage.Machine, scratch string) (*snapshots, error) {
	if err := os.RemoveAll(scratch); err != nil {
		return nil, fmt.Errorf("remove what is left of earlier snapshots in %s: %w", scratch, err)
	}
	return &snapshots{machine: machine, scratch: scratch, keep: filepath.Join(c.DataDir, keptSnapshots),
		options: writeOptions(c), busy: make(chan struct{}, 1)}, nil
}

// Take implements admin.SnapshotSource. The state is that of one moment, at the snapshot's zxid: it needs no log behind
// it. Whoever asks while another is made waits until it is, or was fetched, or until ctx ends.
func (s *snapshots) Take(ctx context.Context, keep bool) (admin.Snapshot, error) {
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
func (s *snapshots) take(ctx context.Context, keep bool) (snap admin.Snapshot, err error) {
	if err := os.MkdirAll(s.scratch, 0o750); err != nil {
		return snap, err
	}
	written := filepath.Join(s.scratch, "snapshot")
	if snap.Zxid, err = s.write(ctx, written); err != nil {
		return snap, err
	}
	if keep {
		name := filepath.Join(s.keep, zkdata.SnapshotName(snap.Zxid, s.options.Compression))
		if err := settle(written, name); err != nil {
			return snap, err
		}
		written = name
	}
	file, err := os.Open(written)
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
func (s *snapshots) write(ctx context.Context, name string) (zxid jute.Zxid, err error) {
	checkpoint := filepath.Join(s.scratch, "checkpoint")
	if _, _, err := s.machine.Checkpoint(ctx, checkpoint); err != nil {
		return 0, err
	}
	source, err := storage.OpenStateSource(vfs.Default, checkpoint)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close(), os.RemoveAll(checkpoint)) }()
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	err = zkdata.WriteSnapshot(&interruptedWriter{ctx: ctx, w: file}, source, s.options)
	return source.Zxid(), errors.Join(err, file.Close())
}

// settle makes a file durable, under its name.
func settle(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	if err := syncPath(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir := filepath.Dir(to)
	return errors.Join(syncPath(dir), syncPath(filepath.Dir(dir)))
}

// syncPath makes durable what a file or a directory holds.
func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// clear removes what is left of a snapshot.
func (s *snapshots) clear() error { return os.RemoveAll(s.scratch) }

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
	file *os.File
	of   *snapshots
}

// Close implements io.Closer. It must be called once.
func (t *taken) Close() error {
	err := errors.Join(t.file.Close(), t.of.clear())
	<-t.of.busy
	return err
}
