package attack

import (
	"fmt"
	"testing"

	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attacks by writes.
const (
	containersFull = 400_000
	ephemeralsFull = 300_000
	multiFull      = 14_000 // what fits into jute.maxbuffer
	creatorsFull   = 20
)

// containers has many containers that never had a child: the server looks for those that are to go.
var containers = Attack{
	Name: "containers that were never used",
	Config: func(testing.TB) (map[string]string, []string) {
		return nil, []string{"-Dznode.container.checkIntervalMs=3000"}
	},
	Prepare: func(f *Field) error {
		n := f.N(containersFull, 400)
		return f.Session(func(c *client.Conn) error {
			return bulk(c, n, func(i int) part { return makes(fmt.Sprintf("/c%07d", i), jute.ModeContainer) })
		})
	},
	Run: func(f *Field) error { f.Await(1); return nil },
}

// ephemerals ends a session that owns many.
var ephemerals = Attack{
	Name: "the end of a session with many ephemerals",
	Run: func(f *Field) error {
		n := f.N(ephemeralsFull, 300)
		err := f.Session(func(c *client.Conn) error {
			err := bulk(c, n, func(i int) part { return makes(fmt.Sprintf("/e%07d", i), jute.ModeEphemeral) })
			if err != nil {
				return err
			}
			return must(c, jute.OpCloseSession, nil)
		})
		if err != nil {
			return err
		}
		return f.Session(func(c *client.Conn) error { // behind it
			header, _, err := c.Do(jute.OpExists, (&jute.PathWatchRequest{Path: "/e0000000"}).Append)
			if err == nil && header.Err != jute.NoNode {
				f.Note("ephemerals outlive their session: %v", header.Err)
			}
			return err
		})
	},
}

// multis makes many znodes at once, and deletes them at once.
var multis = Attack{
	Name: "multis of many znodes",
	Run: func(f *Field) error {
		n := f.N(multiFull, 200)
		path := func(i int) string { return fmt.Sprintf("/m%05d", i) }
		return f.Session(func(c *client.Conn) error {
			for !f.Over() {
				err := must(c, jute.OpMulti, multi(n, func(i int) part { return makes(path(i), 0) }))
				if err == nil {
					err = must(c, jute.OpMulti, multi(n, func(i int) part { return deletes(path(i)) }))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	},
}

// sequences makes sequential znodes as fast as many connections can.
var sequences = Attack{
	Name: "sequential creates without end",
	Run: func(f *Field) error {
		record := (&jute.CreateRequest{Path: "/seq-", ACL: open, Flags: jute.ModePersistentSequential}).Append
		return f.Each(creatorsFull, func(int) error {
			return f.Session(func(c *client.Conn) error {
				return f.flood(c, 100, func(b []byte, _ int, xid jute.Xid) []byte {
					return client.Request(b, xid, jute.OpCreate, record)
				})
			})
		})
	},
}
