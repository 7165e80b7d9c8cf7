package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"zkd/storage/disk"
)

// noCompression keeps entries as they are: they are written once, mostly deleted before they are written again, and
// the data of znodes is often compressed by its owner.
func noCompression() *block.CompressionProfile { return block.NoCompression }

// open verifies the files, opens the store, verifies its content, and only then lets anything be deleted.
func (l *Log) open() (err error) {
	if err := l.opts.FS.MkdirAll(l.opts.Dir, disk.DirPerm); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	if err := l.spare.load(); err != nil {
		return err
	}
	options := l.pebbleOptions()
	compactions := disk.NewCompactions(l.fault.Stopped)
	options.Experimental.CompactionScheduler = compactions
	replayed, err := l.openVerified(options)
	if err != nil {
		return err
	}
	l.writer.batch = l.newBatch(0)
	defer func() {
		if err != nil {
			l.fence.Closing()
			err = errors.Join(err, l.writer.batch.Close(), l.db.Close(), l.writer.mark.close())
		}
	}()
	if err := l.fault.Err(); err != nil {
		return err
	}
	if err := l.loadVerified(replayed); err != nil {
		return err
	}
	if err := l.fence.Release(); err != nil {
		return err
	}
	compactions.Release()
	if err := l.startMark(); err != nil {
		return err
	}
	l.spare.start()
	return nil
}

// openVerified verifies the files, and has Pebble open the store with a look at each write-ahead log before it.
func (l *Log) openVerified(options *pebble.Options) (*walInspection, error) {
	mark, err := l.checkFiles()
	if err != nil {
		return nil, err
	}
	replayed := &walInspection{log: l, mark: mark}
	l.fence.Inspect = replayed.look
	l.db, err = pebble.Open(l.opts.Dir, options)
	l.fence.Inspect = nil
	if err != nil {
		return nil, l.openFailure(err, replayed)
	}
	return replayed, nil
}

// loadVerified reads the store's content, which must reach as far as what was acknowledged.
func (l *Log) loadVerified(replayed *walInspection) error {
	if err := l.load(); err != nil {
		return err
	}
	if acknowledged := replayed.mark.sequence; l.writer.sequence < acknowledged {
		return l.lostWrites(acknowledged, replayed.torn)
	}
	return nil
}

// startMark writes the mark of what was recovered, durably: Pebble has flushed it. It is in no write-ahead log any
// more, least of all in the one that begins now.
func (l *Log) startMark() error {
	l.writer.durable = l.writer.sequence
	mark := &l.writer.mark
	if err := mark.openForWrite(l.fence, l.opts.Dir); err != nil {
		return err
	}
	if err := mark.begin(l.writer.durable); err != nil {
		return err
	}
	return l.fault.Err()
}

// openFailure words a failure of Pebble to open the store. Pebble does not name the file it could not replay.
func (l *Log) openFailure(err error, replayed *walInspection) error {
	if replayed.err != nil {
		return replayed.err
	}
	if fault := l.fault.Err(); fault != nil {
		return fault
	}
	if disk.LockHeld(err) {
		return fmt.Errorf("%w: another process uses %s: stop it first", err, l.opts.Dir)
	}
	var sysErr syscall.Errno
	if errors.As(err, &sysErr) && !errors.Is(err, os.ErrNotExist) {
		return l.fault.Describe(err)
	}
	return l.damaged(placeOf(replayed.torn, "store"), err)
}

// placeOf names the first write-ahead log that ends in something unreadable, or what else there is to name.
func placeOf(torn []walTail, otherwise string) string {
	if len(torn) == 0 {
		return otherwise
	}
	return fmt.Sprintf("write-ahead log %s, unreadable from offset %d", torn[0].path, torn[0].offset)
}

// lostWrites words that the store came back with less than was acknowledged.
func (l *Log) lostWrites(acknowledged uint64, torn []walTail) error {
	return l.damaged(placeOf(torn, "a write-ahead log or a table is missing or cut short"),
		fmt.Errorf("write %d was acknowledged, the store ends at write %d", acknowledged, l.writer.sequence))
}

// checkFiles looks at the mark and the MANIFEST before Pebble does. It returns the mark.
func (l *Log) checkFiles() (syncMarker, error) {
	mark, found, spoilt, err := loadSyncMarker(l.opts.FS, l.opts.Dir)
	if err != nil {
		return mark, err
	}
	desc, err := disk.CheckManifest(l.opts.FS, l.opts.Dir)
	if err != nil {
		return mark, l.damaged("store", err)
	}
	logs, err := l.hasWALs()
	if err != nil {
		return mark, err
	}
	if !desc.Exists {
		if logs || mark.sequence > 0 {
			return mark, l.damaged("store", errors.New("its MANIFEST, or the marker that names it, is missing"))
		}
		return mark, nil
	}
	if spoilt || (!found && logs) {
		l.opts.Logger.Warn("sync marker missing or corrupt: rewriting",
			"path", filepath.Join(l.opts.Dir, syncMarkerName))
	}
	return mark, nil
}

// hasWALs tells whether there are write-ahead log files.
func (l *Log) hasWALs() (bool, error) {
	all, err := l.opts.FS.List(l.opts.Dir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(name string) bool {
		_, ok := walNumber(name)
		return ok
	}), nil
}

// walNumber returns the number in the name of a write-ahead log file.
func walNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// walInspection scans each write-ahead log that Pebble is about to replay, oldest first. Files that are kept to be
// written over again are not opened, and nothing in them matters.
type walInspection struct {
	log  *Log
	mark syncMarker
	torn []walTail // those that do not end properly
	err  error     // why Pebble was not let at a file
}

// look scans the log file at path before it is opened. How one before the last ends is Pebble's to judge, which
// insists on a proper end of all but the last.
func (i *walInspection) look(path string) error {
	name := filepath.Base(path)
	number, ok := walNumber(name)
	if !ok {
		return nil
	}
	tail, err := scanWAL(i.log.opts.FS, path, number)
	switch {
	case err != nil:
		i.err = i.log.damaged(name, err)
	case !tail.torn:
	case tail.number == i.mark.wal && tail.sequence < i.mark.sequence:
		i.err = i.log.damaged(name, fmt.Errorf(
			"unreadable at offset %d, where a write up to %d stood that was acknowledged", tail.offset,
			i.mark.sequence))
	default:
		i.torn = append(i.torn, tail)
	}
	return i.err
}

// load reads everything, verifying each value, and that entries have no gap.
func (l *Log) load() (err error) {
	iter, err := l.db.NewIter(nil)
	if err != nil {
		return l.damaged("store", err)
	}
	defer func() {
		if closeErr := iter.Close(); closeErr != nil && err == nil {
			err = l.damaged("store", closeErr)
		}
	}()
	if err := l.loadStart(iter); err != nil {
		return err
	}
	l.mu.last = l.mu.startIndex
	for ok := iter.First(); ok; ok = iter.Next() {
		if err := l.loadKey(iter); err != nil {
			return err
		}
	}
	if err := iter.Error(); err != nil {
		return l.damaged(fmt.Sprintf("after entry %d", l.mu.last), err)
	}
	if l.writer.sequence == 0 && (l.mu.last > 0 || len(l.mu.meta) > 0) {
		return l.damaged("head", errors.New("it is missing"))
	}
	return nil
}

// loadStart reads where the log starts, which all else is measured by.
func (l *Log) loadStart(iter *pebble.Iterator) error {
	if !iter.SeekGE([]byte{logKeyStart}) {
		return nil
	}
	value, err := iter.ValueAndErr()
	if err == nil {
		l.mu.startIndex, l.mu.startTerm, err = decodeLogStart(value)
	}
	if err != nil {
		return l.damaged("start of the log", err)
	}
	return nil
}

// loadKey takes what is under the iterator.
func (l *Log) loadKey(iter *pebble.Iterator) error {
	key := iter.Key()
	switch {
	case key[0] == logKeyEntry:
		entry, err := l.iteratorEntry(iter, l.mu.last+1)
		if err != nil {
			return err
		}
		entry.Data = slices.Clone(entry.Data)
		one := []LogEntry{entry}
		l.mu.tail.append(one)
		l.mu.outline.append(one)
		l.mu.last = entry.Index
		l.loadedSize(&entry)
		return nil
	case key[0] == logKeyStart && len(key) == 1:
		return nil
	case key[0] == logKeyHead && len(key) == 1:
		return l.loadHead(iter)
	case key[0] == logKeyMeta:
		return l.loadMeta(iter)
	}
	return l.damaged(fmt.Sprintf("key %x", key), errors.New("no such key is ever written"))
}

// loadHead takes the head.
func (l *Log) loadHead(iter *pebble.Iterator) error {
	value, err := iter.ValueAndErr()
	if err != nil {
		return l.damaged("head", err)
	}
	head, err := decodeLogHead(value)
	if err != nil {
		return l.damaged("head", err)
	}
	l.writer.sequence = head.sequence
	l.mu.hardState, l.mu.hasHardState = slices.Clone(head.hardState), head.hasHardState
	return nil
}

// loadMeta takes a named blob.
func (l *Log) loadMeta(iter *pebble.Iterator) error {
	name := string(iter.Key()[1:])
	value, err := iter.ValueAndErr()
	if err == nil {
		err = openLogValue(value, logMetaSalt(name), logValueHeaderBytes)
	}
	if err != nil {
		return l.damaged(fmt.Sprintf("blob %q", name), err)
	}
	l.mu.meta[name] = slices.Clone(value[logValueHeaderBytes:])
	return nil
}

// openReadOnly is open for who only looks.
func (l *Log) openReadOnly() (err error) {
	options := l.pebbleOptions()
	options.ReadOnly, options.ErrorIfNotExists, options.DisableTableStats = true, true, true
	replayed, err := l.openVerified(options)
	if err != nil {
		return err
	}
	if err := l.loadVerified(replayed); err != nil {
		return errors.Join(err, l.db.Close())
	}
	return nil
}
