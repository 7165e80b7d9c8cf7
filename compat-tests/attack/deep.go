package attack

import (
	"fmt"
	"strings"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Sizes of the attack far below the root.
const (
	deepFull      = 12_000
	deepName      = "/d"
	deepMulti     = 900_000 // bytes: below jute.maxbuffer
	deepPartBytes = 80      // of a part of a multi besides its path, at the most
	deepAtOnce    = 200     // znodes that are made by one multi
	deepQuota     = "/zookeeper/quota" + deepName
)

// deep changes a znode that thousands of others are above, again and again in each multi. Above it there are a quota,
// which each multi makes and deletes, and watches of all that is below them: who looks each of them up by its path has
// the square of the depth to do.
var deep = Attack{
	Name: "changes far below the root",
	Prepare: func(f *Field) error {
		path := deepPath(f)
		return f.Session(func(c *client.Conn) error {
			for made := 0; made < len(path); {
				n := max(1, deepMulti/(made+deepAtOnce*len(deepName)+deepPartBytes))
				n = min(n, (len(path)-made)/len(deepName), deepAtOnce)
				record := multi(n, func(i int) part { return makes(path[:made+(i+1)*len(deepName)], 0) })
				if err := must(c, jute.OpMulti, record); err != nil {
					return err
				}
				made += n * len(deepName)
			}
			return create(c, deepQuota, nil)
		})
	},
	Run: func(f *Field) error {
		path := deepPath(f)
		return f.Session(func(watches *client.Conn) error {
			for n := len(path); n > len(deepName); n /= 2 { // of some on the way
				above := path[:n/len(deepName)*len(deepName)]
				record := (&jute.AddWatchRequest{Path: above, Mode: jute.WatchPersistentRecursive}).Append
				if err := must(watches, jute.OpAddWatch, record); err != nil {
					return err
				}
			}
			return f.Session(func(c *client.Conn) error { return changeDeep(f, c, path) })
		})
	},
}

// changeDeep changes the znode until the time is over. It takes from who watches the right to hear of it, who else
// would have to read all that.
func changeDeep(f *Field, c *client.Conn, path string) error {
	if code, err := c.Auth("digest", "deep:d"); err != nil || code != jute.OK {
		return fmt.Errorf("auth: %v, %w", code, err)
	}
	own := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: target.DigestOf("deep", "d")}}}
	if err := must(c, jute.OpSetACL, (&jute.SetACLRequest{Path: path, ACL: own, Version: -1}).Append); err != nil {
		return err
	}
	n := deepMulti / (len(path) + deepPartBytes)
	limits := deepQuota + "/zookeeper_limits"
	record := multi(n+2, func(i int) part {
		switch i {
		case 0:
			return makes(limits, 0)
		case n + 1:
			return deletes(limits)
		}
		return sets(path)
	})
	for !f.Over() {
		if err := must(c, jute.OpMulti, record); err != nil {
			return err
		}
		f.answered.Add(1)
	}
	return nil
}

// deepPath is the path of the znode.
func deepPath(f *Field) string { return strings.Repeat(deepName, f.N(deepFull, 100)) }
