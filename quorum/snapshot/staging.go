package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/space"
)

// category is what Pebble counts the writes under.
const category vfs.DiskWriteCategory = "zkd-snapshot"

// syncBytes is how much is written before it is sent to the disk: so that the fsync at a file's end, which the raft log
// on the same disk waits behind, is short. A guess.
const syncBytes = 4 << 20

// dirMode is for the owner alone: a snapshot holds passwords.
const dirMode = 0o700

// staging puts a snapshot together in a directory. It is owned by one goroutine.
type staging struct {
	fs       vfs.FS
	dir      string
	manifest *manifest
	buf      []byte
	missing  int64 // bytes of files that were not there when the stream began
	received int64 // of them, on this stream
}

// path returns the path of a file in the directory.
func (st *staging) path(name string) string { return st.fs.PathJoin(st.dir, name) }

// fill brings the directory to be complete with what comes on s. An error is a refusal if it is to be told.
func (st *staging) fill(s *stream) error {
	err := st.take(s)
	var broken *streamError
	if err == nil || errors.As(err, &broken) || refusedWith(err, codeDamaged) {
		return err
	}
	if isFull(err) {
		err = st.outOfSpace(err)
	}
	// Whatever comes next begins anew. The disk is perhaps wrong, and what is there takes room.
	cause := err
	if err := st.discard(); err != nil {
		cause = errors.Join(cause, err)
	}
	if refused := (*refusal)(nil); errors.As(cause, &refused) {
		return &refusal{refused.code, cause.Error()}
	}
	return final(cause)
}

// checkSpace says whether the disk has room for so many bytes more; an error is a refusal. A unit of room is left
// alone: with less the server would be low on room as soon as it has the state (storage/space).
func (st *staging) checkSpace(bytes int64) error {
	usage, err := st.fs.GetDiskUsage(st.fs.PathDir(st.dir))
	if err != nil {
		return nil //nolint:nilerr // it is found out by writing
	}
	spare := space.Unit(int64(min(usage.TotalBytes, math.MaxInt64)))
	free := max(int64(min(usage.AvailBytes, math.MaxInt64))-spare, 0)
	if bytes > free {
		return &refusal{codeSpace, fmt.Sprintf("no room in %s: the state needs %d bytes more, %d are free",
			st.fs.PathDir(st.dir), bytes, free)}
	}
	return nil
}

// outOfSpace is the refusal when the disk is full.
func (st *staging) outOfSpace(cause error) error {
	missing := max(st.missing-st.received, 1)
	if err := st.checkSpace(missing); err != nil {
		return err
	}
	return &refusal{codeSpace, fmt.Sprintf("no room in %s: the state needs %d bytes more: %v",
		st.fs.PathDir(st.dir), missing, cause)}
}

// streamError is a stream that broke.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

// isFull says whether a disk is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || vfs.IsNoSpaceError(err) }

// take prepares the directory, receives the files, and marks them complete.
func (st *staging) take(s *stream) error {
	if err := st.prepare(); err != nil {
		return err
	}
	have, missing, err := st.have()
	if err != nil {
		return err
	}
	st.missing = missing
	if err := st.checkSpace(missing); err != nil {
		return err
	}
	if err := s.write(msgHave, have); err != nil {
		return &streamError{err}
	}
	for i := range st.manifest.files {
		if err := st.takeFile(s, i, int64(binary.BigEndian.Uint64(have[8*i:]))); err != nil {
			return err
		}
	}
	if err := st.syncDir(st.dir); err != nil {
		return err
	}
	return st.writeFile(completeName, st.manifest.id[:])
}

// prepare makes the directory one of this snapshot. Of another one that is there the files are left that both have:
// most tables of a checkpoint are those of the one before.
func (st *staging) prepare() error {
	old, err := staged(st.fs, st.dir)
	if err != nil {
		return err
	}
	if old != nil && old.id == st.manifest.id {
		return st.unmark() // all is verified again, as it was left by who knows whom
	}
	if old != nil {
		return st.replace(old)
	}
	if err := st.discard(); err != nil {
		return err
	}
	if err := st.fs.MkdirAll(st.dir, dirMode); err != nil {
		return err
	}
	if err := st.syncDir(st.fs.PathDir(st.dir)); err != nil {
		return err
	}
	return st.writeFile(transferName, st.manifest.raw)
}

// replace removes what is there of another snapshot and does not belong to this one, and then says that the directory
// is of this one. A file that stays may be a part of it, and is verified like any other.
func (st *staging) replace(old *manifest) error {
	if err := st.unmark(); err != nil {
		return err
	}
	wanted := make(map[file]bool, len(st.manifest.files))
	for _, f := range st.manifest.files {
		wanted[f] = true
	}
	same := map[string]bool{transferName: true}
	for _, f := range old.files {
		same[f.name] = wanted[f]
	}
	names, err := st.fs.List(st.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if same[name] {
			continue
		}
		if err := st.fs.Remove(st.path(name)); err != nil {
			return err
		}
	}
	if err := st.syncDir(st.dir); err != nil {
		return err
	}
	return st.writeFile(transferName, st.manifest.raw)
}

// discard removes the directory: the mark first, so that it never looks complete without being so.
func (st *staging) discard() error {
	if err := st.unmark(); err != nil {
		return err
	}
	if err := st.fs.RemoveAll(st.dir); err != nil {
		return err
	}
	return st.syncDir(st.fs.PathDir(st.dir))
}

// unmark durably removes the mark, if there is one.
func (st *staging) unmark() error {
	size, err := sizeOf(st.fs, st.path(completeName))
	if err != nil {
		return err
	}
	if size < 0 {
		return nil
	}
	if err := st.fs.Remove(st.path(completeName)); err != nil {
		return err
	}
	return st.syncDir(st.dir)
}

// have returns the body that says how many bytes of each file are there, and how many are missing in all.
func (st *staging) have() (body []byte, missing int64, err error) {
	missing = st.manifest.bytes
	for _, f := range st.manifest.files {
		size, err := sizeOf(st.fs, st.path(f.name))
		if err != nil {
			return nil, 0, err
		}
		if size > f.size {
			if err := st.fs.Remove(st.path(f.name)); err != nil {
				return nil, 0, err
			}
		}
		if size < 0 || size > f.size {
			size = 0
		}
		missing -= size
		body = binary.BigEndian.AppendUint64(body, uint64(size))
	}
	return body, missing, nil
}

// takeFile receives what is missing of a file, verifies all of it and makes it durable.
func (st *staging) takeFile(s *stream, index int, offset int64) (err error) {
	f := st.manifest.files[index]
	to, err := st.fs.OpenReadWrite(st.path(f.name), category)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	d := xxhash.New()
	if err := hashInto(d, st.fs, st.path(f.name), offset, st.buf, atOnce); err != nil {
		return err
	}
	synced := offset
	for offset < f.size {
		piece, err := st.piece(s, index, offset)
		if err != nil {
			return err
		}
		_, _ = d.Write(piece) // cannot fail; before WriteAt, which may change the bytes
		if _, err := to.WriteAt(piece, offset); err != nil {
			return err
		}
		offset += int64(len(piece))
		st.received += int64(len(piece))
		if offset-synced >= syncBytes {
			synced = offset
			if err := to.SyncData(); err != nil {
				return err
			}
			if err := st.checkSpace(st.missing - st.received); err != nil {
				return err
			}
		}
	}
	if got := d.Sum64(); got != f.hash {
		if err := st.fs.Remove(st.path(f.name)); err != nil {
			return err
		}
		return &refusal{codeDamaged, fmt.Sprintf("file %s has hash %016x, want %016x: it is discarded and wanted again",
			f.name, got, f.hash)}
	}
	return to.Sync()
}

// piece receives the next bytes of a file.
func (st *staging) piece(s *stream, index int, offset int64) ([]byte, error) {
	kind, body, err := s.read(dataBytesMax + dataHeadBytes)
	if err != nil {
		return nil, &streamError{err}
	}
	if kind != msgData || len(body) <= dataHeadBytes ||
		int(binary.BigEndian.Uint32(body)) != index || int64(binary.BigEndian.Uint64(body[4:])) != offset ||
		int64(len(body)-dataHeadBytes) > st.manifest.files[index].size-offset {
		return nil, final(fmt.Errorf("%w: kind %d with %d bytes, want bytes of %s from %d",
			errProtocol, kind, len(body), st.manifest.files[index].name, offset))
	}
	return body[dataHeadBytes:], nil
}

// writeFile makes a small file in the directory, durably.
func (st *staging) writeFile(name string, content []byte) error {
	f, err := st.fs.Create(st.path(name), category)
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte(nil), content...)) // Write may change the bytes
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return st.syncDir(st.dir)
}

// syncDir makes the names in a directory durable.
func (st *staging) syncDir(dir string) error {
	d, err := st.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// staged returns the manifest of what is put together in dir; nil if there is nothing, or nothing readable.
func staged(fs vfs.FS, dir string) (*manifest, error) {
	raw, err := readFile(fs, fs.PathJoin(dir, transferName), manifestBytesMax)
	if raw == nil || err != nil {
		return nil, err
	}
	m, err := parseManifest(raw)
	if err != nil {
		return nil, nil //nolint:nilerr // torn by a crash: what is there is of no use
	}
	return m, nil
}

// readFile returns the content of a small file, at most bytesMax of it; nil if there is none.
func readFile(fs vfs.FS, name string, bytesMax int) ([]byte, error) {
	f, err := fs.Open(name)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // of a file that was read
	content, err := io.ReadAll(io.LimitReader(f, int64(bytesMax)))
	return append([]byte{}, content...), err
}

// isMissing says whether a file is not there.
func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }

// sizeOf returns the size of a file; -1 if there is none.
func sizeOf(fs vfs.FS, name string) (int64, error) {
	info, err := fs.Stat(name)
	if isMissing(err) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
