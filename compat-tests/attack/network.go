package attack

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"math"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"zkd/compat-tests/hostile"
	"zkd/compat-tests/target"
)

// Sizes of the attacks by connections.
const (
	floodersFull  = 8
	heldFull      = 2000
	halfOpenFull  = 2000
	drippersFull  = 2000
	oversizedFull = 20_000
	dripEvery     = 100 * time.Millisecond
)

// flood opens connections and closes them, and holds others that say nothing.
var flood = Attack{
	Name: "a flood of connections",
	Run: func(f *Field) error {
		_ = f.Each(f.N(heldFull, 20), func(int) error {
			_, err := f.Connect(f.Addr)
			return err
		})
		var opened atomic.Int64
		err := f.Each(floodersFull, func(int) error {
			for !f.Over() {
				nc, err := net.DialTimeout("tcp", f.Addr, callWithin)
				if err != nil {
					return err
				}
				_, _ = nc.Write(hello()) // it may be closed
				_ = nc.Close()           // it is over
				opened.Add(1)
			}
			return nil
		})
		f.Note("%d connections", opened.Load())
		return err
	},
}

// halfOpen begins TLS handshakes and does not go on.
var halfOpen = Attack{
	Name:   "TLS handshakes that are not finished",
	Config: securePort,
	Run: func(f *Field) error {
		addr := net.JoinHostPort("127.0.0.1", f.Config["secureClientPort"])
		begun := f.clientHello()
		return f.Each(f.N(halfOpenFull, 20), func(i int) error {
			for !f.Over() {
				nc, err := net.DialTimeout("tcp", addr, callWithin)
				if err != nil {
					return err
				}
				_ = nc.SetDeadline(f.until)                            // it is new
				_, _ = nc.Write(begun[:len(begun)-(i%2)*len(begun)/2]) // it may be refused
				_, _ = io.Copy(io.Discard, nc)                         // until the server, or the attack, gives up
				_ = nc.Close()                                         // it may be
				if !f.Over() {
					f.Cut()
				}
			}
			return nil
		})
	},
}

// securePort gives a server a port for TLS, which asks for no certificate.
func securePort(tb testing.TB) (zooCfg map[string]string, jvmFlags []string) {
	keyStore, trustStore := target.SelfSigned(tb, "localhost")
	return map[string]string{
		"secureClientPort": strconv.Itoa(target.FreePort(tb)), "secureClientPortAddress": "127.0.0.1",
		"ssl.keyStore.location": keyStore, "ssl.trustStore.location": trustStore, "ssl.clientAuth": "none",
		"serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
	}, nil
}

// clientHello is what a client of TLS begins with.
func (f *Field) clientHello() []byte {
	return hostile.ClientHello(f.tb, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nobody answers
}

// drips sends requests a byte at a time.
var drips = Attack{
	Name: "requests that come a byte at a time",
	Run: func(f *Field) error {
		request := binary.BigEndian.AppendUint32(nil, largeBytes)
		request = append(request, make([]byte, 64<<10)...)
		conns := make([]net.Conn, f.N(drippersFull, 20))
		_ = f.Each(len(conns), func(i int) error {
			nc, err := f.Connect(f.Addr)
			if err == nil {
				conns[i] = nc
				_, err = nc.Write(hello())
			}
			return err
		})
		ticker := time.NewTicker(dripEvery)
		defer ticker.Stop()
		for i := 0; !f.Over() && i < len(request); i++ {
			for _, nc := range conns {
				if nc != nil {
					_, _ = nc.Write(request[i : i+1]) // it may be cut off
				}
			}
			select {
			case <-ticker.C:
			case <-f.ctx.Done():
			}
		}
		return nil
	},
}

// oversized announces frames that are too long, or of less than nothing.
var oversized = Attack{
	Name: "frames that are too long",
	Run: func(f *Field) error {
		lengths := []uint32{math.MaxInt32, math.MaxUint32, 1 << 31, largeBytes * 2, 1 << 30}
		each := f.N(oversizedFull, 200) / floodersFull
		return f.Each(floodersFull, func(int) error {
			for i := 0; i < each && !f.Over(); i++ {
				nc, err := net.DialTimeout("tcp", f.Addr, callWithin)
				if err != nil {
					return err
				}
				b := hello()
				if i%2 == 0 {
					b = b[:0]
				}
				_ = nc.SetDeadline(time.Now().Add(callWithin)) // it is new
				_, _ = nc.Write(binary.BigEndian.AppendUint32(b, lengths[i%len(lengths)]))
				_, _ = io.Copy(io.Discard, nc) // until the server hangs up
				_ = nc.Close()                 // it has
			}
			return nil
		})
	},
}
