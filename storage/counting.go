package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// countZnodesMax is how many znodes an entry counts at the most: of the count that was begun first, and as many again
// for the quotas that it makes itself. A znode takes 0.25 µs of the processor in memory and up to 1.5 µs from disk
// (300,000 of them 75 to 440 ms, measured 2026-11), so that a piece delays a write by no more than an fsync of a fast
// disk does. All servers must count the same pieces.
const countZnodesMax = 1 << 10

// countings are the counts that are under way, of one state. Owned by the apply goroutine.
type countings struct {
	of map[string]*schema.Count // by target
	// queue has all of them, and maybe some that are no longer there, in the order in which they were made.
	queue []*schema.Count
}

// countingsIn reads the counts under way as r shows them.
func countingsIn(r pebble.Reader) (countings, error) {
	all := countings{of: map[string]*schema.Count{}}
	err := scanIn(r, []byte{schema.KindCounting}, func(key, value []byte) error {
		c, err := schema.DecodeCount(key, value)
		if err == nil {
			all.of[c.Target] = c
			all.queue = append(all.queue, c)
		}
		return err
	})
	return all, err
}

// countings reads the counts under way.
func (s *stateStore) countings() (countings, error) {
	all, err := countingsIn(s.db)
	if err != nil {
		return countings{}, fmt.Errorf("read the counts of quotas of state store %s: %w", s.dir, disk.AsDamage(err))
	}
	return all, nil
}

// oldest returns the count that was made first, nil if there is none.
func (a *countings) oldest() *schema.Count {
	for len(a.queue) > 0 {
		if c := a.of[a.queue[0].Target]; c != nil && c.Began == a.queue[0].Began {
			return c
		}
		a.queue = a.queue[1:]
	}
	return nil
}

// put makes c the count of target, nil none. It must have been made after all others, unless it is one that goes on.
func (a *countings) put(target string, c *schema.Count) {
	was := a.of[target]
	if c == nil {
		delete(a.of, target)
		return
	}
	a.of[c.Target] = c
	if was == nil || was.Began != c.Began {
		a.queue = append(a.queue, c)
	}
	if len(a.queue) > 2*len(a.of)+countingQueueSlack {
		a.queue = slices.DeleteFunc(a.queue, func(c *schema.Count) bool {
			is := a.of[c.Target]
			return is == nil || is.Began != c.Began
		})
	}
}

// countingQueueSlack is how many of the queue may be gone before it is looked through for them; a guess.
const countingQueueSlack = 64

// append adds all counts to b, in their order.
func (a *countings) append(b []byte) []byte {
	sorted := make([]*schema.Count, 0, len(a.of))
	for _, c := range a.of { // order: sorted below
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, (*schema.Count).Before)
	for _, c := range sorted {
		b = c.Append(c.AppendKey(b))
	}
	return b
}

// CountingQuotas returns how many quotas are being counted. Any goroutine may call it.
func (m *Machine) CountingQuotas() int { return int(m.counting.Load()) }

// settled returns the stats znodes of counts under way as they will be, if nothing changes meanwhile, when all is
// counted; and by how much their data grows. It reads all headers if there are any.
func (s *stateStore) settled() (stats map[string]*schema.Znode, grown int64, err error) {
	all, err := s.countings()
	if err != nil || len(all.of) == 0 {
		return nil, 0, err
	}
	ahead := make(map[string]counted, len(all.of))
	var buf []byte
	err = s.scan([]byte{schema.KindNode}, func(key, value []byte) (bool, error) {
		length, err := schema.HeaderDataLen(key, value)
		buf = schema.PathOfNodeKey(buf[:0], key)
		eachAbove(entry.ViewString(buf), func(above string) {
			if c := all.of[above]; c != nil && entry.ViewString(key) > c.Cursor {
				a := ahead[c.Target]
				ahead[c.Target] = counted{znodes: a.znodes + 1, bytes: a.bytes + length}
			}
		})
		return true, err
	})
	if err != nil {
		return nil, 0, err
	}
	stats = make(map[string]*schema.Znode, len(all.of))
	for _, c := range all.of { // order: into a map, and a sum
		n, err := s.stats(c)
		if err != nil {
			return nil, 0, err
		}
		found := ahead[c.Target]
		track := parseStatsTrack(n.Data)
		track.count += found.znodes + c.OwedZnodes
		track.bytes += found.bytes + c.OwedBytes
		grown -= int64(n.DataLen)
		is := *n
		is.SetData(track.append(nil))
		grown += int64(is.DataLen)
		stats[is.Path] = &is
	}
	return stats, grown, nil
}

// settledZnodes is f for a walk over all znodes, with those of settled in the place of what the store has.
func settledZnodes(
	settled map[string]*schema.Znode, f func(n *schema.Znode, header []byte) error,
) func(*schema.Znode, []byte) error {
	return func(n *schema.Znode, header []byte) error {
		if is := settled[n.Path]; is != nil {
			n, header = is, is.AppendHeader(nil)
		}
		return f(n, header)
	}
}

// stats returns the stats znode of a count, with its data.
func (s *stateStore) stats(c *schema.Count) (*schema.Znode, error) {
	n, err := s.node(string(appendQuotaNode(nil, c.Target, schema.StatsName)))
	if n == nil {
		return nil, errors.Join(fmt.Errorf("%w %s: the quota of %q is counted, and has no stats",
			schema.ErrDamagedValue, s.dir,
			c.Target), err)
	}
	return s.withData(n)
}

// eachAbove calls f with the paths above path, the nearest first.
func eachAbove(path string, f func(path string)) {
	for len(path) > 1 {
		if path = schema.ParentOf(path); path == "" {
			path = schema.RootPath
		}
		f(path)
	}
}
