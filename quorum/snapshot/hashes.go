package snapshot

import (
	"context"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hashes remembers the hashes of the files of the last snapshot that was scanned, so that each is read for it once:
// when the same checkpoint is sent again, or to another member, and when the next checkpoint has the same tables,
// which are links to the same files. One scan at a time uses it.
type hashes struct {
	turn  chan struct{} // of size 1: whoever has put into it scans
	known map[identity]uint64
}

// identity tells a file from all others. Tables never change, and a store gives no number twice; another store's have
// other times. What else is in a directory is the same only as long as that is.
type identity struct {
	dir      string // empty: a table, in whichever checkpoint
	name     string
	size     int64
	modified int64
}

// newHashes knows none.
func newHashes() *hashes { return &hashes{turn: make(chan struct{}, 1)} }

// identify returns the identity of a file of dir.
func identify(dir string, info vfs.FileInfo) identity {
	id := identity{dir: dir, name: info.Name(), size: info.Size(), modified: info.ModTime().UnixNano()}
	if strings.HasSuffix(id.name, ".sst") || strings.HasSuffix(id.name, ".blob") {
		id.dir = ""
	}
	return id
}

// enter waits for the turn to scan, or returns why ctx ended.
func (h *hashes) enter(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the turn to the next one.
func (h *hashes) leave() { <-h.turn }

// forget has the next scan read everything: a file is not what it was. It needs the turn.
func (h *hashes) forget() { h.known = nil }
