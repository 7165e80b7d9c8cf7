package snapshots

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/server/console"
	"zkd/storage/backup"
	"zkd/storage/disk"
	"zkd/storage/migrate"
	"zkd/storage/schema"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// UploadOptions says where backups that operators upload are kept, and what becomes of them. All of it is needed.
type UploadOptions struct {
	FS      vfs.FS // of the state
	Dir     string // of their own, on the state's file system
	Machine *state.Machine
	// Replace puts a snapshot in ZooKeeper's format into the place of the state, for an operator at peer.
	Replace func(ctx context.Context, peer string, snapshot io.Reader) (jute.Zxid, error)
}

// Uploads implements console.Uploads: backups that operators upload, each a file until it is restored or given up. What
// is restored goes the way of snapshots, through the log, made from the file while it is sent. Many requests use it.
type Uploads struct {
	opts UploadOptions
	busy chan struct{} // of size 1: one file is there, or on its way
}

var _ console.Uploads = (*Uploads)(nil)

// NewUploads returns what takes uploads, and removes what earlier processes have left.
func NewUploads(o UploadOptions) (*Uploads, error) {
	if err := o.FS.RemoveAll(o.Dir); err != nil {
		return nil, fmt.Errorf("remove what is left of earlier uploads in %s: %w", o.Dir, err)
	}
	return &Uploads{opts: o, busy: make(chan struct{}, 1)}, nil
}

// Bounds of uploads: guesses. roomEvery is how many bytes are taken between two looks at the disk, of which a part
// stays free, at least and at most so many bytes.
const (
	roomEvery           = 4 << 20
	roomPart            = 20
	roomLeast, roomMost = 64 << 20, 4 << 30
	uploadBufferBytes   = 256 << 10
)

// Errors of uploads.
var (
	errNoRoom   = errors.New("the disk of the server has no room for it")
	errBusy     = errors.New("another backup is there, or on its way: restore it or give it up first")
	errPipeOver = errors.New("the restore has ended")
)

// Present implements console.Uploads.
func (u *Uploads) Present() schema.Summary {
	v := u.opts.Machine.View()
	defer v.Close()
	return schema.Summary{ClusterID: v.ClusterID(), Config: v.EnsembleConfig(), Zxid: v.Zxid(),
		Znodes: int64(v.NodeCount()), Ephemerals: int64(v.EphemeralCount()), DataBytes: v.ApproximateDataBytes(),
		Sessions: int64(v.SessionCount())}
}

// Take implements console.Uploads. Nothing is kept of what is no whole backup.
func (u *Uploads) Take(ctx context.Context, r io.Reader) (console.Upload, error) {
	select {
	case u.busy <- struct{}{}:
	default:
		return nil, errBusy
	}
	up := &upload{of: u, name: u.opts.FS.PathJoin(u.opts.Dir, "backup")}
	err := up.write(r)
	if err == nil {
		err = up.verify(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, up.Drop())
	}
	return up, nil
}

// upload implements console.Upload.
type upload struct {
	of    *Uploads
	name  string
	bytes int64
	info  schema.Summary
}

// Info implements console.Upload.
func (u *upload) Info() (info schema.Summary, bytes int64) { return u.info, u.bytes }

// Drop implements console.Upload.
func (u *upload) Drop() error {
	err := u.of.opts.FS.RemoveAll(u.of.opts.Dir)
	<-u.of.busy
	return err
}

// write writes what comes to the file, while there is room.
func (u *upload) write(r io.Reader) (err error) {
	fs := u.of.opts.FS
	if err := fs.MkdirAll(u.of.opts.Dir, 0o750); err != nil {
		return err
	}
	file, err := fs.Create(u.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := private(file); err != nil {
		return err
	}
	stays := disk.VolumeShare(fs, u.of.opts.Dir, roomPart, roomLeast, roomMost)
	for {
		if usage, err := fs.GetDiskUsage(u.of.opts.Dir); err == nil && int64(usage.AvailBytes) < stays+roomEvery {
			return errNoRoom
		}
		n, err := io.CopyN(file, r, roomEvery)
		u.bytes += n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it did not come to its end, after %d bytes: %w", u.bytes, err)
		}
	}
}

// each reads the backup from its beginning to its end, and checks all of it.
func (u *upload) each(
	begun func(*backup.Reader), znode func(*schema.Znode, []byte) error, session func(*schema.SessionInfo) error,
) (err error) {
	file, err := u.of.opts.FS.Open(u.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := backup.Open(bufio.NewReaderSize(file, uploadBufferBytes))
	if err != nil {
		return err
	}
	begun(b)
	return b.Each(znode, session)
}

// verify proves the backup, and keeps what it says of itself.
func (u *upload) verify(ctx context.Context) error {
	return u.each(func(b *backup.Reader) { u.info = b.Info() },
		func(*schema.Znode, []byte) error { return ctx.Err() }, ignoreSession)
}

func ignoreSession(*schema.SessionInfo) error { return nil }

func ignoreBeginning(*backup.Reader) {}

// Restore implements console.Upload. The snapshot is made while it is sent: no more of it is in memory than the pieces
// that are on their way.
func (u *upload) Restore(ctx context.Context, peer string, progress func(znodes int64)) (jute.Zxid, error) {
	out, in := io.Pipe()
	made := make(chan struct{})
	go func() {
		defer close(made)
		err := zkdata.WriteSnapshot(&interruptedWriter{ctx: ctx, w: in}, u, zkdata.WriteOptions{Progress: progress})
		_ = in.CloseWithError(err) // never fails
	}()
	zxid, err := u.of.opts.Replace(ctx, peer, out)
	_ = out.CloseWithError(errPipeOver) // never fails
	<-made
	return zxid, err
}

// Zxid implements zkdata.Source.
func (u *upload) Zxid() jute.Zxid { return u.info.Zxid }

// Digest implements zkdata.Source.
func (u *upload) Digest() uint64 { return u.info.Digest }

// Sessions implements zkdata.Source.
func (u *upload) Sessions() (list []zkdata.Session, err error) {
	err = u.each(ignoreBeginning, func(*schema.Znode, []byte) error { return nil }, func(s *schema.SessionInfo) error {
		list = append(list, zkdata.Session{ID: s.ID, TimeoutMillis: s.TimeoutMillis})
		return nil
	})
	return list, err
}

// Nodes implements zkdata.Source.
func (u *upload) Nodes(_ bool, f func(n *zkdata.Node) error) error {
	return u.each(ignoreBeginning, func(n *schema.Znode, _ []byte) error { return f(migrate.NodeOf(n)) }, ignoreSession)
}
