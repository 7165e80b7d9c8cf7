package simulation

import (
	"testing"

	"zkd/server/sim/goruntime"
)

// TestWaitedFor: a wait for a lock of a server's own is told, and what may be waited for is not.
func TestWaitedFor(t *testing.T) {
	mutex := []string{"internal/sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock"}
	for _, tc := range []struct {
		what  string
		group int
		of    []string
		want  string
	}{
		{"a lock of zkd's", 1, []string{"zkd/server/watch.(*Table).Fire", "zkd/server.(*Server).Committed"},
			"server/watch.(*Table).Fire"},
		{"readers of the log", 1, []string{"zkd/storage/raftlog.(*Log).Term"}, "storage/raftlog.(*Log).Term"},
		{"who writes to the log", 1, []string{"zkd/storage/raftlog.(*Log).Append", "zkd/quorum.(*appender).write"}, ""},
		{"Pebble's", 1, []string{"github.com/cockroachdb/pebble/v2.(*DB).Metrics", "zkd/storage/raftlog.(*Log).Stats"},
			""},
		{"the version before", 1, []string{"zkd/before/server/watch.(*Table).Fire"}, ""},
		{"a client", 0, []string{"zkd/jute/client.(*Conn).Send"}, ""},
		{"nobody's", 1, nil, ""},
	} {
		w := &goruntime.Wait{Group: tc.group, Stack: append(mutex[:len(mutex):len(mutex)], tc.of...)}
		if got := waitedFor(w); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
	}
}
