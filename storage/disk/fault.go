package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Format is the format of the Pebble stores that this version writes. It is pinned, so that a newer Pebble in
// the build does not make the stores unreadable for the zkd before it; it must be at least FormatWALSyncChunks, which
// is what lets a reader of the write-ahead log tell damage from a torn tail. A later one may be written from a feature
// level on only (FormatOf): below that an older zkd must be able to go on with the stores.
const Format = pebble.FormatValueSeparation

// What stores and data directories fail with; errors.Is tells them apart, the text says where and what to do.
var (
	// ErrDamaged says that a file does not hold what was written to it. Nothing was changed.
	ErrDamaged = errors.New("damaged")
	// ErrDiskFailed says that a write or an fsync failed, after which the store takes no more of them.
	ErrDiskFailed = errors.New("disk failed")
)

// Fault remembers the first failure of a store's disk and makes it final (a decision of the design: after a
// failed write or fsync nobody knows what the disk holds, so nothing is written or acknowledged after it). Safe for
// concurrent use.
type Fault struct {
	Store   string // "raft log" or "state store", as it stands in messages
	Dir     string // the directory of the store
	Logger  *slog.Logger
	OnFatal func(error) // told once, on whichever goroutine met the failure; may be nil
	first   atomic.Pointer[error]
	Tripped chan struct{} // closed with the first failure; nil: nobody waits for it
	Outage  *Outage       // of the disk, with the other stores there; nil: the store tells of everything
	// Retired says that the store is being closed for good and its directory replaced: nothing more may be written to
	// it, and that writes fail is no news.
	Retired atomic.Bool
	slow    slowDisk

	closing   chan struct{} // closed by FenceFS.Closing; nil: the store has no fence
	repeated  atomic.Int64  // background errors that Pebble has told of
	rewriting atomic.Uint64 // the number of the blob file that is about to be rewritten; 0: none is
	rewrites  atomic.Bool   // one is being rewritten
}

// errRetired is what a write of a retired store fails with.
var errRetired = errors.New("store is being replaced")

// Stopped returns why the store may not write any more, or nil while it may.
func (f *Fault) Stopped() error {
	if f.Retired.Load() {
		return errRetired
	}
	return f.Err()
}

// Err returns the failure that stopped the store, or nil while there is none.
func (f *Fault) Err() error {
	if err := f.first.Load(); err != nil {
		return *err
	}
	return nil
}

// Trip makes cause final unless an earlier failure is, and returns the one that is.
func (f *Fault) Trip(cause error) error {
	if f.Retired.Load() {
		return errRetired
	}
	err := error(&loggedError{f.Describe(cause)})
	if !f.first.CompareAndSwap(nil, &err) {
		return f.Err()
	}
	if f.Tripped != nil {
		close(f.Tripped)
	}
	if f.Outage.first(cause) {
		f.Logger.Error("store failed: disk error", "store", f.Store, "dir", f.Dir, "err", err)
	} else {
		f.Logger.Debug("store failed with the others on its disk", "store", f.Store, "dir", f.Dir, "err", err)
	}
	if f.OnFatal != nil {
		f.OnFatal(err)
	}
	return err
}

// loggedError is a failure that the log has told of, with what to do.
type loggedError struct{ error }

// Unwrap returns the failure.
func (e *loggedError) Unwrap() error { return e.error }

// Logged tells whether err is a failure that the log has told of, with what to do: whoever ends with it need not say it
// again.
func Logged(err error) bool {
	logged := (*loggedError)(nil)
	return errors.As(err, &logged)
}

// Describe words a failure for the operator: what stopped, where, and what to do.
func (f *Fault) Describe(cause error) error {
	switch {
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return fmt.Errorf("%w: %s in %s: %w: free space there and start again, nothing acknowledged is lost",
			ErrDiskFailed, f.Store, f.Dir, cause)
	case errors.Is(cause, syscall.EROFS):
		return fmt.Errorf("%w: %s in %s: %w: the file system turned read-only, check the disk and start again",
			ErrDiskFailed, f.Store, f.Dir, cause)
	default:
		return fmt.Errorf("%w: %s in %s: %w: check the disk (kernel log, SMART) before starting again",
			ErrDiskFailed, f.Store, f.Dir, cause)
	}
}

// Logger hands Pebble's own messages to slog. Pebble's informational lines are debug lines here; its Fatalf,
// which would end the process from inside a library, trips the store's fault instead. The callers of Fatalf go on
// after it: what keeps them from doing harm is the fence (FenceFS), which lets nothing through to the directory once
// the fault is set.
type Logger struct {
	Fault *Fault
}

var _ pebble.Logger = Logger{}

// Infof implements pebble.Logger.
func (l Logger) Infof(format string, args ...any) {
	if l.Fault.Logger.Enabled(nil, slog.LevelDebug) { //nolint:staticcheck // a log line has no request to belong to
		l.Fault.Logger.Debug("pebble", "store", l.Fault.Store, "text", fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger. Once the store has stopped, Pebble repeats itself without end, so its lines are
// dropped.
func (l Logger) Errorf(format string, args ...any) {
	if l.Fault.Stopped() == nil {
		l.Fault.Logger.Error("pebble error", "store", l.Fault.Store, "err", fmt.Sprintf(format, args...))
	}
}

// Fatalf implements pebble.Logger.
func (l Logger) Fatalf(format string, args ...any) {
	l.Fault.Trip(fmt.Errorf(format, args...))
}

// Events returns the listener that both stores start from: background errors and damage found by a compaction
// stop the store, write stalls are warned about. A store adds the events of its own to what is returned.
func Events(fault *Fault) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			fault.Trip(fmt.Errorf("background work: %w", AsDamage(err)))
			fault.linger()
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			fault.Trip(fmt.Errorf("%w file %s: %w", ErrDamaged, info.Path, info.Details))
		},
		BlobFileRewriteBegin: func(info pebble.BlobFileRewriteInfo) {
			fault.rewriting.Store(uint64(info.Input.DiskFileNum))
		},
		BlobFileRewriteEnd: func(pebble.BlobFileRewriteInfo) { fault.rewrites.Store(false) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			fault.Logger.Warn("store stalls writes", "store", fault.Store, "reason", info.Reason)
		},
	}
}

// linger keeps Pebble's collector of table statistics, once it has told of errors often enough, until the store is
// closed: with a table that cannot be read it begins again at once, for ever. Others who tell of background errors may
// hold Pebble's lock.
func (f *Fault) linger() {
	if f.closing != nil && f.repeated.Add(1) > refusalsMax && collectsStatistics() {
		<-f.closing
	}
}

// collectsStatistics tells whether the caller's goroutine is the collector of table statistics of a store that was
// opened. Nothing else tells its errors from those of others.
func collectsStatistics() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "pebble/v2.(*DB).scanReadStateTableStats") {
			return true
		}
		if !more {
			return false
		}
	}
}

// AsDamage makes what Pebble calls corruption ErrDamaged, whoever meets it first: an opening store or a compaction.
func AsDamage(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
