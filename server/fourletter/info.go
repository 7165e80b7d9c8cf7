package fourletter

import (
	"iter"
	"net/netip"
	"time"

	"zkd/jute"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/server/watch"
)

// Info is what the commands show of a server. The plain fields are set for every command; a function is called only by
// a command that shows it, and one that is nil counts as empty.
type Info struct {
	// Serving is false while the server cannot answer requests: then only ruok, isro, envi, gtmk and stmk say more than
	// that.
	Serving  bool
	ReadOnly bool
	// MissingVoters is why there has been no leader for long, "" if nothing is known to be in its way: a line more for
	// the commands that are refused then.
	MissingVoters string
	Mode          string // standalone, leader, follower, observer or read-only
	// PeerState is of a member of an ensemble, such as "leading - broadcast"; "" standalone. Only mntr shows it.
	PeerState string
	// ObserverMaster is the id of the server that an observer follows, the leader; serverid.None elsewhere. Only mntr
	// shows it.
	ObserverMaster uint64
	// What srvr and stat show, of this server since its last srst.
	Latency          stats.Snapshot // of requests, milliseconds
	PacketsReceived  int64
	PacketsSent      int64
	AliveConnections int
	Outstanding      int64
	Zxid             jute.Zxid // the last one applied
	// Nodes is the number of znodes as ZooKeeper counts: the root twice, so 5 on an empty server.
	Nodes     int64
	Proposals *ProposalSizes // of a leader, else nil

	// What only the admin commands show.
	Replies    ProposalSizes // of replies to clients
	SlowFsyncs int64         // beyond fsync.warningthresholdms
	Uptime     time.Duration
	AuthFailed int64

	Conf        func() Configuration
	Connections iter.Seq[Connection]
	Dirs        func() DirSizes
	Sessions    func() []SessionBucket // in order of time; of the whole group if this is its leader
	// GlobalSessions is shown in the place of Sessions by a server that does not expire them, in order of ids.
	GlobalSessions func() []SessionTimeout
	// LocalSessions are those that this server alone knows; nil if there can be none.
	LocalSessions func() []SessionBucket
	Clients       func() []ConnectionBucket // in order of time
	// Ephemerals yields the sessions that own ephemerals, each with its paths; the slice is valid until the next one.
	Ephemerals  iter.Seq2[jute.SessionID, []string]
	Watches     *watch.Table
	Digests     iter.Seq2[jute.Zxid, uint64] // of the tree, oldest first
	Environment func() []Setting             // of envi, after zookeeper.version
	Metrics     func(*catalog.Values)        // sets what the server measures
	// ResetConnections and ResetServer are crst and srst.
	ResetConnections func()
	ResetServer      func()
}

// ProposalSizes are sizes of proposals, or of replies, in bytes; -1 before the first.
type ProposalSizes struct{ Last, Min, Max int64 }

// Configuration is what conf shows.
type Configuration struct {
	ClientPort       int
	SecureClientPort int // -1 without one
	DataDir          string
	DataLogDir       string
	DirSizes
	TickTime                time.Duration
	MaxClientCnxns          int
	MinSessionTimeout       time.Duration
	MaxSessionTimeout       time.Duration
	ClientPortListenBacklog int // -1 for the system's
	ServerID                int64
	Member                  *MemberConf // nil standalone
}

// MemberConf is what conf adds in an ensemble.
type MemberConf struct {
	InitLimit, SyncLimit, ElectionAlg, ElectionPort, QuorumPort int
	Observer                                                    bool
	Membership                                                  string // of /zookeeper/config; "" without a quorum
}

// DirSizes are the sizes of the two data directories.
type DirSizes struct{ DataBytes, LogBytes int64 }

// Connection is one client connection in cons and stat.
type Connection struct {
	Remote netip.AddrPort
	// Reads is true for a connection that the server reads requests from: 1 between the brackets, as ZooKeeper's
	// interest in reading, else 0 (a four-letter command's own, or one that is held back).
	Reads       bool
	Writes      bool // replies are waiting for the client: 4 more between the brackets
	Secure      bool // by TLS
	Outstanding int64
	Received    int64
	Sent        int64
	// What follows is shown only of a connection with a session.
	Session        jute.SessionID
	LastOp         string // by OpName; "" before the first
	Established    jute.Millis
	Timeout        time.Duration
	LastXid        int64 // negative: not shown
	LastZxid       jute.Zxid
	LastResponseAt int64          // milliseconds of a clock that is not set (elapsed time)
	LastLatency    int64          // milliseconds
	Latency        stats.Snapshot // milliseconds
	// HeldBytes is what the connection holds of the server's memory, its watches too; 0 if that is little. Only the
	// admin commands show it.
	HeldBytes int64
	// Identities are what the client has proven, not to be changed. Only the console shows them.
	Identities []jute.ID
}

// SessionBucket is the sessions that expire at one moment unless they are heard of.
type SessionBucket struct {
	At       time.Time
	Sessions []jute.SessionID
}

// SessionTimeout is a session that another server expires.
type SessionTimeout struct {
	Session jute.SessionID
	Timeout time.Duration
}

// ConnectionBucket is the connections that are cut at one moment unless they are heard of.
type ConnectionBucket struct {
	At          time.Time
	Connections []Client
}

// Client is one connection of a ConnectionBucket; its session is 0 before the handshake.
type Client struct {
	Remote  netip.AddrPort
	Session jute.SessionID
}

// Setting is one line of envi.
type Setting struct{ Key, Value string }
