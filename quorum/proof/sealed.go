package proof

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Sizes of records.
const (
	recordHeadBytes = 4
	recordBytesMax  = 64 << 10 // of what is in one; a guess: what a reader of frames takes at once
	sealBytes       = 16
)

// errRecord means a record that is not the next one of the other side.
var errRecord = errors.New("a record is not what the other server has sent: somebody changes what is on the wire")

// sealedConn is a connection of records, each encrypted and authenticated with AES-256-GCM and its number. One
// goroutine may read while another one writes.
type sealedConn struct {
	net.Conn
	in, out half
	sealed  []byte // the last record, or what is written; owned by the reader
	plain   []byte // of it, what was not read yet; owned by the reader
	failed  error  // why nothing more can be read; owned by the reader
	buffer  []byte // owned by the writer
}

// half is one direction.
type half struct {
	aead  cipher.AEAD
	nonce [12]byte // the number of the next record
}

// next returns the nonce of the next record.
func (h *half) next() []byte {
	nonce := h.nonce
	binary.BigEndian.PutUint64(h.nonce[4:], binary.BigEndian.Uint64(h.nonce[4:])+1)
	return nonce[:]
}

// newSealedConn returns a connection that seals what is written with the key own, and opens with the key other.
func newSealedConn(conn net.Conn, own, other []byte) (*sealedConn, error) {
	c := &sealedConn{Conn: conn}
	for _, side := range [...]struct {
		to  *half
		key []byte
	}{{&c.out, own}, {&c.in, other}} {
		block, err := aes.NewCipher(side.key)
		if err != nil {
			return nil, err
		}
		if side.to.aead, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Read returns bytes of the record that is there, or of the next one.
func (c *sealedConn) Read(b []byte) (int, error) {
	for len(c.plain) == 0 {
		if c.failed == nil {
			c.failed = c.open()
		}
		if c.failed != nil {
			return 0, c.failed
		}
	}
	n := copy(b, c.plain)
	c.plain = c.plain[n:]
	return n, nil
}

// open reads the next record. The error is io.EOF if the connection ended between records.
func (c *sealedConn) open() error {
	var head [recordHeadBytes]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return err
	}
	length := int(binary.BigEndian.Uint32(head[:]))
	if length <= sealBytes || length > recordBytesMax+sealBytes {
		return fmt.Errorf("%w: %d bytes", errRecord, length)
	}
	if cap(c.sealed) < length {
		c.sealed = make([]byte, length)
	}
	c.sealed = c.sealed[:length]
	if _, err := io.ReadFull(c.Conn, c.sealed); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	plain, err := c.in.aead.Open(c.sealed[:0], c.in.next(), c.sealed, head[:])
	if err != nil {
		return errRecord
	}
	c.plain = plain
	return nil
}

// Write seals b, and writes it with one call.
func (c *sealedConn) Write(b []byte) (int, error) {
	c.buffer = c.buffer[:0]
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), recordBytesMax)]
		rest = rest[len(part):]
		start := len(c.buffer)
		c.buffer = binary.BigEndian.AppendUint32(c.buffer, uint32(len(part)+sealBytes)) //nolint:gosec // bounded
		c.buffer = c.out.aead.Seal(c.buffer, c.out.next(), part, c.buffer[start:start+recordHeadBytes])
	}
	if _, err := c.Conn.Write(c.buffer); err != nil {
		return 0, err
	}
	return len(b), nil
}
