package apply

import (
	"math"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// quotas keeps the counts of quotas up to date with what an entry does, and holds it to their limits.
type quotas struct {
	base    *Base
	changes *Changes
	tree    *overlay
	keyBuf  []byte

	countMax int64 // znodes that an entry counts of a count under way; immutable
	// countedBelow is what countBelow has found for the entry, by path; countLeft how many znodes it may still read.
	countedBelow map[string]counted
	countLeft    int64
	countsAtOnce int         // how many quotas it has counted, or begun to
	undo         []countUndo // of a multi

	touched    pathTree[*change] // limits that the entry has made or deleted, by the path that they are for
	countPaths pathTree[string]  // whose counts the entry has touched
	// What was found above a path: scratch memory.
	found        []foundPath[string]
	foundTouched []foundPath[*change]
}

// begin starts an entry.
func (q *quotas) begin() { q.countLeft, q.countsAtOnce = q.countMax, 0 }

// end forgets the entry.
func (q *quotas) end() {
	clear(q.countedBelow)
	q.touched.clear()
	q.countPaths.clear()
	clear(q.found)
	clear(q.foundTouched)
	q.found, q.foundTouched = q.found[:0], q.foundTouched[:0]
}

// node looks at a znode of the quota of target.
func (q *quotas) node(target, name string) *change {
	b := q.tree.arena.alloc(len(schema.LimitsPrefix) + len(target) + len(name))[:0]
	return q.tree.look(entry.ViewString(schema.AppendQuotaNode(b, target, name)))
}

// of returns the longest path with a quota that is path or above it, "" if there is none. The root's quota
// counts nothing (DataTree.getMaxPrefixWithQuota).
func (q *quotas) of(path string) string {
	if q.base.Quotas.Len() == 0 && q.touched.count == 0 { // written by this goroutine only
		return ""
	}
	before := q.base.Quotas.paths.upTo(path, q.found[:0])
	now := q.foundTouched[:0]
	if q.touched.count > 0 {
		now = q.touched.upTo(path, now)
	}
	q.found, q.foundTouched = before, now
	for len(before) > 0 || len(now) > 0 { // the longest first
		var length int
		is := true
		if n := len(before) - 1; n >= 0 {
			length = before[n].length
		}
		if n := len(now) - 1; n >= 0 && now[n].length >= length { // the entry knows better
			length, is, now = now[n].length, now[n].value.cur != nil, now[:n]
		}
		if n := len(before) - 1; n >= 0 && before[n].length == length {
			before = before[:n]
		}
		if is && length > len(schema.RootPath) {
			return path[:length]
		}
	}
	return ""
}

// touch notes that the entry makes or deletes the znode at path, which may be a quota.
func (q *quotas) touch(path string) {
	if target, ok := schema.QuotaTarget(path, schema.LimitsName); ok {
		q.changes.quotaTouch = true
		c := q.tree.look(path)
		q.touched.put(c.path[len(schema.LimitsPrefix):][:len(target)], c, true)
	}
}

// check fails with QuotaExceeded if a hard quota refuses that the tree grows at path
// (org.apache.zookeeper.server.ZooKeeperServer.checkQuota). It counts exactly, inside a multi too.
func (q *quotas) check(path string, bytes, count int64) jute.Code {
	target := q.of(path)
	if target == "" {
		return jute.OK
	}
	limits, stats := q.node(target, schema.LimitsName), q.node(target, schema.StatsName)
	if limits.cur == nil || stats.cur == nil {
		return jute.OK
	}
	limit := ParseStatsTrack(q.tree.data(limits))
	now := ParseStatsTrack(q.tree.data(stats))
	if count != 0 && limit.CountHard > -1 && now.Count+count > limit.CountHard ||
		bytes != 0 && limit.BytesHard > -1 && now.Bytes+bytes > limit.BytesHard {
		return jute.QuotaExceeded
	}
	return jute.OK
}

// created keeps quotas and their counts up to date when path was made.
func (q *quotas) created(path string, bytes int64) {
	q.touch(path)
	charged := q.of(path)
	later := q.countLater(path, charged, bytes, 1) // before another count begins, which finds path as it is
	if target, ok := schema.QuotaTarget(path, schema.StatsName); ok {
		q.recount(target)
	}
	if !later {
		q.addStats(charged, bytes, 1)
	}
}

// deleted does the same when path was deleted and held so many bytes.
func (q *quotas) deleted(path string, bytes int64) {
	q.touch(path)
	q.endCount(path)
	q.charge(path, -bytes, -1)
}

// dataGrown does the same when the data at path grew by bytes.
func (q *quotas) dataGrown(path string, bytes int64) {
	q.endCount(path)
	q.charge(path, bytes, 0)
}

// charge adds to the counts of the quota that path belongs to.
func (q *quotas) charge(path string, bytes, count int64) {
	charged := q.of(path)
	if !q.countLater(path, charged, bytes, count) {
		q.addStats(charged, bytes, count)
	}
}

// addStats adds to the counts of the quota of target; "" is none. The stats znode changes its data only: no version, no
// time, no event (DataTree.updateQuotaStat).
func (q *quotas) addStats(target string, bytes, count int64) {
	if target == "" {
		return
	}
	c := q.node(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	stats := ParseStatsTrack(q.tree.data(c))
	stats.Count += count
	stats.Bytes += bytes
	q.writeStats(c, &stats)
}

// recount sets the stats of target to what its subtree holds (DataTree.updateQuotaForPath). From entry.LevelCounting
// on, what an entry cannot count is counted by those that follow: until then the stats say what was counted so far.
func (q *quotas) recount(target string) {
	if q.changes.Level < entry.LevelCounting || q.mayCountAtOnce(target) {
		q.recountWhole(target)
		return
	}
	c := q.node(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	q.setCount(target, schema.NewCount(q.changes.Position.Zxid, target))
	q.countStats(c, counted{}.with(q.tree.look(target).cur, 1))
}

// recountWhole does so at once, however much there is.
func (q *quotas) recountWhole(target string) {
	c := q.node(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	q.countBelow(target, math.MaxInt64)
	q.countStats(c, q.subtree(target))
}

// countStats gives a stats znode the text of a new count.
func (q *quotas) countStats(c *change, found counted) {
	q.writeStats(c, &StatsTrack{CountHard: -1, BytesHard: -1, Count: found.znodes, Bytes: found.bytes})
}

// writeStats gives a stats znode its text.
func (q *quotas) writeStats(c *change, stats *StatsTrack) {
	n := q.tree.modify(c)
	b := q.tree.arena.alloc(stats.textBytesMax())[:0]
	before := int64(n.DataLen)
	n.SetData(stats.Append(b))
	c.dataChanged = true
	q.countLater(c.path, "", int64(n.DataLen)-before, 0)
}

// counted is a number of znodes, and how much data they have.
type counted struct{ znodes, bytes int64 }

// with is c and so many times n, which may be nil.
func (c counted) with(n *schema.Znode, times int64) counted {
	if n == nil {
		return c
	}
	return counted{znodes: c.znodes + times, bytes: c.bytes + times*int64(n.DataLen)}
}

// subtree counts the znodes at and below path and their data, as the entry sees them; those that were below it before
// are counted already.
func (q *quotas) subtree(path string) counted {
	found := q.countedBelow[path].with(q.tree.look(path).cur, 1)
	below := path + "/"
	if path == schema.RootPath {
		below = path
	}
	for _, c := range q.changes.znodes {
		if len(c.path) > len(below) && strings.HasPrefix(c.path, below) {
			found = found.with(c.base, -1).with(c.cur, 1)
		}
	}
	return found
}

// countBelow counts the znodes below path in the state before the entry, and reports whether there are no more than
// most. It reads their headers once in an entry: a multi may make the stats of a quota, and delete them, thousands of
// times.
func (q *quotas) countBelow(path string, most int64) bool {
	if _, known := q.countedBelow[path]; known {
		return true
	}
	if q.countedBelow == nil {
		q.countedBelow = map[string]counted{}
	}
	base := q.tree.look(path).base
	if base == nil || base.Children == 0 {
		q.countedBelow[path] = counted{}
		return true
	}
	if int64(base.Children) > most {
		return false
	}
	var found counted
	whole := true
	err := eachBelow(q.tree.store, path, "", func(key, value []byte) (bool, error) {
		if found.znodes == most {
			whole = false
			return false, nil
		}
		length, err := schema.HeaderDataLen(key, value)
		found.znodes++
		found.bytes += length
		return true, err
	})
	if err != nil {
		q.tree.fail(err)
	}
	q.countLeft -= found.znodes
	if whole {
		q.countedBelow[path] = found
	}
	return whole
}
