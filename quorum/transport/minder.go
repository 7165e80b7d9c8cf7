package transport

import "time"

// Parts of the idle timeout.
const (
	minderParts    = 10 // it is looked so often
	keepAliveParts = 5  // a keep-alive is sent so often
)

// mind looks after all streams until the transport is closed.
func (t *Transport) mind() {
	ticker := t.opts.Clock.NewTicker(max(t.opts.IdleTimeout/minderParts, 1))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			for _, p := range *t.peers.Load() { // the order does not matter: each is looked at alone
				p.tend(t.now())
			}
		case <-t.done:
			return
		}
	}
}

// tend ends streams that are silent or stuck, and keeps the outgoing one from being silent.
func (p *peer) tend(now int64) {
	idle := p.transport.opts.IdleTimeout
	p.mu.Lock()
	in, out := p.incoming, p.outgoing
	p.mu.Unlock()
	if in != nil && in.waits(now) > idle {
		in.end(errSilent)
		if out != nil {
			// What we write goes nowhere either, and without this would be noticed only when TCP gives up.
			out.end(errSilent)
		}
	}
	if out == nil {
		return
	}
	if out.waits(now) > idle {
		out.end(errStuck)
	}
	if time.Duration(now-out.last.Load()) >= idle/keepAliveParts {
		p.queue.keepAlive()
	}
}
