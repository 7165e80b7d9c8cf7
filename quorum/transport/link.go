package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection whose handshake is done.
type link struct {
	raw       net.Conn // what is closed to end it: closing TLS may wait for a peer that does not read
	conn      net.Conn // raw, or TLS over it
	address   string   // that was dialed, or the remote one
	at        string   // of the listener that has accepted it; "" if it was dialed
	processID uint64   // of the peer's process
	name      string   // and version of the peer's program
	cluster   [16]byte // of the peer, as it said; zero if it knew none
	levels    levels   // of the peer's program
	said      Standing // of this server, as the peer was told
	version   uint16   // that both speak
}

// stream is a link for messages, in one direction.
type stream struct {
	*link
	transport *Transport
	since     time.Time
	ended     chan struct{} // closed by end
	once      sync.Once
	err       error        // why it ended; set before ended is closed
	waiting   atomic.Int64 // Transport.now when the system call began that is under way; 0: none
	last      atomic.Int64 // Transport.now of the last write that ended; only of outgoing ones
	bytes     *atomic.Int64
	cluster   [16]byte // of the peer as it is known by now; owned by the supervisor
}

// newStream returns a stream that counts its bytes in bytes.
func newStream(t *Transport, l *link, bytes *atomic.Int64) *stream {
	s := &stream{
		link: l, cluster: l.cluster, transport: t, since: t.opts.Clock.Now(), ended: make(chan struct{}), bytes: bytes,
	}
	s.last.Store(t.now())
	return s
}

// end closes the connection; the first call says why.
func (s *stream) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.ended)
		_ = s.raw.Close() // of a connection that is given up
	})
}

// Read reads for the frameReader; the supervisor sees how long it takes.
func (s *stream) Read(b []byte) (int, error) {
	s.waiting.Store(s.transport.now())
	n, err := s.conn.Read(b)
	s.waiting.Store(0)
	s.bytes.Add(int64(n))
	return n, err
}

// writeStepBytes is how much is written with one call, so that a slow link shows progress. A guess: 1 Mbit/s in the
// default idle timeout.
const writeStepBytes = 1 << 20

// write writes b; the supervisor sees how long each step takes.
func (s *stream) write(b []byte) error {
	for len(b) > 0 {
		step := b[:min(len(b), writeStepBytes)]
		s.waiting.Store(s.transport.now())
		n, err := s.conn.Write(step)
		s.waiting.Store(0)
		s.bytes.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	s.last.Store(s.transport.now())
	return nil
}

// writeWith writes b, and then some pieces of a large frame if there is one, all of it if the peer knows no pieces. It
// returns b, which may have grown.
func (s *stream) writeWith(b []byte, large *largeFrame) ([]byte, error) {
	if large == nil {
		return b, s.write(b)
	}
	if s.version >= versionPieces {
		b = large.appendPieces(b, burstPieces)
		return b, s.write(b)
	}
	for _, part := range [...][]byte{b, large.frameHead(), large.head, large.kept} {
		if err := s.write(part); err != nil {
			return b, err
		}
	}
	large.done = large.size()
	return b, nil
}

// waits returns for how long a system call is under way.
func (s *stream) waits(now int64) time.Duration {
	if began := s.waiting.Load(); began != 0 {
		return time.Duration(now - began)
	}
	return 0
}

// ownedConn is a snapshot stream; closing it makes its peer forget it.
type ownedConn struct {
	net.Conn // where reads and writes go
	link     *link
	peer     *peer
}

// Close closes the connection.
func (c *ownedConn) Close() error { return c.peer.release(c.link.raw) }
