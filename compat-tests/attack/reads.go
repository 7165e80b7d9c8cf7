package attack

import (
	"fmt"
	"strconv"

	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attacks by reads.
const (
	deletedFull  = 200_000
	childrenFull = 200_000
	readsFull    = 1000
	missingFull  = 100_000
	settersFull  = 8
	listersFull  = 8
)

// someParent is the znode that the attackers look at.
const someParent = "/parent"

// grow makes children of someParent.
func grow(f *Field, n int) error {
	return f.Session(func(c *client.Conn) error {
		if err := create(c, someParent, nil); err != nil {
			return err
		}
		return bulk(c, n, func(i int) part { return makes(fmt.Sprintf("%s/n%07d", someParent, i), 0) })
	})
}

// emptied asks again and again, many times at once, for the children of a znode that had many.
var emptied = Attack{
	Name: "multiRead of a znode whose children were deleted",
	Prepare: func(f *Field) error {
		n := f.N(deletedFull, 200)
		if err := grow(f, n); err != nil {
			return err
		}
		return f.Session(func(c *client.Conn) error {
			return bulk(c, n, func(i int) part { return deletes(fmt.Sprintf("%s/n%07d", someParent, i)) })
		})
	},
	Run: func(f *Field) error {
		children := (&jute.PathWatchRequest{Path: someParent}).Append
		record := multi(f.N(readsFull, 10), func(int) part { return part{jute.OpGetChildren, children} })
		return f.Session(func(c *client.Conn) error {
			for !f.Over() {
				if _, _, err := c.Do(jute.OpMultiRead, record); err != nil {
					return err
				}
			}
			return nil
		})
	},
}

// setWatches asks for the watches of many paths that are not there.
var setWatches = Attack{
	Name: "setWatches of missing paths",
	Run: func(f *Field) error {
		paths := make([]string, f.N(missingFull, 100))
		for i := range paths {
			paths[i] = "/" + strconv.FormatInt(int64(i), 36) // all of them below jute.maxbuffer
		}
		for _, r := range []jute.SetWatchesRequest{
			{Exist: paths, Data: []string{}, Child: []string{}}, {Data: paths, Exist: []string{}, Child: []string{}},
		} {
			err := f.Each(settersFull, func(int) error {
				return f.Session(func(c *client.Conn) error { return must(c, jute.OpSetWatches, r.Append) })
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// lists asks for a long list of children again and again.
var lists = Attack{
	Name:    "a long list of children, again and again",
	Prepare: func(f *Field) error { return grow(f, f.N(childrenFull, 200)) },
	Run: func(f *Field) error {
		record := (&jute.PathWatchRequest{Path: someParent}).Append
		return f.Each(listersFull, func(int) error {
			return f.Session(func(c *client.Conn) error {
				return f.flood(c, 2, func(b []byte, _ int, xid jute.Xid) []byte {
					return client.Request(b, xid, jute.OpGetChildren, record)
				})
			})
		})
	},
}
