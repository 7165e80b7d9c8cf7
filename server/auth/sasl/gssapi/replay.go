package gssapi

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// Bounds of what a replays remembers. An entry is about 150 bytes. Guesses: a principal that many clients share makes
// 16,384 logins in the ten minutes that an authenticator is remembered only when it goes wrong, and then it alone is
// refused.
const (
	replaysMax          = 1 << 18
	replaysPrincipalMax = 1 << 14
)

// Why an authenticator is refused that is right otherwise.
var (
	errReplayed = errors.New("authenticator was used before: a replay, or two logins of one client at once")
	errTooMany  = errors.New("too many logins to remember their authenticators")
)

// replays remembers authenticators as long as they could be used again (RFC 4120, section 3.2.3). Without it, whoever
// has listened to a login could repeat it: a client that does not ask for mutual authentication, as Java's does not,
// shares no fresh key with the server. The zero replays is empty.
type replays struct {
	mu      sync.Mutex
	seen    map[[sha256.Size]byte]string // principal by hash of the authenticator; guarded by mu
	perName map[string]int               // entries of each principal; guarded by mu
	order   []replay                     // by the time when they may be forgotten; guarded by mu
}

// replay is an entry and when it may be forgotten.
type replay struct {
	hash  [sha256.Size]byte
	until time.Time
}

// add remembers an authenticator until it is too old to be taken, and fails if it is there already.
func (r *replays) add(authenticator []byte, principal string, now time.Time, skew time.Duration) error {
	hash := sha256.Sum256(authenticator)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen, r.perName = map[[sha256.Size]byte]string{}, map[string]int{}
	}
	r.forgetLocked(now)
	if _, ok := r.seen[hash]; ok {
		return errReplayed
	}
	if len(r.seen) >= replaysMax || r.perName[principal] >= replaysPrincipalMax {
		return errTooMany
	}
	r.seen[hash] = principal
	r.perName[principal]++
	// An authenticator may be of the future by the skew, too.
	r.order = append(r.order, replay{hash: hash, until: now.Add(2 * skew)})
	return nil
}

// forgetLocked forgets what is old.
func (r *replays) forgetLocked(now time.Time) {
	n := 0
	for n < len(r.order) && r.order[n].until.Before(now) {
		principal := r.seen[r.order[n].hash]
		delete(r.seen, r.order[n].hash)
		if r.perName[principal]--; r.perName[principal] == 0 {
			delete(r.perName, principal)
		}
		n++
	}
	if r.order = r.order[n:]; len(r.order) == 0 {
		r.order = nil
	}
}
