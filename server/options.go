package server

import (
	"io"
	"log/slog"
	"time"

	"zkd/quorum"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/server/audit"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/server/stats/catalog"
	"zkd/server/watch"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// Node is what the server asks of the agreement; *quorum.Node is one.
type Node interface {
	// Propose has p applied and tells w; it may block while too much is in flight. An error means that p was not taken.
	Propose(p *entry.Proposal, w batcher.Waiter) error
	// ProposeIf is Propose if still says so, asked when there is room, and nothing that was asked of this server before
	// holds p up. It tells whether p was taken. What others ask for from then on is behind p.
	ProposeIf(p *entry.Proposal, w batcher.Waiter, still func() bool) (taken bool, err error)
	// Barrier tells w when everything committed at the call is applied here.
	Barrier(w batcher.Waiter)
}

// Options says what a Server consists of. Machine, Clock, Logger, Registry, Random and Commands are needed.
type Options struct {
	ServerID uint64 // of myid (package serverid)
	Machine  *state.Machine
	Clock    clock.Clock
	Logger   *slog.Logger
	Registry *auth.Registry
	SASL     *sasl.Server // nil: nobody can log in by SASL
	Random   io.Reader    // of session passwords: crypto/rand.Reader
	Commands *fourletter.Commands
	Flags    entry.Flags // of every proposal

	TickTime               time.Duration // width of the expiry grid
	MinTimeout, MaxTimeout time.Duration // bounds of negotiated session timeouts
	HandshakeTimeout       time.Duration // of connections without a session (nio.sessionlessCnxnTimeout)
	MaxFrameBytes          int           // jute.maxbuffer: the longest frame that a client may send
	MaxConnectionsPerIP    int           // maxClientCnxns; 0 for no limit
	MaxConnections         int           // maxCnxns; 0 for no limit
	KeepAlive              bool          // TCP keep-alive on client connections
	ReconfigEnabled        bool
	ContainerCheck         time.Duration // znode.container.checkIntervalMs
	ContainerMaxPerMinute  int           // znode.container.maxPerMinute
	ContainerMaxNeverUsed  time.Duration // znode.container.maxNeverUsedIntervalMs; 0 keeps them
	MaxUnreadBytes         int           // output that a client may leave unread before it is cut off
	Limits                 Limits
	Conf                   fourletter.Configuration
	// ClientPort is where clients connect now, for conf, after a reconfig has moved it; any goroutine. nil: as Conf
	// says.
	ClientPort              func() int
	Environment             func() []fourletter.Setting
	DirSizes                func() fourletter.DirSizes
	OpenFiles, MaxOpenFiles func() int64
	Status                  func() quorum.Status
	Metrics                 func(*catalog.Values) // sets what the server does not know; nil for nothing
	SlowFsyncs              func() int64          // how many were beyond the threshold; nil for none
	SlowRequest             time.Duration         // what takes as long is logged; 0 is off
	TrafficOff              bool                  // who does what is not counted
	Ensemble                *Ensemble             // nil: this server is alone, and serves as soon as it is started
	// LeaderGrace is how long a server that has lost its leader keeps its connections: reads go on, writes wait. 0 is
	// two seconds or a tick, whichever is longer: then a read-only server of ZooKeeper begins, too, and most elections
	// are over long before. What is read meanwhile is as old as what a follower of ZooKeeper shows that its leader does
	// not reach, up to syncLimit ticks.
	LeaderGrace time.Duration
	// RemovedGrace is how long a server serves on that is not in the configuration of its group any more.
	RemovedGrace      time.Duration
	IdleLeader        bool // leaderServes=no: while this server leads its group it turns clients away
	ReadOnlyMode      bool // readonlymode.enabled: without a leader, serve reads to clients that can do with them
	LinearizableReads bool // every read waits for what was committed when it came; not in read-only mode
	// LocalSessions is localSessionsEnabled: new sessions are known to this server alone, and LocalSessionsUpgrading
	// localSessionsUpgradingEnabled: until they make an ephemeral.
	LocalSessions          bool
	LocalSessionsUpgrading bool
	// Audit takes who has changed what; nil is no audit log. AuditUser is who the server is in it: what goes with a
	// session is removed in its name.
	Audit     *audit.Log
	AuditUser string

	node Node // set by Start
}

// Limits bound what all clients together may ask for. The zero Limits bound nothing.
type Limits struct {
	Outstanding        int   // globalOutstandingLimit: above it a connection may have one write in flight; 0 is none
	LargeRequestBytes  int   // largeRequestThreshold: a longer request is large; 0 or less is off
	LargeRequestsBytes int64 // largeRequestMaxBytes: of all large requests in flight together
	Requests           limits.RequestThrottle
	Sessions           limits.SessionThrottle
	Handshakes         int // netty.server.outstandingHandshake.limit: TLS handshakes in flight at once; 0 is none
	// HandshakesComputing is how many TLS handshakes compute at once, while others wait for their clients; 0 is one.
	HandshakesComputing int
	SessionsMax         int // zkd.maxSessions: sessions that are known, above which none is made; 0 is no limit
	Watches             watch.Bounds
	Identities          auth.Bounds // of one connection
	// MemoryBytes is what clients may leave unread, and have being read, all together (half of zkd.clientMemory; the
	// other half is Watches.Bytes); 0 is no limit.
	MemoryBytes int64
}

// defaultMaxUnreadBytes is a guess: 16 of the longest replies that a default client takes.
const defaultMaxUnreadBytes = 16 << 20

// setDefaults fills in what is zero and has a default.
func (o *Options) setDefaults() {
	if o.MaxUnreadBytes == 0 {
		o.MaxUnreadBytes = defaultMaxUnreadBytes
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.Ensemble == nil { // as in ZooKeeper, they are for members
		o.ReadOnlyMode, o.LocalSessions, o.IdleLeader = false, false, false
	}
	if o.LeaderGrace == 0 {
		o.LeaderGrace = max(2*time.Second, o.TickTime)
	}
	if o.ContainerCheck == 0 {
		o.ContainerCheck = time.Minute
	}
	if o.ContainerMaxPerMinute == 0 {
		o.ContainerMaxPerMinute = 10000
	}
}
