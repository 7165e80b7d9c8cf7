package attack

import (
	"io"
	"sync"

	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attack by many events.
const (
	changesFull   = 38_000 // what fits into jute.maxbuffer
	listenersFull = 55     // of one address, beside whoever changes: maxClientCnxns is 60
)

// manyEvents changes a znode as often as one multi may, before as many as may watch it from one address, and read.
var manyEvents = Attack{
	Name:    "the longest multis before many who watch",
	Prepare: func(f *Field) error { return f.Session(func(c *client.Conn) error { return create(c, "/w", nil) }) },
	Run: func(f *Field) error {
		var listening sync.WaitGroup
		for range f.N(listenersFull, 4) {
			nc, err := f.Connect(f.Addr)
			if err != nil {
				return err
			}
			watch := (&jute.AddWatchRequest{Path: "/w", Mode: jute.WatchPersistent}).Append
			if _, err := nc.Write(client.Request(hello(), 1, jute.OpAddWatch, watch)); err != nil {
				return err
			}
			listening.Go(func() {
				_, _ = io.Copy(io.Discard, nc) // until it is hung up, or cut off
				if !f.Over() {
					f.Cut()
				}
			})
		}
		record := multi(f.N(changesFull, 100), func(int) part { return sets("/w") })
		err := f.Session(func(c *client.Conn) error {
			for !f.Over() {
				if err := must(c, jute.OpMulti, record); err != nil {
					return err
				}
				f.answered.Add(1)
			}
			return nil
		})
		f.Await(1)
		f.hangUp()
		listening.Wait()
		return err
	},
}
