package storage

import (
	"fmt"
	"slices"
	"strings"

	"zkd/storage/entry"
	"zkd/storage/schema"
)

// countNext counts the next piece of the oldest count, before anything else of the entry: the store shows the state as
// it is, and what the entry changes comes after it.
func (t *txn) countNext() {
	c := t.m.counts.oldest()
	if c == nil {
		return
	}
	piece, cursor, more := t.countPiece(c)
	if t.err != nil {
		return
	}
	znodes, bytes := piece.znodes+c.OwedZnodes, piece.bytes+c.OwedBytes
	if more {
		next := *c
		next.Cursor, next.OwedZnodes, next.OwedBytes = cursor, 0, 0
		t.setCounting(c.Target, &next)
	} else {
		t.setCounting(c.Target, nil)
	}
	t.addStats(c.Target, bytes, znodes)
}

// countPiece counts the znodes behind the cursor, as many as an entry may, and returns the key of the last one and
// whether there are more.
func (t *txn) countPiece(c *schema.Count) (piece counted, cursor string, more bool) {
	last := []byte(c.Cursor)
	err := t.m.store.belowBehind(c.Target, c.Cursor, func(key, value []byte) (bool, error) {
		if piece.znodes == t.m.countMax {
			more = true
			return false, nil
		}
		length, err := schema.HeaderDataLen(key, value)
		last = append(last[:0], key...)
		piece.znodes++
		piece.bytes += length
		return true, err
	})
	if err != nil && t.err == nil {
		t.err = err
	}
	return piece, string(last), more
}

// belowBehind calls f with the header key and value of each znode below path that lies behind cursor, in the order of
// the keys, until f returns false. The cursor is such a key, or what those of the children begin with.
func (s *stateStore) belowBehind(path, cursor string, f func(key, value []byte) (bool, error)) error {
	lower, goOn := append([]byte(cursor), 0), true // the next key that there can be
	each := func(key, value []byte) (_ bool, err error) {
		goOn, err = f(key, value)
		return goOn, err
	}
	if path == schema.RootPath { // its own key is the first one
		return s.scanRange(lower, schema.PrefixEnd([]byte{schema.KindNode}), each)
	}
	children, deeper := schema.AppendChildrenPrefix(nil, path), schema.AppendDescendantsPrefix(nil, path)
	if end := schema.PrefixEnd(children); cursor < entry.ViewString(end) {
		if err := s.scanRange(lower, end, each); err != nil || !goOn {
			return err
		}
		lower = deeper
	}
	return s.scanRange(lower, schema.PrefixEnd(deeper), each)
}

// countingOf returns the count of target as the entry sees it, or nil.
func (t *txn) countingOf(target string) *schema.Count {
	if c, ok := t.counts[target]; ok {
		return c
	}
	return t.m.counts.of[target]
}

// setCounting makes c the count of target; nil: there is none.
func (t *txn) setCounting(target string, c *schema.Count) {
	was, touched := t.counts[target]
	if t.journalling {
		t.countsUndo = append(t.countsUndo, countUndo{target, was, touched})
	}
	if t.counts == nil {
		t.counts = map[string]*schema.Count{}
	}
	t.counts[target] = c
}

// countUndo is how the count of a target was before a multi touched it.
type countUndo struct {
	target  string
	was     *schema.Count
	touched bool // by the entry, before
}

// rollbackCounts undoes what a multi has done to counts.
func (t *txn) rollbackCounts() {
	for _, u := range slices.Backward(t.countsUndo) {
		if u.touched {
			t.counts[u.target] = u.was
		} else {
			delete(t.counts, u.target)
		}
	}
}

// endCounting ends the count of the stats that path names, if any: it was deleted, or somebody has written something
// else into it.
func (t *txn) endCounting(path string) {
	if len(t.m.counts.of) == 0 && len(t.counts) == 0 {
		return
	}
	if target, ok := quotaTarget(path, schema.StatsName); ok && t.countingOf(target) != nil {
		t.setCounting(target, nil)
	}
}

// countLater tells the counts under way of a change at path that is charged to the quota of charged ("": to none), and
// reports whether that quota is not to be charged, because its count has still to come by and finds the change. Other
// counts will find it, too, and must not: it is of after their beginning.
func (t *txn) countLater(path, charged string, bytes, znodes int64) (later bool) {
	if len(t.m.counts.of) == 0 && len(t.counts) == 0 {
		return false
	}
	eachAbove(path, func(above string) {
		c := t.countingOf(above)
		if c == nil {
			return
		}
		t.keyBuf = schema.AppendNodeKey(t.keyBuf[:0], schema.KindNode, path)
		switch {
		case entry.ViewString(t.keyBuf) <= c.Cursor:
		case above == charged:
			later = true
		default:
			next := *c
			next.OwedZnodes -= znodes
			next.OwedBytes -= bytes
			t.setCounting(c.Target, &next)
		}
	})
	return later
}

// countsAtOnceMax is how many quotas an entry may count at once: each time all of its changes are looked at.
const countsAtOnceMax = 32

// mayCountAtOnce reports whether the entry may count the subtree of one more quota, and whether that is so small that
// it may.
func (t *txn) mayCountAtOnce(target string) bool {
	t.countsAtOnce++
	return t.countsAtOnce <= countsAtOnceMax && t.countBelow(target, t.countLeft)
}

// writeCountings adds the entry's changes of counts to the batch.
func (t *txn) writeCountings() error {
	for target, is := range t.counts { // order: each has a key of its own
		was := t.m.counts.of[target]
		if was != nil && (is == nil || is.Began != was.Began) {
			t.keyBuf = was.AppendKey(t.keyBuf[:0])
			if err := t.batch.Delete(t.keyBuf, nil); err != nil {
				return fmt.Errorf("write the count of %q: %w", target, err)
			}
		}
		if is == nil || is == was {
			continue
		}
		t.keyBuf, t.scratch = is.AppendKey(t.keyBuf[:0]), is.Append(t.scratch[:0])
		if err := t.batch.Set(t.keyBuf, t.scratch, nil); err != nil {
			return fmt.Errorf("write the count of %q: %w", target, err)
		}
	}
	return nil
}

// publishCountings makes the entry's changes of counts those of the machine.
func (t *txn) publishCountings() {
	if len(t.counts) == 0 {
		return
	}
	var made []*schema.Count
	for target, is := range t.counts { // order: what is made is sorted below
		if is != nil && t.m.counts.of[target] != is {
			next := *is
			next.Target = strings.Clone(is.Target) // it may be a view of the entry
			made = append(made, &next)
		} else if is == nil {
			t.m.counts.put(target, nil)
		}
	}
	slices.SortFunc(made, (*schema.Count).Before)
	for _, c := range made {
		t.m.counts.put(c.Target, c)
	}
	t.m.counting.Store(int64(len(t.m.counts.of)))
}
