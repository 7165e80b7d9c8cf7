package childlist

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Changes are names that came and went, in that order, as bytes: one for which of both, then the name as a List has it.
// They only grow, by append: what is there is never written again.
type Changes []byte

// The kinds of a change.
const (
	removed = iota
	added
)

// Add returns c with a name that has come.
func (c Changes) Add(name string) Changes { return c.append(added, name) }

// Remove returns c with a name that has gone.
func (c Changes) Remove(name string) Changes { return c.append(removed, name) }

// append appends a change.
func (c Changes) append(kind byte, name string) Changes {
	c = append(c, kind)
	c = binary.BigEndian.AppendUint32(c, uint32(len(name)))
	return append(c, name...)
}

// change is a name, and what it comes to.
type change struct {
	name  []byte // a view of the Changes
	there bool
}

// net returns what the changes come to, sorted by name, each name once.
func (c Changes) net() []change {
	var all []change
	for rest := []byte(c); len(rest) > 0; {
		name := nameAt(rest, 1)
		all = append(all, change{name, rest[0] == added})
		rest = rest[1+nameBytes(name):]
	}
	if len(all) < 2 {
		return all
	}
	slices.SortStableFunc(all, func(a, b change) int { return bytes.Compare(a.name, b.name) })
	kept := all[:1]
	for _, ch := range all[1:] {
		if last := &kept[len(kept)-1]; bytes.Equal(last.name, ch.name) {
			*last = ch
		} else {
			kept = append(kept, ch)
		}
	}
	return kept
}
