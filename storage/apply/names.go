package apply

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"zkd/storage/schema"
)

// Bounds of a nameFilter, of which the bits take 32 KiB once it is in use, and 2.3 MiB at the most. Guesses but for the
// bits: with 10 for each path and 4 probes one path in 80 is asked for in vain.
const (
	namesBitsLeast   = 1 << 18 // of the first layer
	namesBitsMost    = 1 << 24 // of the last one
	namesLayerFactor = 8       // how much larger each is than the one before
	namesBitsPerPath = 10
	namesMax         = namesBitsMost / namesBitsPerPath
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
	layers  []nameLayer         // paths are added to the last one, which is larger than those before, that are full
	paths   int                 // that were added
	read    int                 // children that the entry has read
}

// nameLayer is one Bloom filter.
type nameLayer struct {
	bits []uint64
	room int // for so many paths more
}

// end forgets the entry.
func (f *nameFilter) end() { f.read = 0 }

// absent reports whether parent certainly has no child at path, and adds path: the caller is about to make it.
func (f *nameFilter) absent(o *overlay, parent *change, path string) bool {
	if f.paths > namesMax || len(f.parents) > namesParentsMax {
		f.parents, f.layers, f.paths = nil, nil, 0
	}
	if _, ok := f.parents[parent.path]; !ok && !f.follow(o, parent) {
		return false
	}
	return f.add(xxhash.Sum64String(path))
}

// add adds the path with this hash and reports whether it was not there before.
func (f *nameFilter) add(hash uint64) bool {
	if len(f.layers) == 0 {
		f.grow(namesBitsLeast)
	}
	last := &f.layers[len(f.layers)-1]
	for i := range f.layers[:len(f.layers)-1] {
		if f.layers[i].has(hash) {
			return false
		}
	}
	if !last.add(hash) {
		return false
	}
	f.paths++
	if last.room--; last.room <= 0 {
		if bits := len(last.bits) * namesBitsPerWord; bits < namesBitsMost {
			f.grow(bits * namesLayerFactor)
		}
	}
	return true
}

// grow adds a layer.
func (f *nameFilter) grow(bits int) {
	f.layers = append(f.layers, nameLayer{make([]uint64, bits/namesBitsPerWord), bits / namesBitsPerPath})
}

// has reports whether the path with this hash may have been added.
func (l *nameLayer) has(hash uint64) bool {
	for range namesProbes {
		if word, bit := l.probe(hash); *word&bit == 0 {
			return false
		}
		hash = nextProbe(hash)
	}
	return true
}

// add adds the path with this hash and reports whether it was not there before.
func (l *nameLayer) add(hash uint64) (fresh bool) {
	for range namesProbes {
		if word, bit := l.probe(hash); *word&bit == 0 {
			fresh = true
			*word |= bit
		}
		hash = nextProbe(hash)
	}
	return fresh
}

// probe is where the bit for a hash is.
func (l *nameLayer) probe(hash uint64) (word *uint64, bit uint64) {
	return &l.bits[hash/namesBitsPerWord%uint64(len(l.bits))], 1 << (hash % namesBitsPerWord)
}

// nextProbe spreads what a probe has used.
func nextProbe(hash uint64) uint64 {
	return (hash>>32 | hash<<32) * 0x9e3779b97f4a7c15 // the golden ratio
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
