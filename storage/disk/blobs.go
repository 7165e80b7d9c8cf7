package disk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// BlobFS finds damage of blob files before Pebble does, and fails then with an error that Pebble does not take for
// corruption: over what it does take for that it panics, if it is at the end of such a file (cockroachdb/pebble#5127).
// FenceFS does the same; this is for stores that are only read.
type BlobFS struct{ vfs.FS }

// Open implements vfs.FS.
func (f BlobFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !isBlobs(name) {
		return file, err
	}
	return checkBlobs(file, name, func(err error) error { return err })
}

// Unwrap implements vfs.FS.
func (f BlobFS) Unwrap() vfs.FS { return f.FS }

// blobReader is a blob file of which each block is compared with its checksum when it is read.
type blobReader struct {
	vfs.File
	name    string
	size    int64
	damaged func(error) error // told of damage; what the read fails with
}

// checkBlobs returns file, which is a blob file, as a blobReader, once its footer was read. It closes it if it fails.
func checkBlobs(file vfs.File, name string, damaged func(error) error) (vfs.File, error) {
	err := checkFooter(file)
	if pebble.IsCorruptionError(err) {
		err = damaged(blobDamage(name, err))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &blobReader{File: file, name: name, size: info.Size(), damaged: damaged}, nil
}

// checkFooter reads the footer of a blob file, as whoever opens it does.
func checkFooter(file vfs.File) error {
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return err
	}
	_, err = blob.NewFileReader(context.Background(), readable, blob.FileReaderOptions{})
	return err
}

// checkRewritten reads the whole blob file that is about to be rewritten into name, if one is: Pebble panics over
// whatever it cannot read of it (BufferPool.Release finds the buffers in use).
func (f *FenceFS) checkRewritten(name string, category vfs.DiskWriteCategory) error {
	if !isBlobs(name) || category == flushCategory {
		return nil
	}
	number := f.fault.rewriting.Swap(0)
	if number == 0 {
		return nil
	}
	if err := f.fault.Stopped(); err != nil {
		return err
	}
	name = filepath.Join(filepath.Dir(name), fmt.Sprintf("%06d.blob", number))
	file, err := f.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	if err := readBlobs(file); err != nil {
		return f.fault.Trip(blobDamage(name, err))
	}
	return nil
}

// readBlobs reads all blocks of a blob file.
func readBlobs(file vfs.File) error {
	ctx := context.Background()
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return err
	}
	r, err := blob.NewFileReader(ctx, readable, blob.FileReaderOptions{})
	if err != nil {
		return err
	}
	index, err := r.ReadIndexBlock(ctx, block.NoReadEnv, nil)
	if err != nil {
		return err
	}
	defer index.Release()
	// As blob.FileReader.Layout does, without keeping what is read: the second column is where each block begins, and
	// where the last one ends.
	const headerBytes, offsetsColumn = 4, 1
	var columns colblk.BlockDecoder
	columns.Init(index.BlockData(), headerBytes)
	offsets := colblk.DecodeColumn(&columns, offsetsColumn, columns.Rows()+1, colblk.DataTypeUint,
		colblk.DecodeUnsafeUints)
	for i := range columns.Rows() {
		from, to := offsets.At(i), offsets.At(i+1)
		h := block.Handle{Offset: from, Length: to - from - block.TrailerLen}
		values, err := r.ReadValueBlock(ctx, block.NoReadEnv, nil, h)
		if err != nil {
			return err
		}
		values.Release()
	}
	return nil
}

// blobDamage is ErrDamaged, and not what Pebble calls corruption: only its text is of that.
func blobDamage(name string, err error) error {
	return fmt.Errorf("%w file %s: %s", ErrDamaged, name, err.Error())
}

// ReadAt implements vfs.File. Pebble reads a block with its trailer, whole; the footer is what ends with the file.
func (r *blobReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.File.ReadAt(p, off)
	if err != nil || off+int64(len(p)) >= r.size || len(p) < block.TrailerLen {
		return n, err
	}
	h := block.Handle{Offset: uint64(off), Length: uint64(len(p) - block.TrailerLen)} //nolint:gosec // not negative
	if err := block.ValidateChecksum(block.ChecksumTypeCRC32c, p, h); err != nil {
		return n, r.damaged(blobDamage(r.name, err))
	}
	return n, nil
}
