package sim

import (
	"cmp"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// observation is what one read has shown, to be compared with the log's own state at that index.
type observation struct {
	o     *op
	m     *member
	index uint64
	shown uint64 // hash of what was shown
}

// read serves a read, and the read behind a sync.
func (k *conn) read(o *op) {
	w, m := k.s.m.w, k.s.m
	if o.kind == jute.OpSetWatches {
		k.setWatches(o)
		return
	}
	if o.kind != jute.OpSync {
		o.call = w.observe()
	}
	view := m.machine.View()
	defer view.Close()
	shown := look(view, o, &o.answer)
	o.answer.zxid, o.ret, o.state = view.Zxid(), w.observe(), opAnswered
	w.ledger.reads = append(w.ledger.reads, observation{o, m, view.AppliedIndex(), shown})
	w.report.Ops++
	if m.state.Role == quorum.RoleLearner {
		w.count(drawnObserverRead)
	}
	w.trace.note(w.now, "read", uint64(o.c.id), uint64(o.kind), m.id, view.AppliedIndex(), shown)
	if o.kind == jute.OpSync && o.answer.zxid < o.floor {
		w.fail("%v on member %d shows zxid %d, but %d was applied before it was asked for", o, m.id, o.answer.zxid,
			o.floor)
	}
	if o.watch && (o.answer.found || o.kind == jute.OpExists) {
		k.register(watchKey{o.kind == jute.OpGetChildren, o.path})
	}
	k.reply(o)
}

// look reads what o asks for and returns a hash of all of it.
func look(view state.View, o *op, a *answer) uint64 {
	node, found := view.Get(o.path)
	a.found = found
	if !found {
		return 0
	}
	a.stat, a.data = node.Stat(), string(node.Data())
	h := hashStat(hashString(a.data), &a.stat)
	for _, entry := range node.ACL() {
		h = mix(h, uint64(entry.Perms)) ^ hashString(entry.ID.Scheme+entry.ID.ID)
	}
	if o.kind == jute.OpGetChildren {
		names, _ := view.Children(o.path, nil)
		for _, name := range names {
			h = mix(h, hashString(name))
		}
	}
	return h
}

// register adds the connection to those that wait for a change.
func (k *conn) register(key watchKey) {
	if list := k.s.watches[key]; !slices.Contains(list, k) {
		k.s.m.w.count(drawnWatch)
		k.s.watches[key] = append(slices.Clip(list), k)
	}
}

// setWatches sets a client's watches again after it has come to this server: those whose change the client has missed
// fire at once (org.apache.zookeeper.server.DataTree.setWatches).
func (k *conn) setWatches(o *op) {
	w := k.s.m.w
	view := k.s.m.machine.View()
	defer view.Close()
	w.trace.note(w.now, "setWatches", uint64(k.c.id), k.s.m.id, uint64(view.Zxid()))
	for _, watch := range k.c.sortedWatches() {
		node, found := view.Exists(watch.key.path)
		stat := jute.Stat{}
		if found {
			stat = node.Stat()
		}
		kind := missed(watch, found, &stat, o.rel)
		if kind != 0 {
			w.count(drawnWatchSetAgain)
			k.event(watchEvent{kind, watch.key.path, 0})
			continue
		}
		if e, ok := w.ledger.firstMatch(watch.key, watch.since); ok && e.zxid <= view.Zxid() && !watch.exist {
			w.fail("client %d: the watch %v since zxid %d misses the change of zxid %d: set again on member %d, with "+
				"zxid %d seen", k.c.id, watch.key, watch.since, e.zxid, k.s.m.id, o.rel)
		}
		watch.since = view.Zxid()
		k.register(watch.key)
	}
	o.answer.zxid, o.state = view.Zxid(), opAnswered
	k.reply(o)
}

// missed is the event that a watch has missed since the client saw rel, or 0.
func missed(watch *watch, found bool, stat *jute.Stat, rel jute.Zxid) jute.EventType {
	switch {
	case watch.exist && found:
		return jute.EventNodeCreated
	case watch.exist:
		return 0
	case !found:
		return jute.EventNodeDeleted
	case watch.key.children && stat.Pzxid > rel:
		return jute.EventNodeChildrenChanged
	case !watch.key.children && stat.Mzxid > rel:
		return jute.EventNodeDataChanged
	}
	return 0
}

// watch is a registration as its client knows it.
type watch struct {
	key   watchKey
	exist bool      // registered on a znode that was not there
	since jute.Zxid // of the state that was seen with it
}

// sortedWatches returns the client's watches in a fixed order.
func (c *client) sortedWatches() []*watch {
	list := make([]*watch, 0, len(c.watches))
	for _, w := range c.watches { // in any order: sorted below
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *watch) int {
		if a.key.children != b.key.children {
			return cmp.Compare(boolNumber(a.key.children), boolNumber(b.key.children))
		}
		return strings.Compare(a.key.path, b.key.path)
	})
	return list
}

// event takes a watch event: it is for a watch that is there, and for its first change.
func (c *client) event(k *conn, e watchEvent) {
	keys := []watchKey{{false, e.path}, {true, e.path}}
	switch e.kind {
	case jute.EventNodeChildrenChanged:
		keys = keys[1:]
	case jute.EventNodeDeleted:
	default:
		keys = keys[:1]
	}
	fired := 0
	for _, key := range keys {
		watch := c.watches[key]
		if watch == nil {
			continue
		}
		fired++
		delete(c.watches, key)
		first, ok := c.w.ledger.firstMatch(key, watch.since)
		if !ok || e.zxid != 0 && (first.zxid != e.zxid || first.kind != e.kind) {
			c.w.fail("client %d: the watch %v since zxid %d fires with %v of zxid %d, the first change is %v", c.id,
				key,
				watch.since, e.kind, e.zxid, first)
		}
	}
	c.w.report.Watches += fired
	if e.path == schema.ConfigPath {
		c.w.count(drawnWatchConfig)
	}
	if fired == 0 {
		c.w.fail("client %d: event %v of %s, zxid %d, on member %d: there is no such watch", c.id, e.kind, e.path,
			e.zxid,
			k.s.m.id)
	}
}

// saw notes that the client has seen a state: nothing older, and no change before its event.
func (c *client) saw(o *op) {
	zxid := o.answer.zxid
	if zxid < c.lastZxid {
		c.w.fail("%v shows zxid %d, the session has seen %d", o, zxid, c.lastZxid)
	}
	c.lastZxid = max(c.lastZxid, zxid)
	for _, watch := range c.watches { // in any order: the first violation of several is as good as another
		if first, ok := c.w.ledger.firstMatch(watch.key, watch.since); ok && first.zxid <= zxid {
			c.w.fail("%v shows zxid %d before the event of the watch %v since zxid %d: %v", o, zxid, watch.key,
				watch.since, first)
		}
	}
}

// hashStat adds a Stat to a hash.
func hashStat(h uint64, s *jute.Stat) uint64 {
	for _, n := range [...]uint64{
		uint64(s.Czxid), uint64(s.Mzxid), uint64(s.Pzxid), uint64(s.Ctime), uint64(s.Mtime), uint64(s.Version),
		uint64(s.Cversion), uint64(s.Aversion), uint64(s.EphemeralOwner), uint64(s.DataLength), uint64(s.NumChildren),
	} {
		h = mix(h, n)
	}
	return h
}
