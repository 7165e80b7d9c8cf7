package attack

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attacks on memory.
const (
	unreadersFull  = 50
	largeBytes     = 1_000_000 // below jute.maxbuffer
	largeReads     = 15        // of one multiRead: what its answer may be
	multiReads     = 4         // of one connection
	longName       = 250_000   // of a znode whose watchers are told
	longNotices    = 60
	watchesFull    = 1500
	watchingFull   = 15
	unfinishedFull = 1000
	// unfinishedTLSFull is fewer: their encryption takes the processors of who encrypts as well.
	unfinishedTLSFull = 500
	unfinishedBytes   = 900_000
)

// unread asks for large answers, and has large events come, and reads nothing of it.
var unread = Attack{
	Name: "answers and events that nobody reads",
	Prepare: func(f *Field) error {
		return f.Session(func(c *client.Conn) error {
			if err := create(c, "/large", make([]byte, largeBytes)); err != nil {
				return err
			}
			return create(c, "/"+strings.Repeat("n", f.N(longName, longName)), nil)
		})
	},
	Run: func(f *Field) error {
		path := "/" + strings.Repeat("n", longName)
		read := (&jute.PathWatchRequest{Path: "/large"}).Append
		record := multi(largeReads, func(int) part { return part{jute.OpGetData, read} })
		unreaders := make([]*client.Conn, f.N(unreadersFull, 8))
		defer func() {
			for _, c := range unreaders {
				if c != nil {
					c.Cut()
				}
			}
		}()
		_ = f.Each(len(unreaders), func(i int) error {
			c, err := f.Dial()
			if err != nil {
				return err
			}
			unreaders[i] = c
			if err := must(c, jute.OpAddWatch, (&jute.AddWatchRequest{Path: path}).Append); err != nil {
				return err
			}
			var b []byte
			for range multiReads {
				b = client.Request(b, c.NextXid(), jute.OpMultiRead, record)
			}
			return c.Write(b)
		})
		return f.Session(func(c *client.Conn) error {
			for range longNotices {
				if err := must(c, jute.OpSetData, (&jute.SetDataRequest{Path: path, Version: -1}).Append); err != nil {
					return err
				}
			}
			f.Await(1)
			return nil
		})
	},
}

// longWatches watches many paths that are as long as a request.
var longWatches = Attack{
	Name: "watches of paths of a megabyte",
	Run: func(f *Field) error {
		each := f.N(watchesFull, 15) / watchingFull
		held := make([]*client.Conn, watchingFull)
		defer func() {
			for _, c := range held {
				if c != nil {
					c.Cut()
				}
			}
		}()
		_ = f.Each(watchingFull, func(i int) error {
			c, err := f.Dial()
			if err != nil {
				return err
			}
			held[i] = c
			for n := range each {
				path := fmt.Sprintf("/%d-%d-%s", i, n, strings.Repeat("w", largeBytes))
				header, _, err := c.Do(jute.OpExists, (&jute.PathWatchRequest{Path: path, Watch: true}).Append)
				if err != nil {
					return err
				}
				if header.Err != jute.NoNode {
					f.Note("a watch too much: %v", header.Err)
				}
			}
			return nil
		})
		f.Await(1)
		return nil
	},
}

// unfinished sends most of a large request on each of many connections, and then nothing.
var unfinished = Attack{
	Name: "large requests that are not finished",
	Run: func(f *Field) error {
		return leaveUnfinished(f, unfinishedFull, func() (net.Conn, error) { return f.Connect(f.Addr) })
	},
}

// unfinishedTLS is unfinished over TLS: the server has to decrypt it all.
var unfinishedTLS = Attack{
	Name:   "large requests over TLS that are not finished",
	Config: securePort,
	Run: func(f *Field) error {
		addr := net.JoinHostPort("127.0.0.1", f.Config["secureClientPort"])
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an attacker does not mind
		return leaveUnfinished(f, unfinishedTLSFull, func() (net.Conn, error) {
			nc, err := f.Connect(addr)
			if err != nil {
				return nil, err
			}
			secure := tls.Client(nc, config)
			return secure, secure.HandshakeContext(f.ctx)
		})
	},
}

// leaveUnfinished sends it on connections of one kind.
func leaveUnfinished(f *Field, full int, connect func() (net.Conn, error)) error {
	request := binary.BigEndian.AppendUint32(nil, largeBytes)
	request = append(request, make([]byte, unfinishedBytes)...)
	err := f.Each(f.N(full, 20), func(int) error {
		nc, err := connect()
		if err != nil {
			return err
		}
		if _, err := nc.Write(hello()); err != nil {
			return err
		}
		_, err = nc.Write(request)
		return err
	})
	f.Await(1)
	return err
}

// hello is a ConnectRequest of a new session, framed.
func hello() []byte {
	b, mark := jute.BeginFrame(nil)
	return jute.EndFrame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(b), mark)
}
