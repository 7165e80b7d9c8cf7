package session

import (
	"maps"
	"slices"
	"strings"

	"zkd/jute"
)

// watches are those of a session, by their paths on the server, in kinds as org.apache.zookeeper.ZKWatchManager has
// them. Guarded by the session's mu.
type watches struct {
	data, exist, child, persistent, recursive map[string]bool
}

func newWatches() watches {
	return watches{data: map[string]bool{}, exist: map[string]bool{}, child: map[string]bool{},
		persistent: map[string]bool{}, recursive: map[string]bool{}}
}

// fire forgets the one-shot watches that an event has used up.
func (w *watches) fire(kind jute.EventType, path string) {
	switch kind {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		delete(w.data, path)
		delete(w.exist, path)
	case jute.EventNodeChildrenChanged:
		delete(w.child, path)
	case jute.EventNodeDeleted:
		delete(w.data, path)
		delete(w.exist, path)
		delete(w.child, path)
	}
}

// remove forgets the watches of a kind on a path, and returns which kinds there were, as events name them.
func (w *watches) remove(kind jute.WatcherType, path string) (removed []jute.WatcherType) {
	drop := func(as jute.WatcherType, sets ...map[string]bool) {
		found := false
		for _, set := range sets {
			found = found || set[path]
			delete(set, path)
		}
		if found {
			removed = append(removed, as)
		}
	}
	switch kind {
	case jute.WatcherChildren:
		drop(jute.WatcherChildren, w.child)
	case jute.WatcherData:
		drop(jute.WatcherData, w.data, w.exist)
	case jute.WatcherPersistent:
		drop(jute.WatcherPersistent, w.persistent)
	case jute.WatcherPersistentRecursive:
		drop(jute.WatcherPersistentRecursive, w.recursive)
	default:
		drop(jute.WatcherChildren, w.child)
		drop(jute.WatcherData, w.data, w.exist)
		drop(jute.WatcherPersistent, w.persistent, w.recursive)
	}
	return removed
}

// has tells whether there is a watch of a kind on a path.
func (w *watches) has(kind jute.WatcherType, path string) bool {
	data, persistent := w.data[path] || w.exist[path], w.persistent[path]
	switch kind {
	case jute.WatcherChildren:
		return w.child[path]
	case jute.WatcherData:
		return data
	case jute.WatcherPersistent:
		return persistent
	case jute.WatcherPersistentRecursive:
		return w.recursive[path]
	default:
		return data || persistent || w.child[path] || w.recursive[path]
	}
}

// listBytesMax bounds the paths in one request, as ClientCnxn's SET_WATCHES_MAX_LENGTH does.
const listBytesMax = 128 << 10

// watchList is a request that sets watches.
type watchList struct{ jute.SetWatches2Request }

// op is setWatches, which older servers know, too, if that will do.
func (l *watchList) op() jute.Op {
	if len(l.Persistent)+len(l.PersistentRecursive) == 0 {
		return jute.OpSetWatches
	}
	return jute.OpSetWatches2
}

func (l *watchList) append(b []byte) []byte {
	if l.op() == jute.OpSetWatches2 {
		return l.Append(b)
	}
	former := jute.SetWatchesRequest{RelativeZxid: l.RelativeZxid, Data: l.Data, Exist: l.Exist, Child: l.Child}
	return former.Append(b)
}

// lists returns the requests that set all watches again for a client that has seen what was done up to zxid.
func (w *watches) lists(zxid jute.Zxid) (all []*watchList) {
	var now *watchList
	bytes := 0
	add := func(set map[string]bool, into func(*watchList) *[]string) {
		for _, path := range slices.Sorted(maps.Keys(set)) {
			if now == nil || bytes > listBytesMax {
				now, bytes = &watchList{jute.SetWatches2Request{RelativeZxid: zxid, Data: []string{},
					Exist: []string{}, Child: []string{}, Persistent: []string{}, PersistentRecursive: []string{}}}, 0
				all = append(all, now)
			}
			list := into(now)
			*list = append(*list, path)
			bytes += len(path)
		}
	}
	add(w.data, func(l *watchList) *[]string { return &l.Data })
	add(w.exist, func(l *watchList) *[]string { return &l.Exist })
	add(w.child, func(l *watchList) *[]string { return &l.Child })
	add(w.persistent, func(l *watchList) *[]string { return &l.Persistent })
	add(w.recursive, func(l *watchList) *[]string { return &l.PersistentRecursive })
	return all
}

// nodeEvent takes an event of a server, whose bytes go with the frame.
func (s *Session) nodeEvent(zxid jute.Zxid, event *jute.WatcherEvent) {
	path := strings.Clone(event.Path)
	s.mu.Lock()
	s.mu.watches.fire(event.Type, path)
	state := Connected
	if s.mu.state.Ended() {
		state = s.mu.state
	}
	s.mu.Unlock()
	s.tell(Event{Kind: EventNode, State: state, Type: event.Type, Path: s.below(path), Zxid: zxid})
}

// above is a path on the server.
func (s *Session) above(path string) string {
	switch {
	case s.options.Chroot == "":
		return path
	case path == "/":
		return s.options.Chroot
	}
	return s.options.Chroot + path
}

// below is a server's path, as it is below the chroot.
func (s *Session) below(path string) string {
	rest, ok := strings.CutPrefix(path, s.options.Chroot)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return path // /zookeeper/config is the same for all
	case rest == "":
		return "/"
	}
	return rest
}
