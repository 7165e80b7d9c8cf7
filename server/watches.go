package server

import (
	"zkd/jute"
	"zkd/server/watch"
	"zkd/storage"
)

// watchesOf is how many watches one of addWatch is: a persistent one is of the data and of the children.
var watchesOf = [...]int{jute.WatchPersistent: 2, jute.WatchPersistentRecursive: 1}

// addWatch answers addWatch: any path, whether or not a znode is there.
func (c *conn) addWatch(r *request) error {
	var p jute.AddWatchRequest
	if c.decode(r, &p) != nil {
		return c.unreadable(r)
	}
	if p.Mode != jute.WatchPersistent && p.Mode != jute.WatchPersistentRecursive {
		return c.unreadable(r)
	}
	if !c.watchable(watchesOf[p.Mode]) {
		return c.tooManyWatches(r)
	}
	v := c.server.opts.Machine.View()
	c.server.watches.AddWatch(&c.watch, p.Path, p.Mode)
	return c.answer(r, v, jute.OK, (&jute.ErrorResponse{}).Append)
}

// checkWatches answers whether there is such a watch.
func (c *conn) checkWatches(r *request) error {
	return c.watcherType(r, c.server.watches.Has)
}

// removeWatches drops watches. No event is sent.
func (c *conn) removeWatches(r *request) error {
	return c.watcherType(r, c.server.watches.Remove)
}

// watcherType answers checkWatches and removeWatches.
func (c *conn) watcherType(r *request, found func(*watch.Holder, string, jute.WatcherType) bool) error {
	var p jute.WatcherTypeRequest
	if c.decode(r, &p) != nil || p.Type < jute.WatcherChildren || p.Type > jute.WatcherPersistentRecursive {
		return c.unreadable(r)
	}
	code := jute.NoWatcher
	if found(&c.watch, p.Path, p.Type) {
		code = jute.OK
	}
	return c.answer(r, c.server.opts.Machine.View(), code, nil)
}

// setWatches registers a client's watches again and tells it what it has missed, before the reply
// (org.apache.zookeeper.server.DataTree.setWatches). setWatches and setWatches2 differ in two lists.
func (c *conn) setWatches(r *request) error {
	var p jute.SetWatches2Request
	if r.op == jute.OpSetWatches2 {
		if c.decode(r, &p) != nil || p.Persistent == nil || p.PersistentRecursive == nil {
			return c.unreadable(r)
		}
	} else {
		var q jute.SetWatchesRequest
		if c.decode(r, &q) != nil {
			return c.unreadable(r)
		}
		p = jute.SetWatches2Request{RelativeZxid: q.RelativeZxid, Data: q.Data, Exist: q.Exist, Child: q.Child}
	}
	if p.Data == nil || p.Exist == nil || p.Child == nil {
		return c.unreadable(r)
	}
	if !c.watchable(len(p.Data) + len(p.Exist) + len(p.Child) + 2*len(p.Persistent) + len(p.PersistentRecursive)) {
		return errWatches
	}
	v := c.server.opts.Machine.View()
	if p.RelativeZxid < v.RestoredZxid() { // it has seen another tree: no zxid in this one tells what is new to it
		p.RelativeZxid = -1
	}
	missed := *takeBuffer()
	for list, paths := range [...][]string{
		watch.SetData: p.Data, watch.SetExist: p.Exist, watch.SetChild: p.Child,
		watch.SetPersistent: p.Persistent, watch.SetPersistentRecursive: p.PersistentRecursive,
	} {
		for _, path := range paths {
			missed = c.setWatch(missed, v, watch.SetList(list), p.RelativeZxid, path)
		}
	}
	c.out.mu.Lock()
	b := c.out.openLocked()
	*c.out.buf = append(b, missed...)
	c.out.mu.Unlock()
	giveBuffer(&missed)
	return c.answer(r, v, jute.OK, nil)
}

// setWatch does one path of setWatches: appends the event that was missed, or registers the watch.
func (c *conn) setWatch(missed []byte, v storage.View, list watch.SetList, relative jute.Zxid, path string) []byte {
	n, ok := v.Exists(path)
	var stat jute.Stat
	if ok {
		stat = n.Stat()
	}
	event, register := watch.Missed(list, relative, ok, &stat)
	if register {
		c.server.watches.Register(&c.watch, list, path)
	}
	if event == jute.EventNone {
		return missed
	}
	before := len(missed)
	missed = watch.AppendNotice(missed, event, path, watch.MissedZxid)
	c.notified(len(missed) - before)
	return missed
}
