package apply

import (
	"slices"

	"zkd/storage/entry"
	"zkd/storage/schema"
)

// countNext counts the next piece of the oldest count, before anything else of the entry: the store shows the state as
// it is, and what the entry changes comes after it.
func (q *quotas) countNext() {
	c := q.base.Counts.oldest()
	if c == nil {
		return
	}
	piece, cursor, more := q.countPiece(c)
	if q.tree.err != nil {
		return
	}
	znodes, bytes := piece.znodes+c.OwedZnodes, piece.bytes+c.OwedBytes
	if more {
		next := *c
		next.Cursor, next.OwedZnodes, next.OwedBytes = cursor, 0, 0
		q.setCount(c.Target, &next)
	} else {
		q.setCount(c.Target, nil)
	}
	q.addStats(c.Target, bytes, znodes)
}

// countPiece counts the znodes behind the cursor, as many as an entry may, and returns the key of the last one and
// whether there are more.
func (q *quotas) countPiece(c *schema.Count) (piece counted, cursor string, more bool) {
	last := []byte(c.Cursor)
	err := eachBelow(q.tree.store, c.Target, c.Cursor, func(key, value []byte) (bool, error) {
		if piece.znodes == q.countMax {
			more = true
			return false, nil
		}
		length, err := schema.HeaderDataLen(key, value)
		last = append(last[:0], key...)
		piece.znodes++
		piece.bytes += length
		return true, err
	})
	if err != nil {
		q.tree.fail(err)
	}
	return piece, string(last), more
}

// countOf returns the count of target as the entry sees it, or nil.
func (q *quotas) countOf(target string) *schema.Count {
	if c, ok := q.changes.counts[target]; ok {
		return c
	}
	return q.base.Counts.by[target]
}

// setCount makes c the count of target; nil: there is none.
func (q *quotas) setCount(target string, c *schema.Count) {
	was, touched := q.changes.counts[target]
	if q.tree.journalling {
		q.undo = append(q.undo, countUndo{target, was, touched})
	}
	if q.changes.counts == nil {
		q.changes.counts = map[string]*schema.Count{}
	}
	q.changes.counts[target] = c
	q.countPaths.put(target, target, true)
}

// countUndo is how the count of a target was before a multi touched it.
type countUndo struct {
	target  string
	was     *schema.Count
	touched bool // by the entry, before
}

// endMulti forgets what a multi has done to counts, and undoes it if undone says so.
func (q *quotas) endMulti(undone bool) {
	for _, u := range slices.Backward(q.undo) {
		switch {
		case !undone:
		case u.touched:
			q.changes.counts[u.target] = u.was
		default:
			delete(q.changes.counts, u.target)
		}
	}
	clear(q.undo)
	q.undo = q.undo[:0]
}

// endCount ends the count of the stats that path names, if any: it was deleted, or somebody has written something
// else into it.
func (q *quotas) endCount(path string) {
	if len(q.base.Counts.by) == 0 && len(q.changes.counts) == 0 {
		return
	}
	if target, ok := schema.QuotaTarget(path, schema.StatsName); ok && q.countOf(target) != nil {
		q.setCount(target, nil)
	}
}

// countLater tells the counts under way of a change at path that is charged to the quota of charged ("": to none), and
// reports whether that quota is not to be charged, because its count has still to come by and finds the change. Other
// counts will find it, too, and must not: it is of after their beginning.
func (q *quotas) countLater(path, charged string, bytes, znodes int64) (later bool) {
	if len(q.base.Counts.by) == 0 && len(q.changes.counts) == 0 {
		return false
	}
	found := q.countPaths.upTo(path, q.base.Counts.paths.upTo(path, q.found[:0]))
	q.found = found
	if len(found) == 0 {
		return false
	}
	slices.SortFunc(found, func(a, b foundPath[string]) int { return a.length - b.length })
	q.keyBuf = schema.AppendNodeKey(q.keyBuf[:0], schema.KindNode, path)
	for i, above := range found {
		if above.length == len(path) || i > 0 && above.length == found[i-1].length {
			continue
		}
		switch c := q.countOf(above.value); {
		case c == nil, entry.ViewString(q.keyBuf) <= c.Cursor:
		case len(charged) == above.length:
			later = true
		default:
			next := *c
			next.OwedZnodes -= znodes
			next.OwedBytes -= bytes
			q.setCount(c.Target, &next)
		}
	}
	return later
}

// CountsAtOnceMax is how many quotas an entry may count at once: each time all of its changes are looked at.
const CountsAtOnceMax = 32

// mayCountAtOnce reports whether the entry may count the subtree of one more quota, and whether that is so small that
// it may.
func (q *quotas) mayCountAtOnce(target string) bool {
	q.countsAtOnce++
	return q.countsAtOnce <= CountsAtOnceMax && q.countBelow(target, q.countLeft)
}
