package server

import (
	"crypto/tls"
	"math/rand/v2"
	"net"
	"time"
)

// Settings of what is damaged below TLS.
const (
	hostileRecords   = 4       // of so many connections one is damaged on the way
	hostileHandshake = 2 << 10 // bytes of a handshake
	hostileStream    = 8 << 10 // bytes in which the others are damaged
	hostilePatience  = time.Second
)

// dialDamaged connects with TLS. The frames arrive as they are sent, but on some of the connections a byte of the
// handshake or of a record is another on the way.
func dialDamaged(a *attackers, random *rand.Rand) (net.Conn, error) {
	nc, err := dialQuietly(a.addr)
	if err != nil {
		return nil, err
	}
	d := &damagedConn{Conn: nc, at: -1}
	c := &damagedTLS{below: d}
	if random.IntN(hostileRecords) == 0 {
		d.at = random.IntN([]int{16, hostileHandshake, hostileStream}[random.IntN(3)])
		d.by = byte(1 + random.IntN(255))
		// Both sides may wait for the other, as for the rest of a record that was to be shorter.
		c.patience = time.AfterFunc(hostilePatience, func() { _ = c.below.closeWrite() }) // it may be closed
	}
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as dialTLS
	if random.IntN(2) == 0 {
		config.Certificates = []tls.Certificate{a.certificate}
	}
	c.Conn = tls.Client(d, config)
	return c, nil
}

// damagedTLS is TLS over a damagedConn.
type damagedTLS struct {
	*tls.Conn
	below    *damagedConn
	patience *time.Timer // says the end below TLS when the handshake does not get on; may be nil
}

// Close closes the connection.
func (c *damagedTLS) Close() error {
	if c.patience != nil {
		c.patience.Stop()
	}
	return c.Conn.Close()
}

// CloseWrite says the end in TLS, if it is not broken, and below it.
func (c *damagedTLS) CloseWrite() error {
	_ = c.Conn.CloseWrite() // the handshake may have failed
	return c.below.closeWrite()
}

// damagedConn changes one of the bytes that are written.
type damagedConn struct {
	net.Conn
	at int  // where it is yet to come; less than 0: none, or it is gone
	by byte // what it is changed by
}

// closeWrite says the end.
func (c *damagedConn) closeWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// Write writes b, which it does not change itself.
func (c *damagedConn) Write(b []byte) (int, error) {
	if 0 <= c.at && c.at < len(b) {
		b = append([]byte(nil), b...)
		b[c.at] ^= c.by
	}
	c.at -= len(b)
	return c.Conn.Write(b)
}
