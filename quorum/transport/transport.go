package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// Transport connects this server with the others of its ensemble. Its methods may be called by any goroutine.
type Transport struct {
	opts      Options
	processID uint64           // random number of this process; immutable
	start     time.Time        // immutable; what now counts from
	warn      *warning.Limiter // for what strangers can cause
	joiners   *joiners         // servers that are no peers and have called
	outsider  *outsider        // this server, while peers know it not
	handler   Handler          // set by Start, before any goroutine runs
	done      chan struct{}
	begun     chan struct{}                    // closed by Start
	running   sync.WaitGroup                   // all goroutines
	peers     atomic.Pointer[map[uint64]*peer] // replaced under mu; never nil, nor changed once it is there

	redialing   atomic.Bool // a stream is about to be moved to another address; set by the supervisor
	mu          sync.Mutex
	listeners   []net.Listener           // guarded by mu
	started     bool                     // guarded by mu
	accepting   bool                     // guarded by mu
	closed      bool                     // guarded by mu
	turns       map[uint64]chan struct{} // guarded by mu; for each id ever known, see peer.turn
	handshakes  map[string]int           // guarded by mu; accepted connections in handshake, by remote host
	handshaking int                      // guarded by mu; their sum
}

// Errors of a connection that this side ended.
var (
	errClosed  = errors.New("this server is closing, or the peer was removed")
	errTimeout = errors.New("no end within the time limit: the peer or the network does not answer")
	errSilent  = errors.New("nothing was heard for the idle timeout: the peer is stuck or cannot be reached")
	errStuck   = errors.New("a write made no progress for the idle timeout: the peer does not read")
	errNewer   = errors.New("the peer has connected anew")
	errRenewed = errors.New("this server founds nothing any more, and says so in another handshake")
	errMoved   = errors.New("the peer has other addresses now")
	errUnknown = errors.New("no such peer")
)

// New returns a transport that does nothing until Start.
func New(opts Options) (*Transport, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	t := &Transport{
		opts:       opts,
		processID:  opts.Rand.Uint64(),
		start:      opts.Clock.Now(),
		warn:       warning.NewLimiter(opts.Logger, opts.Clock),
		done:       make(chan struct{}),
		begun:      make(chan struct{}),
		turns:      map[uint64]chan struct{}{},
		handshakes: map[string]int{},
		joiners:    &joiners{logger: opts.Logger, clock: opts.Clock, known: map[uint64]joiner{}},
		outsider:   &outsider{clock: opts.Clock},
		listeners:  slices.Clone(opts.Listeners),
	}
	t.peers.Store(&map[uint64]*peer{})
	return t, nil
}

// Start begins to accept and to dial, and hands what comes to handler. It is called once.
func (t *Transport) Start(handler Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.started {
		return
	}
	t.started, t.handler = true, handler
	close(t.begun)
	t.acceptLocked()
	t.goLocked(t.supervise)
	for _, p := range *t.peers.Load() { // the order does not matter: each has its own goroutine
		t.goLocked(p.run)
	}
}

// Send queues one frame for a peer: encode appends the body to a buffer and returns it; it is called during the call,
// at most once, and must not call the transport. Send never blocks. False: the frame was dropped, because the peer is
// unknown or not connected, its queue is full, or the frame is larger than 64 MiB. True promises no arrival.
func (t *Transport) Send(to uint64, kind uint8, encode func(b []byte) []byte) bool {
	p := (*t.peers.Load())[to]
	return p != nil && p.queue.add(kind, encode)
}

// SendInOrder is Send for what must not be passed by others of its kind: these frames arrive in their order, those of
// Send may pass them. If kept is not nil the body is what encode appends and then kept, which the transport keeps and
// nobody may change any more: such a frame costs no copy, and is large.
func (t *Transport) SendInOrder(to uint64, kind uint8, encode func(b []byte) []byte, kept []byte) bool {
	p := (*t.peers.Load())[to]
	return p != nil && p.queue.addInOrder(kind, encode, kept)
}

// SetPeers says who the other servers are; this one is left out if it is there. Connections of a peer that is gone are
// closed, and an outgoing one to an address that is neither the peer's nor a former one is made anew. One to a former
// address goes on until the peer is reached at one that is its own. It does not wait.
func (t *Transport) SetPeers(peers map[uint64]Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	old := *t.peers.Load()
	next := make(map[uint64]*peer, len(peers))
	for id, where := range peers { // the order does not matter: each is judged alone
		switch p := old[id]; {
		case id == t.opts.ID:
		case p != nil:
			next[id] = p
			p.setAddresses(where)
		default:
			next[id] = t.newPeerLocked(id, where)
		}
	}
	t.peers.Store(&next)
	for id, p := range old { // the order does not matter: each is judged alone
		if next[id] == nil {
			p.end()
		}
	}
}

// newPeerLocked returns a peer, which dials if the transport is started.
func (t *Transport) newPeerLocked(id uint64, where Peer) *peer {
	turn := t.turns[id]
	if turn == nil {
		turn = make(chan struct{}, 1) // one value: the right to hand on frames of the peer
		t.turns[id] = turn
	}
	p := newPeer(t, id, where, turn)
	if t.started {
		t.goLocked(p.run)
	}
	return p
}

// OpenStream connects to a peer for a snapshot. ctx bounds the connecting, not the stream. The stream is closed too by
// Close and when the peer is removed.
func (t *Transport) OpenStream(ctx context.Context, to uint64) (net.Conn, error) {
	p := (*t.peers.Load())[to]
	if p == nil {
		return nil, fmt.Errorf("open stream to server %d: %w", serverid.Number(to), errUnknown)
	}
	l, err := p.connect(ctx, forSnapshot)
	if err != nil {
		return nil, fmt.Errorf("open stream to server %d: %w", serverid.Number(to), err)
	}
	return &ownedConn{Conn: l.conn, link: l, peer: p}, nil
}

// Close ends all connections and waits for all goroutines, so for calls of the Handler and of Options.Streams that are
// under way, too; it must not be called from one.
func (t *Transport) Close() {
	t.shut()
	for _, p := range *t.peers.Load() { // the order does not matter: all end
		p.end()
	}
	t.running.Wait()
}

// Stop is Close for a server that stops as it was asked to: the peers are told before, and write `peer left` where they
// write `peer disconnected` otherwise. It waits for them until ctx ends, and not for long.
func (t *Transport) Stop(ctx context.Context) {
	t.shut()
	timer := t.opts.Clock.NewTimer(goodbyeWait)
	defer timer.Stop()
	var told []*stream
	for _, p := range *t.peers.Load() { // the order does not matter: all are told before any is waited for
		if s := p.sayGoodbye(); s != nil {
			told = append(told, s)
		}
	}
	for enough := false; !enough && len(told) > 0; told = told[1:] {
		select {
		case <-told[0].ended: // by the peer, which has understood
		case <-timer.C():
			enough = true
		case <-ctx.Done():
			enough = true
		}
	}
	t.Close()
}

// shut closes the listeners, and has nothing begin any more.
func (t *Transport) shut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	close(t.done)
	for _, l := range t.listeners {
		if err := l.Close(); err != nil {
			t.opts.Logger.Warn("failed to close listener", slog.Any("err", err))
		}
	}
}

// goLocked runs f on a goroutine that Close waits for.
func (t *Transport) goLocked(f func()) {
	t.running.Add(1)
	go func() {
		defer t.running.Done()
		f()
	}()
}

// goFunc runs f on a goroutine that Close waits for; false, without running it, if the transport is closed.
func (t *Transport) goFunc(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.goLocked(f)
	return true
}

// now is the time since the start in nanoseconds, never 0.
func (t *Transport) now() int64 { return int64(t.opts.Clock.Since(t.start)) + 1 }

// jitter returns d and up to half of it more.
func (t *Transport) jitter(d time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return d + time.Duration(t.opts.Rand.Int64N(int64(d)/2+1))
}

// pause waits, at most until done or nudge, which may be nil.
func pause(c clock.Clock, d time.Duration, done, nudge <-chan struct{}) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-done:
	case <-nudge:
	}
}

// within returns a context that ends with ctx, when done is closed, or after d of the transport's clock. cancel must be
// called.
func (t *Transport) within(ctx context.Context, done <-chan struct{}, d time.Duration) (
	limited context.Context, cancel func(),
) {
	limited, stop := context.WithCancelCause(ctx)
	timer := t.opts.Clock.NewTimer(d)
	watching := t.goFunc(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			stop(errTimeout)
		case <-done:
			stop(errClosed)
		case <-limited.Done():
		}
	})
	if !watching {
		timer.Stop()
		stop(errClosed)
	}
	return limited, func() { stop(context.Canceled) }
}

// WhyAway says why the last stream with a peer broke, or could not be made; "" if nothing is known.
func (t *Transport) WhyAway(id uint64) string {
	p := (*t.peers.Load())[id]
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastErr == nil {
		return ""
	}
	return p.lastErr.Error()
}

// Status returns what is known of each peer, ascending by id.
func (t *Transport) Status() []PeerStatus {
	peers := maps.Values(*t.peers.Load())
	return statusOf(peers)
}
