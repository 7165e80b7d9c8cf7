package jute

import "strconv"

// Zxid is the position of a write in the one global order of writes. Clients only compare zxids; 0 is "before any
// write".
type Zxid int64

// SessionID names a client session. 0 asks for a new one.
type SessionID int64

// Hex writes a zxid, or the id of a session, as ZooKeeper's tools show them.
func Hex[N ~int64](n N) string { return "0x" + strconv.FormatUint(uint64(n), 16) }

// Xid is the number a client gives a request, echoed in the reply.
type Xid int32

// Version is a data, child or ACL version of a znode. As an expectation, AnyVersion matches whatever is there.
type Version int32

// AnyVersion is the expected version that every version satisfies.
const AnyVersion Version = -1

// Millis is a point in time in milliseconds since 1970, or on the wire a duration in milliseconds.
type Millis int64

// Reserved xids (org.apache.zookeeper.ClientCnxn).
const (
	XidNotification Xid = -1 // server to client: a watch event
	XidPing         Xid = -2 // the reply to a ping always has it
	XidAuth         Xid = -4 // auth packets of the Java and C clients and Kazoo
	XidSetWatches   Xid = -8 // setWatches of the Java client
)

// Perms is a set of permissions. Servers store any bit pattern.
type Perms int32

// Permissions (org.apache.zookeeper.ZooDefs.Perms).
const (
	PermRead   Perms = 1
	PermWrite  Perms = 2
	PermCreate Perms = 4
	PermDelete Perms = 8
	PermAdmin  Perms = 16
	PermAll    Perms = 31
)

// CreateMode is the flags field of a create: an enumeration in 3.9, not a set of bits
// (org.apache.zookeeper.CreateMode).
type CreateMode int32

// The seven modes.
const (
	ModePersistent              CreateMode = 0
	ModeEphemeral               CreateMode = 1
	ModePersistentSequential    CreateMode = 2
	ModeEphemeralSequential     CreateMode = 3
	ModeContainer               CreateMode = 4
	ModePersistentTTL           CreateMode = 5
	ModePersistentSequentialTTL CreateMode = 6
)

// Known reports whether m is one of the seven modes.
func (m CreateMode) Known() bool { return m >= ModePersistent && m <= ModePersistentSequentialTTL }

// Ephemeral reports whether a znode of this mode goes away with its session.
func (m CreateMode) Ephemeral() bool { return m == ModeEphemeral || m == ModeEphemeralSequential }

// Sequential reports whether the server appends the parent's counter to the name.
func (m CreateMode) Sequential() bool {
	return m == ModePersistentSequential || m == ModeEphemeralSequential || m == ModePersistentSequentialTTL
}

// TTL reports whether the create carries a time to live.
func (m CreateMode) TTL() bool { return m == ModePersistentTTL || m == ModePersistentSequentialTTL }

// EventType says what happened to a znode (org.apache.zookeeper.Watcher.Event.EventType).
type EventType int32

// The event types that a server sends.
const (
	EventNone                EventType = -1
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4
)

// EventState is the state field of a watch event.
type EventState int32

// StateConnected is the only state that a server sends.
const StateConnected EventState = 3

// AddWatchMode is the mode of addWatch (org.apache.zookeeper.AddWatchMode).
type AddWatchMode int32

// The modes of addWatch.
const (
	WatchPersistent          AddWatchMode = 0
	WatchPersistentRecursive AddWatchMode = 1
)

// WatcherType selects the watches that checkWatches and removeWatches mean (org.apache.zookeeper.Watcher.WatcherType).
type WatcherType int32

// The watcher types.
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// Nulls marks the ustring fields of a record that are null on the wire: bit n is the record's nth ustring field,
// counted from 0 in wire order. A null string decodes as "" with its bit set, so that it survives a round trip.
type Nulls uint8

// Has reports whether the nth ustring field of the record is null.
func (n Nulls) Has(field int) bool { return n&(1<<field) != 0 }
