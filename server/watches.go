package server

import (
	"zkd/jute"
	"zkd/server/socket"
	"zkd/server/watch"
	"zkd/storage/state"
)

// watchesOf is how many watches one of addWatch is: a persistent one is of the data and of the children.
var watchesOf = [...]int{jute.WatchPersistent: 2, jute.WatchPersistentRecursive: 1}

// addWatch answers addWatch: any path, whether or not a znode is there.
func (c *queries) addWatch(r *request) error {
	var p jute.AddWatchRequest
	if c.req.decode(r, &p) != nil {
		return c.unreadable(r)
	}
	if p.Mode != jute.WatchPersistent && p.Mode != jute.WatchPersistentRecursive {
		return c.unreadable(r)
	}
	if !c.admitter.watchable(watch.Asked{Watches: watchesOf[p.Mode], PathBytes: watchesOf[p.Mode] * len(p.Path)}) {
		return c.admitter.tooManyWatches(r)
	}
	v := c.present(r)
	c.server.watches.AddWatch(&c.watch, p.Path, p.Mode)
	c.metered.watches += watchesOf[p.Mode]
	return c.answer(r, v, jute.OK, (&jute.ErrorResponse{}).Append)
}

// checkWatches answers whether there is such a watch.
func (c *queries) checkWatches(r *request) error {
	return c.watcherType(r, c.server.watches.Has)
}

// removeWatches drops watches. No event is sent.
func (c *queries) removeWatches(r *request) error {
	return c.watcherType(r, c.server.watches.Remove)
}

// watcherType answers checkWatches and removeWatches.
func (c *queries) watcherType(r *request, found func(*watch.Holder, string, jute.WatcherType) bool) error {
	var p jute.WatcherTypeRequest
	if c.req.decode(r, &p) != nil || p.Type < jute.WatcherChildren || p.Type > jute.WatcherPersistentRecursive {
		return c.unreadable(r)
	}
	code := jute.NoWatcher
	if found(&c.watch, p.Path, p.Type) {
		code = jute.OK
	}
	return c.answer(r, c.present(r), code, nil)
}

// setWatches registers a client's watches again and tells it what it has missed, before the reply
// (org.apache.zookeeper.server.DataTree.setWatches). setWatches and setWatches2 differ in two lists.
func (c *queries) setWatches(r *request) error {
	var p jute.SetWatches2Request
	if r.op == jute.OpSetWatches2 {
		if c.req.decode(r, &p) != nil || p.Persistent == nil || p.PersistentRecursive == nil {
			return c.unreadable(r)
		}
	} else {
		var q jute.SetWatchesRequest
		if c.req.decode(r, &q) != nil {
			return c.unreadable(r)
		}
		p = jute.SetWatches2Request{RelativeZxid: q.RelativeZxid, Data: q.Data, Exist: q.Exist, Child: q.Child}
	}
	if p.Data == nil || p.Exist == nil || p.Child == nil {
		return c.unreadable(r)
	}
	once := len(p.Data) + len(p.Exist) + len(p.Child)
	if !c.admitter.watchable(watch.Asked{Watches: once + 2*len(p.Persistent) + len(p.PersistentRecursive),
		PathBytes: len(r.body) + textBytes(p.Persistent)}) {
		return errWatches
	}
	all := make([]watchAgain, 0, len(p.Data)+len(p.Exist)+len(p.Child)+len(p.Persistent)+len(p.PersistentRecursive))
	for list, paths := range [...][]string{
		watch.SetData: p.Data, watch.SetExist: p.Exist, watch.SetChild: p.Child,
		watch.SetPersistent: p.Persistent, watch.SetPersistentRecursive: p.PersistentRecursive,
	} {
		for _, path := range paths {
			all = append(all, watchAgain{watch.SetList(list), path})
		}
	}
	turn := c.server.watchTurns.Scan(&c.Out, nil)
	defer turn.End()
	if !turn.Expect(len(all)) {
		return errGone
	}
	for len(all) > watchesAtOnce {
		v := c.setAgain(r, all[:watchesAtOnce], p.RelativeZxid)
		err := v.Err()
		v.Close()
		c.letGo()
		if err != nil {
			return err
		}
		all = all[watchesAtOnce:]
		if !turn.Pace() {
			return errGone
		}
	}
	return c.answer(r, c.setAgain(r, all, p.RelativeZxid), jute.OK, nil)
}

// textBytes is how long texts are together.
func textBytes(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

// watchAgain is one watch of a setWatches.
type watchAgain struct {
	list watch.SetList
	path string
}

// watchesAtOnce is how many watches of a setWatches are set at one moment, while commits wait: a tenth of a millisecond
// (measured 2026-11), as much as a stretch of a scan. Clients of ZooKeeper ask for a few thousand in one request; those
// that ask for many take turns, which are not those of large reads: who has one takes the machine's lock.
const watchesAtOnce = 256

// setAgain registers watches again, and appends the events that were missed: at one moment, the present, which it
// returns. So the events of later changes come behind those that were missed.
func (c *queries) setAgain(r *request, some []watchAgain, relative jute.Zxid) state.Present {
	paths := make([]string, len(some))
	for i := range some {
		paths[i] = some[i].path
	}
	v, nodes := c.server.opts.Machine.LookAll(paths, make([]state.Node, 0, len(some)))
	c.held.begin(r)
	if relative < v.LoadedZxid() { // it has seen another tree: no zxid in this one tells what is new to it
		relative = -1
	}
	missed := *socket.TakeBuffer()
	for i := range some {
		missed = c.setWatch(missed, &some[i], nodes[i], relative)
	}
	if len(missed) > 0 {
		c.Out.Append(missed)
	}
	socket.GiveBuffer(&missed)
	return v
}

// setWatch does one watch of a setWatches: appends the event that was missed, or registers the watch.
func (c *queries) setWatch(missed []byte, w *watchAgain, n state.Node, relative jute.Zxid) []byte {
	var stat jute.Stat
	if n.Found() {
		stat = n.Stat()
	}
	event, register := watch.Missed(w.list, relative, n.Found(), &stat)
	if register {
		c.server.watches.Register(&c.watch, w.list, w.path)
		c.metered.watches++
	}
	if event == jute.EventNone {
		return missed
	}
	before := len(missed)
	missed = watch.AppendNotice(missed, event, w.path, watch.MissedZxid)
	c.notified(len(missed)-before, 1)
	return missed
}
