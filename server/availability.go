package server

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/storage/serverid"
)

// servingState is what this server does for clients.
type servingState uint64

// The serving states. A server that loses its leader serves on for LeaderGrace: reads as before, while writes wait. A
// leader that leaves clients to the others (Options.IdleLeader) is down, to them and to the four-letter commands
// (org.apache.zookeeper.server.quorum.Leader.lead does not give its server to the port then).
const (
	stateDown     servingState = iota // connections are closed at their ConnectRequest
	stateReadOnly                     // reads only, for sessions that nobody else knows
	stateServing
)

// stateBits is the part of availability.word that is the serving state; above it is the epoch.
const stateBits = 2

// availability is the serving state, and what it follows from.
type availability struct {
	// word is the serving state and, above it, the epoch: how often all connections were closed. It is written under
	// mu.
	word    atomic.Uint64
	leading atomic.Bool // this server leads its group
	// replacing is set while a snapshot replaces the state: nobody enters.
	replacing atomic.Bool

	mu      sync.Mutex
	state   quorum.State  // the latest; guarded by mu
	current bool          // this server has a leader, and what that has committed; guarded by mu
	changed chan struct{} // closed at the next change of any of them; guarded by mu

	wake chan struct{} // one token: state has changed
	halt chan struct{} // closed by Shutdown, at its end
	done chan struct{} // closed when halt was obeyed
}

// init begins in the first epoch, with nobody served.
func (a *availability) init() {
	a.word.Store(1 << stateBits)
	a.changed = make(chan struct{})
	a.wake, a.halt, a.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
}

// serving is the present serving state.
func (a *availability) serving() servingState {
	return servingState(a.word.Load() & (1<<stateBits - 1))
}

// shown is the serving state that commands and metrics show: nobody is served while the state is being replaced, and
// who looked at it would wait for as long.
func (a *availability) shown() servingState {
	if a.replacing.Load() {
		return stateDown
	}
	return a.serving()
}

// begin begins an epoch. It returns its word.
func (a *availability) begin(p servingState) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beginLocked(p)
}

// beginAgain begins an epoch of the same serving state.
func (a *availability) beginAgain() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beginLocked(a.serving())
}

// beginLocked writes the word of the next epoch.
func (a *availability) beginLocked(p servingState) uint64 {
	word := (a.word.Load()>>stateBits+1)<<stateBits | uint64(p)
	a.word.Store(word)
	a.tellChangeLocked()
	return word
}

// tellChangeLocked tells who waits for a change.
func (a *availability) tellChangeLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// setCurrent says whether this server has what its leader has committed.
func (a *availability) setCurrent(current bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != current {
		a.current = current
		a.tellChangeLocked()
	}
}

// certain tells whether this server has a leader and what that has committed, and has a channel closed when that may
// have changed, or the serving state.
func (a *availability) certain() (certain bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current && a.state.Leader != 0, a.changed
}

// latest is the state that was told last.
func (a *availability) latest() quorum.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// SetState tells who leads the group. It does not block; a server without Options.Ensemble ignores it.
func (s *Server) SetState(state quorum.State) {
	if s.opts.Ensemble == nil {
		return
	}
	a := &s.available
	a.leading.Store(state.Role == quorum.RoleLeader)
	a.mu.Lock()
	if a.state.Leader != state.Leader {
		a.tellChangeLocked()
	}
	a.state = state
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it has a token already
	}
}

// Replacing says that a snapshot is about to replace the state: what connections have seen and watch is of the past,
// and they would see the new state without the events that led to it. They are closed before, and nobody enters until
// Replaced. It is called on the apply goroutine and does not wait.
func (s *Server) Replacing() {
	s.opts.Logger.Info("replacing the state: closing client connections")
	s.available.replacing.Store(true)
	s.beginEpochAgain()
}

// Replaced says that it has: clients come back and set their watches again, which tells them what they have missed. The
// tracker takes the sessions anew. It is called on the apply goroutine and does not wait.
func (s *Server) Replaced() {
	s.beginEpochAgain()
	s.available.replacing.Store(false)
	s.listeners.Lock() // so that Shutdown, which comes before the machine is closed, waits for it
	defer s.listeners.Unlock()
	if !s.listeners.down && s.tracker.Load() != nil {
		s.spawn(expirer{s}.adoptSessions)
	}
}

// beginEpoch changes the serving state, and closes the connections that began before.
func (s *Server) beginEpoch(p servingState) { s.closeBefore(s.available.begin(p)) }

// beginEpochAgain closes the connections that began before, and leaves the serving state as it is.
func (s *Server) beginEpochAgain() { s.closeBefore(s.available.beginAgain()) }

// closeBefore closes the connections that began before the epoch of word.
func (s *Server) closeBefore(word uint64) {
	for _, c := range s.connections.all() {
		if epoch := c.epoch.Load(); epoch != 0 && epoch>>stateBits < word>>stateBits {
			c.Out.Close()
		}
	}
}

// barrierRetry is how long a barrier that was dropped is not asked for again, unless the leader changes. A guess: a
// heartbeat of the leader.
const barrierRetry = 100 * time.Millisecond

// roleController brings the serving state and the tracker in step with the state of the group. Owned by its goroutine.
type roleController struct {
	server  *Server
	state   quorum.State // as last attended to
	current bool         // a barrier of this leader has passed
	since   time.Duration
	passed  chan error // of the barrier that is asked for, else nil
	grace   clock.Timer
	retry   clock.Timer
	leave   clock.Timer // of a server that is not in the configuration any more
	left    bool        // that is over
}

// controlRole runs until halt.
func (s *Server) controlRole() {
	a := &roleController{server: s, since: s.elapsed(), grace: s.opts.Clock.NewTimer(s.opts.LeaderGrace),
		retry: s.opts.Clock.NewTimer(barrierRetry), leave: s.opts.Clock.NewTimer(s.opts.RemovedGrace)}
	a.retry.Stop()
	a.leave.Stop()
	defer close(s.available.done)
	defer a.grace.Stop()
	defer a.retry.Stop()
	defer a.leave.Stop()
	for {
		select {
		case <-s.available.halt:
			return
		case <-s.available.wake:
			a.stateChanged(s.available.latest())
		case err := <-a.passed:
			a.barrierDone(err)
		case <-a.retry.C():
			a.ask()
		case <-a.grace.C():
			a.giveUp()
		case <-a.leave.C():
			a.left = true
			a.removed()
		}
	}
}

// stateChanged attends to a new state. Another leader, or the same one in another term, may have committed what this
// server has not applied: it is current only when a barrier has passed.
func (a *roleController) stateChanged(state quorum.State) {
	before := a.state
	a.state = state
	a.lead(before)
	out := before.Role == quorum.RoleRemoved || a.left
	a.leaves(before)
	if a.removed() || a.behind(before) {
		return
	}
	if a.idle() && a.server.available.serving() != stateDown {
		a.leaveClients()
	}
	if state.Leader == before.Leader && state.Term == before.Term && !out && !before.Behind {
		return
	}
	a.fallBehind()
	a.ask()
}

// fallBehind says that others may know what this server does not. The grace begins, unless it has already.
func (a *roleController) fallBehind() {
	if a.current {
		a.lapse()
		a.grace.Reset(a.server.opts.LeaderGrace)
	}
	a.passed = nil
	a.retry.Stop()
}

// lapse says that this server may lack what others have committed, from now on.
func (a *roleController) lapse() {
	a.current, a.since = false, a.server.elapsed()
	a.server.available.setCurrent(false)
}

// behind tells whether this server lacks what the others have committed, because its disk hangs. Its clients have
// waited for the disk already, and go to the others, who answer their writes.
func (a *roleController) behind(before quorum.State) bool {
	if a.state.Behind && !before.Behind {
		a.fallBehind()
		a.grace.Stop()
		a.giveUp()
	}
	return a.state.Behind
}

// lead begins or ends a leadership. It expires sessions from when its first barrier has passed, and has given them
// their full timeout then: before, nothing is committed, clients are heard nowhere, and an end that is proposed would
// come before they could. ZooKeeper's leader begins when a majority is in step with it
// (org.apache.zookeeper.server.quorum.Leader.startZkServer). While it is stuck later the sessions' time stands still;
// ZooKeeper's leader gives up then (Leader.lead).
func (a *roleController) lead(before quorum.State) {
	tracker := a.server.tracker.Load()
	tracker.Halt(a.state.Stuck)
	leads, led := a.state.Role == quorum.RoleLeader, before.Role == quorum.RoleLeader
	begins := leads && (!led || a.state.Term != before.Term)
	if begins {
		a.server.ledSince.Store(int64(a.server.elapsed()))
		a.server.metrics.proposals.Reset()
	}
	if begins || led && !leads {
		tracker.Follow()
	}
}

// ask asks for a barrier, if there is a leader to ask.
func (a *roleController) ask() {
	if a.state.Leader == 0 {
		return
	}
	w := newBarrier()
	a.passed = w.done
	a.server.opts.node.Barrier(w)
}

// barrierDone begins to serve, or tries again.
func (a *roleController) barrierDone(err error) {
	a.passed = nil
	if err != nil {
		a.retry.Reset(barrierRetry)
		return
	}
	s := a.server
	a.current = true
	if tracker := s.tracker.Load(); a.state.Role == quorum.RoleLeader && !tracker.Expiring() {
		tracker.Lead()
	}
	s.available.setCurrent(true)
	a.grace.Stop()
	s.metrics.unavailable.Add((s.elapsed() - a.since).Milliseconds())
	was := s.available.serving()
	if was == stateServing || a.idle() {
		return
	}
	s.opts.Logger.Info("accepting client requests", slog.Int64("leader", serverid.Number(a.state.Leader)),
		slog.Uint64("term", a.state.Term), slog.String("role", string(a.state.Role)),
		slog.Duration("took", s.elapsed()-a.since))
	s.beginEpoch(stateServing)
	if was == stateReadOnly {
		s.locals.endReadOnly()
	}
}

// idle tells whether this server leads, and leaves clients to the others.
func (a *roleController) idle() bool {
	return a.server.opts.IdleLeader && a.state.Role == quorum.RoleLeader
}

// leaveClients closes all connections: their clients go to the others.
func (a *roleController) leaveClients() {
	s := a.server
	s.opts.Logger.Info("not serving: leader with leaderServes=no")
	was := s.available.serving()
	s.beginEpoch(stateDown)
	if was == stateReadOnly {
		s.locals.endReadOnly()
	}
}

// giveUp stops serving when the grace is over.
func (a *roleController) giveUp() {
	s := a.server
	p := stateDown
	if s.opts.ReadOnlyMode {
		p = stateReadOnly
	}
	took, readOnly := slog.Duration("took", s.elapsed()-a.since), slog.Bool("read_only", p == stateReadOnly)
	if a.state.Behind {
		s.opts.Logger.Warn("not serving writes: disk stalled", took, readOnly)
	} else {
		s.opts.Logger.Warn("not serving writes: no leader", took, readOnly)
	}
	if s.available.serving() != p {
		s.beginEpoch(p)
	}
}
