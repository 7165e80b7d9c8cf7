package batcher

import (
	"cmp"
	"slices"
)

// What waits to be used again: at most maxFreeBatches, with buffers of freeEntries full entries together. Up to 25
// batches at once were seen under a load of 32 × 100 writes of 1 KiB, of 400 KB on average (2026-11). With four that
// were kept, that load allocated 1.3 KB of buffers a write.
const (
	maxFreeBatches = 64
	freeEntries    = 8
)

// freeBatches are batches that wait to be used again. A batch begins with the smallest buffer and goes on in a larger
// one if it grows, so the large ones are there for those that need them.
type freeBatches struct {
	bySize []*Batch // the smallest buffer first
	bytes  int      // that the buffers have room for
}

// take returns a batch, or nil.
func (f *freeBatches) take() *Batch {
	if len(f.bySize) == 0 {
		return nil
	}
	b := f.bySize[0]
	f.bySize = slices.Delete(f.bySize, 0, 1)
	f.bytes -= cap(b.Data)
	return b
}

// put keeps b, which is answered, unless too much would be kept then, or its buffer is larger than two full entries: a
// large write has had one of its own.
func (f *freeBatches) put(b *Batch, maxEntryBytes int) {
	size := cap(b.Data)
	if len(f.bySize) >= maxFreeBatches || size > 2*maxEntryBytes || f.bytes+size > freeEntries*maxEntryBytes {
		return
	}
	clear(b.waiters)
	*b = Batch{Data: b.Data[:0], waiters: b.waiters[:0]}
	f.insert(b)
}

// insert puts b in its place.
func (f *freeBatches) insert(b *Batch) {
	f.bySize = slices.Insert(f.bySize, f.atLeast(cap(b.Data)), b)
	f.bytes += cap(b.Data)
}

// atLeast returns which is the first whose buffer has room for n bytes.
func (f *freeBatches) atLeast(n int) int {
	i, _ := slices.BinarySearchFunc(f.bySize, n, func(b *Batch, n int) int { return cmp.Compare(cap(b.Data), n) })
	return i
}

// grow changes the buffer of b, if it has no room for n bytes more, for one that is at least twice as large. Without
// one, appending makes it grow.
func (f *freeBatches) grow(b *Batch, n int) {
	if len(b.Data)+n <= cap(b.Data) {
		return
	}
	i := f.atLeast(max(len(b.Data)+n, 2*cap(b.Data)))
	if i == len(f.bySize) {
		return
	}
	other := f.bySize[i]
	f.bySize = slices.Delete(f.bySize, i, i+1)
	f.bytes -= cap(other.Data)
	b.Data, other.Data = append(other.Data, b.Data...), b.Data[:0]
	f.insert(other)
}
