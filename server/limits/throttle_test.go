package limits

import (
	"testing"
	"time"

	"zkd/jute"
)

// endedClient is a client whose connection is closed, or not; it has not hung up.
type endedClient bool

func (c endedClient) Ended() bool           { return bool(c) }
func (endedClient) Ending() <-chan struct{} { return nil }
func (endedClient) PeerClosed() bool        { return false }

func TestIsStale(t *testing.T) {
	for _, tc := range []struct {
		name            string
		connection, lag bool
		closed          bool
		op              jute.Op
		waited          time.Duration
		want            bool
	}{
		{name: "fresh", connection: true, lag: true, op: jute.OpGetData, waited: time.Second},
		{name: "closed", connection: true, closed: true, op: jute.OpGetData, want: true},
		{name: "closed, not asked for", lag: true, closed: true, op: jute.OpGetData},
		{name: "late", lag: true, op: jute.OpGetData, waited: time.Second + 1, want: true},
		{name: "late, not asked for", connection: true, op: jute.OpGetData, waited: time.Hour},
		{name: "closeSession", connection: true, lag: true, closed: true, op: jute.OpCloseSession, waited: time.Hour},
	} {
		throttle := Throttle{o: RequestThrottle{StaleConnection: tc.connection, StaleLatency: tc.lag}}
		r := Queued{Op: tc.op, Timeout: time.Second}
		if got := throttle.isStale(endedClient(tc.closed), r, tc.waited, true); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
