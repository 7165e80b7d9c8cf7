package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Parts of the idle timeout.
const (
	minderParts    = 10 // it is looked so often
	keepAliveParts = 5  // a keep-alive is sent so often
)

// supervise looks after all streams until the transport is closed.
func (t *Transport) supervise() {
	ticker := t.opts.Clock.NewTicker(max(t.opts.IdleTimeout/minderParts, 1))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			for _, p := range *t.peers.Load() { // the order does not matter: each is looked at alone
				p.check(t.now())
			}
			t.redialOne()
		case <-t.done:
			return
		}
	}
}

// check ends streams that are silent or stuck, and keeps the outgoing one from being silent.
func (p *peer) check(now int64) {
	idle := p.transport.opts.IdleTimeout
	p.mu.Lock()
	in, out := p.incoming, p.outgoing
	p.mu.Unlock()
	p.compare(now, in, out)
	p.compareLevels(in, out)
	p.compareStanding(in, out)
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

// compare ends streams to a server of another cluster that began when one side knew none yet. Of one whose cluster is
// still not known it asks now and then.
func (p *peer) compare(now int64, streams ...*stream) {
	t := p.transport
	own, learned := t.opts.ClusterID(), p.learned.Load()
	if own == [16]byte{} {
		return
	}
	ask := false
	for _, s := range streams {
		if s == nil {
			continue
		}
		if learned != nil && learned.processID == s.processID && s.cluster == [16]byte{} {
			s.cluster = learned.cluster
		}
		if clustersDiffer(s.cluster, own) {
			s.end(&RefusalError{Code: OtherCluster,
				Text: fmt.Sprintf("its cluster is %x by now, ours %x", s.cluster, own)})
		}
		ask = ask || s.cluster == [16]byte{}
	}
	if !ask || time.Duration(now-p.probed) < t.opts.IdleTimeout {
		return
	}
	p.probed = now
	t.goFunc(p.learn)
}

// learn asks the peer for its cluster.
func (p *peer) learn() {
	_, err := p.connect(context.Background(), forCluster)
	refused := (*RefusalError)(nil)
	if errors.As(err, &refused) && refused.cluster != [16]byte{} {
		p.learned.Store(&learned{processID: refused.processID, cluster: refused.cluster})
	}
}
