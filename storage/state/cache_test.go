package state

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"zkd/storage/schema"
)

// TestCacheAgainstMap puts, gets and removes at random: what the cache returns must be what was put last, and never
// what was removed.
func TestCacheAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	c := newCache(cacheShards * 4000)
	want := map[string]*schema.Znode{}
	hits, gone := 0, 0
	for range 200000 {
		path := fmt.Sprintf("/n%d", r.IntN(3000))
		switch r.IntN(4) {
		case 0:
			n := &schema.Znode{Path: path, Data: make([]byte, r.IntN(400))}
			c.put(n, 0)
			want[path] = n
		case 1:
			c.remove(path, 0)
			delete(want, path)
		default:
			if n, known := c.look(path); known {
				hits++
				if n == nil {
					gone++
				}
				if n != want[path] {
					t.Fatalf("%s: not what was put last", path)
				}
			}
		}
	}
	if hits < 1000 || gone < 100 {
		t.Errorf("only %d hits, %d of what was removed", hits, gone)
	}
	checkCacheSize(t, c)
}

// checkCacheSize checks the accounts and bounds of each shard.
func checkCacheSize(t *testing.T, c *cache) {
	t.Helper()
	for i := range c.shards {
		s := &c.shards[i]
		var bytes int64
		count := 0
		for _, slot := range s.mu.slots {
			if slot.node != nil {
				bytes += cacheBytes(slot.node)
				count++
			}
		}
		if bytes != s.mu.bytes || count != s.mu.count || bytes > s.bytesMax {
			t.Errorf("shard %d: %d bytes in %d slots, accounts say %d and %d, at most %d", i, bytes, count,
				s.mu.bytes, s.mu.count, s.bytesMax)
		}
	}
}

// TestCacheKeepsWhatIsUsed checks that the clock prefers what is read.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newCache(cacheShards * 40 * cacheNodeOverheadBytes)
	c.put(&schema.Znode{Path: "/hot"}, 0)
	for i := range 100000 {
		c.put(&schema.Znode{Path: fmt.Sprintf("/cold%d", i)}, 0)
		if i%100 != 0 {
			continue
		}
		if n, _ := c.look("/hot"); n == nil {
			t.Fatalf("the hot znode was dropped after %d others", i)
		}
	}
	checkCacheSize(t, c)
}

func TestCacheRefusesWhatDoesNotFit(t *testing.T) {
	c := newCache(1)
	c.put(&schema.Znode{Path: "/a"}, 0)
	if n, known := c.look("/a"); n != nil || known {
		t.Error("a cache of one byte keeps a znode")
	}
}

func TestCacheConcurrently(t *testing.T) {
	c := newCache(1 << 20)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for range 20000 {
				path := fmt.Sprintf("/n%d", r.IntN(5000))
				switch r.IntN(3) {
				case 0:
					c.put(&schema.Znode{Path: path}, 0)
				case 1:
					c.remove(path, 0)
				default:
					if n, _ := c.look(path); n != nil && n.Path != path {
						t.Errorf("%s for %s", n.Path, path)
					}
				}
			}
		})
	}
	wg.Wait()
	checkCacheSize(t, c)
}
