package transport

import "sync"

// queue holds the frames for one peer, while its outgoing stream is up: those that are next, one after the other as
// they go onto the wire, and if one of them is large what has to come behind it.
type queue struct {
	bytesMax int           // immutable
	wake     chan struct{} // one value: that there is something is all it says

	mu       sync.Mutex
	up       bool        // guarded by mu
	flags    uint32      // guarded by mu; of frames that need not be in order
	pending  []byte      // guarded by mu; goes out before the next piece of large
	frames   int         // guarded by mu; in pending, keep-alives not counted
	large    *largeFrame // guarded by mu; the one whose turn it is; its content is the writer's
	behind   []waiting   // guarded by mu; what comes after large, nothing if there is none
	waits    int         // guarded by mu; bytes of behind
	inFlight int         // guarded by mu; bytes that the writer has taken and not written
	drops    int64       // guarded by mu; frames refused, or lost with the stream before they were written
}

// waiting is what has to come behind a large frame: another one, or frames as they go onto the wire.
type waiting struct {
	large  *largeFrame
	run    []byte
	frames int // in run
}

// newQueue returns a queue that is down.
func newQueue(bytesMax int) *queue {
	return &queue{bytesMax: bytesMax, wake: make(chan struct{}, 1)}
}

// open lets frames in, for a stream of that version.
func (q *queue) open(version uint16) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.up, q.flags = true, 0
	if version >= versionPieces {
		q.flags = frameAhead
	}
}

// shut lets no frame in, and drops those that are there and the lost ones that the writer had taken.
func (q *queue) shut(lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost += q.frames
	if q.large != nil {
		lost++
	}
	for i := range q.behind {
		lost += q.behind[i].count()
	}
	q.drops += int64(lost)
	q.up, q.pending, q.frames, q.inFlight = false, nil, 0, 0
	q.large, q.behind, q.waits = nil, nil, 0
}

// goodbye appends the last frame: it passes a large one, and no other is let in. False: the queue is down.
func (q *queue) goodbye() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.up {
		return false
	}
	q.up = false
	if q.large != nil {
		q.drops++
	}
	for i := range q.behind {
		q.drops += int64(q.behind[i].count())
	}
	q.large, q.behind, q.waits = nil, nil, 0
	q.pending = appendGoodbye(q.pending)
	q.signal()
	return true
}

// count is how many frames wait.
func (w *waiting) count() int {
	if w.large != nil {
		return 1
	}
	return w.frames
}

// add appends a frame that may pass those of addInOrder; false if it was refused.
func (q *queue) add(kind uint8, encode func([]byte) []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.addLocked(q.flags, kind, encode)
}

// addInOrder appends a frame behind all that were added before; false if it was refused. If kept is not nil it ends the
// body, and is not copied. The bound is one of what comes behind a large frame: one is always under way.
func (q *queue) addInOrder(kind uint8, encode func([]byte) []byte, kept []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if kept == nil && q.large == nil {
		return q.addLocked(0, kind, encode)
	}
	w := waiting{frames: 1}
	var ok bool
	var size int
	if kept == nil {
		w.run, ok = appendFrame(nil, kind, encode)
		size = len(w.run)
	} else {
		w.large = &largeFrame{head: encode([]byte{kind}), kept: kept}
		size = w.large.size()
		ok = size <= frameBytesMax
	}
	if !ok || !q.up || q.waits > 0 && q.waits+size > q.bytesMax {
		q.drops++
		return false
	}
	n := len(q.behind)
	switch {
	case q.large == nil:
		q.large = w.large
		q.signal()
	case w.large == nil && n > 0 && q.behind[n-1].large == nil:
		last := &q.behind[n-1]
		last.run = append(last.run, w.run...)
		last.frames++
		q.waits += size
	default:
		q.behind = append(q.behind, w)
		q.waits += size
	}
	return true
}

// addLocked appends a frame to those that are next.
func (q *queue) addLocked(flags uint32, kind uint8, encode func([]byte) []byte) bool {
	before := len(q.pending)
	if !q.up || before > 0 && before+q.inFlight >= q.bytesMax {
		q.drops++
		return false
	}
	grown, ok := appendFlagged(q.pending, flags, kind, encode)
	q.pending = grown
	if ok && before > 0 && len(grown)+q.inFlight > q.bytesMax {
		q.pending, ok = grown[:before], false
	}
	if !ok {
		q.drops++
		return false
	}
	q.frames++
	if before == 0 {
		q.signal()
	}
	return true
}

// keepAlive appends a keep-alive if nothing waits.
func (q *queue) keepAlive() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.up && len(q.pending) == 0 && q.large == nil {
		q.pending = appendKeepAlive(q.pending)
		q.signal()
	}
}

// signal wakes the writer.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // it is about to wake
	}
}

// take returns all that is next, and the large frame whose turn it is after that, nil if there is none; spare, whose
// bytes are written, takes the place of the former.
func (q *queue) take(spare []byte) (taken []byte, frames int, large *largeFrame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken, frames = q.pending, q.frames
	q.pending, q.frames, q.inFlight = spare[:0], 0, len(taken)
	return taken, frames, q.large
}

// passed says that the large frame is written: what is behind it is next, up to another large one.
func (q *queue) passed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.large = nil
	for len(q.behind) > 0 && q.large == nil {
		w := q.behind[0]
		q.behind[0] = waiting{}
		q.behind = q.behind[1:]
		if q.large = w.large; w.large != nil {
			q.waits -= w.large.size()
			continue
		}
		q.waits -= len(w.run)
		q.pending = append(q.pending, w.run...)
		q.frames += w.frames
	}
}

// size returns the bytes that are not written, and how many frames were dropped.
func (q *queue) size() (bytes int, drops int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes = len(q.pending) + q.waits + q.inFlight
	if q.large != nil {
		bytes += q.large.size()
	}
	return bytes, q.drops
}
