package watch

import "zkd/jute"

// MissedZxid is the zxid in the events that setWatches makes for changes of the past.
const MissedZxid jute.Zxid = -1

// SetList names one of the lists of setWatches and setWatches2.
type SetList uint8

// The lists, in the order in which they are worked off (org.apache.zookeeper.server.DataTree.setWatches).
const (
	SetData SetList = iota
	SetExist
	SetChild
	SetPersistent
	SetPersistentRecursive
)

// Missed says what setWatches does for one path of one list: the event the client has missed since relative, or that
// the watch is to be registered (event EventNone). exists and stat are the znode as it is now; stat is not looked at
// when it is missing. The events are not filtered by ACL. Nothing of the past is told to persistent watches.
func Missed(list SetList, relative jute.Zxid, exists bool, stat *jute.Stat) (event jute.EventType, register bool) {
	switch list {
	case SetData:
		if !exists {
			return jute.EventNodeDeleted, false
		}
		if stat.Mzxid > relative {
			return jute.EventNodeDataChanged, false
		}
	case SetExist:
		if exists {
			return jute.EventNodeCreated, false
		}
	case SetChild:
		if !exists {
			return jute.EventNodeDeleted, false
		}
		if stat.Pzxid > relative {
			return jute.EventNodeChildrenChanged, false
		}
	}
	return jute.EventNone, true
}

// Register registers the watch that the list asks for on path.
func (t *Table) Register(h *Holder, list SetList, path string) {
	switch list {
	case SetData, SetExist:
		t.add(h, path, dataKind, standard)
	case SetChild:
		t.add(h, path, childKind, standard)
	case SetPersistent:
		t.add(h, path, dataKind, persistent)
		t.add(h, path, childKind, persistent)
	case SetPersistentRecursive:
		t.add(h, path, dataKind, recursive)
	}
}
