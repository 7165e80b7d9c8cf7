package server

import (
	"errors"
	"log/slog"
	"sync"

	"zkd/quorum/batcher"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// errShutdown means that what is left of a session is for whoever leads next.
var errShutdown = errors.New("the server shuts down")

// ending is the end of a session: if the session owns many ephemerals, one closeSession after another, so that no entry
// holds up the writes of others for long. It is who waits for the present one.
type ending struct {
	s *Server
	p entry.Proposal
	w batcher.Waiter // who waits for the end; nil: nobody
}

// end proposes the end of a session that the state knows, by p, a closeSession, and tells w when all of it has
// come about. Should this server end meanwhile, the session expires.
func (s expirer) end(p *entry.Proposal, w batcher.Waiter) error {
	return s.opts.node.Propose(s.inPieces(p, w))
}

// inPieces returns the first of the proposals by which a session ends, by p, and who waits for it, for w.
func (s expirer) inPieces(p *entry.Proposal, w batcher.Waiter) (*entry.Proposal, batcher.Waiter) {
	if s.opts.Machine.Level() < entry.LevelPieces {
		return p, w
	}
	e := &ending{s: s.Server, p: *p, w: w}
	e.p.Flags |= entry.FlagInPieces
	return &e.p, e
}

// Applied goes on, unless that was all.
func (e *ending) Applied(r *apply.Result) {
	switch {
	case r.Unfinished:
		if !e.s.endings.add(e) {
			e.Dropped(errShutdown)
		}
	case e.w != nil:
		e.w.Applied(r)
	}
}

// Dropped tells who waits that nothing is known of the end.
func (e *ending) Dropped(err error) {
	if e.w != nil {
		e.w.Dropped(err)
	}
}

// endings are the sessions that have ended but for what another closeSession is to delete.
type endings struct {
	wake chan struct{} // has room for one

	mu   sync.Mutex // a leaf
	left []*ending
	down bool // nobody takes more
}

// init makes it empty.
func (e *endings) init() { e.wake = make(chan struct{}, 1) }

// add has an end go on. It is false when the server shuts down. The apply goroutine calls it.
func (e *endings) add(one *ending) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return false
	}
	e.left = append(e.left, one)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns those that are to go on. With last nobody may be added any more.
func (e *endings) take(last bool) []*ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := e.left
	e.left, e.down = nil, last
	return left
}

// goOn has endings go on until Shutdown: those of several sessions in turn.
func (s expirer) goOn() {
	for {
		select {
		case <-s.stop:
			for _, e := range s.endings.take(true) {
				e.Dropped(errShutdown)
			}
			return
		case <-s.endings.wake:
		}
		for _, e := range s.endings.take(false) {
			if err := s.opts.node.Propose(&e.p, e); err != nil {
				s.opts.Logger.Warn("failed to close session: some of its ephemerals are left", session(e.p.Session),
					slog.Any("err", err))
				e.Dropped(err)
			}
		}
	}
}
