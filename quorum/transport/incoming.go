package transport

import (
	"errors"
	"fmt"
	"io"
	"net"

	"zkd/storage/serverid"
)

// take makes l the incoming stream in place of the one that is there, unless that is of another process that lives.
//
// A process that was replaced by a new one on a host that died is not told from one that has its id by mistake, but by
// what else is known: the older one lives if it was heard of, and if the outgoing stream, which was made to a
// configured address, leads to it.
func (p *peer) take(l *link) (*stream, *RefusalError) {
	t := p.transport
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.incoming; old != nil {
		if refusal := p.impostorLocked(l.processID); refusal != nil {
			return nil, refusal
		}
		old.end(errNewer)
		if old.processID != l.processID {
			p.endSnapshotsLocked()
		}
	}
	if p.outgoing != nil && p.outgoing.processID != l.processID {
		p.outgoing.end(errNewer)
	}
	p.incoming = newStream(t, l, &p.bytesIn)
	return p.incoming, nil
}

// impostorLocked refuses a process while another one with the peer's id is connected, and lives. p.mu is held.
func (p *peer) impostorLocked(processID uint64) *RefusalError {
	t, in, out := p.transport, p.incoming, p.outgoing
	lives := in != nil && in.waits(t.now()) < t.opts.IdleTimeout/2 && out != nil && out.processID == in.processID
	if !lives || in.processID == processID {
		return nil
	}
	return &RefusalError{Code: AlreadyConnected,
		Text: fmt.Sprintf("server %d has a connection of server %d from %s", serverid.Number(t.opts.ID),
			serverid.Number(p.id), in.address)}
}

// impostor is impostorLocked for who does not hold p.mu; p may be nil.
func (p *peer) impostor(processID uint64) *RefusalError {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.impostorLocked(processID)
}

// enter notes a snapshot stream. It belongs to the streams for messages of the same process, and ends with the incoming
// one: nobody but the process that this server hears, and talks to, sends it a state.
func (p *peer) enter(l *link) *RefusalError {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, out := p.incoming, p.outgoing
	switch {
	case in == nil || in.processID != l.processID || out != nil && out.processID != l.processID:
		return &RefusalError{Code: NoStreams,
			Text: fmt.Sprintf("server %d has no stream for messages of that process of server %d",
				serverid.Number(p.transport.opts.ID), serverid.Number(p.id))}
	case len(p.snapshots) >= streamsPerPeerMax:
		return &RefusalError{Code: NoStreams,
			Text: fmt.Sprintf("server %d has %d streams of server %d already", serverid.Number(p.transport.opts.ID),
				len(p.snapshots), serverid.Number(p.id))}
	}
	p.snapshots[l.raw] = struct{}{}
	return nil
}

// endSnapshotsLocked ends the accepted snapshot streams. p.mu is held.
func (p *peer) endSnapshotsLocked() {
	for conn := range p.snapshots { // the order does not matter: all end
		_ = conn.Close() // given up
	}
}

// forget takes back hold, without closing.
func (p *peer) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, conn)
}

// leave ends the accepted connection.
func (g *acceptedConn) leave() {
	p := g.peer
	_ = p.release(g.link.raw) // given up, or at its end
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case g.stream == nil:
		delete(p.snapshots, g.link.raw)
	case p.incoming == g.stream:
		p.incoming = nil
		p.endSnapshotsLocked()
	}
}

// read hands on the frames of an incoming stream, once the one before it has ended, until it breaks.
func (p *peer) read(s *stream) {
	select {
	case p.turn <- struct{}{}:
	case <-s.ended: // replaced before its turn: nothing of it was handed on
		return
	case <-p.done:
		return
	}
	defer func() { <-p.turn }()
	p.presence.up(s, directionIn)
	err := p.handOn(s)
	if errors.Is(err, errLeft) {
		p.left(s.processID) // before the end of s lets that process go, and its end is seen on the other stream
	}
	s.end(err)
	if p.stops() {
		return
	}
	p.note(s.err)
	p.presence.ended(s, directionIn)
	if errors.Is(err, errLeft) {
		p.transport.handler.Left(p.id)
	} else {
		p.transport.handler.Lost(p.id)
	}
}

// left ends the outgoing stream to a process that has said that it stops.
func (p *peer) left(processID uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outgoing != nil && p.outgoing.processID == processID {
		p.outgoing.end(errLeft)
	}
}

// handOn hands on frames until the stream breaks, and returns why. While a large one is dealt with, those behind it
// wait, and those that need not be in order go on.
func (p *peer) handOn(s *stream) error {
	frames := newFrameReader(s, s.version)
	in := newInOrder(p)
	defer in.end()
	for {
		kind, body, err := frames.next()
		if err == io.EOF { //nolint:errorlint // next returns it bare
			return fmt.Errorf("the peer closed it: %w", err)
		}
		if err != nil {
			return err
		}
		if p.isEnded() {
			return errClosed
		}
		p.framesIn.Add(1)
		if frames.ahead || !frames.owned && in.idle() {
			p.transport.handler.Receive(p.id, kind, body)
		} else {
			in.put(kind, body, frames.owned)
		}
	}
}
