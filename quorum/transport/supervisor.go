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

// redialOne has one outgoing stream that leads to a former address of its peer moved to one that the peer has now: the
// one for which that was not tried for longest. So one stream breaks at a time, and a leader does not lose all its
// followers at once.
func (t *Transport) redialOne() {
	if !t.redialing.CompareAndSwap(false, true) {
		return
	}
	var next *peer
	for _, p := range *t.peers.Load() { // the order does not matter: the least is taken
		p.mu.Lock()
		away := p.isAwayLocked()
		p.mu.Unlock()
		if away && (next == nil || p.redialed < next.redialed || p.redialed == next.redialed && p.id < next.id) {
			next = p
		}
	}
	if next != nil {
		next.redialed = t.now()
	}
	if next == nil || !t.goFunc(func() {
		defer t.redialing.Store(false)
		next.redial()
	}) {
		t.redialing.Store(false)
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
// still not known it asks now and then, once at a time: a process that is paused answers nobody.
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
	if !ask || time.Duration(now-p.probed) < t.opts.IdleTimeout || !p.asking.CompareAndSwap(false, true) {
		return
	}
	p.probed = now
	t.goFunc(p.learn) // unless the transport is closed: then nobody asks again
}

// compareLevels ends streams to a server that cannot do the feature level to which the ensemble was raised since they
// began.
func (p *peer) compareLevels(streams ...*stream) {
	for _, s := range streams {
		if s == nil {
			continue
		}
		if refusal := p.transport.tooOld(p.id, s.levels); refusal != nil {
			s.end(refusal)
		}
	}
}

// compareStanding ends streams in whose handshake this server said that it stands otherwise than giving way, once it
// does.
func (p *peer) compareStanding(streams ...*stream) {
	if p.transport.standing() != GaveWay {
		return
	}
	for _, s := range streams {
		if s != nil && s.said != GaveWay {
			s.end(errRenewed)
		}
	}
}

// learn asks the peer for its cluster.
func (p *peer) learn() {
	defer p.asking.Store(false)
	_, err := p.connect(context.Background(), forCluster)
	refused := (*RefusalError)(nil)
	if errors.As(err, &refused) && refused.cluster != [16]byte{} {
		p.learned.Store(&learned{processID: refused.processID, cluster: refused.cluster})
	}
}
