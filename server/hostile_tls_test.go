package server

import (
	"crypto/tls"
	"math/rand/v2"
	"net"
)

// Settings of what is damaged below TLS.
const (
	hostileRecords   = 4       // of so many connections one is damaged on the way
	hostileHandshake = 2 << 10 // bytes of a handshake
	hostileStream    = 8 << 10 // bytes in which the others are damaged
)

// dialDamaged connects with TLS. The frames arrive as they are sent, but on some of the connections a byte of the
// handshake or of a record is another on the way.
func dialDamaged(a *attackers, random *rand.Rand) (net.Conn, error) {
	nc, err := dialQuietly(a.addr)
	if err != nil {
		return nil, err
	}
	d := &damagedConn{Conn: nc, at: -1}
	if random.IntN(hostileRecords) == 0 {
		d.at = random.IntN([]int{16, hostileHandshake, hostileStream}[random.IntN(3)])
		d.by = byte(1 + random.IntN(255))
	}
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as dialTLS
	if random.IntN(2) == 0 {
		config.Certificates = []tls.Certificate{a.certificate}
	}
	return &damagedTLS{Conn: tls.Client(d, config), below: d}, nil
}

// damagedTLS is TLS over a damagedConn.
type damagedTLS struct {
	*tls.Conn
	below *damagedConn
}

// CloseWrite says the end in TLS, if it is not broken, and below it.
func (c *damagedTLS) CloseWrite() error {
	_ = c.Conn.CloseWrite() // the handshake may have failed
	return c.below.Conn.(*net.TCPConn).CloseWrite()
}

// damagedConn changes one of the bytes that are written.
type damagedConn struct {
	net.Conn
	at int  // where it is yet to come; less than 0: none, or it is gone
	by byte // what it is changed by
}

// Write writes b, which it does not change itself.
func (c *damagedConn) Write(b []byte) (int, error) {
	if 0 <= c.at && c.at < len(b) {
		b = append([]byte(nil), b...)
		b[c.at] ^= c.by
	}
	c.at -= len(b)
	return c.Conn.Write(b)
}
