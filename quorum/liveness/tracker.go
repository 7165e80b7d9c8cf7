package liveness

import (
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// Options says what a Tracker works with.
type Options struct {
	Clock clock.Clock // required
	// Tick is the width of a bucket, ZooKeeper's tickTime; required.
	Tick time.Duration
	// Expire is handed the sessions that were silent for too long, at most expireBatch at a time; required. It is
	// called on the tracker's goroutine and may block: meanwhile nobody else expires, and who is heard may go on, which
	// Silent tells. It must not call Stop. The slice is valid during the call.
	Expire func([]jute.SessionID)
	// Report is handed the bound sessions that were heard since the last round, at most reportBatch at a time, each
	// half tick while the tracker does not expire; nil: nothing is reported. false says that nobody took them: the next
	// round has them again. It is called on the tracker's goroutine and should not block. The slice is valid during the
	// call.
	Report func([]jute.SessionID) bool
	// Reporting begins without expiring, as after Follow.
	Reporting bool
	Logger    *slog.Logger // default discards
}

// beatsPerTick is how often in a tick the tracker looks at the clock: a pause of the process shorter than two beats may
// go unnoticed.
const beatsPerTick = 8

// beatMin bounds the beat for the tiny ticks of tests.
const beatMin = time.Millisecond

// expireBatch and reportBatch bound how many sessions one call of Expire or Report is handed: guesses. A report of that
// many is a frame of 32 KiB.
const (
	expireBatch = 1024
	reportBatch = 4096
)

// Tracker keeps the time of sessions. Its methods may be called by any goroutine.
type Tracker struct {
	options Options       // immutable
	began   time.Time     // where the tracker's clock starts; immutable
	beat    time.Duration // immutable
	logger  *slog.Logger

	paused  atomic.Int64 // nanoseconds of pauses of the process, and of halts: now is that much behind
	halted  atomic.Bool
	stop    chan struct{}
	stopped sync.WaitGroup
	ending  sync.Once

	// The time up to which everything that was heard is reported, and whether the last round failed. Owned by the
	// tracker's goroutine.
	reported int64
	lossy    bool

	floor atomic.Int64 // tracker's time at which it began to expire: nobody counts as heard earlier

	mu struct {
		sync.RWMutex
		sessions map[jute.SessionID]*Session
		buckets  map[int64]*bucket // by deadline in ticks; none is empty
		next     int64             // no bucket before this one exists
		expiring bool
		handed   []*Session // to Expire, and maybe not removed yet
		bound    []*Session // those that are bound, or were heard since the last report when they were unbound
	}
}

// bucket is a ring of the sessions that are looked at when one deadline is due; head is no session.
type bucket struct{ head Session }

// Session is one session of a tracker. Whoever has it can touch it without looking it up.
type Session struct {
	tracker *Tracker
	id      jute.SessionID
	heard   atomic.Int64 // tracker's time, in nanoseconds; written by anyone
	timeout atomic.Int64 // nanoseconds; written under tracker.mu

	// The rest is guarded by tracker.mu. due is the bucket's deadline in ticks, 0 if the session is in none: because it
	// was handed to Expire, or removed.
	due        int64
	prev, next *Session
	slot       int32 // place in tracker.mu.bound, and one more; 0: not there
	bindings   int32 // Bind calls without their Unbind
}

// Start begins to track. The tracker ends with Stop.
func Start(o Options) *Tracker {
	t := &Tracker{
		options: o, began: o.Clock.Now(), beat: max(o.Tick/beatsPerTick, beatMin), logger: o.Logger,
		stop: make(chan struct{}),
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	t.mu.sessions = make(map[jute.SessionID]*Session)
	t.mu.buckets = make(map[int64]*bucket)
	t.mu.expiring = !o.Reporting
	ticker := o.Clock.NewTicker(t.beat)
	t.stopped.Go(func() { t.run(ticker) })
	return t
}

// Stop ends the tracker: when it has returned, Expire is called no more.
func (t *Tracker) Stop() {
	t.ending.Do(func() { close(t.stop) })
	t.stopped.Wait()
}

// Add tracks a session as just heard. If it is tracked already, handed to Expire or not, it begins anew.
func (t *Tracker) Add(id jute.SessionID, timeout time.Duration) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(id, timeout)
}

// addLocked is Add.
func (t *Tracker) addLocked(id jute.SessionID, timeout time.Duration) *Session {
	s := t.mu.sessions[id]
	if s == nil {
		s = &Session{tracker: t, id: id}
		t.mu.sessions[id] = s
	}
	s.timeout.Store(int64(timeout))
	s.heard.Store(t.now())
	t.placeLocked(s)
	return s
}

// Touch says that the session was heard; false if it is not tracked or was handed to Expire
// (org.apache.zookeeper.server.SessionTrackerImpl.touchSession). In the latter case it may go on: see Silent.
func (t *Tracker) Touch(id jute.SessionID) bool {
	t.mu.RLock()
	s := t.mu.sessions[id]
	alive := s != nil && s.due != 0
	t.mu.RUnlock()
	if s != nil {
		s.Touch()
	}
	return alive
}

// Silent tells whether the end of a session that was handed to Expire is still to be proposed. One that was heard since
// is tracked again, as if it had not been handed out. It is asked right before the end is proposed, as that may have
// waited.
func (t *Tracker) Silent(id jute.SessionID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.sessions[id]
	if s == nil || s.due != 0 { // it is gone, or has begun anew
		return false
	}
	if t.deadline(s) > t.now()/int64(t.options.Tick) {
		t.placeLocked(s)
		return false
	}
	return true
}

// Later has a session that was handed to Expire handed to it again in the next tick, if it is silent until then: its
// end cannot be proposed now. Until then it is tracked.
func (t *Tracker) Later(id jute.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.mu.sessions[id]; s != nil && s.due == 0 {
		t.placeAtLocked(s, max(t.deadline(s), t.now()/int64(t.options.Tick)+1))
	}
}

// Touch says that the session was heard. It costs a look at the clock and one store, and does nothing for a session
// that is gone.
func (s *Session) Touch() { s.heard.Store(s.tracker.now()) }

// SetTimeout changes the timeout of a session and counts as having heard of it, as a reattach does; false if it is not
// tracked or was handed to Expire.
func (t *Tracker) SetTimeout(id jute.SessionID, timeout time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.sessions[id]
	if s == nil || s.due == 0 {
		return false
	}
	s.timeout.Store(int64(timeout))
	s.heard.Store(t.now())
	t.placeLocked(s) // a shorter timeout may be due before its present bucket
	return true
}

// Remove forgets a session; one that is not tracked is ignored.
func (t *Tracker) Remove(id jute.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.mu.sessions[id]; s != nil {
		t.removeLocked(s)
	}
}

// Retain forgets every session that keep does not want. keep is called under the tracker's lock.
func (t *Tracker) Retain(keep func(jute.SessionID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.mu.sessions { // order: each is looked at by itself
		if !keep(id) {
			t.removeLocked(s)
		}
	}
}

// removeLocked forgets a session that is tracked.
func (t *Tracker) removeLocked(s *Session) {
	t.unlinkLocked(s)
	t.unslotLocked(s)
	delete(t.mu.sessions, s.id)
}

// Len returns the number of sessions tracked, those handed to Expire and not removed yet included.
func (t *Tracker) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.mu.sessions)
}

// Bucket is the sessions that expire together if they stay silent.
type Bucket struct {
	In       time.Duration // until the deadline, from the call of Buckets; negative if it has passed
	Sessions []jute.SessionID
}

// Buckets returns the sessions by deadline, the earliest first, ids in ascending order: what the four-letter word dump
// shows (org.apache.zookeeper.server.SessionTrackerImpl.dumpSessions). It costs a look at every session.
func (t *Tracker) Buckets() []Bucket {
	t.mu.RLock()
	now := t.now()
	byDue := make(map[int64][]jute.SessionID)
	for id, s := range t.mu.sessions { // order: sorted below
		if s.due != 0 {
			due := t.deadline(s)
			byDue[due] = append(byDue[due], id)
		}
	}
	t.mu.RUnlock()
	buckets := make([]Bucket, 0, len(byDue))
	for due, ids := range byDue { // order: sorted below
		slices.Sort(ids)
		buckets = append(buckets, Bucket{In: time.Duration(due*int64(t.options.Tick) - now), Sessions: ids})
	}
	sort.Slice(buckets, func(i, j int) bool { return buckets[i].In/t.options.Tick < buckets[j].In/t.options.Tick })
	return buckets
}

// now is the tracker's time: since it began, less the pauses.
func (t *Tracker) now() int64 { return int64(t.options.Clock.Since(t.began)) - t.paused.Load() }

// deadline is the tick at which s expires if it stays silent, as ExpiryQueue.roundToNextInterval has it.
func (t *Tracker) deadline(s *Session) int64 {
	return (max(s.heard.Load(), t.floor.Load())+s.timeout.Load())/int64(t.options.Tick) + 1
}

// placeLocked puts s into the bucket of its deadline.
func (t *Tracker) placeLocked(s *Session) { t.placeAtLocked(s, t.deadline(s)) }

// placeAtLocked puts s into the bucket of a deadline.
func (t *Tracker) placeAtLocked(s *Session, due int64) {
	if s.due == due {
		return
	}
	t.unlinkLocked(s)
	b := t.mu.buckets[due]
	if b == nil {
		b = &bucket{}
		b.head.prev, b.head.next = &b.head, &b.head
		t.mu.buckets[due] = b
		t.mu.next = min(t.mu.next, due)
	}
	s.due, s.prev, s.next = due, b.head.prev, &b.head
	s.prev.next, s.next.prev = s, s
}

// unlinkLocked takes s out of its bucket, and an empty bucket out of the table.
func (t *Tracker) unlinkLocked(s *Session) {
	if s.due == 0 {
		return
	}
	s.prev.next, s.next.prev = s.next, s.prev
	if s.prev == s.next { // the head alone is left
		if b := t.mu.buckets[s.due]; b.head.next == &b.head {
			delete(t.mu.buckets, s.due)
		}
	}
	s.due, s.prev, s.next = 0, nil, nil
}
