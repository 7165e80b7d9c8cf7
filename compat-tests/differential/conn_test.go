package differential_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"zkd/jute"
)

// frameMax bounds a reply's length: nothing in the scripts is larger.
const frameMax = 8 << 20

// conn is one TCP connection of a script, with the replies that it still owes.
type conn struct {
	tcp    net.Conn
	in     *bufio.Reader
	id     jute.SessionID
	passwd []byte
	owed   []owed
	xid    jute.Xid
	events int  // received and not yet taken by await
	gone   bool // closed by either side
}

// owed is a request whose reply is to come.
type owed struct {
	op  jute.Op
	xid jute.Xid
}

func dial(addr string, within time.Duration) (*conn, error) {
	tcp, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return nil, err
	}
	c := &conn{tcp: tcp, in: bufio.NewReaderSize(tcp, 32<<10)}
	return c, c.within(within)
}

// within bounds all that is read and written until it is called again.
func (c *conn) within(d time.Duration) error { return c.tcp.SetDeadline(time.Now().Add(d)) }

func (c *conn) close() {
	c.gone = true
	_ = c.tcp.Close() // nothing is sent any more
}

// read returns the payload of the next frame.
func (c *conn) read() ([]byte, error) {
	var length [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(length[:]))
	if n < 0 || n > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(c.in, payload)
	return payload, err
}

// connectRequest returns the first frame of a connection.
type connectRequest struct {
	proto, timeout int32
	zxid           jute.Zxid
	session        jute.SessionID
	passwd         []byte // nil is null
	readOnly       string // 0, 1 or absent
}

func (r connectRequest) frame() []byte {
	b, mark := jute.BeginFrame(nil)
	b = jute.AppendLong(jute.AppendInt(b, r.proto), int64(r.zxid))
	b = jute.AppendLong(jute.AppendInt(b, r.timeout), int64(r.session))
	b = jute.AppendBuffer(b, r.passwd)
	if r.readOnly != "absent" {
		b = append(b, r.readOnly[0]-'0')
	}
	return jute.EndFrame(b, mark)
}
