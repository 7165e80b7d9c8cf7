package shell

import (
	"strconv"
	"sync"

	"zkd/jute"
	"zkd/jute/client/session"
)

// eventType is Watcher.Event.EventType's name.
func eventType(e session.Event) string {
	switch e.Kind {
	case session.EventNode:
		if name, ok := nodeTypes[e.Type]; ok {
			return name
		}
		return strconv.Itoa(int(e.Type))
	case session.EventWatchRemoved:
		switch e.Removed {
		case jute.WatcherChildren:
			return "ChildWatchRemoved"
		case jute.WatcherData:
			return "DataWatchRemoved"
		}
		return "PersistentWatchRemoved"
	}
	return "None"
}

var nodeTypes = map[jute.EventType]string{jute.EventNone: "None", jute.EventNodeCreated: "NodeCreated",
	jute.EventNodeDeleted: "NodeDeleted", jute.EventNodeDataChanged: "NodeDataChanged",
	jute.EventNodeChildrenChanged: "NodeChildrenChanged"}

// hooks are commands that follow events while they run.
type hooks struct {
	mu   sync.Mutex
	next int
	each map[int]func(session.Event) // guarded by mu
}

// add has f called for each event until remove is called, on the session's goroutine.
func (h *hooks) add(f func(session.Event)) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.each == nil {
		h.each = map[int]func(session.Event){}
	}
	n := h.next
	h.next++
	h.each[n] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.each, n)
	}
}

func (h *hooks) tell(e session.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.each { // order: there is one at a time
		f(e)
	}
}
