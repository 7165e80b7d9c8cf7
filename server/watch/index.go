package watch

// index is a hash table of record numbers, chained through the records themselves. It grows by one bucket for each
// entry (linear hashing), so that no insertion ever waits for a rehash of the whole and no doubling leaves half of it
// empty: four bytes an entry. The records' owner follows and changes the chains; a bucket holds the first number of its
// chain, or 0.
type index struct {
	chunks []*[slabChunk]uint32
	size   uint32 // buckets in use; a power of two plus those split so far
	low    uint32 // the largest power of two that is <= size
	count  int    // entries
}

// bucket returns the place of the chain for a hash.
func (x *index) bucket(hash uint32) *uint32 {
	i := hash & (2*x.low - 1)
	if i >= x.size {
		i &= x.low - 1
	}
	return x.slot(i)
}

func (x *index) slot(i uint32) *uint32 { return &x.chunks[i>>slabChunkBits][i&(slabChunk-1)] }

// chains is what an index needs of the records it chains.
type chains interface {
	hashOf(id uint32) uint32
	nextOf(id uint32) *uint32
}

// insert adds a number under its hash, splitting one bucket when there are more entries than buckets.
func (x *index) insert(id, hash uint32, c chains) {
	if x.size == 0 {
		x.chunks = append(x.chunks, new([slabChunk]uint32))
		x.size, x.low = slabChunk, slabChunk
	}
	if x.count >= int(x.size) {
		x.split(c)
	}
	b := x.bucket(hash)
	*c.nextOf(id) = *b
	*b = id
	x.count++
}

// remove takes a number out of its chain, where it must be. An index that gets empty gives back all chunks but the
// first.
func (x *index) remove(id, hash uint32, c chains) {
	link := x.bucket(hash)
	for *link != id {
		link = c.nextOf(*link)
	}
	*link = *c.nextOf(id)
	if x.count--; x.count == 0 {
		clear(x.chunks[1:])
		x.chunks = x.chunks[:1]
		x.size, x.low = slabChunk, slabChunk
	}
}

// split adds one bucket and moves to it what belongs there.
func (x *index) split(c chains) {
	if x.size == 2*x.low {
		x.low = x.size
	}
	if int(x.size>>slabChunkBits) == len(x.chunks) {
		x.chunks = append(x.chunks, new([slabChunk]uint32))
	}
	from, to := x.slot(x.size-x.low), x.slot(x.size)
	want := x.size
	x.size++
	stay, move := uint32(0), uint32(0)
	for id := *from; id != 0; {
		next := c.nextOf(id)
		following := *next
		if c.hashOf(id)&(2*x.low-1) == want {
			*next, move = move, id
		} else {
			*next, stay = stay, id
		}
		id = following
	}
	*from, *to = stay, move
}
