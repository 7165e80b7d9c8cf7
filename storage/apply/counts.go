package apply

import (
	"slices"
	"strings"

	"zkd/storage/schema"
)

// CountZnodesMax is how many znodes an entry counts at the most: of the count that was begun first, and as many again
// for the quotas that it makes itself. A znode takes 0.25 µs of the processor in memory and up to 1.5 µs from disk
// (300,000 of them 75 to 440 ms, measured 2026-11), so that a piece delays a write by no more than an fsync of a fast
// disk does. All servers must count the same pieces.
const CountZnodesMax = 1 << 10

// Counts are the counts of quotas that are under way.
type Counts struct {
	by    map[string]*schema.Count // target
	paths pathTree[string]         // the targets
	// queue has all of them, and maybe some that are no longer there, in the order in which they were made.
	queue []*schema.Count
}

// CountsOf arranges the counts under way, which are in the order in which they were made.
func CountsOf(list []*schema.Count) Counts {
	all := Counts{by: make(map[string]*schema.Count, len(list)), queue: list}
	for _, c := range list {
		all.by[c.Target] = c
		all.paths.put(c.Target, c.Target, false)
	}
	return all
}

// oldest returns the count that was made first, nil if there is none.
func (a *Counts) oldest() *schema.Count {
	for len(a.queue) > 0 {
		if c := a.by[a.queue[0].Target]; c != nil && c.Began == a.queue[0].Began {
			return c
		}
		a.queue = a.queue[1:]
	}
	return nil
}

// put makes c the count of target, nil none. It must have been made after all others, unless it is one that goes on.
func (a *Counts) put(target string, c *schema.Count) {
	was := a.by[target]
	if c == nil {
		delete(a.by, target)
		a.paths.drop(target)
		return
	}
	a.by[c.Target] = c
	a.paths.put(c.Target, c.Target, false)
	if was == nil || was.Began != c.Began {
		a.queue = append(a.queue, c)
	}
	if len(a.queue) > 2*len(a.by)+countingQueueSlack {
		a.queue = slices.DeleteFunc(a.queue, func(c *schema.Count) bool {
			is := a.by[c.Target]
			return is == nil || is.Began != c.Began
		})
	}
}

// countingQueueSlack is how many of the queue may be gone before it is looked through for them; a guess.
const countingQueueSlack = 64

// All returns all counts, in their order.
func (a *Counts) All() []*schema.Count {
	sorted := make([]*schema.Count, 0, len(a.by))
	for _, c := range a.by { // order: sorted below
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, (*schema.Count).Before)
	return sorted
}

// append adds all counts to b, in their order.
func (a *Counts) append(b []byte) []byte {
	for _, c := range a.All() {
		b = c.Append(c.AppendKey(b))
	}
	return b
}

// Len is how many there are.
func (a *Counts) Len() int { return len(a.by) }

// Of returns the count of target, or nil.
func (a *Counts) Of(target string) *schema.Count { return a.by[target] }

// take makes what an entry has made of counts, by target, those under way.
func (a *Counts) take(changed map[string]*schema.Count) {
	if len(changed) == 0 {
		return
	}
	var made []*schema.Count
	for target, is := range changed { // order: what is made is sorted below
		if is != nil && a.by[target] != is {
			next := *is
			next.Target = strings.Clone(is.Target) // it may be a view of the entry
			made = append(made, &next)
		} else if is == nil {
			a.put(target, nil)
		}
	}
	slices.SortFunc(made, (*schema.Count).Before)
	for _, c := range made {
		a.put(c.Target, c)
	}
}
