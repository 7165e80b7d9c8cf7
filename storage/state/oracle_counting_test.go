package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// oracleCounting is a count of an oracle: what an immediate count would say by now, and how far it has come.
type oracleCounting struct {
	began        jute.Zxid
	target       string // "" for the root
	cursor       string // the key of the last znode that was counted
	znodes, size int
}

// oracleBudget is what an entry may still count at once. It is the same for the trials of an entry.
type oracleBudget struct {
	before  map[string]*oracleNode // the tree as the entry has found it
	left    int
	counts  int
	counted map[string]bool
}

// oracleKey orders znodes as they are counted: the children of one parent side by side.
func oracleKey(path string) string {
	slash := strings.LastIndex(path, "/")
	return path[:slash] + "\x00" + path[slash+1:]
}

// isBelow tells whether path is below target, "" being the root.
func isBelow(path, target string) bool { return path != "/" && strings.HasPrefix(path, target+"/") }

// ahead returns the keys of the znodes that c has not counted yet, in their order, and the paths that they stand for.
func (o *oracle) ahead(c *oracleCounting) (keys []string, paths map[string]string) {
	paths = map[string]string{}
	for path := range o.nodes { // order does not matter: sorted below
		if key := oracleKey(path); isBelow(path, c.target) && key > c.cursor {
			paths[key] = path
		}
	}
	return slices.Sorted(maps.Keys(paths)), paths
}

// begin begins an entry: the oldest count goes on.
func (o *oracle) begin() {
	if o.piece == 0 {
		return
	}
	o.budget = &oracleBudget{before: o.copy().nodes, left: o.piece, counted: map[string]bool{}}
	var oldest *oracleCounting
	for _, c := range o.counts { // order does not matter: the least
		if oldest == nil || c.began < oldest.began || c.began == oldest.began && c.target < oldest.target {
			oldest = c
		}
	}
	if oldest == nil {
		return
	}
	znodes, size := oldest.znodes, oldest.size
	keys, paths := o.ahead(oldest)
	rest := keys[min(o.piece, len(keys)):]
	for _, key := range rest {
		znodes, size = znodes-1, size-len(o.nodes[paths[key]].data)
	}
	stats := o.nodes["/zookeeper/quota"+oldest.target+"/zookeeper_stats"]
	stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", znodes, size)
	if len(rest) == 0 {
		o.finished++
		delete(o.counts, oldest.target)
		return
	}
	next := *oldest
	next.cursor = keys[o.piece-1]
	o.counts[oldest.target] = &next
}

// atOnce decides whether the quota of target is counted at once.
func (o *oracle) atOnce(target string) bool {
	b := o.budget
	if o.piece == 0 || o.level < entry.LevelCounting {
		return true
	}
	if b.counts++; b.counts > apply.CountsAtOnceMax {
		return false
	}
	if target == "" {
		target = "/"
	}
	before := b.before[target]
	if b.counted[target] || before == nil || len(before.child) == 0 {
		b.counted[target] = true
		return true
	}
	if len(before.child) > b.left {
		return false
	}
	found := 0
	for path := range b.before { // order does not matter: a number
		if isBelow(path, strings.TrimSuffix(target, "/")) {
			found++
		}
	}
	if found > b.left {
		b.left = 0
		return false
	}
	b.left -= found
	b.counted[target] = true
	return true
}

// recount makes the text of new stats.
func (o *oracle) recount(target string, stats *oracleNode) {
	znodes, size := 0, 0
	top := o.nodes[target]
	if target == "" {
		top = o.nodes["/"]
	}
	if top != nil {
		znodes, size = 1, len(top.data)
	}
	text := fmt.Appendf(nil, "count=%d,bytes=%d", znodes, size)
	for path, n := range o.nodes { // order does not matter: a sum
		if isBelow(path, target) {
			znodes, size = znodes+1, size+len(n.data)
		}
	}
	if o.atOnce(target) {
		text = fmt.Appendf(nil, "count=%d,bytes=%d", znodes, size)
	} else {
		o.counts[target] = &oracleCounting{began: o.zxid, target: target, cursor: target + "\x00", znodes: znodes,
			size: size}
	}
	stats.data = text
}

// copyCounts returns counts of its own.
func (o *oracle) copyCounts() map[string]*oracleCounting {
	all := maps.Clone(o.counts)
	for target, c := range all { // order does not matter: a map
		own := *c
		all[target] = &own
	}
	return all
}

// endCount forgets the count whose stats are at path.
func (o *oracle) endCount(path string) {
	if target, ok := strings.CutSuffix(path, "/zookeeper_stats"); ok {
		delete(o.counts, strings.TrimPrefix(target, "/zookeeper/quota"))
	}
}
