package apply

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"zkd/storage/schema"
)

// Bounds of a nameFilter, of which the bits take 2 MiB once it is in use. Guesses but for the bits: with 10 for each
// path and 4 probes one path in 80 is asked for in vain.
const (
	namesBits        = 1 << 24
	namesMax         = namesBits / 10
	namesParentsMax  = 16 << 10
	namesScanMax     = 256     // children of a parent that are read to begin with it
	namesEntryMax    = 4 << 10 // that an entry reads for all the parents that it begins with: a millisecond
	namesProbes      = 4
	namesBitsPerWord = 64
)

// nameFilter is a Bloom filter of the paths that the children of some parents may have: of those parents that it
// follows, since they had few children, it has all. What is not in it does not exist, and a create need not ask the
// store, whose slowest answer is "there is none" (2 of 4 µs of a create in a directory of some thousand, measured
// 2026-11). Paths that are gone stay until all is forgotten. Nothing of it shows in a result. Owned by the apply
// goroutine.
type nameFilter struct {
	parents map[string]struct{} // those that are followed
	bits    []uint64
	paths   int // that were added
	read    int // children that the entry has read
}

// end forgets the entry.
func (f *nameFilter) end() { f.read = 0 }

// absent reports whether parent certainly has no child at path, and adds path: the caller is about to make it.
func (f *nameFilter) absent(o *overlay, parent *change, path string) bool {
	if f.paths > namesMax || len(f.parents) > namesParentsMax {
		clear(f.bits)
		f.parents, f.paths = nil, 0
	}
	if _, ok := f.parents[parent.path]; !ok && !f.follow(o, parent) {
		return false
	}
	return f.add(xxhash.Sum64String(path))
}

// add adds the path with this hash and reports whether it was not there before.
func (f *nameFilter) add(hash uint64) bool {
	fresh := false
	for range namesProbes {
		word, bit := &f.bits[hash%namesBits/namesBitsPerWord], uint64(1)<<(hash%namesBitsPerWord)
		if *word&bit == 0 {
			fresh = true
			*word |= bit
		}
		hash = hash>>32 | hash<<32
		hash *= 0x9e3779b97f4a7c15 // the golden ratio, to spread what the first probe has used
	}
	if fresh {
		f.paths++
	}
	return fresh
}

// follow adds the children of a parent that has few. What a multi has deleted may come back, and what the entry has
// made is not in the store: then only a parent that the entry has not touched will do, or one without children
// outside a multi.
func (f *nameFilter) follow(o *overlay, parent *change) bool {
	n := parent.cur
	if n.Children > namesScanMax || f.read+int(n.Children) > namesEntryMax ||
		parent.cur != parent.base && (o.journalling || n.Children > 0) {
		return false
	}
	if f.bits == nil {
		f.bits = make([]uint64, namesBits/namesBitsPerWord)
	}
	if n.Children > 0 {
		f.read += int(n.Children)
		var path []byte
		prefix := schema.AppendChildrenPrefix(nil, n.Path)
		err := scan(o.store, prefix, schema.PrefixEnd(prefix), func(key, _ []byte) (bool, error) {
			path = schema.PathOfNodeKey(path[:0], key)
			f.add(xxhash.Sum64(path))
			return true, nil
		})
		if err != nil {
			return false // whoever reads next reports it
		}
	}
	if f.parents == nil {
		f.parents = make(map[string]struct{})
	}
	f.parents[strings.Clone(n.Path)] = struct{}{}
	return true
}
