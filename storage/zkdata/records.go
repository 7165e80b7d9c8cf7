package zkdata

import (
	"errors"
	"fmt"

	"zkd/jute"
)

// ErrDamaged says that a file does not hold what its writer has put there. Errors that are one name the file, the
// offset and the remedy.
var ErrDamaged = errors.New("damaged")

// DigestVersion is the version of the tree's digest that Apache ZooKeeper 3.9 writes
// (org.apache.zookeeper.server.DigestCalculator): others cannot be compared.
const DigestVersion = 2

// Session is a session of a snapshot.
type Session struct {
	ID            jute.SessionID
	TimeoutMillis int32
}

// Digest is the sum over a tree after the transaction zxid.
type Digest struct {
	Zxid    jute.Zxid
	Version int32
	Sum     uint64
}

// Node is one znode of a snapshot (org.apache.zookeeper.server.DataNode with its path). What a reader has filled in is
// valid until its next call, but for Path and ACL, which are immutable.
type Node struct {
	Path string // "/" for the root
	Data []byte // nil is null
	ACL  []jute.ACL
	// ACLMissing says that the snapshot does not have the list that the znode refers to. It happens while a snapshot is
	// written beside a server that works; the transactions behind the snapshot bring the list.
	ACLMissing          bool
	Czxid, Mzxid, Pzxid jute.Zxid
	Ctime, Mtime        jute.Millis
	Version, Aversion   jute.Version
	Creations           jute.Version // children ever made: the stored cversion
	Owner               jute.SessionID
}

// Txn is one transaction of a log (org.apache.zookeeper.txn). What a reader has filled in is valid until its next
// call, Paths and strings included.
type Txn struct {
	Session jute.SessionID
	Cxid    int32
	Zxid    jute.Zxid
	Time    jute.Millis
	Op      jute.Op
	Digest  *Digest // of the tree after it; nil if the log has none

	Path           string       // create*, delete*, setData, reconfig, setACL
	Data           []byte       // create*, setData, reconfig; nil is null
	ACL            []jute.ACL   // create*, setACL; in memory of its own
	Ephemeral      bool         // create, create2
	ParentCversion jute.Version // create*: the parent's stored cversion afterwards; -1: one more than before
	TTL            int64        // createTTL, milliseconds
	Version        jute.Version // setData, reconfig, setACL: the new one
	TimeoutMillis  int32        // createSession
	// Paths are what closeSession deletes. Logs before 3.6 do not say: then PathsKnown is false, and all ephemerals of
	// the session go.
	Paths      []string
	PathsKnown bool
	Code       jute.Code // error
	// Ops are the parts of a multi; Failed says that it changed nothing, because one of them is an error.
	Ops    []Txn
	Failed bool
}

// damaged words damage: where, what, and what the operator can do.
func damaged(file string, offset int64, remedy, format string, args ...any) error {
	return fmt.Errorf("%w: %s at offset %d: %s: %s", ErrDamaged, file, offset, fmt.Sprintf(format, args...), remedy)
}
