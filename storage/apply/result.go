package apply

import (
	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Result is the outcome of one proposal: what the client is told, and what others are.
type Result struct {
	Op      jute.Op
	Session jute.SessionID
	Xid     jute.Xid
	Zxid    jute.Zxid // of this write, failed or not; with entry.OpReattachSession the last one
	Code    jute.Code
	Path    string    // the name that a create has made
	Stat    jute.Stat // of what a create, SetData or setACL has made; of /zookeeper/config
	Data    []byte    // what a reconfig has made of /zookeeper/config
	Bytes   int       // of the proposal in the log
	First   bool      // of its entry
	// Ops are the results of a multi, in order. The Code of a failed multi is the first failed operation's, although
	// the reply's header says OK (docs: wire format of multi); Code is MarshallingError, with no Ops, if it could not
	// be read.
	Ops []OpResult
	// Events are the changes that watches may wait for, in the order in which they fire.
	Events []Event
	// Refusal says, with the ops of a load, why Code is not OK: for who has asked, and the same on every server.
	Refusal string
	// Point is, of a checksum point of entry.OpCompareState, its index and the sums that this server has there.
	Point *entry.CompareTxn
	// Unfinished says that a closeSession has left ephemerals behind: ClosedSession is ending, and another one goes on.
	Unfinished bool
	// NewSession is what createSession or entry.OpReattachSession has made, nil if refused; ClosedSession what
	// closeSession has ended, nil if there was none.
	NewSession, ClosedSession *schema.SessionInfo
}

// OpResult is the outcome of one operation of a multi. Op is the type in the reply: create, create2 (for the three
// others that answer with a Stat, too), delete, SetData, check, or error.
type OpResult struct {
	Op   jute.Op
	Code jute.Code
	Path string
	Stat jute.Stat
}

// Event is one change of one znode, as org.apache.zookeeper.server.DataTree triggers watches for it.
//
// A NodeDeleted goes to the data table and then, for connections not told yet, to the child table, as one Event;
// NodeCreated and NodeDataChanged go to the data table, NodeChildrenChanged to the child table.
type Event struct {
	Type jute.EventType
	Path string
	Zxid jute.Zxid
	// ACL is the list that READ is checked on before the event is delivered, in force at the change; nil lets anyone
	// see it.
	ACL []jute.ACL
}
