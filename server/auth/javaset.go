package auth

import (
	"slices"

	"zkd/jute"
)

// Bounds of java.util.concurrent.ConcurrentHashMap.
const (
	tableMin      = 16 // bins of a new map
	treeifyAbove  = 8  // nodes of a list to which one more makes it a tree, or the table larger
	untreeifyTo   = 6  // nodes of a tree that a split makes a list again
	treeTablesMin = 64 // bins from which on there are trees
)

// javaSet holds identities in the order in which ZooKeeper goes through them: that of the ConcurrentHashMap in
// org.apache.zookeeper.server.ServerCnxn.authInfo, which only grows. It shows in whoAmI and in the ACL that the scheme
// auth becomes. What the order depends on is copied from that class: bins in ascending order, how a table grows, and
// in which order the nodes of one bin come to lie.
type javaSet struct {
	bins  []javaBin // a power of two of them
	count int
}

// javaBin is what has the same low bits of the hash, in order.
type javaBin struct {
	nodes []javaNode
	tree  bool // a TreeBin: new nodes come first, and a split keeps the order
}

// javaNode is one identity and its hash.
type javaNode struct {
	hash uint32
	id   jute.ID
}

// newJavaSet returns a set of the identities of a connection so far.
func newJavaSet(ids []jute.ID) *javaSet {
	s := &javaSet{bins: make([]javaBin, tableMin)}
	for _, id := range ids {
		s.add(id)
	}
	return s
}

// add is putVal. It reports whether the list is another than before: even an identity that is there already may make
// the table grow, when it lies far behind in its bin.
func (s *javaSet) add(id jute.ID) bool {
	size := len(s.bins)
	n := javaNode{hash: spreadHash(id), id: id}
	b := &s.bins[n.hash&uint32(len(s.bins)-1)]
	at := slices.Index(b.nodes, n)
	known := at >= 0
	length := len(b.nodes) // of the list as far as putVal walks it
	switch {
	case known:
		length = at + 1
	case b.tree:
		b.nodes = slices.Insert(b.nodes, 0, n)
	default:
		b.nodes = append(b.nodes, n)
	}
	if !b.tree && length >= treeifyAbove {
		s.treeify(b)
	}
	if known {
		return len(s.bins) != size
	}
	for s.count++; s.count >= s.growAt(); {
		s.double()
	}
	return true
}

// growAt is sizeCtl: the count at which the table grows.
func (s *javaSet) growAt() int { return len(s.bins) - len(s.bins)/4 }

// treeify is treeifyBin: while the table is small it makes that larger instead. (Quirk: tryPresize goes on beyond the
// size that it was asked for.)
func (s *javaSet) treeify(b *javaBin) {
	if len(s.bins) >= treeTablesMin {
		b.tree = true
		return
	}
	for size := 4 * len(s.bins); size > s.growAt(); {
		s.double()
	}
}

// double is transfer: bin i is split into i and i plus the old size.
func (s *javaSet) double() {
	old := s.bins
	size := uint32(len(old))
	s.bins = make([]javaBin, 2*size)
	for i := range old {
		s.bins[i], s.bins[uint32(i)+size] = old[i].split(size)
	}
}

// split parts a bin by one bit of the hash. The longest end of a list whose nodes go the same way stays as it is; the
// nodes before that are put in front, one after the other.
func (b javaBin) split(bit uint32) (low, high javaBin) {
	run := 0 // where that end begins
	for i := 1; i < len(b.nodes) && !b.tree; i++ {
		if (b.nodes[i].hash^b.nodes[i-1].hash)&bit != 0 {
			run = i
		}
	}
	for i, n := range b.nodes {
		half := &low
		if n.hash&bit != 0 {
			half = &high
		}
		at := len(half.nodes)
		if i < run {
			at = 0
		}
		half.nodes = slices.Insert(half.nodes, at, n)
	}
	low.tree = b.tree && len(low.nodes) > untreeifyTo
	high.tree = b.tree && len(high.nodes) > untreeifyTo
	return low, high
}

// list returns the identities in order, in a new slice.
func (s *javaSet) list() []jute.ID {
	ids := make([]jute.ID, 0, s.count)
	for i := range s.bins {
		for _, n := range s.bins[i].nodes {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// spreadHash is org.apache.zookeeper.data.Id.hashCode as ConcurrentHashMap.spread leaves it.
func spreadHash(id jute.ID) uint32 {
	h := (17*37+javaHash(id.Scheme))*37 + javaHash(id.ID)
	return (h ^ h>>16) & 0x7fffffff
}

// javaHash is String.hashCode: over UTF-16.
func javaHash(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			h = h*31 + 0xd800 + uint32(r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = h*31 + uint32(r)
	}
	return h
}
