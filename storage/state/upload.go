package state

import (
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// uploadReader reads an upload from its beginning, holding one piece in memory.
type uploadReader struct {
	store *stateStore
	bytes int64     // of the whole
	next  int64     // offset of the piece that is read next
	piece []byte    // what is left of the one that is read
	held  io.Closer // of that piece; nil if there is none
	key   []byte
	err   error // of the store: what was read is not all
}

// Read implements io.Reader. Other errors than io.EOF are in r.err, too.
func (r *uploadReader) Read(p []byte) (int, error) {
	if len(r.piece) == 0 {
		r.close()
		if r.err != nil {
			return 0, r.err
		}
		if r.next >= r.bytes {
			return 0, io.EOF
		}
		r.key = schema.AppendUploadKey(r.key[:0], r.next)
		if r.piece, r.held, r.err = r.store.db.Get(r.key); r.err != nil {
			r.err = fmt.Errorf("read the upload at %d from state store %s: %w", r.next, r.store.dir, r.err)
			return 0, r.err
		}
		r.next += int64(len(r.piece))
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

// rewind begins again.
func (r *uploadReader) rewind() {
	r.close()
	r.next = 0
}

// close lets go of the piece.
func (r *uploadReader) close() {
	if r.held != nil {
		_ = r.held.Close() // it only gives back a block
		r.held = nil
	}
	r.piece = nil
}

// verify reads all of it, and tells what is wrong with its checksum and with the snapshot's own: the common damage
// costs no more than that. What the znodes come to is for later. err is the store's.
func (r *uploadReader) verify(sum uint64) (refused, err error) {
	h := xxhash.New()
	if _, err := io.Copy(h, r); err != nil {
		return nil, err
	}
	r.rewind()
	if h.Sum64() != sum {
		return fmt.Errorf("%w: the checksum of the upload is %#x, and its sender's %#x", disk.ErrDamaged, h.Sum64(),
			sum), nil
	}
	s, err := zkdata.ReadUpload(r)
	for more := err == nil; more && err == nil; {
		_, more, err = s.Next()
	}
	r.rewind()
	return err, r.err
}
