package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
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
		lives := old.waits(t.now()) < t.opts.IdleTimeout/2 && p.outgoing != nil && p.outgoing.processID == old.processID
		if old.processID != l.processID && lives {
			return nil, &RefusalError{Code: AlreadyConnected,
				Text: fmt.Sprintf("server %d has a connection of server %d from %s", t.opts.ID, p.id, old.address)}
		}
		old.end(errNewer)
	}
	if p.outgoing != nil && p.outgoing.processID != l.processID {
		p.outgoing.end(errNewer)
	}
	p.incoming = newStream(t, l, &p.bytesIn)
	return p.incoming, nil
}

// enter counts a snapshot stream.
func (p *peer) enter() *RefusalError {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams >= streamsPerPeerMax {
		return &RefusalError{Code: NoStreams,
			Text: fmt.Sprintf("server %d has %d streams of server %d already", p.transport.opts.ID, p.streams, p.id)}
	}
	p.streams++
	return nil
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
		p.streams--
	case p.incoming == g.stream:
		p.incoming = nil
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
	p.transport.handler.Lost(p.id)
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
