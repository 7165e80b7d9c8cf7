package audit

import (
	"log/slog"
	"sync"

	"zkd/quorum/clock"
)

// Bounds of what may gather before Await waits. Guesses: some tenths of a second of the writes that a server can do,
// and of paths as long as a request.
const (
	gatheredMax      = 16 << 10
	gatheredBytesMax = 8 << 20
)

// Log writes events to a sink on a goroutine of its own, until Close.
type Log struct {
	sink   Sink
	clock  clock.Clock
	logger *slog.Logger  // of the server: told when lines are lost
	work   chan struct{} // room for one token: something has gathered; closed with the Log, under mu
	done   chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	room     sync.Cond // gathered was taken
	gathered []Event   // guarded by mu
	bytes    int       // of their texts; guarded by mu
	closed   bool      // guarded by mu
}

// Open returns a Log that writes to sink.
func Open(sink Sink, c clock.Clock, logger *slog.Logger) *Log {
	l := &Log{sink: sink, clock: c, logger: logger, work: make(chan struct{}, 1), done: make(chan struct{})}
	l.room.L = &l.mu
	go l.run()
	return l
}

// Write adds an event. It never blocks, and does nothing after Close.
func (l *Log) Write(e Event) {
	if e.Time.IsZero() {
		e.Time = l.clock.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.gathered = append(l.gathered, e)
	l.bytes += e.bytes()
	select {
	case l.work <- struct{}{}:
	default: // the goroutine will look anyway
	}
}

// bytes is about what the texts of e take.
func (e *Event) bytes() int { return len(e.User) + len(e.Znode.Value) + len(e.ACL.Value) }

// Await waits while too much has gathered. Whoever is about to cause an event calls it; not so the apply goroutine.
func (l *Log) Await() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && (len(l.gathered) > gatheredMax || l.bytes > gatheredBytesMax) {
		l.room.Wait()
	}
}

// Close writes what has gathered and ends the goroutine. It may be called more than once.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.work)
		l.room.Broadcast()
	}
	l.mu.Unlock()
	<-l.done
}

// run is the goroutine.
func (l *Log) run() {
	defer close(l.done)
	var taken []Event
	for range l.work {
		taken = l.write(taken)
	}
	l.write(taken)
}

// write writes what has gathered, and returns the room for the next to gather in.
func (l *Log) write(taken []Event) []Event {
	l.mu.Lock()
	taken, l.gathered = l.gathered, taken[:0]
	l.bytes = 0
	l.room.Broadcast()
	l.mu.Unlock()
	for i := range taken {
		l.sink.Write(&taken[i])
	}
	if err := l.sink.Flush(); err != nil {
		l.logger.Error("audit log write failed", slog.Any("err", err))
	}
	clear(taken)
	if cap(taken) > gatheredMax {
		return nil
	}
	return taken
}
