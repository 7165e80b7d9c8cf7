package server

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"zkd/jute"
	"zkd/server/auth"
)

// Port says what clients speak on a port. The zero Port is one for plain text.
type Port struct {
	// TLS is the server's side of the handshake; nil: plain text alone. What its VerifyConnection waits for it may wrap
	// in the Await of the ClientHello's connection, so that others go on meanwhile.
	TLS *tls.Config
	// Plain takes plain text as well as TLS: what a connection begins with decides (client.portUnification).
	Plain bool
	// CountPlain counts connections without TLS, for who wants to do without them (non_mtls_local_conn_count and its
	// like in mntr).
	CountPlain bool
	// Secure marks the port that is for TLS alone (secureClientPort). Its connections are counted, and shown by the
	// four-letter words that come over it, apart from the others.
	Secure bool
	// Identity is the scheme that a client's certificate is an identity of; nil: certificates are none.
	Identity auth.Certifier
	// DetectionTimeout is how long a connection may take to show what it speaks, with Plain; 0 is HandshakeTimeout.
	DetectionTimeout time.Duration
}

// Of TLS records (RFC 8446, section 5.1): the content type of a ClientHello, and the length of a record's header, which
// ends with that of its content.
const (
	recordHandshake   = 0x16
	recordHeaderBytes = 5
)

// errNoTLS means a plain connection to a port that is for TLS alone.
var errNoTLS = errors.New("it does not begin with a TLS handshake: the client must use TLS on this port")

// errTLS means a TLS handshake that failed.
var errTLS = errors.New("TLS handshake failed")

// secure has the connection go on with TLS, if its port or its first byte wants that. It is the first that the reader
// does, and ends in bounded time.
func (c *conn) secure() error {
	p, s := c.port, c.server
	if p.TLS == nil {
		s.metrics.countPlain(c)
		return nil
	}
	defer s.shaking.leave(c)
	patience := s.opts.HandshakeTimeout
	if p.Plain && p.DetectionTimeout > 0 {
		patience = min(patience, p.DetectionTimeout)
	}
	if err := c.readWithin(patience); err != nil {
		return err
	}
	first, err := c.in.peek(1)
	switch {
	case err != nil && p.Plain:
		return err
	case err != nil:
		return s.unsuccessful(err)
	case first[0] == recordHandshake:
		return c.shakeHands()
	case p.Plain:
		s.metrics.countPlain(c)
		return nil
	}
	return s.unsuccessful(errNoTLS)
}

// shakeHands does the TLS handshake, and takes the client's certificate for an identity.
func (c *conn) shakeHands() error {
	s := c.server
	until := s.opts.Clock.Now().Add(s.opts.HandshakeTimeout)
	if err := errors.Join(c.readWithin(s.opts.HandshakeTimeout), c.in.net.SetWriteDeadline(until)); err != nil {
		return err
	}
	t := newTLSStream(c)
	t.records.turns = s.shaking.turns
	t.records.take()
	err := t.Handshake()
	t.records.give()
	t.records.turns = nil
	if err != nil {
		return s.unsuccessful(fmt.Errorf("%w: %w", errTLS, err))
	}
	if err := c.in.net.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	c.in.begin(t)
	c.out.begin(t)
	return c.certify(t.ConnectionState())
}

// unsuccessful counts a handshake that failed (NettyServerCnxnFactory.CertificateVerifier).
func (s *Server) unsuccessful(err error) error {
	s.metrics.unsuccessfulHandshakes.Add(1)
	s.metrics.authFailed.Add(1)
	return err
}

// certify adds who the client's certificate says it is. A certificate that is nobody's ends the connection
// (X509AuthenticationProvider.handleAuthentication).
func (c *conn) certify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || c.port.Identity == nil {
		return nil
	}
	ids, err := c.port.Identity.Certify(state.PeerCertificates[0])
	if err != nil {
		c.server.metrics.authFailed.Add(1)
		return fmt.Errorf("%w: %w", errTLS, err)
	}
	for _, id := range ids {
		if !c.ids.Grant(id) {
			c.server.metrics.authFailed.Add(1)
			return fmt.Errorf("%w: the name in the certificate is too long", errTLS)
		}
	}
	c.server.opts.Logger.Debug("a client has shown a certificate", slog.String("peer", c.remote.String()),
		slog.String("identity", ids[len(ids)-1].ID))
	return nil
}

// readWithin has reads fail after d, or at once when Shutdown has begun.
func (c *conn) readWithin(d time.Duration) error {
	if err := c.in.net.SetReadDeadline(c.server.opts.Clock.Now().Add(d)); err != nil {
		return err
	}
	if c.server.draining() { // asked afterwards, so that the deadline of Shutdown is not undone
		return c.in.net.SetReadDeadline(c.server.started)
	}
	return nil
}

// tlsStream is the TLS of a connection: what input reads from and output writes to in place of the socket.
type tlsStream struct {
	*tls.Conn
	records recordConn
	full    bool // the last read filled its buffer: more may be there. Owned by the reader.
}

// newTLSStream begins TLS on a connection whose input may hold the first bytes of it already.
func newTLSStream(c *conn) *tlsStream {
	t := &tlsStream{}
	t.records.Conn = c.in.net
	t.records.cipher.init(c.in.net, c.in.raw, nil)
	t.records.cipher.buf, t.records.cipher.start = c.in.buf, c.in.start
	c.in.buf, c.in.start = nil, 0
	t.Conn = tls.Server(&t.records, c.port.TLS)
	return t
}

// read reads at least one byte into b, and waits for it if wait is set: else notYetError says that none is there. Owned
// by the reader.
func (t *tlsStream) read(b []byte, wait bool) (int, error) {
	t.records.hurried = !wait
	n, err := t.Read(b)
	t.records.hurried = false
	t.full = n == len(b)
	return n, err
}

// await returns when there is something to read, or an error to find. So nothing but what crypto/tls keeps is held
// while a connection is idle.
func (t *tlsStream) await() {
	if !t.full {
		_, _ = t.records.cipher.peek(1) // the read that follows finds the error
	}
}

// writeFrames writes whole frames, each in records of its own, which go to the socket together.
//
// Two frames must not share a record, as they never do from ZooKeeper: its C client takes one frame whenever the socket
// has something, and does not ask OpenSSL for what is decrypted already. It would find the second frame only when a
// third one comes.
func (t *tlsStream) writeFrames(b []byte) error {
	t.records.gather()
	var err error
	for len(b) > 0 && err == nil {
		n := jute.FrameHeaderBytes + int(binary.BigEndian.Uint32(b))
		_, err = t.Write(b[:n])
		b = b[n:]
	}
	return errors.Join(err, t.records.sendGathered())
}

// recordConn is the socket as crypto/tls sees it. It gives out no byte beyond the end of a record, so that crypto/tls
// has no records that it has not decrypted, and whether one is there can be told without waiting for it.
type recordConn struct {
	net.Conn               // writes and deadlines
	cipher   input         // owned by the reader, as the rest
	left     int           // bytes of the record that was begun
	hurried  bool          // reads do not wait
	turns    chan struct{} // during the handshake: who computes holds one

	mu       sync.Mutex
	gathered *[]byte // guarded by mu: records that wait for more; nil: each is written at once
}

// Read returns bytes of one record.
func (r *recordConn) Read(b []byte) (int, error) {
	if r.left == 0 {
		if r.hurried && !r.whole() {
			return 0, notYetError{}
		}
		head, err := r.peek(recordHeaderBytes)
		if err != nil {
			return 0, err
		}
		r.left = recordHeaderBytes + int(binary.BigEndian.Uint16(head[recordHeaderBytes-2:]))
	}
	if _, err := r.peek(1); err != nil {
		return 0, err
	}
	there := r.cipher.buffered()
	n := copy(b, there[:min(r.left, len(there))])
	r.cipher.start += n
	r.left -= n
	r.cipher.release()
	return n, nil
}

// whole reports whether a whole record is there.
func (r *recordConn) whole() bool {
	b := r.cipher.buffered()
	return len(b) >= recordHeaderBytes &&
		len(b) >= recordHeaderBytes+int(binary.BigEndian.Uint16(b[recordHeaderBytes-2:]))
}

// peek returns the next n bytes of the socket; who waits for them lets others compute.
func (r *recordConn) peek(n int) (b []byte, err error) {
	if b = r.cipher.buffered(); len(b) >= n {
		return b[:n], nil
	}
	r.Await(func() { b, err = r.cipher.peek(n) })
	return b, err
}

// Write writes a record to the socket, or gathers it; who waits for the client lets others compute. The records keep
// their order: the reader's answer to an update of the keys may come between those of writeFrames.
func (r *recordConn) Write(b []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gathered == nil {
		r.Await(func() { n, err = r.Conn.Write(b) })
		return n, err
	}
	*r.gathered = append(*r.gathered, b...)
	if len(*r.gathered) < flushAtBytes {
		return len(b), nil
	}
	_, err = r.Conn.Write(*r.gathered)
	*r.gathered = (*r.gathered)[:0]
	return len(b), err
}

// gather has records wait for sendGathered.
func (r *recordConn) gather() {
	r.mu.Lock()
	r.gathered = takeBuffer()
	r.mu.Unlock()
}

// sendGathered writes the records that have gathered since gather.
func (r *recordConn) sendGathered() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.gathered
	r.gathered = nil
	var err error
	if len(*b) > 0 {
		_, err = r.Conn.Write(*b)
	}
	giveBuffer(b)
	return err
}

// Await calls f, which waits for something, and lets others compute meanwhile.
func (r *recordConn) Await(f func()) {
	r.give()
	f()
	r.take()
}

// take waits for a turn to compute, if that is limited.
func (r *recordConn) take() {
	if r.turns != nil {
		r.turns <- struct{}{}
	}
}

// give ends the turn.
func (r *recordConn) give() {
	if r.turns != nil {
		<-r.turns
	}
}

// notYetError means that no record is there. It is a temporary net.Error, which crypto/tls returns and forgets.
type notYetError struct{}

// Error implements error.
func (notYetError) Error() string { return "no TLS record is there" }

// Timeout implements net.Error.
func (notYetError) Timeout() bool { return false }

// Temporary implements net.Error.
func (notYetError) Temporary() bool { return true }
