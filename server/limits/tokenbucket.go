package limits

import (
	"encoding/binary"
	"io"
	"math"
	"sync"
	"time"
)

// SessionThrottle is a bucket of tokens that sessions take when a client connects, with a share of connections dropped
// at random (org.apache.zookeeper.server.BlueThrottle).
type SessionThrottle struct {
	Tokens        int           // connection_throttle_tokens: size of the bucket; 0 is off
	FillTime      time.Duration // connection_throttle_fill_time
	FillCount     int           // connection_throttle_fill_count: tokens per FillTime
	FreezeTime    time.Duration // connection_throttle_freeze_time between changes of the share; negative drops none
	DropIncrease  float64       // connection_throttle_drop_increase
	DropDecrease  float64       // connection_throttle_drop_decrease
	DecreaseRatio float64       // connection_throttle_decrease_ratio: part of the bucket; missing more, no decrease
	Weighted      bool          // connection_throttle_weight_enabled: else every session takes one token
	GlobalWeight  int           // connection_throttle_global_session_weight: of a new session
	LocalWeight   int           // connection_throttle_local_session_weight; the others are no less
	RenewWeight   int           // connection_throttle_renew_session_weight: of a session that comes back
}

// TokenBucket is the bucket of tokens that new sessions take (org.apache.zookeeper.server.BlueThrottle): it lets bursts
// through, and bounds what comes in the long run. Those who always come last would never get a token, so a share of all
// connections may be dropped at random, which grows while the bucket is empty (the BLUE algorithm).
type TokenBucket struct {
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

// NewTokenBucket returns a full bucket at the time now, or nil if it is off. Where sessions may be local, new ones are
// (ZooKeeperServer.processConnectRequest).
func NewTokenBucket(o SessionThrottle, local bool, random io.Reader, now time.Duration) *TokenBucket {
	if o.Tokens == 0 {
		return nil
	}
	b := &TokenBucket{size: int64(o.Tokens), fill: int64(o.FillCount), fresh: 1, renewed: 1, o: o, random: random}
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

// Take takes the tokens of a session, one that comes back or a new one, at the time now. missing is how many tokens the
// bucket then lacks; ok is false if the session must be refused.
func (b *TokenBucket) Take(now time.Duration, renewed bool) (missing int64, ok bool) {
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
func (b *TokenBucket) refillLocked(now int64) {
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
func (b *TokenBucket) dropsLocked(now int64) bool {
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
func (b *TokenBucket) chance() float64 {
	var r [8]byte
	if _, err := io.ReadFull(b.random, r[:]); err != nil {
		return 1
	}
	return float64(binary.NativeEndian.Uint64(r[:])>>11) / (1 << 53)
}

// DropProbability returns the share of connections that are dropped. A nil bucket drops none.
func (b *TokenBucket) DropProbability() float64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drop
}
