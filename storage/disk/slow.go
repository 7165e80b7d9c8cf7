package disk

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Operations counts operations on the files of a store, those that read too. Whoever looks twice, and finds some
// under way and none that has ended between, knows that the disk hangs, or does one thing that takes very long.
type Operations struct{ begun, ended atomic.Uint64 }

// begin counts an operation that begins.
func (o *Operations) begin() { o.begun.Add(1) }

// end counts one that has ended.
func (o *Operations) end() { o.ended.Add(1) }

// Progress tells whether operations are under way, and how many have ended.
func (o *Operations) Progress() (underWay bool, ended uint64) {
	ended = o.ended.Load()
	return o.begun.Load() > ended, ended
}

// fenceReader is a file of a FenceFS that is read.
type fenceReader struct {
	vfs.File
	operations *Operations
}

// Read implements vfs.File.
func (f *fenceReader) Read(p []byte) (int, error) {
	f.operations.begin()
	defer f.operations.end()
	return f.File.Read(p)
}

// ReadAt implements vfs.File.
func (f *fenceReader) ReadAt(p []byte, offset int64) (int, error) {
	f.operations.begin()
	defer f.operations.end()
	return f.File.ReadAt(p, offset)
}

// slowFilesMax bounds the files that slowDisk remembers: more than are written to at once.
const slowFilesMax = 64

// slowDisk tells of operations that take long, each when it is first seen, and again whenever it has taken twice as
// long. Pebble's checks see it every two seconds.
type slowDisk struct {
	logger *slog.Logger
	store  string

	mu   sync.Mutex
	told map[string]time.Duration // guarded by mu; by file, how long its operation took when it was told of last
}

// tell is told of an operation that is under way.
func (s *slowDisk) tell(info vfs.DiskSlowInfo) {
	s.mu.Lock()
	before := s.told[info.Path]
	tell := info.Duration < before || info.Duration >= 2*before
	if tell {
		if s.told == nil || len(s.told) >= slowFilesMax {
			s.told = map[string]time.Duration{}
		}
		s.told[info.Path] = info.Duration
	}
	s.mu.Unlock()
	if tell {
		s.logger.Warn("slow disk operation, still running", slog.String("store", s.store),
			slog.String("path", info.Path), slog.String("op", info.OpType.String()),
			slog.Duration("took", info.Duration))
	}
}
