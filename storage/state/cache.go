package state

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"zkd/storage/schema"
)

// cacheShards is the number of locks of a cache: enough that readers on a few dozen cores seldom meet. A guess.
const cacheShards = 64

// cacheNodeOverheadBytes is what a cached znode costs beside its path and data: the znode, its slot and its map entry
// (measured 2026-11 by filling a cache and reading the heap's growth).
const cacheNodeOverheadBytes = 320

// cacheStamps is how many stamps a shard has. With 32,768 in all, a read from a disk that takes 100 ms is taken for
// stale once in thirty times while 10,000 paths change in a second. A guess.
const cacheStamps = 512

// cache keeps the znodes that were in use lately, in bounded memory: what it holds is the present state. Any goroutine
// may use it. The apply goroutine puts in what it changes; what others read from the store goes in only if the path has
// not changed since. What the cache holds is immutable and never shows in a result.
type cache struct {
	shards [cacheShards]cacheShard
}

// cacheShard is one part of a cache: chains of slots by hash, and a clock hand that goes over the slots for what was
// not used since its last round. It is no Go map because most writes put a znode in and drop another, which costs a
// map three times as much (measured 2026-11: 0.9 against 0.3 µs).
type cacheShard struct {
	mu struct {
		sync.Mutex
		heads []int32 // by hash: the first slot of the chain, 0 if there is none; a power of two of them
		slots []cacheSlot
		free  int32 // the first empty slot, chained by next; 0 if there is none
		hand  int
		count int
		bytes int64

		hits, misses uint64 // of look and at

		// stamps are the indexes of the entries that have changed a path last, by its hash: a path whose stamp is not
		// behind an entry has not changed since. Paths that share a stamp may look changed when they are not.
		stamps [cacheStamps]uint64
	}
	bytesMax int64 // immutable after newCache
}

// cacheSlot is a place in a shard; empty if node is nil. Slot 0 is never used, so that 0 can end a chain.
type cacheSlot struct {
	node *schema.Znode
	hash uint32
	next int32
	used bool // since the hand came by
	gone bool // node was deleted, and nothing is at its path
}

// newCache returns an empty cache that takes about bytesMax of memory when full.
func newCache(bytesMax int64) *cache {
	c := &cache{}
	for i := range c.shards {
		s := &c.shards[i]
		s.bytesMax = bytesMax / cacheShards
		s.mu.heads = make([]int32, cacheHeadsMin)
		s.mu.slots = make([]cacheSlot, 1, cacheHeadsMin)
	}
	return c
}

// cacheHeadsMin is the number of chains of an empty shard, a power of two.
const cacheHeadsMin = 16

// shard returns the part of the cache that path belongs to, and the hash of path in it.
func (c *cache) shard(path string) (*cacheShard, uint32) {
	h := xxhash.Sum64String(path)
	return &c.shards[h%cacheShards], uint32(h >> 32)
}

// look returns the cached znode at path, or nil, and whether the store need not be asked: nil says then that nothing is
// at path. So who deletes a znode and makes it again, and again, is spared the store's slowest answer (2026-11: half of
// the time that a large multi takes which does).
func (c *cache) look(path string) (n *schema.Znode, known bool) {
	s, hash := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.findLocked(path, hash)
	if i == 0 {
		s.mu.misses++
		return nil, false
	}
	s.mu.hits++
	slot := &s.mu.slots[i]
	slot.used = true
	if slot.gone {
		return nil, true
	}
	return slot.node, true
}

// at returns the cached znode at path if that is also what it was after the entry at index. Otherwise the store at that
// moment has to be asked.
func (c *cache) at(path string, index uint64) *schema.Znode {
	s, hash := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.stampLocked(hash) <= index {
		if i := s.findLocked(path, hash); i != 0 && !s.mu.slots[i].gone {
			slot := &s.mu.slots[i]
			slot.used = true
			s.mu.hits++
			return slot.node
		}
	}
	s.mu.misses++
	return nil
}

// changed reports whether the znode at path may have changed since the entry at index.
func (c *cache) changed(path string, index uint64) bool {
	s, hash := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.stampLocked(hash) > index
}

// put makes n, which the entry at index has changed, the cached znode at its path. n's path, data and list must be
// memory of its own.
func (c *cache) put(n *schema.Znode, index uint64) {
	s, hash := c.shard(n.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.stampLocked(hash) = index
	s.putLocked(n, hash)
}

// fill puts n in, which was read from the store as it was after the entry at index, or later: unless it has changed
// since, or the cached znode has its data and n has not.
func (c *cache) fill(n *schema.Znode, index uint64) {
	s, hash := c.shard(n.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.stampLocked(hash) > index {
		return
	}
	if i := s.findLocked(n.Path, hash); i != 0 && !n.DataLoaded {
		if slot := &s.mu.slots[i]; slot.node.DataLoaded && !slot.gone {
			return
		}
	}
	s.putLocked(n, hash)
}

// stampLocked returns the stamp of the paths with this hash.
func (s *cacheShard) stampLocked(hash uint32) *uint64 { return &s.mu.stamps[hash>>16%cacheStamps] }

// putLocked makes n the cached znode at its path.
func (s *cacheShard) putLocked(n *schema.Znode, hash uint32) {
	size := cacheBytes(n)
	if i := s.findLocked(n.Path, hash); i != 0 {
		slot := &s.mu.slots[i]
		s.mu.bytes += size - cacheBytes(slot.node)
		slot.node, slot.used, slot.gone = n, true, false
	} else if size <= s.bytesMax {
		s.insertLocked(n, hash)
		s.mu.bytes += size
	}
	s.evictLocked()
}

// remove forgets the znode at path, which the entry at index has deleted. That nothing is there is kept until the hand
// comes by, unless that takes much memory.
func (c *cache) remove(path string, index uint64) {
	s, hash := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.stampLocked(hash) = index
	i := s.findLocked(path, hash)
	if i == 0 {
		return
	}
	slot := &s.mu.slots[i]
	if len(slot.node.Data) > goneDataMax {
		s.dropLocked(i)
		return
	}
	slot.gone, slot.used = true, false
}

// goneDataMax is how much data a znode may have whose slot stays when it was deleted: it is kept with it. A guess.
const goneDataMax = 256

// clear forgets everything: the state is another.
func (c *cache) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.mu.heads = make([]int32, cacheHeadsMin)
		s.mu.slots = make([]cacheSlot, 1, cacheHeadsMin)
		s.mu.free, s.mu.hand, s.mu.count, s.mu.bytes = 0, 0, 0, 0
		s.mu.stamps = [cacheStamps]uint64{}
		s.mu.Unlock()
	}
}

// headLocked returns where the chain of hash begins.
func (s *cacheShard) headLocked(hash uint32) *int32 {
	return &s.mu.heads[hash&uint32(len(s.mu.heads)-1)]
}

// findLocked returns the slot of path, or 0.
func (s *cacheShard) findLocked(path string, hash uint32) int32 {
	i := *s.headLocked(hash)
	for i != 0 {
		slot := &s.mu.slots[i]
		if slot.hash == hash && slot.node.Path == path {
			return i
		}
		i = slot.next
	}
	return 0
}

// insertLocked gives n, which is not in the shard, a slot.
func (s *cacheShard) insertLocked(n *schema.Znode, hash uint32) {
	if s.mu.count >= len(s.mu.heads) {
		s.growLocked()
	}
	i := s.mu.free
	if i != 0 {
		s.mu.free = s.mu.slots[i].next
	} else {
		i = int32(len(s.mu.slots))
		s.mu.slots = append(s.mu.slots, cacheSlot{})
	}
	head := s.headLocked(hash)
	s.mu.slots[i] = cacheSlot{node: n, hash: hash, next: *head}
	*head = i
	s.mu.count++
}

// growLocked doubles the number of chains.
func (s *cacheShard) growLocked() {
	s.mu.heads = make([]int32, 2*len(s.mu.heads))
	for i := range s.mu.slots {
		slot := &s.mu.slots[i]
		if slot.node != nil {
			head := s.headLocked(slot.hash)
			slot.next, *head = *head, int32(i)
		}
	}
}

// dropLocked empties a slot.
func (s *cacheShard) dropLocked(i int32) {
	slot := &s.mu.slots[i]
	at := s.headLocked(slot.hash)
	for *at != i {
		at = &s.mu.slots[*at].next
	}
	*at = slot.next
	s.mu.bytes -= cacheBytes(slot.node)
	s.mu.count--
	*slot = cacheSlot{next: s.mu.free}
	s.mu.free = i
}

// evictLocked drops what was not used since the hand's last round until the shard fits.
func (s *cacheShard) evictLocked() {
	for s.mu.bytes > s.bytesMax && s.mu.count > 0 {
		s.mu.hand++
		if s.mu.hand >= len(s.mu.slots) {
			s.mu.hand = 1
		}
		slot := &s.mu.slots[s.mu.hand]
		switch {
		case slot.node == nil:
		case slot.used:
			slot.used = false
		default:
			s.dropLocked(int32(s.mu.hand))
		}
	}
}

// cacheBytes returns the memory that a cached znode takes.
func cacheBytes(n *schema.Znode) int64 {
	size := int64(cacheNodeOverheadBytes + len(n.Path) + len(n.Data))
	for i := range n.ACL {
		if len(n.ACL) > 1 { // a single entry is mostly one of the two that all share
			size += int64(48 + len(n.ACL[i].ID.ID))
		}
	}
	return size
}
