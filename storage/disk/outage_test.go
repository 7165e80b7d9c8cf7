package disk

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestWhatBefallsAWholeDiskIsToldOfOnce: by one of the stores on it; another disk, and what befalls one store alone, is
// told of by itself.
func TestWhatBefallsAWholeDiskIsToldOfOnce(t *testing.T) {
	fs, other := vfs.NewMem(), Outages{FS: vfs.NewMem()}
	if err := fs.MkdirAll("data", 0o750); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		causes [2]error
		apart  bool // the stores are on different disks
		want   int
	}{
		{"full", [2]error{syscall.ENOSPC, syscall.ENOSPC}, false, 1},
		{"full, and its quota used up", [2]error{syscall.ENOSPC, syscall.EDQUOT}, false, 1},
		{"read-only", [2]error{syscall.EROFS, syscall.EROFS}, false, 1},
		{"broken in two places", [2]error{syscall.EIO, syscall.EIO}, false, 2},
		{"broken, then full", [2]error{syscall.EIO, syscall.ENOSPC}, false, 2},
		{"two that are full", [2]error{syscall.ENOSPC, syscall.ENOSPC}, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			outages := Outages{FS: fs}
			told := 0
			for i, dir := range []string{"data/raftlog", "data/state"} {
				at := &outages
				if c.apart && i == 1 {
					at = &other
				}
				fault := Fault{Dir: dir, Logger: logger, Outage: at.Of(dir), OnFatal: func(error) { told++ }}
				if err := fault.Trip(c.causes[i]); err == nil || fault.Err() == nil {
					t.Errorf("%s has not failed", dir)
				}
			}
			if n := strings.Count(log.String(), "store failed"); n != c.want || told != 2 {
				t.Errorf("told of %d times, want %d, and its owners %d times:\n%s", n, c.want, told, &log)
			}
		})
	}
}
