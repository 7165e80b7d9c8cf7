package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// A synced write into a file that it extends costs about twice what it costs where the file has been written before:
// the file system notes the new length, and where the blocks are. Pebble writes its write-ahead logs over again, but
// not the first ones of a process. So there are spare files: as long as a write-ahead log becomes, written, and synced.
const (
	sparePrefix      = "SPARE-"
	unfinishedSuffix = ".unfinished"

	// sparesMax is how many there are: what a load takes while the next one is made. A guess.
	sparesMax = 2
	// spareRoom times the length of a spare must be free, and known to be, or none is made.
	spareRoom = 16
	// spareStepBytes is how much of one is written at a time. Linux keeps what is written at once as one piece of
	// memory where it can, and syncs pieces: with 256 KiB at a time a synced write of 1 KiB into the file took as long
	// in the median, and 4.0 ms instead of 0.14 in the 99th percentile (2026-11, ext4, Linux 6.18). With a page at a
	// time large writes cost more: with four, pipelined setData are 1.13 times as many, and multis 1.10.
	spareStepBytes = 16 << 10
	// spareSyncBytes is how much is synced at a time: what the log's own fsyncs wait behind. A guess.
	spareSyncBytes = 256 << 10
)

// spares is the file system of a log's store, with spare files in its directory: a new write-ahead log is one of them,
// renamed, if there is one, and one that is deleted becomes one. What is in a file does not matter, as long as it is
// not of a log with a higher number: each chunk says of which log it is. They are made in the background; that one
// cannot be made is no failure.
type spares struct {
	vfs.FS
	dir     string
	bytes   int64        // length of each; 0: none are kept
	ample   func() bool  // see Options.Ample; may be nil
	stopped func() error // why nothing may be changed any more, or nil
	logger  *slog.Logger
	halt    chan struct{}
	wake    chan struct{} // of size 1: one is lacking
	loop    sync.WaitGroup

	mu struct {
		sync.Mutex
		ready  []string // names, without the directory
		next   int      // the number of the next one
		frugal bool     // none are made or kept
		closed bool     // likewise, and for good
	}
}

// newSpares returns the file system of a log with the spare files that are in its directory.
func newSpares(o *Options, bytes int64, stopped func() error) *spares {
	return &spares{FS: o.FS, dir: o.Dir, bytes: bytes, ample: o.Ample, stopped: stopped, logger: o.Logger,
		halt: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// load finds the spare files that are there, and removes those that are not whole, of another length, or too many. What
// is in those of another store might be taken for a log of this one, which begins with the same numbers: so none are
// kept where there is no store yet; and none where there is little room, which the start may need.
func (s *spares) load() error {
	names, err := s.FS.List(s.dir)
	if err != nil {
		return fmt.Errorf("list spare files: %w", err)
	}
	keep := slices.ContainsFunc(names, disk.IsManifest) && s.roomy()
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		var number int
		digits, ok := strings.CutPrefix(name, sparePrefix)
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(digits, "%d", &number); err == nil {
			s.mu.next = max(s.mu.next, number+1)
		}
		info, err := s.FS.Stat(s.path(name))
		if err == nil && keep && info.Size() == s.bytes && !strings.HasSuffix(name, unfinishedSuffix) &&
			len(s.mu.ready) < sparesMax {
			s.mu.ready = append(s.mu.ready, name)
			continue
		}
		if err := s.FS.Remove(s.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove spare file: %w", err)
		}
	}
	return nil
}

// path is where a file of that name is.
func (s *spares) path(name string) string { return s.FS.PathJoin(s.dir, name) }

// start begins to make what is lacking.
func (s *spares) start() {
	s.ask()
	s.loop.Go(func() {
		for {
			select {
			case <-s.wake:
			case <-s.halt:
				return
			}
			for s.make() {
			}
		}
	})
}

// close ends that, and waits for it. Closing twice is allowed.
func (s *spares) close() {
	s.mu.Lock()
	was := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if !was {
		close(s.halt)
	}
	s.loop.Wait()
}

// ask says that a spare may be lacking.
func (s *spares) ask() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// lacking returns the name of the next one, if one is lacking.
func (s *spares) lacking() (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.frugal || s.stopped() != nil || len(s.mu.ready) >= sparesMax {
		return "", false
	}
	s.mu.next++
	return fmt.Sprintf("%s%06d", sparePrefix, s.mu.next-1), true
}

// roomy reports whether there is room for spare files. A start needs to know it before anybody has said whether the log
// is to be frugal: it must take no more of a disk that is nearly full than without them.
func (s *spares) roomy() bool {
	if s.ample != nil && !s.ample() {
		return false
	}
	usage, err := s.FS.GetDiskUsage(s.dir)
	return err == nil && usage.AvailBytes >= uint64(spareRoom*s.bytes)
}

// make makes one if one is lacking and there is room; it tells whether it is worth trying again.
func (s *spares) make() bool {
	if !s.roomy() {
		return false
	}
	name, ok := s.lacking()
	if !ok {
		return false
	}
	unfinished := s.path(name + unfinishedSuffix)
	err := s.write(unfinished)
	if err == nil {
		err = s.FS.Rename(unfinished, s.path(name))
	}
	if err == nil {
		err = disk.SyncDir(s.FS, s.dir)
	}
	if err != nil {
		s.logger.Debug("spare file not made", slog.String("dir", s.dir), slog.Any("err", err))
		_ = s.FS.Remove(unfinished) // the next start does
		return false
	}
	s.keep(name)
	return true
}

// errSpareEnded ends the making of a file.
var errSpareEnded = errors.New("the log is closed")

// write makes a file of zeros.
func (s *spares) write(path string) error {
	file, err := s.FS.Create(path, "zkd-spare")
	if err != nil {
		return err
	}
	for at := int64(0); at < s.bytes && err == nil; at += spareSyncBytes {
		select {
		case <-s.halt:
			err = errSpareEnded
		default:
			if err = s.stopped(); err == nil {
				err = writeZeros(file, min(spareSyncBytes, s.bytes-at))
			}
		}
	}
	return errors.Join(err, file.Close())
}

// writeZeros extends a file by so many zeros, durably.
func writeZeros(file vfs.File, bytes int64) (err error) {
	zeros := make([]byte, spareStepBytes)
	for at := int64(0); at < bytes && err == nil; at += spareStepBytes {
		_, err = file.Write(zeros[:min(spareStepBytes, bytes-at)])
	}
	if err == nil {
		err = file.Sync()
	}
	return err
}

// keep adds one that is there.
func (s *spares) keep(name string) {
	s.mu.Lock()
	s.mu.ready = append(s.mu.ready, name)
	s.mu.Unlock()
}

// take removes one from the list; "" if there is none.
func (s *spares) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.ready) == 0 {
		return ""
	}
	name := s.mu.ready[0]
	s.mu.ready = s.mu.ready[1:]
	return name
}

// Create implements vfs.FS.
func (s *spares) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if _, ok := walNumber(filepath.Base(name)); !ok {
		return s.FS.Create(name, category)
	}
	if file, err := s.reuse(name, category); file != nil || err != nil {
		return file, err
	}
	return s.FS.Create(name, category)
}

// ReuseForWrite implements vfs.FS. A log that was not made ahead, as the first one of a store, is shorter than it would
// become.
func (s *spares) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	defer s.ask()
	info, err := s.FS.Stat(oldname)
	if err == nil && info.Size() < s.bytes {
		file, err := s.reuse(newname, category)
		if err == nil && file != nil {
			err = s.FS.Remove(oldname)
		}
		if file != nil || err != nil {
			return file, err
		}
	}
	return s.FS.ReuseForWrite(oldname, newname, category)
}

// reuse makes a spare the file of that name; nil if there is none.
func (s *spares) reuse(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	defer s.ask()
	spare := s.take()
	if spare == "" {
		return nil, nil
	}
	file, err := s.FS.ReuseForWrite(s.path(spare), name, category)
	if err != nil {
		return nil, err
	}
	return writtenFile{file}, nil
}

// Remove implements vfs.FS.
func (s *spares) Remove(name string) error {
	if _, ok := walNumber(filepath.Base(name)); !ok {
		return s.FS.Remove(name)
	}
	if kept, err := s.keepLog(name); kept || err != nil {
		return err
	}
	return s.FS.Remove(name)
}

// keepLog makes the write-ahead log of that name a spare if it is as long, one is lacking, and there is room.
func (s *spares) keepLog(name string) (bool, error) {
	info, err := s.FS.Stat(name)
	if err != nil || info.Size() != s.bytes || !s.roomy() {
		return false, err
	}
	spare, ok := s.lacking()
	if !ok {
		return false, nil
	}
	if err := s.FS.Rename(name, s.path(spare)); err != nil {
		return false, err
	}
	s.keep(spare)
	return true, nil
}

// setFrugal removes the spare files, or has them made again.
func (s *spares) setFrugal(on bool) error {
	s.mu.Lock()
	s.mu.frugal = on
	s.mu.Unlock()
	if !on {
		s.ask()
		return nil
	}
	for name := s.take(); name != ""; name = s.take() {
		if err := s.FS.Remove(s.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove spare file: %w", err)
		}
	}
	return nil
}

// size is how many bytes the spare files have.
func (s *spares) size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.mu.ready)) * uint64(s.bytes)
}

// Unwrap implements vfs.FS.
func (s *spares) Unwrap() vfs.FS { return s.FS }

// writtenFile is a file that is as long as it becomes.
type writtenFile struct{ vfs.File }

// Preallocate implements vfs.File.
func (writtenFile) Preallocate(_, _ int64) error { return nil }
