package limits

import (
	"math"
	"sync/atomic"

	"zkd/quorum/clock"
)

// InFlight counts the requests that are in flight: writes that are proposed and not answered, sessions that are being
// made, and what the throttle has let in (ZooKeeperServer.requestsInProcess; zkd answers reads at once, so that they
// count for the throttle alone).
type InFlight struct {
	n     atomic.Int64
	limit int64     // globalOutstandingLimit
	again int64     // what must be left of them before readers go on, so that they go on by batches
	batch int       // writes that one connection may have, however many the others have
	Gate  *Throttle // immutable after Init; nil if request_throttle_max_requests is 0
}

// Parts of the limit, by measurement: with the default of 1000, 32 connections with 100 writes each lose a tenth of
// their throughput if a connection may have one write only, as in ZooKeeper, and nothing with an eighth.
const (
	batchPart = 8 // the batch of one connection
	againPart = 4 // what must have ended
)

// Init sets the limit, 0 being none, and the throttle.
func (u *InFlight) Init(limit int, o RequestThrottle, c clock.Clock) {
	u.limit = int64(limit)
	if limit == 0 {
		u.limit = math.MaxInt64
	}
	u.again = u.limit - u.limit/againPart
	u.batch = max(1, limit/batchPart)
	u.Gate = newThrottle(o, u, c)
}

// Begin counts a request in.
func (u *InFlight) Begin() { u.n.Add(1) }

// Count returns how many there are.
func (u *InFlight) Count() int64 { return u.n.Load() }

// End counts a request out.
func (u *InFlight) End() {
	u.n.Add(-1)
	if u.Gate != nil {
		u.Gate.wake()
	}
}

// Holds reports whether a connection that has own writes in flight, and whose address has that share, must wait before
// it sends more (ZooKeeperServer.shouldThrottle, where own is compared with 1).
func (u *InFlight) Holds(own int, share *Share) bool {
	return own > 0 && (own >= u.batch || share.exceeds(u.limit)) && u.n.Load() > u.limit
}

// Frees reports whether a connection that had to wait may go on.
func (u *InFlight) Frees(own int, share *Share) bool {
	return own == 0 || own <= u.batch/2 && !share.exceeds(u.limit/2) || u.n.Load() <= u.again
}
