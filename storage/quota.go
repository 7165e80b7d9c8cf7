package storage

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// quotaTarget returns the path that a znode with this name below /zookeeper/quota is about (Quotas.trimQuotaPath), if
// path is one.
func quotaTarget(path, name string) (target string, ok bool) {
	if !strings.HasPrefix(path, schema.QuotaPrefix) {
		return "", false
	}
	target, ok = strings.CutSuffix(path[len(schema.QuotaPath):], name)
	if ok && target == "" {
		target = schema.RootPath
	}
	return target, ok
}

// quotasOf returns the paths that have a quota.
func quotasOf(s scanner) (map[string]struct{}, error) {
	all := make(map[string]struct{})
	err := belowFrom(s, schema.QuotaPath, nil, func(key, _ []byte) (bool, error) {
		if target, ok := quotaTarget(string(schema.PathOfNodeKey(nil, key)), schema.LimitsName); ok {
			all[target] = struct{}{}
		}
		return true, nil
	})
	return all, err
}

// quotaNode looks at a znode of the quota of target.
func (t *txn) quotaNode(target, name string) *change {
	b := t.arena.alloc(len(schema.LimitsPrefix) + len(target) + len(name))[:0]
	return t.look(entry.ViewString(appendQuotaNode(b, target, name)))
}

// appendQuotaNode adds the path of a znode of the quota of target to b.
func appendQuotaNode(b []byte, target, name string) []byte {
	if len(target) == 1 {
		target = "" // the root's quota
	}
	return append(append(append(b, schema.LimitsPrefix...), target...), name...)
}

// quotaOf returns the longest path with a quota that is path or above it, "" if there is none. The root's quota
// counts nothing (DataTree.getMaxPrefixWithQuota).
func (t *txn) quotaOf(path string) string {
	if len(t.m.mu.quotas) == 0 && !t.quotaTouch { // written by this goroutine only
		return ""
	}
	for len(path) > 1 {
		if t.hasQuota(path) {
			return path
		}
		path = schema.ParentOf(path)
	}
	return ""
}

// hasQuota reports whether path itself has a quota as the entry sees it.
func (t *txn) hasQuota(path string) bool {
	if t.quotaTouch {
		return t.quotaNode(path, schema.LimitsName).cur != nil
	}
	_, ok := t.m.mu.quotas[path]
	return ok
}

// checkQuota fails with QuotaExceeded if a hard quota refuses that the tree grows at path
// (org.apache.zookeeper.server.ZooKeeperServer.checkQuota). It counts exactly, inside a multi too.
func (t *txn) checkQuota(path string, bytes, count int64) jute.Code {
	if t.p.Flags&entry.FlagEnforceQuota == 0 {
		return jute.OK
	}
	target := t.quotaOf(path)
	if target == "" {
		return jute.OK
	}
	limits, stats := t.quotaNode(target, schema.LimitsName), t.quotaNode(target, schema.StatsName)
	if limits.cur == nil || stats.cur == nil {
		return jute.OK
	}
	limit := parseStatsTrack(t.data(limits))
	now := parseStatsTrack(t.data(stats))
	if count != 0 && limit.countHard > -1 && now.count+count > limit.countHard ||
		bytes != 0 && limit.bytesHard > -1 && now.bytes+bytes > limit.bytesHard {
		return jute.QuotaExceeded
	}
	return jute.OK
}

// quotaAfterCreate keeps quotas and their counts up to date when path was made.
func (t *txn) quotaAfterCreate(path string, bytes int64) {
	if _, ok := quotaTarget(path, schema.LimitsName); ok {
		t.quotaTouch = true
	}
	charged := t.quotaOf(path)
	later := t.countLater(path, charged, bytes, 1) // before another count begins, which finds path as it is
	if target, ok := quotaTarget(path, schema.StatsName); ok {
		t.recount(target)
	}
	if !later {
		t.addStats(charged, bytes, 1)
	}
}

// quotaAfterDelete does the same when path was deleted and held so many bytes.
func (t *txn) quotaAfterDelete(path string, bytes int64) {
	if _, ok := quotaTarget(path, schema.LimitsName); ok {
		t.quotaTouch = true
	}
	t.endCounting(path)
	t.charge(path, -bytes, -1)
}

// quotaAfterSetData does the same when the data at path grew by bytes.
func (t *txn) quotaAfterSetData(path string, bytes int64) {
	t.endCounting(path)
	t.charge(path, bytes, 0)
}

// charge adds to the counts of the quota that path belongs to.
func (t *txn) charge(path string, bytes, count int64) {
	charged := t.quotaOf(path)
	if !t.countLater(path, charged, bytes, count) {
		t.addStats(charged, bytes, count)
	}
}

// addStats adds to the counts of the quota of target; "" is none. The stats znode changes its data only: no version, no
// time, no event (DataTree.updateQuotaStat).
func (t *txn) addStats(target string, bytes, count int64) {
	if target == "" {
		return
	}
	c := t.quotaNode(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	stats := parseStatsTrack(t.data(c))
	stats.count += count
	stats.bytes += bytes
	t.writeStats(c, &stats)
}

// recount sets the stats of target to what its subtree holds (DataTree.updateQuotaForPath). From entry.LevelCounting
// on, what an entry cannot count is counted by those that follow: until then the stats say what was counted so far.
func (t *txn) recount(target string) {
	if t.level < entry.LevelCounting || t.mayCountAtOnce(target) {
		t.recountWhole(target)
		return
	}
	c := t.quotaNode(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	t.setCounting(target, schema.NewCount(t.pos.Zxid, target))
	t.countStats(c, counted{}.with(t.look(target).cur, 1))
}

// recountWhole does so at once, however much there is.
func (t *txn) recountWhole(target string) {
	c := t.quotaNode(target, schema.StatsName)
	if c.cur == nil {
		return
	}
	t.countBelow(target, math.MaxInt64)
	t.countStats(c, t.subtree(target))
}

// countStats gives a stats znode the text of a new count.
func (t *txn) countStats(c *change, found counted) {
	t.writeStats(c, &statsTrack{countHard: -1, bytesHard: -1, count: found.znodes, bytes: found.bytes})
}

// writeStats gives a stats znode its text.
func (t *txn) writeStats(c *change, stats *statsTrack) {
	n := t.modify(c)
	b := t.arena.alloc(stats.textBytesMax())[:0]
	before := int64(n.DataLen)
	n.SetData(stats.append(b))
	c.dataChanged = true
	t.countLater(c.path, "", int64(n.DataLen)-before, 0)
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
func (t *txn) subtree(path string) counted {
	found := t.countedBelow[path].with(t.look(path).cur, 1)
	below := path + "/"
	if path == schema.RootPath {
		below = path
	}
	for _, c := range t.order {
		if len(c.path) > len(below) && strings.HasPrefix(c.path, below) {
			found = found.with(c.base, -1).with(c.cur, 1)
		}
	}
	return found
}

// countBelow counts the znodes below path in the state before the entry, and reports whether there are no more than
// most. It reads their headers once in an entry: a multi may make the stats of a quota, and delete them, thousands of
// times.
func (t *txn) countBelow(path string, most int64) bool {
	if _, known := t.countedBelow[path]; known {
		return true
	}
	if t.countedBelow == nil {
		t.countedBelow = map[string]counted{}
	}
	base := t.look(path).base
	if base == nil || base.Children == 0 {
		t.countedBelow[path] = counted{}
		return true
	}
	if int64(base.Children) > most {
		return false
	}
	var found counted
	whole := true
	err := t.m.store.descendants(path, func(key, value []byte) (bool, error) {
		if found.znodes == most {
			whole = false
			return false, nil
		}
		length, err := schema.HeaderDataLen(key, value)
		found.znodes++
		found.bytes += length
		return true, err
	})
	if err != nil && t.err == nil {
		t.err = err
	}
	t.countLeft -= found.znodes
	if whole {
		t.countedBelow[path] = found
	}
	return whole
}

// publishQuotasLocked makes the entry's changes of quotas visible.
func (t *txn) publishQuotasLocked() {
	if !t.quotaTouch {
		return
	}
	for _, c := range t.order {
		if target, ok := quotaTarget(c.path, schema.LimitsName); !ok {
			continue
		} else if c.cur != nil {
			t.m.mu.quotas[strings.Clone(target)] = struct{}{}
		} else {
			delete(t.m.mu.quotas, target)
		}
	}
}

// statsTrack is the text of a limits or stats znode (org.apache.zookeeper.StatsTrack): counts and limits, -1 if there
// is none.
type statsTrack struct {
	count, bytes, countHard, bytesHard int64
	// others are the pairs that zkd does not know, as ZooKeeper keeps them, sorted by key.
	others []statsPair
}

// statsPair is one more pair of a statsTrack.
type statsPair struct {
	key   string
	value int64
}

// The keys of a statsTrack.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	countHardKey = "countHardLimit"
	bytesHardKey = "byteHardLimit"
)

// statsTextMax is how much of the text of a limits or stats znode is read, up to the last pair that is whole. It has
// some hundred bytes, and is read and written with each write below the quota, whoever has made it a megabyte.
const statsTextMax = 4 << 10

// parseStatsTrack reads pairs "key=value" separated by ',' or ';'. Where ZooKeeper trips over what it cannot read
// (and answers that write with an error that is none), a value counts as -1.
func parseStatsTrack(text []byte) statsTrack {
	s := statsTrack{count: -1, bytes: -1, countHard: -1, bytesHard: -1}
	rest := entry.ViewString(text)
	if len(rest) > statsTextMax {
		rest = rest[:max(0, strings.LastIndexAny(rest[:statsTextMax], ",;"))]
	}
	for rest != "" {
		end := strings.IndexAny(rest, ",;")
		pair := rest
		if end < 0 {
			rest = ""
		} else {
			pair, rest = rest[:end], rest[end+1:]
		}
		if key, value, _ := strings.Cut(pair, "="); key != "" {
			value, _, _ = strings.Cut(value, "=") // the stray '=' behind the bytes
			s.set(key, value)
		}
	}
	return s
}

// set takes one pair.
func (s *statsTrack) set(key, value string) {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		v = -1
	}
	switch key {
	case countKey:
		s.count = v
	case bytesKey:
		s.bytes = v
	case countHardKey:
		s.countHard = v
		s.setOther(key, v)
	case bytesHardKey:
		s.bytesHard = v
		s.setOther(key, v)
	default:
		s.setOther(key, v)
	}
}

// setOther keeps a pair that is written behind count and bytes.
func (s *statsTrack) setOther(key string, v int64) {
	byKey := func(p statsPair, key string) int { return strings.Compare(p.key, key) }
	i, found := slices.BinarySearchFunc(s.others, key, byKey)
	if found {
		s.others[i].value = v
		return
	}
	s.others = slices.Insert(s.others, i, statsPair{key, v})
}

// textBytesMax is at least the length of the text.
func (s *statsTrack) textBytesMax() int {
	n := len("count=,bytes==") + 2*20
	for i := range s.others {
		n += len(s.others[i].key) + 2 + 20
	}
	return n
}

// append adds the text as StatsTrack.toString writes it: count and bytes first, the rest behind a '=' at which old
// parsers stop.
func (s *statsTrack) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), s.count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), s.bytes, 10)
	if len(s.others) > 0 {
		b = append(b, '=')
	}
	for i := range s.others {
		b = append(append(b, ';'), s.others[i].key...)
		b = strconv.AppendInt(append(b, '='), s.others[i].value, 10)
	}
	return b
}
