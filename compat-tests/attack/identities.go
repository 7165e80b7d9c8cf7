package attack

import (
	"fmt"
	"math/rand/v2"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attacks by identities.
const (
	identitiesFull = 900
	aclFull        = 2000
	watchersFull   = 50
	setsFull       = 700
	setsMore       = 3000
	writersMany    = 20
)

// prove has a connection prove n identities, as far as the server lets it: then it connects anew and proves as many as
// there was room for.
func (f *Field) prove(n int) (*client.Conn, error) {
	for {
		c, err := f.Dial()
		if err != nil {
			return nil, err
		}
		proven := 0
		for ; proven < n; proven++ {
			code, err := c.Auth("digest", fmt.Sprintf("u%d-%d:p", proven, c.Session))
			if err != nil || code != jute.OK {
				break
			}
		}
		if proven == n {
			return c, nil
		}
		c.Cut()
		f.Note("no more than %d identities", proven)
		if n = proven; n == 0 {
			return nil, codeError{jute.OpAuth, jute.AuthFailed}
		}
	}
}

// longACL is a list of n entries of which the last one lets anyone write.
func longACL(n int) []jute.ACL {
	list := make([]jute.ACL, 0, n)
	for i := range n - 1 {
		list = append(list, jute.ACL{Perms: jute.PermRead,
			ID: jute.ID{Scheme: "digest", ID: target.DigestOf(fmt.Sprintf("x%d", i), "y")}})
	}
	return append(list, jute.ACL{Perms: jute.PermWrite | jute.PermDelete, ID: open[0].ID})
}

// events has many watchers with many identities watch a znode with a long ACL, and changes it many times in one multi.
func events(setsOfAll int) Attack {
	return Attack{
		Name: fmt.Sprintf("events, %d sets", setsOfAll),
		Prepare: func(f *Field) error {
			return f.Session(func(c *client.Conn) error {
				r := jute.CreateRequest{Path: "/listed", ACL: longACL(f.N(aclFull, 20))}
				return must(c, jute.OpCreate, r.Append)
			})
		},
		Run: func(f *Field) error {
			watchers := make([]*client.Conn, f.N(watchersFull, 2))
			defer func() {
				for _, c := range watchers {
					if c != nil {
						c.Cut()
					}
				}
			}()
			_ = f.Each(len(watchers), func(i int) error {
				c, err := f.prove(f.N(identitiesFull, 10))
				if err != nil {
					return err
				}
				watchers[i] = c
				return must(c, jute.OpAddWatch, (&jute.AddWatchRequest{Path: "/listed"}).Append)
			})
			return f.Session(func(c *client.Conn) error {
				n := f.N(setsOfAll, 10)
				return must(c, jute.OpMulti, multi(n, func(int) part { return sets("/listed") }))
			})
		},
	}
}

// identities has connections with many identities send writes that fail, as fast as they can.
func identities(connections int) Attack {
	return Attack{
		Name: fmt.Sprintf("writes of %d identities, %d connections", identitiesFull, connections),
		Run: func(f *Field) error {
			return f.Each(connections, func(int) error {
				c, err := f.prove(f.N(identitiesFull, 10))
				if err != nil {
					return err
				}
				defer c.Cut()
				path := fmt.Sprintf("/missing-%d", rand.Uint64()) //nolint:gosec // any will do
				record := (&jute.PathVersionRequest{Path: path, Version: -1}).Append
				return f.flood(c, 100, func(b []byte, _ int, xid jute.Xid) []byte {
					return client.Request(b, xid, jute.OpDelete, record)
				})
			})
		},
	}
}
