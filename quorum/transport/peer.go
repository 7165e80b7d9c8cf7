package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// peer is another server: the queue and the stream to it, and the stream from it.
type peer struct {
	transport *Transport
	id        uint64
	queue     *queue
	// turn holds a value while a reader hands on frames of the peer: the next one waits. It belongs to the id, so that
	// the order holds when a peer is removed and comes back.
	turn  chan struct{}
	done  chan struct{} // closed by end
	nudge chan struct{} // one value: the peer has connected, so dialing it is worth while

	bytesIn, bytesOut, framesIn, framesOut atomic.Int64

	mu        sync.Mutex
	ended     bool                  // guarded by mu
	addresses []string              // guarded by mu; the slice never changes
	former    []string              // guarded by mu; likewise: where it may be yet
	told      []string              // guarded by mu; likewise: where it says that it is
	ready     *link                 // guarded by mu; takes the place of the outgoing stream; nil: none
	outgoing  *stream               // guarded by mu; nil: none
	incoming  *stream               // guarded by mu; the newest; nil: none
	held      map[net.Conn]struct{} // guarded by mu; all connections, to be closed by end
	snapshots map[net.Conn]struct{} // guarded by mu; accepted snapshot streams
	lastErr   error                 // guarded by mu
	lastErrAt time.Time             // guarded by mu
	good      string                // guarded by mu; address that was connected last
	host      string                // guarded by mu; where that was; only what this side dialed, so no stranger's

	learned atomic.Pointer[learned] // what a question that was asked for itself has brought, else nil
	probed  int64                   // Transport.now of the last; owned by the supervisor
	asking  atomic.Bool             // it is being asked

	presence presence // in the log

	agreed atomic.Uint32 // levels.agreed of the process that was met last; 0: none was

	redialed int64 // Transport.now when it was last tried to move the outgoing stream; owned by the supervisor

	since    time.Time     // when this server began with it; never changes
	logged   string        // kind of failure that was logged last, "" after a success; owned by run
	loggedAt time.Time     // owned by run
	again    time.Duration // from loggedAt to when it is logged again, if it goes on; owned by run
}

// learned is the cluster of a peer's process.
type learned struct {
	processID uint64
	cluster   [16]byte
}

// newPeer returns a peer that does nothing until run.
func newPeer(t *Transport, id uint64, where Peer, turn chan struct{}) *peer {
	return &peer{
		transport: t,
		id:        id,
		queue:     newQueue(t.opts.QueueBytesMax),
		turn:      turn,
		done:      make(chan struct{}),
		nudge:     make(chan struct{}, 1),
		addresses: slices.Clone(where.Addresses),
		former:    slices.Clone(where.Former),
		held:      map[net.Conn]struct{}{},
		snapshots: map[net.Conn]struct{}{},
		presence:  presence{peer: id, logger: t.opts.Logger},
		since:     t.opts.Clock.Now(),
	}
}

// isOn tells whether the peer was last found on host.
func (p *peer) isOn(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host != "" && p.host == host
}

// wake makes run dial at once, if it waits.
func (p *peer) wake() {
	select {
	case p.nudge <- struct{}{}:
	default: // it will
	}
}

// end closes all connections of the peer for good.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	for conn := range p.held { // the order does not matter: all are closed
		_ = conn.Close() // of a connection that is given up
	}
}

// hold takes note of a connection, so that end closes it; false if it is too late.
func (p *peer) hold(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.held[conn] = struct{}{}
	}
	return !p.ended
}

// release closes a connection and forgets it.
func (p *peer) release(conn net.Conn) error {
	p.mu.Lock()
	delete(p.held, conn)
	p.mu.Unlock()
	return conn.Close()
}

// run keeps the outgoing stream up until the peer ends.
func (p *peer) run() {
	clock := p.transport.opts.Clock
	wait := backoffLeast
	for !p.stops() {
		dialed := clock.Now()
		l, err := p.takeReady(), error(nil)
		if l == nil {
			l, err = p.connect(context.Background(), forMessages)
		}
		if err == nil {
			began := clock.Now()
			err = p.serve(l)
			if clock.Since(began) > backoffMost {
				wait = backoffLeast
			}
		} else {
			p.tell(err, dialed)
		}
		p.note(err)
		pause(clock, p.transport.jitter(wait), p.done, p.nudge)
		wait = min(2*wait, backoffMost)
	}
}

// isEnded says whether end was called.
func (p *peer) isEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stops tells whether this server is stopping, or the peer was removed: then streams break on purpose.
func (p *peer) stops() bool {
	select {
	case <-p.done:
		return true
	case <-p.transport.done:
		return true
	default:
		return false
	}
}

// sayGoodbye has the peer told that this server stops; it returns the stream that the peer will end then, nil if there
// is none, or the peer would not understand.
func (p *peer) sayGoodbye() *stream {
	p.mu.Lock()
	s := p.outgoing
	p.mu.Unlock()
	if s == nil || s.version < versionGoodbye || !p.queue.goodbye() {
		return nil
	}
	return s
}

// noteLevels keeps what a peer's program says of feature levels, for AgreedLevel.
func (p *peer) noteLevels(l *link) { p.agreed.Store(uint32(l.levels.agreed)) }

// note keeps an error for Status.
func (p *peer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErr, p.lastErrAt = err, p.transport.opts.Clock.Now()
}

// startsWithin is how long after this server began with a peer nothing is told of its not answering: servers are
// started one after the other. A guess. Whom a server without a leader misses is told sooner, in a line of its own.
const startsWithin = 5 * time.Second

// tell logs that the peer could not be reached by a connection that was begun at a time: at the first failure, when the
// reason is another, and again at growing intervals. Who does not answer yet, right at the start, is told of if that
// lasts. That there is no address passes by itself when this server reads in the log that the peer was removed, or
// where it is: only if it does not it is told. That this server is no member every peer says, and one line does.
func (p *peer) tell(err error, begun time.Time) {
	if p.stops() {
		return
	}
	kind := failureKind(err)
	clock := p.transport.opts.Clock
	if kind == p.logged && clock.Since(p.loggedAt) < p.again {
		return
	}
	begins := kind != p.logged
	if begins && kind == kindUnreachable && clock.Since(p.since) < startsWithin {
		p.debug(err)
		return
	}
	if begins {
		p.again = 0
	}
	p.logged, p.loggedAt, p.again = kind, clock.Now(), warning.NextAgain(p.again)
	if begins && kind == kindNoAddress || kind == kindNotMember && !p.transport.outsider.next(begun) {
		p.debug(err)
		return
	}
	p.transport.opts.Logger.Warn("peer unreachable", slog.Int64("peer", serverid.Number(p.id)), slog.Any("err", err))
}

// debug logs a failure that is no news.
func (p *peer) debug(err error) {
	p.transport.opts.Logger.Debug("peer not reached", slog.Int64("peer", serverid.Number(p.id)), slog.Any("err", err))
}

// Kinds of failure: nobody's refusal, nowhere to go, and the refusal of who does not know this server.
const (
	kindUnreachable = "unreachable"
	kindNoAddress   = "no address"
	kindNotMember   = "no member"
)

// failureKind tells failures apart that need different remedies.
func failureKind(err error) string {
	if refused := (*RefusalError)(nil); errors.As(err, &refused) {
		if refused.Code == NotMember {
			return kindNotMember
		}
		return "refused: " + refused.Code.remedy()
	}
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
		return "foreign"
	}
	if errors.Is(err, errNoAddress) {
		return kindNoAddress
	}
	return kindUnreachable
}

// serve writes what is queued until the stream breaks, and returns why.
func (p *peer) serve(l *link) error {
	s := newStream(p.transport, l, &p.bytesOut)
	watched := make(chan struct{})
	if !p.transport.goFunc(func() { defer close(watched); p.watch(s) }) { // Stop may have told the peers already
		_ = p.release(l.raw) // unused
		return errClosed
	}
	p.queue.open(l.version) // before Status shows the stream
	p.setOutgoing(s)
	if p.logged == kindNotMember {
		p.transport.outsider.reset()
	}
	p.logged = ""
	p.presence.up(s, directionOut)
	p.transport.handler.Connected(p.id)
	lost := p.write(s)
	<-watched
	p.queue.shut(lost)
	p.setOutgoing(nil)
	_ = p.release(l.raw) // closed already
	if !p.stops() {
		p.tellEnd(s)
		p.transport.handler.Lost(p.id)
	}
	return s.err
}

// tellEnd logs why the outgoing stream has ended.
func (p *peer) tellEnd(s *stream) {
	p.mu.Lock()
	moves := p.isReplacedLocked(s)
	p.mu.Unlock()
	if moves {
		p.transport.opts.Logger.Info("peer address changed", slog.Int64("peer", serverid.Number(p.id)),
			slog.String("from", s.address))
		return
	}
	p.presence.ended(s, directionOut)
	// It was told: that nobody answers there for a while is no news.
	p.logged, p.loggedAt, p.again = kindUnreachable, p.transport.opts.Clock.Now(), warning.NextAgain(0)
}

// setOutgoing says which outgoing stream there is. One to an address that was taken away meanwhile ends at once.
func (p *peer) setOutgoing(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outgoing = s
	if s != nil && p.ready != nil { // one that was made while that one was dialed
		p.dropLocked(p.ready)
		p.ready = nil
	}
	p.checkAddressLocked()
}

// watch ends s when the peer closes it, or says something, which it must not.
func (p *peer) watch(s *stream) {
	var b [1]byte
	n, err := s.conn.Read(b[:])
	if n > 0 {
		err = errors.New("the peer has written to a stream that it should read")
	}
	s.end(err)
}

// burstPieces is how many pieces of a large frame are written at once: what may pass it waits for so many.
const burstPieces = 4

// write writes what is queued until s ends, and returns how many frames were taken but not written.
func (p *peer) write(s *stream) (lost int) {
	var spare []byte
	idle := 0
	for {
		buf, frames, large := p.queue.take(spare)
		if len(buf) == 0 && large == nil {
			spare = buf
			select {
			case <-p.queue.wake:
				continue
			case <-s.ended:
				return 0
			}
		}
		buf, err := s.writeWith(buf, large)
		if err != nil {
			s.end(err)
			return frames
		}
		if large != nil && large.done == large.size() {
			p.queue.passed()
			frames++
		}
		p.framesOut.Add(int64(frames))
		spare, idle = giveBack(buf, idle)
	}
}

// giveBack returns the buffer for the next use: none if it is large and was not needed for a while.
func giveBack(buf []byte, idle int) (spare []byte, idleNow int) {
	if cap(buf) <= largeBufferBytes || len(buf) > cap(buf)/4 {
		return buf, 0
	}
	if idle+1 < idleUses {
		return buf, idle + 1
	}
	return nil, 0
}
