package server

import (
	"encoding/binary"
	"io"
	"math"
	"sync"
	"time"
)

// bucket is the bucket of tokens that new sessions take (org.apache.zookeeper.server.BlueThrottle): it lets bursts
// through, and bounds what comes in the long run. Those who always come last would never get a token, so a share of all
// connections may be dropped at random, which grows while the bucket is empty (the BLUE algorithm).
type bucket struct {
	size, fill     int64 // tokens; fill per FillTime
	fresh, renewed int64 // tokens that a session takes
	o              SessionThrottle
	random         io.Reader

	mu sync.Mutex
	// The rest is guarded by mu. Times are in milliseconds.
	tokens         int64
	filled, frozen int64   // when tokens and drop last changed
	drop           float64 // share of connections that are dropped
}

// newBucket returns a full bucket at the time now, or nil if it is off. Where sessions may be local, new ones are
// (ZooKeeperServer.processConnectRequest).
func newBucket(o SessionThrottle, local bool, random io.Reader, now time.Duration) *bucket {
	if o.Tokens == 0 {
		return nil
	}
	b := &bucket{size: int64(o.Tokens), fill: int64(o.FillCount), fresh: 1, renewed: 1, o: o, random: random}
	if o.Weighted {
		b.fresh, b.renewed = int64(max(o.GlobalWeight, o.LocalWeight)), int64(max(o.RenewWeight, o.LocalWeight))
		b.size *= b.fresh // the numbers are meant for new sessions that are global
		b.fill *= b.fresh
		if local {
			b.fresh = int64(o.LocalWeight)
		}
	}
	b.tokens, b.filled, b.frozen = b.size, now.Milliseconds(), now.Milliseconds()
	return b
}

// take takes the tokens of a session, one that comes back or a new one, at the time now. missing is how many tokens the
// bucket then lacks; ok is false if the session must be refused.
func (b *bucket) take(now time.Duration, renewed bool) (missing int64, ok bool) {
	need := b.fresh
	if renewed {
		need = b.renewed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now.Milliseconds())
	if b.o.FreezeTime >= 0 && b.dropsLocked(now.Milliseconds()) || b.tokens < need {
		return b.size - b.tokens, false
	}
	b.tokens -= need
	return b.size - b.tokens, true
}

// refillLocked adds the tokens of the time that has gone by, once it is longer than FillTime.
func (b *bucket) refillLocked(now int64) {
	gone, each := now-b.filled, b.o.FillTime.Milliseconds()
	if gone <= each {
		return
	}
	b.filled = now
	if b.fill > 0 && gone > math.MaxInt64/b.fill { // more than any bucket holds
		b.tokens = b.size
		return
	}
	b.tokens = min(b.tokens+gone*b.fill/max(each, 1), b.size)
}

// dropsLocked decides whether to drop a connection, after setting the share anew when it is time.
func (b *bucket) dropsLocked(now int64) bool {
	missing := b.size - b.tokens
	if now-b.frozen > b.o.FreezeTime.Milliseconds() {
		switch {
		case b.tokens == 0 && b.drop < 1:
			b.drop = min(b.drop+b.o.DropIncrease, 1)
		case missing <= int64(math.Floor(float64(b.size)*b.o.DecreaseRatio+0.5)):
			b.drop = max(b.drop-b.o.DropDecrease, 0)
		}
		b.frozen = now
	}
	return b.chance() < b.drop
}

// chance returns a random number of at least 0 and below 1; without randomness nobody is dropped.
func (b *bucket) chance() float64 {
	var r [8]byte
	if _, err := io.ReadFull(b.random, r[:]); err != nil {
		return 1
	}
	return float64(binary.NativeEndian.Uint64(r[:])>>11) / (1 << 53)
}

// dropProbability returns the share of connections that are dropped. A nil bucket drops none.
func (b *bucket) dropProbability() float64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drop
}
