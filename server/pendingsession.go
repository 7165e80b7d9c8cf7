package server

import "sync"

// pendingSession is a proposal whose outcome changes its connection, while the connection's reader waits. Should the
// connection end before, the reader goes, and the outcome finds nobody.
type pendingSession struct {
	conn *conn
	done chan error // one: what became of it

	mu        sync.Mutex // held while the connection is changed, under machine.mu or not; above all leaves
	abandoned bool       // guarded by mu
}

// newPendingSession returns one for c.
func newPendingSession(c *conn) pendingSession {
	return pendingSession{conn: c, done: make(chan error, 1)}
}

// wait waits for the outcome, or for the end of the connection: then it returns errGone.
func (h *pendingSession) wait() error {
	select {
	case err := <-h.done:
		return err
	case <-h.conn.Out.Ending():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned = true
	select {
	case err := <-h.done: // it has just been changed
		return err
	default:
		return errGone
	}
}

// do has f change the connection, unless nobody waits any more. The apply goroutine calls it.
func (h *pendingSession) do(f func(c *conn) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.abandoned {
		h.done <- f(h.conn)
	}
}

// Dropped ends the connection: the client tries again.
func (h *pendingSession) Dropped(err error) { h.done <- err }
