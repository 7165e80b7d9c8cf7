package watch

// slabChunk is how many records a slab allocates at a time: large enough that the allocator's rounding is lost in it,
// small enough that a server with few watches pays a few dozen KiB (a guess).
const slabChunk = 1 << slabChunkBits

const slabChunkBits = 10

// slab holds records of one type under small numbers, in chunks that never move. Number 0 is never used. The numbers of
// released records are used again, last released first. All chunks but the first are given back when the slab is empty.
type slab[T any] struct {
	chunks []*[slabChunk]T
	used   uint32   // numbers handed out so far, 0 included
	free   []uint32 // released numbers
}

// at returns the record with that number; it stays where it is until it is released.
func (s *slab[T]) at(id uint32) *T { return &s.chunks[id>>slabChunkBits][id&(slabChunk-1)] }

// take returns a free number; its record is zero.
func (s *slab[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	if s.used == 0 {
		s.used = 1
	}
	if int(s.used>>slabChunkBits) == len(s.chunks) {
		s.chunks = append(s.chunks, new([slabChunk]T))
	}
	s.used++
	return s.used - 1
}

// release zeroes the record and gives its number back.
func (s *slab[T]) release(id uint32) {
	*s.at(id) = *new(T)
	if s.live() == 1 {
		s.used, s.free = 0, nil
		clear(s.chunks[1:])
		s.chunks = s.chunks[:1]
		return
	}
	s.free = append(s.free, id)
}

// live returns the number of records in use.
func (s *slab[T]) live() int {
	if s.used == 0 {
		return 0
	}
	return int(s.used) - 1 - len(s.free)
}

// end returns the number after the highest one that may be in use.
func (s *slab[T]) end() uint32 { return s.used }
