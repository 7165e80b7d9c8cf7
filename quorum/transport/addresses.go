package transport

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"zkd/storage/serverid"
)

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
