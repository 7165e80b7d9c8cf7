package simulation

import (
	"slices"
	"strings"
	"time"

	"zkd/server/sim/goruntime"
)

// lockWithin is how long a lock of zkd's own may be waited for, in simulated time: computing takes none, so who holds
// one for longer waits for a disk, a peer or a client.
const lockWithin = 250 * time.Millisecond

// patientLocks are where a lock may be waited for longer: it is held by whoever writes to the log's disk, and who waits
// is to write there, too; by who puts another state in the place of one that who waits is to flush; by who looks at the
// room of the disks, and so does who waits; or by the former connection of the same session.
var patientLocks = []string{
	"storage/raftlog.(*Log).Append", "storage/raftlog.(*Log).Compact", "storage/raftlog.(*Log).writeMeta",
	"storage/raftlog.(*Log).Install", "storage/raftlog.(*Log).Close", "quorum.(*BootstrapChoice).keep",
	"storage/state.(*flusher).now",
	"storage/space.(*Guard).Look", "storage/space.(*Guard).onDiskFull", "server.(*Server).supersede",
}

// waitedFor names the function of zkd's, of the present version, that has waited for a lock too long; "" if the lock is
// not zkd's, or may be waited for.
func waitedFor(w *goruntime.Wait) string {
	i := slices.IndexFunc(w.Stack, func(f string) bool {
		return !strings.HasPrefix(f, "sync.") && !strings.HasPrefix(f, "internal/sync.")
	})
	if i < 0 || w.Group == 0 {
		return ""
	}
	name, ours := strings.CutPrefix(w.Stack[i], "zkd/")
	if !ours || strings.HasPrefix(name, "before/") || slices.Contains(patientLocks, name) {
		return ""
	}
	return name
}

// watchLocks has waits for locks be kept from now on, and returns what hands the violations to whoever notes them.
func watchLocks(began time.Time) (check func(violated func(format string, args ...any))) {
	goruntime.WatchLocks(lockWithin)
	return func(violated func(format string, args ...any)) {
		waits, _ := goruntime.LongWaits() // of those that were not kept the first ones are as good
		for i := range waits {
			if w := &waits[i]; waitedFor(w) != "" {
				violated("server %d waited %v for a lock, from %v on, in %s", w.Group, w.Waited, w.Began.Sub(began),
					strings.Join(w.Stack, " < "))
			}
		}
	}
}
