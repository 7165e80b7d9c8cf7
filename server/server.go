package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/quorum/warning"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/server/stats/catalog"
	"zkd/server/traffic"
	"zkd/server/watch"
)

// Server serves clients. Make it before the node, as the node's observer; Start it when the node may serve; then Serve.
type Server struct {
	opts    Options // immutable after New, but for node, which Start sets
	frames  limits.FrameLimits
	started time.Time
	ids     *idSource
	watches *watch.Table
	flusher *socket.Flusher
	telling telling // owned by the apply goroutine
	metrics metrics
	bad     *warning.Limiter
	turned  *warning.Repeated // clients away, because this server does not serve them now
	full    *warning.Limiter  // writes that were refused for want of room
	// hoarders tells of connections that held too much memory: not to be lost among what else is malformed.
	hoarders *warning.Limiter
	slow     slowLog
	traffic  *traffic.Recorder // nil: nothing is counted
	watchdog watchdog

	handshakes socket.Handshakes
	readTurns  limits.ReadTurns
	watchTurns limits.ReadTurns // of large setWatches
	largeTurns limits.Turns     // of large frames that are taken from sockets
	shares     limits.Shares    // of what is under way
	inFlight   limits.InFlight  // away from what every request reads: every write changes it
	memory     clientMemory

	endings     endings
	churn       limits.Churn
	newcomers   *limits.TokenBucket // nil if connection_throttle_tokens is 0
	connections connections
	sessions    sessions
	locals      locals
	available   availability
	ledSince    atomic.Int64                     // elapsed time at which this server began to lead
	tracker     atomic.Pointer[liveness.Tracker] // nil until Start

	listeners struct {
		sync.Mutex
		all  []net.Listener
		down bool // no more connections are taken
	}
	tasks  sync.WaitGroup // every goroutine of the server but the flusher and the drains
	drains sync.WaitGroup // who write to clients that do not take all at once: the flusher begins them
	stop   chan struct{}  // closed by Shutdown
}

// connectionsPart is the part of what may be under way of all connections before all of them wait
// (quorum.defaultMaxOutstandingBytes) that one may have.
const connectionsPart = 8

// New returns a server that is not serving yet.
func New(o Options) *Server {
	o.setDefaults()
	s := &Server{opts: o, started: o.Clock.Now(), watches: watch.New(), stop: make(chan struct{})}
	makes := o.ServerID
	if o.Ensemble == nil {
		makes = makerAlone
	}
	s.ids = newIDSource(makes, s.millis())
	s.bad = warning.NewLimiter(o.Logger, o.Clock)
	s.turned = warning.NewRepeated(o.Logger, o.Clock)
	s.full = warning.NewLimiter(o.Logger, o.Clock)
	s.hoarders = warning.NewLimiter(o.Logger, o.Clock)
	s.telling.watches = s.watches
	s.readTurns.Init(s.stop)
	s.watchTurns.Init(s.stop)
	s.largeTurns.Init(limits.PartOfProcessors())
	s.shares.Init(connectionsPart * socket.MaxOutstandingBytes)
	s.inFlight.Init(o.Limits.Outstanding, o.Limits.Requests, o.Clock)
	s.frames.Init(limits.FrameOptions{FrameBytes: o.MaxFrameBytes, LargeBytes: o.Limits.LargeRequestBytes,
		AllBytes: o.Limits.LargeRequestsBytes})
	s.memory.init(&s.connections, limits.MemoryOptions{Max: o.Limits.MemoryBytes, Clock: o.Clock})
	s.slow.init(&o)
	if !o.TrafficOff {
		s.traffic = traffic.New(traffic.Options{Clock: o.Clock})
	}
	s.watchdog.init(s)
	s.newcomers = limits.NewTokenBucket(o.Limits.Sessions, o.LocalSessions, o.Random, s.elapsed())
	s.handshakes.Init(o.Limits.Handshakes, o.Limits.HandshakesComputing)
	s.connections.init(o.MaxConnectionsPerIP, o.MaxConnections)
	s.sessions.init()
	s.endings.init()
	s.locals.init(s)
	s.available.init()
	s.flusher = socket.NewFlusher(func(o *socket.Output) { s.drains.Go(o.Drain) })
	return s
}

// Start begins to track the sessions and to clean up. A server that is alone serves from then on, and Committed has
// seen everything up to now; a member of an ensemble serves when SetState has told it a leader and it has caught up.
func (s *Server) Start(node Node) {
	s.opts.node = node
	alone := s.opts.Ensemble == nil
	ends := expirer{s}
	s.tracker.Store(liveness.Start(liveness.Options{Clock: s.opts.Clock, Tick: s.opts.TickTime, Expire: ends.expire,
		Report: s.report, Reporting: !alone, Logger: s.opts.Logger}))
	s.locals.start()
	ends.adoptSessions()
	if alone {
		s.available.leading.Store(true)
		s.available.begin(stateServing)
		close(s.available.done)
	} else {
		go s.controlRole()
	}
	go s.flusher.Run()
	s.spawn(ends.cleanUp)
	s.spawn(ends.goOn)
	s.spawn(s.watchdog.run)
	s.spawn(func() { s.memory.Run(s.stop) })
	if s.traffic != nil {
		s.spawn(func() { s.traffic.Run(s.stop) })
	}
}

// spawn runs f on a goroutine that Shutdown waits for.
func (s *Server) spawn(f func()) { s.tasks.Go(f) }

// Serve takes connections that speak plain text from l, as ServePort does.
func (s *Server) Serve(l net.Listener) error { return s.ServePort(l, &Port{}) }

// ServePort takes connections from l until Shutdown, or until l fails. It closes l, and keeps p, which nobody changes
// any more.
func (s *Server) ServePort(l net.Listener, p *Port) error {
	s.listeners.Lock()
	if s.listeners.down {
		s.listeners.Unlock()
		return errors.Join(net.ErrClosed, l.Close())
	}
	s.listeners.all = append(s.listeners.all, l)
	s.listeners.Unlock()
	for {
		if pause := s.churn.Pause(s.elapsed()); pause > 0 {
			s.pause(pause)
		}
		c, err := l.Accept()
		switch {
		case err == nil:
			s.accept(c, p)
		case s.draining():
			return nil
		case isTemporary(err):
			s.bad.Warn("failed to accept client connection", slog.Any("err", err))
			s.pause(acceptPause)
		default:
			return fmt.Errorf("take connections on %s: %w", l.Addr(), err)
		}
	}
}

// acceptPause is how long Serve waits when the process has no file descriptor left.
const acceptPause = 50 * time.Millisecond

// isTemporary reports whether taking connections may work later: no file descriptors, or a client that went away.
func isTemporary(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && !errors.Is(err, net.ErrClosed)
}

// pause waits for d, or until Shutdown.
func (s *Server) pause(d time.Duration) {
	t := s.opts.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-s.stop:
	}
}

// accept begins to serve a connection, unless there are too many.
func (s *Server) accept(nc net.Conn, p *Port) {
	c := newConn(s, p, remoteAddr(nc))
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlive(s.opts.KeepAlive) // an idle session is found out by its timeout anyway
	}
	s.listeners.Lock() // so that Shutdown sees every connection that is taken
	defer s.listeners.Unlock()
	if s.listeners.down {
		_ = nc.Close() // it was never served
		return
	}
	if !s.connections.add(c) {
		s.metrics.rejected.Add(1)
		s.churn.Ended(s.elapsed())
		s.bad.Warn("connection limit reached: maxClientCnxns or maxCnxns", slog.String("peer", c.remote.String()))
		_ = nc.Close() // it was never served
		return
	}
	if p.TLS != nil && !s.handshakes.Enter() {
		s.connections.remove(c)
		s.bad.Warn("TLS handshake limit reached: netty.server.outstandingHandshake.limit",
			slog.String("peer", c.remote.String()))
		_ = nc.Close() // it was never served
		return
	}
	c.account.Open(&s.memory.Memory, c.heldMost)
	c.share = s.shares.Enter(c.remote.Addr())
	c.Init(nc, socket.Options{Frames: &s.frames, Large: &s.largeTurns, Figures: &s.metrics.output, Account: &c.account,
		Share: c.share})
	c.login.ids.Start(c.remote.Addr(), s.opts.Limits.Identities)
	s.spawn(c.serve)
}

// remoteAddr is the client's address; an IPv4 one is never dressed as IPv6.
func remoteAddr(nc net.Conn) netip.AddrPort {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		a := tcp.AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return netip.AddrPort{}
}

// forget drops what the server keeps of a connection that has ended.
func (s *Server) forget(c *conn) {
	s.watches.RemoveAll(&c.watch)
	c.account.Close()
	c.share.Leave()
	s.unbind(c)
	s.connections.remove(c)
}

// draining reports whether Shutdown has begun.
func (s *Server) draining() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// passed is a deadline that has passed, whatever the clock says.
var passed = time.Unix(1, 0)

// Shutdown takes no more connections and requests, answers the requests that were taken, and closes the connections.
// Sessions go on: their clients come back. If ctx ends before, the connections are closed as they are. The node must
// still run.
func (s *Server) Shutdown(ctx context.Context) error {
	s.listeners.Lock()
	first := !s.listeners.down
	s.listeners.down = true
	if first {
		close(s.stop) // before Accept fails, so that Serve knows why
	}
	for _, l := range s.listeners.all {
		_ = l.Close() // nobody waits for it but Serve
	}
	s.listeners.Unlock()
	if !first {
		return nil
	}
	for _, c := range s.connections.all() {
		_ = c.Net().SetReadDeadline(passed) // fails only for a connection that has ended
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tasks.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("stop serving: %w", ctx.Err())
		for _, c := range s.connections.all() {
			c.Out.Close()
		}
	}
	return errors.Join(err, s.halt(ctx))
}

// halt ends what Start began. The tracker may be waiting for the node, which without a leader may be for ever.
func (s *Server) halt(ctx context.Context) error {
	t := s.tracker.Load()
	if t == nil {
		return nil
	}
	close(s.available.halt)
	<-s.available.done
	s.locals.stop()
	s.flusher.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.drains.Wait() // their connections have ended
		t.Stop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop expiring sessions: %w", ctx.Err())
	}
}

// SetMetrics sets all that the server and Options.Metrics have to tell. Any goroutine may call it.
func (s *Server) SetMetrics(v *catalog.Values) { figures{s}.set(v) }

// Info is what the admin commands show of the server, as it is now: of both ports. Any goroutine may call it.
func (s *Server) Info() *fourletter.Info { return figures{s}.info(everybody) }

// Traffic returns who has done what in the last seconds (traffic.Recorder.Window); nil if nothing is counted. Any
// goroutine may call it.
func (s *Server) Traffic(span time.Duration) *traffic.Window {
	if s.traffic == nil {
		return nil
	}
	return s.traffic.Window(span)
}

// elapsed is the time since the server was made.
func (s *Server) elapsed() time.Duration { return s.opts.Clock.Since(s.started) }

// millis is the time of day, as znodes and session ids have it.
func (s *Server) millis() jute.Millis { return jute.Millis(s.opts.Clock.Now().UnixMilli()) }

// zxidAttr is the log attribute of a zxid.
func zxidAttr(key string, z jute.Zxid) slog.Attr { return slog.String(key, jute.Hex(z)) }
