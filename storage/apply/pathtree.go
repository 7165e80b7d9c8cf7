package apply

import (
	"strings"

	"zkd/storage/schema"
)

// pathTree has a value for each of some paths. It finds those of a path and of all above it in one pass over that path:
// a client may make a path thousands of znodes deep, and to look each of them up by itself would cost the square of
// that. The zero pathTree is empty.
type pathTree[V any] struct {
	root  pathNode[V]
	count int
}

// pathNode is a part of a pathTree.
type pathNode[V any] struct {
	is    bool // there is a value
	value V
	below map[string]*pathNode[V] // by the next name
}

// foundPath is a path that was found above another one: its length there, and its value.
type foundPath[V any] struct {
	length int
	value  V
}

// nextName returns the end of the name that begins behind the '/' at start of path.
func nextName(path string, start int) (end int) {
	if i := strings.IndexByte(path[start+1:], '/'); i >= 0 {
		return start + 1 + i
	}
	return len(path)
}

// put sets the value of path, which begins with '/'. own says that the names are kept as they are; else copies are.
func (t *pathTree[V]) put(path string, value V, own bool) {
	n := &t.root
	for start := 0; start+1 < len(path); {
		end := nextName(path, start)
		name := path[start+1 : end]
		next := n.below[name]
		if next == nil {
			if !own {
				name = strings.Clone(name)
			}
			if n.below == nil {
				n.below = map[string]*pathNode[V]{}
			}
			next = &pathNode[V]{}
			n.below[name] = next
		}
		n, start = next, end
	}
	if !n.is {
		t.count++
	}
	n.is, n.value = true, value
}

// drop removes the value of path, and all that led to it alone.
func (t *pathTree[V]) drop(path string) {
	n := &t.root
	stays, name := n, "" // the last one on the way that stays without path, and the name that leads on from it
	for start := 0; start+1 < len(path); {
		end := nextName(path, start)
		next := n.below[path[start+1:end]]
		if next == nil {
			return
		}
		if n == &t.root || n.is || len(n.below) > 1 {
			stays, name = n, path[start+1:end]
		}
		n, start = next, end
	}
	if !n.is {
		return
	}
	t.count--
	if n.is, n.value = false, *new(V); len(n.below) == 0 {
		delete(stays.below, name)
	}
}

// upTo adds to found what is at path and above it, the shortest first.
func (t *pathTree[V]) upTo(path string, found []foundPath[V]) []foundPath[V] {
	n := &t.root
	for start := 0; ; {
		if n.is {
			found = append(found, foundPath[V]{max(start, len(schema.RootPath)), n.value})
		}
		if start+1 >= len(path) {
			return found
		}
		end := nextName(path, start)
		if n = n.below[path[start+1:end]]; n == nil {
			return found
		}
		start = end
	}
}

// each calls f with all values, in any order.
func (t *pathTree[V]) each(f func(V)) {
	for some := []*pathNode[V]{&t.root}; len(some) > 0; {
		n := some[len(some)-1]
		some = some[:len(some)-1]
		if n.is {
			f(n.value)
		}
		for _, next := range n.below { // order: any
			some = append(some, next)
		}
	}
}

// clear removes all.
func (t *pathTree[V]) clear() { *t = pathTree[V]{} }
