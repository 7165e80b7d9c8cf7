package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	if !isBlobs(name) {
		return file, err
	}
	return checkBlobs(file, err, name, nil)
}

// Unwrap implements vfs.FS.
func (f BlobFS) Unwrap() vfs.FS { return f.FS }

// blobReader is a blob file of which each block is compared with its checksum when it is read, and the footer was.
type blobReader struct {
	vfs.File
	name   string
	size   int64
	footer []byte
	fault  *Fault // of the store; nil: it is only read
}

// damaged says that the file is, and returns what the read fails with.
func (r *blobReader) damaged(err error) error {
	if err = blobDamage(r.name, err); r.fault != nil {
		err = r.fault.Trip(err)
	}
	return err
}

// footerBytes is how many bytes the footer of a blob file has (blob.fileFooterLength).
const footerBytes = 38

// checkBlobs returns file, which is a blob file that was opened, or failed to be with err, as a blobReader. It closes
// it if it fails.
func checkBlobs(file vfs.File, err error, name string, fault *Fault) (vfs.File, error) {
	r := &blobReader{File: file, name: name, fault: fault}
	if errors.Is(err, os.ErrNotExist) { // which is corruption, to Pebble
		return nil, r.damaged(err)
	}
	if err != nil {
		return nil, err
	}
	err = r.readFooter()
	if pebble.IsCorruptionError(err) {
		err = r.damaged(err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// readFooter reads the footer, and has it decoded as whoever opens the file does. It is kept: a disk may give back
// other bytes the next time.
func (r *blobReader) readFooter() error {
	info, err := r.File.Stat()
	if err != nil {
		return err
	}
	r.size = info.Size()
	if r.size >= footerBytes {
		footer := make([]byte, footerBytes)
		if _, err := r.File.ReadAt(footer, r.size-footerBytes); err != nil {
			return err
		}
		r.footer = footer
	}
	_, err = r.open()
	return err
}

// open opens it as Pebble does.
func (r *blobReader) open() (*blob.FileReader, error) {
	readable, err := sstable.NewSimpleReadable(r)
	if err != nil {
		return nil, err
	}
	return blob.NewFileReader(context.Background(), readable, blob.FileReaderOptions{})
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
	name = filepath.Join(filepath.Dir(name), blobName(number))
	file, err := f.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	reader, ok := file.(*blobReader)
	if !ok {
		return f.fault.Err() // one that was made after the store has stopped
	}
	if err := reader.readAll(); err != nil {
		return reader.damaged(err)
	}
	f.fault.rewrites.Store(true)
	return nil
}

// readAll reads all blocks.
func (r *blobReader) readAll() error {
	ctx := context.Background()
	opened, err := r.open()
	if err != nil {
		return err
	}
	index, err := opened.ReadIndexBlock(ctx, block.NoReadEnv, nil)
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
		values, err := opened.ReadValueBlock(ctx, block.NoReadEnv, nil, h)
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

// ReadAt implements vfs.File. Pebble reads a block with its trailer, whole, and the footer.
func (r *blobReader) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == footerBytes && off == r.size-footerBytes {
		return copy(p, r.footer), nil
	}
	n, err := r.File.ReadAt(p, off)
	if err != nil || off+int64(len(p)) > r.size-footerBytes || len(p) < block.TrailerLen {
		return n, err
	}
	h := block.Handle{Offset: uint64(off), Length: uint64(len(p) - block.TrailerLen)} //nolint:gosec // not negative
	if err := block.ValidateChecksum(block.ChecksumTypeCRC32c, p, h); err != nil {
		err = r.damaged(err)
		return n, r.readAgain(err, p, h)
	}
	return n, nil
}

// readsMost is how often a block of a blob file that is being rewritten is read: a disk that gave the right bytes a
// moment before gives them again.
const readsMost = 10

// readAgain reads a block again that was damaged, if a blob file is being rewritten, as Pebble panics if one cannot be
// read then. Nothing of what it writes counts: the store has stopped.
func (r *blobReader) readAgain(err error, p []byte, h block.Handle) error {
	if r.fault == nil || !r.fault.rewrites.Load() {
		return err
	}
	for range readsMost {
		_, again := r.File.ReadAt(p, int64(h.Offset)) //nolint:gosec // it was one
		if again == nil && block.ValidateChecksum(block.ChecksumTypeCRC32c, p, h) == nil {
			return nil
		}
	}
	return err
}
