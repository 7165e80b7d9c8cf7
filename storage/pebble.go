package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleFormat is the format of the Pebble stores that this version writes. It is pinned, so that a newer Pebble in
// the build does not make the stores unreadable for the zkd before it; it must be at least FormatWALSyncChunks, which
// is what lets a reader of the write-ahead log tell damage from a torn tail.
const pebbleFormat = pebble.FormatValueSeparation

// diskFault remembers the first failure of a store's disk and makes it final (a decision of the design: after a
// failed write or fsync nobody knows what the disk holds, so nothing is written or acknowledged after it). Safe for
// concurrent use.
type diskFault struct {
	store   string // "raft log" or "state store", as it stands in messages
	dir     string // the directory of the store
	logger  *slog.Logger
	onFatal func(error) // told once, on whichever goroutine met the failure; may be nil
	first   atomic.Pointer[error]
	tripped chan struct{} // closed with the first failure; nil: nobody waits for it
	// retired says that the store is being closed for good and its directory replaced: nothing more may be written to
	// it, and that writes fail is no news.
	retired atomic.Bool
}

// errRetired is what a write of a retired store fails with.
var errRetired = errors.New("store is being replaced")

// stopped returns why the store may not write any more, or nil while it may.
func (f *diskFault) stopped() error {
	if f.retired.Load() {
		return errRetired
	}
	return f.Err()
}

// Err returns the failure that stopped the store, or nil while there is none.
func (f *diskFault) Err() error {
	if err := f.first.Load(); err != nil {
		return *err
	}
	return nil
}

// trip makes cause final unless an earlier failure is, and returns the one that is.
func (f *diskFault) trip(cause error) error {
	if f.retired.Load() {
		return errRetired
	}
	err := f.describe(cause)
	if !f.first.CompareAndSwap(nil, &err) {
		return f.Err()
	}
	if f.tripped != nil {
		close(f.tripped)
	}
	f.logger.Error("store stopped by a disk failure", "store", f.store, "dir", f.dir, "err", err)
	if f.onFatal != nil {
		f.onFatal(err)
	}
	return err
}

// describe words a failure for the operator: what stopped, where, and what to do.
func (f *diskFault) describe(cause error) error {
	switch {
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return fmt.Errorf("%w: %s in %s: %w: free space there and start again, nothing acknowledged is lost",
			ErrDiskFailed, f.store, f.dir, cause)
	case errors.Is(cause, syscall.EROFS):
		return fmt.Errorf("%w: %s in %s: %w: the file system turned read-only, check the disk and start again",
			ErrDiskFailed, f.store, f.dir, cause)
	default:
		return fmt.Errorf("%w: %s in %s: %w: check the disk (kernel log, SMART) before starting again",
			ErrDiskFailed, f.store, f.dir, cause)
	}
}

// pebbleLogger hands Pebble's own messages to slog. Pebble's informational lines are debug lines here; its Fatalf,
// which would end the process from inside a library, trips the store's fault instead. The callers of Fatalf go on
// after it: what keeps them from doing harm is the fence (fenceFS), which lets nothing through to the directory once
// the fault is set.
type pebbleLogger struct {
	fault *diskFault
}

var _ pebble.Logger = pebbleLogger{}

// Infof implements pebble.Logger.
func (l pebbleLogger) Infof(format string, args ...any) {
	if l.fault.logger.Enabled(nil, slog.LevelDebug) { //nolint:staticcheck // a log line has no request to belong to
		l.fault.logger.Debug("pebble", "store", l.fault.store, "text", fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger. Once the store has stopped, Pebble repeats itself without end, so its lines are
// dropped.
func (l pebbleLogger) Errorf(format string, args ...any) {
	if l.fault.stopped() == nil {
		l.fault.logger.Error("pebble reports an error", "store", l.fault.store, "err", fmt.Sprintf(format, args...))
	}
}

// Fatalf implements pebble.Logger.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.fault.trip(fmt.Errorf(format, args...))
}

// pebbleEvents returns the listener that both stores start from: background errors and damage found by a compaction
// stop the store, write stalls are warned about. A store adds the events of its own to what is returned.
func pebbleEvents(fault *diskFault) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			fault.trip(fmt.Errorf("background work: %w", asDamage(err)))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			fault.trip(fmt.Errorf("%w file %s: %w", ErrDamaged, info.Path, info.Details))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			fault.logger.Warn("store stalls writes", "store", fault.store, "reason", info.Reason)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			fault.logger.Warn("disk is slow", "store", fault.store, "path", info.Path, "took", info.Duration)
		},
	}
}

// asDamage makes what Pebble calls corruption ErrDamaged, whoever meets it first: an opening store or a compaction.
func asDamage(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
