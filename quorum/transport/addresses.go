package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"zkd/storage/serverid"
)

// Accept has the transport accept at l, too, and close it at Close or Leave.
func (t *Transport) Accept(l net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = l.Close() // nobody has come yet
		return
	}
	t.listeners = append(t.listeners, l)
	if t.accepting {
		t.goLocked(func() { t.accept(l) })
	}
}

// Leave closes a listener. The connections that it has accepted stay.
func (t *Transport) Leave(l net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.listeners)
	t.listeners = slices.DeleteFunc(t.listeners, func(other net.Listener) bool { return other == l })
	if len(t.listeners) == before {
		return
	}
	if err := l.Close(); err != nil {
		t.opts.Logger.Warn("failed to close listener", slog.Any("err", err))
	}
}

// accepts tells whether l was not left.
func (t *Transport) accepts(l net.Listener) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.listeners, l)
}

// Reach tells what speaks against reaching a peer at one of addresses: it connects, and asks who is there. Nothing else
// changes by it.
func (t *Transport) Reach(ctx context.Context, id uint64, addresses []string) error {
	p := (*t.peers.Load())[id]
	if p == nil {
		return fmt.Errorf("reach server %d: %w", serverid.Number(id), errUnknown)
	}
	var errs []error
	long := max(t.opts.TryTimeout, min(defaultTryTimeout, t.opts.DialTimeout))
	for _, address := range addresses {
		_, err := p.dial(ctx, address, forCluster, long)
		refused := (*RefusalError)(nil)
		if errors.As(err, &refused) && refused.answers() {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("reach server %d: %w", serverid.Number(id), errors.Join(errs...))
}

// setAddresses says where the peer is.
func (p *peer) setAddresses(where Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.addresses, where.Addresses) && slices.Equal(p.former, where.Former) {
		return
	}
	p.addresses, p.former = slices.Clone(where.Addresses), slices.Clone(where.Former)
	p.checkAddressLocked()
	p.wake()
}

// toldMax bounds how many addresses a peer may say to have. As many as a server's line may have.
const toldMax = 32

// hear takes note of where the peer says that it is.
func (p *peer) hear(where []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	where = where[:min(len(where), toldMax)]
	if !slices.Equal(p.told, where) {
		p.told = slices.Clone(where)
		p.checkAddressLocked()
	}
}

// inTurnLocked returns the peer's addresses in the order in which they are tried.
func (p *peer) inTurnLocked() []string {
	if i := slices.Index(p.addresses, p.good); i > 0 {
		return slices.Concat(p.addresses[i:], p.addresses[:i])
	}
	return slices.Clone(p.addresses)
}

// elsewhereLocked returns where else the peer may be.
func (p *peer) elsewhereLocked() []string {
	var found []string
	for _, address := range slices.Concat(p.former, p.told) {
		if !slices.Contains(p.addresses, address) && !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	return found
}

// checkAddressLocked ends an outgoing stream to an address that was taken away.
func (p *peer) checkAddressLocked() {
	if s := p.outgoing; s != nil && !slices.Contains(p.addresses, s.address) &&
		!slices.Contains(p.elsewhereLocked(), s.address) {
		s.end(errMoved)
	}
}

// isAwayLocked tells whether the outgoing stream leads to where the peer may be only yet.
func (p *peer) isAwayLocked() bool {
	return p.outgoing != nil && p.ready == nil && len(p.addresses) > 0 &&
		!slices.Contains(p.addresses, p.outgoing.address)
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

// redial makes an outgoing stream to one of the addresses that the peer has now, in place of the present one.
func (p *peer) redial() {
	ctx, cancel := p.transport.within(context.Background(), p.done, p.transport.opts.DialTimeout)
	defer cancel()
	p.mu.Lock()
	addresses := p.inTurnLocked()
	p.mu.Unlock()
	l, err := p.connectTo(ctx, addresses, forMessages)
	if err != nil {
		p.transport.opts.Logger.Debug("peer not listening yet", slog.Int64("peer", serverid.Number(p.id)),
			slog.Any("err", err))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outgoing != nil && !p.isAwayLocked() { // it was made anew meanwhile, to where it should lead
		p.dropLocked(l)
		return
	}
	p.ready = l
	if p.outgoing != nil { // else the peer was quick to close it
		p.outgoing.end(errMoved)
	}
	p.wake()
}

// dropLocked closes a connection that is not needed.
func (p *peer) dropLocked(l *link) {
	delete(p.held, l.raw)
	_ = l.raw.Close() // it is given up
}

// isReplacedLocked tells whether s ends because another stream takes its place.
func (p *peer) isReplacedLocked(s *stream) bool { return p.ready != nil || errors.Is(s.err, errMoved) }

// takeReady returns the connection that takes the place of the stream before, nil if there is none.
func (p *peer) takeReady() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.ready
	p.ready = nil
	return l
}

// Home tells whether the incoming stream of the peer came to one of the addresses of listeners, and the outgoing one
// leads to an address that the peer has now.
func (s *PeerStatus) Home(listeners []string) bool {
	return s.In && s.Out && slices.Contains(listeners, s.At) && slices.Contains(s.Addresses, s.Address)
}
