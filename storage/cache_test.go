package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestCacheAgainstMap puts, gets and removes at random: what the cache returns must be what was put last, and never
// what was removed.
func TestCacheAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	c := newCache(cacheShards * 4000)
	want := map[string]*znode{}
	hits := 0
	for range 200000 {
		path := fmt.Sprintf("/n%d", r.IntN(3000))
		switch r.IntN(4) {
		case 0:
			n := &znode{path: path, data: make([]byte, r.IntN(400))}
			c.put(n)
			want[path] = n
		case 1:
			c.remove(path)
			delete(want, path)
		default:
			if n := c.get(path); n != nil {
				hits++
				if n != want[path] {
					t.Fatalf("%s: not what was put last", path)
				}
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d hits", hits)
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
	c.put(&znode{path: "/hot"})
	for i := range 100000 {
		c.put(&znode{path: fmt.Sprintf("/cold%d", i)})
		if i%100 == 0 && c.get("/hot") == nil {
			t.Fatalf("the hot znode was dropped after %d others", i)
		}
	}
	checkCacheSize(t, c)
}

func TestCacheRefusesWhatDoesNotFit(t *testing.T) {
	c := newCache(1)
	c.put(&znode{path: "/a"})
	if c.get("/a") != nil {
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
					c.put(&znode{path: path})
				case 1:
					c.remove(path)
				default:
					if n := c.get(path); n != nil && n.path != path {
						t.Errorf("%s for %s", n.path, path)
					}
				}
			}
		})
	}
	wg.Wait()
	checkCacheSize(t, c)
}
