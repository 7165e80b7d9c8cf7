package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk/disktest"
)

// blobStore is a store whose values are in blob files, on a disk in memory.
type blobStore struct {
	t     *testing.T
	fs    vfs.FS
	fault *Fault
	fence *FenceFS
	db    *pebble.DB

	rewritten chan struct{} // has one for each rewrite of a blob file that has ended, well or not
}

// openBlobStore opens one that rewrites blob files, if rewrites is set, as soon as some of their values are gone.
func openBlobStore(t *testing.T, fs vfs.FS, rewrites bool) *blobStore {
	t.Helper()
	s := &blobStore{t: t, fs: fs, rewritten: make(chan struct{}, 100)}
	s.fault, _, _ = testFault()
	s.fence = NewFenceFS(fs, s.fault, 0)
	events := Events(s.fault)
	ended := events.BlobFileRewriteEnd
	events.BlobFileRewriteEnd = func(info pebble.BlobFileRewriteInfo) {
		ended(info)
		s.rewritten <- struct{}{}
	}
	o := &pebble.Options{FS: s.fence, FormatMajorVersion: Format, EventListener: events, Logger: Logger{Fault: s.fault}}
	compactions := NewCompactions(s.fault.Stopped)
	o.Experimental.CompactionScheduler = compactions
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		p := pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: 100, MaxBlobReferenceDepth: 100,
			TargetGarbageRatio: 1}
		if rewrites {
			p.TargetGarbageRatio = 0.1
		}
		return p
	}
	var err error
	if s.db, err = pebble.Open("", o); err != nil {
		t.Fatal(err)
	}
	if err := s.fence.Release(); err != nil {
		t.Fatal(err)
	}
	compactions.Release()
	return s
}

// close closes it.
func (s *blobStore) close() error {
	s.fence.Closing()
	return errors.Join(s.db.Close(), s.fence.Health.Close())
}

// key is the nth key.
func key(n int) []byte { return fmt.Appendf(nil, "%04d", n) }

// set writes large values.
func (s *blobStore) set(from, to int) {
	s.t.Helper()
	for n := from; n < to; n++ {
		if err := s.db.Set(key(n), bytes.Repeat(key(n), 1000), nil); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// TestDamagedBlobFiles: whatever part of a blob file is damaged, who reads a value is told so, and the store stops;
// nobody panics, and a store that is only read says it, too.
func TestDamagedBlobFiles(t *testing.T) {
	for what, at := range map[string]int{ // any order
		"block": 10, "footer": -1, "footer's checksum": -37, "index": -60,
	} {
		t.Run(what, func(t *testing.T) {
			s := openBlobStore(t, vfs.NewMem(), false)
			s.set(0, 3)
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			disktest.AlterAll(t, s.fs, "", ".blob", disktest.Flip(at))
			s = openBlobStore(t, s.fs, false)
			if err := readAll(s.db); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), ".blob") {
				t.Errorf("read: %v", err)
			}
			if err := s.fault.Err(); !errors.Is(err, ErrDamaged) {
				t.Errorf("the store goes on: %v", err)
			}
			_ = s.close() // the store has stopped
			fault, _, _ := testFault()
			db, err := pebble.Open("", &pebble.Options{FS: BlobFS{s.fs}, ReadOnly: true,
				Logger: Logger{Fault: fault}})
			if err != nil {
				t.Fatal(err)
			}
			if err := readAll(db); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), ".blob") {
				t.Errorf("read by who reads only: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBlobFilesThatReadOtherwise: a disk gives back other bytes once a blob file was opened, or has it no more.
func TestBlobFilesThatReadOtherwise(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*otherwise)
	}{
		{"bytes", func(fs *otherwise) { fs.after = 1 }},
		{"missing", func(fs *otherwise) { fs.missing = true }},
	} {
		s := openBlobStore(t, vfs.NewMem(), false)
		s.set(0, 3)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		fs := &otherwise{FS: s.fs}
		fault, _, _ := testFault()
		db, err := pebble.Open("", &pebble.Options{FS: BlobFS{fs}, ReadOnly: true, Logger: Logger{Fault: fault}})
		if err != nil {
			t.Fatal(err)
		}
		c.do(fs)
		if err := readAll(db); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), ".blob") {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// otherwise gives back other bytes of blob files after some reads of each, or has none.
type otherwise struct {
	vfs.FS
	after   int // 0: never
	every   int // of one that was opened before: once in so many reads; 0: never
	missing bool
	opened  int
}

// otherwiseFile is a blob file of it.
type otherwiseFile struct {
	vfs.File
	fs         *otherwise
	nth, reads int
}

func (f *otherwise) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if isBlobs(name) && f.missing {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	file, err := f.FS.Open(name, opts...)
	if err != nil || !isBlobs(name) {
		return file, err
	}
	f.opened++
	return &otherwiseFile{File: file, fs: f, nth: f.opened}, nil
}

func (f *otherwiseFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.reads++
	if f.fs.after > 0 && f.reads > f.fs.after || f.fs.every > 0 && f.nth > 1 && f.reads%f.fs.every == 0 {
		p[0] ^= 1
	}
	return n, err
}

// readAll reads all values.
func readAll(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

// TestDamageMetByARewrite: a blob file of which a block is damaged is about to be rewritten, or the disk gives back
// other bytes of it now and then. Without damage it is rewritten.
func TestDamageMetByARewrite(t *testing.T) {
	for _, kind := range []string{"", "block", "reads"} {
		damaged := kind != ""
		s := openBlobStore(t, vfs.NewMem(), false)
		s.set(0, 100)
		for n := range 50 { // of 100 values in one file half go
			if err := s.db.Delete(key(2*n+1), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.db.Compact(t.Context(), key(0), key(1000), false), s.close()); err != nil {
			t.Fatal(err)
		}
		switch kind {
		case "block":
			disktest.AlterAll(t, s.fs, "", ".blob", disktest.Flip(10))
		case "reads":
			s.fs = &otherwise{FS: s.fs, every: 7} // not while it is read before
		}
		s = openBlobStore(t, s.fs, true) // which looks what is to be compacted
		select {
		case <-s.rewritten:
		case <-time.After(time.Minute):
			t.Fatal("nothing is rewritten")
		}
		if err := s.fault.Err(); errors.Is(err, ErrDamaged) != damaged {
			t.Errorf("damaged: %q; the store: %v", kind, err)
		}
		if err := s.close(); err != nil && !damaged {
			t.Error(err)
		}
	}
}
