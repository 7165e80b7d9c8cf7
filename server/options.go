package server

import (
	"io"
	"log/slog"
	"time"

	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/storage"
)

// Node is what the server asks of the agreement; *quorum.Node is one.
type Node interface {
	// Propose has p applied and tells w; it may block while too much is under way. An error means that p was not taken.
	Propose(p *storage.Proposal, w quorum.Waiter) error
	// Barrier tells w when everything committed at the call is applied here.
	Barrier(w quorum.Waiter)
}

// Options says what a Server consists of. Machine, Clock, Logger, Registry, Random and Words are needed.
type Options struct {
	ServerID uint64 // myid; at most 255 counts in session ids
	Machine  *storage.Machine
	Clock    clock.Clock
	Logger   *slog.Logger
	Registry *auth.Registry
	Random   io.Reader // of session passwords: crypto/rand.Reader
	Words    *fourletter.Commands
	Flags    storage.Flags // of every proposal

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
	Ensemble                *Ensemble // nil: this server is alone, and serves as soon as it is started
	// LeaderGrace is how long a server that has lost its leader keeps its connections: reads go on, writes wait. 0 is
	// two seconds or a tick, whichever is longer: then a read-only server of ZooKeeper begins, too, and most elections
	// are over long before. What is read meanwhile is as old as what a follower of ZooKeeper shows that its leader does
	// not reach, up to syncLimit ticks.
	LeaderGrace       time.Duration
	IdleLeader        bool // leaderServes=no: while this server leads its group it turns clients away
	ReadOnlyMode      bool // readonlymode.enabled: without a leader, serve reads to clients that can do with them
	LinearizableReads bool // every read waits for what was committed when it came; not in read-only mode
	// LocalSessions is localSessionsEnabled: new sessions are known to this server alone, and
	// LocalSessionsUpgrading localSessionsUpgradingEnabled: until they make an ephemeral.
	LocalSessions          bool
	LocalSessionsUpgrading bool

	node Node // set by Start
}

// Limits bound what all clients together may ask for. The zero Limits bound nothing.
type Limits struct {
	Outstanding        int   // globalOutstandingLimit: above it a connection may have one write under way; 0 is none
	LargeRequestBytes  int   // largeRequestThreshold: a longer request is large; 0 or less is off
	LargeRequestsBytes int64 // largeRequestMaxBytes: of all large requests under way together
	Requests           RequestThrottle
	Sessions           SessionThrottle
}

// RequestThrottle has requests wait in line (org.apache.zookeeper.server.RequestThrottler).
type RequestThrottle struct {
	MaxRequests     int           // request_throttle_max_requests: requests under way at once; 0 is off
	Stall           time.Duration // request_throttle_stall_time: how often the next in line is looked at; 0 is never
	DropStale       bool          // request_throttle_drop_stale: a stale request ends its connection
	StaleConnection bool          // request_stale_connection_check: stale is what a closed connection has sent
	StaleLatency    bool          // request_stale_latency_check: stale is what has waited for a session's timeout
	ThrottledOpWait time.Duration // throttled_op_wait_time: what has waited longer is answered Throttled; 0 is off
}

// SessionThrottle is a bucket of tokens that sessions take when a client connects, with a share of connections dropped
// at random (org.apache.zookeeper.server.BlueThrottle).
type SessionThrottle struct {
	Tokens        int           // connection_throttle_tokens: size of the bucket; 0 is off
	FillTime      time.Duration // connection_throttle_fill_time
	FillCount     int           // connection_throttle_fill_count: tokens per FillTime
	FreezeTime    time.Duration // connection_throttle_freeze_time between changes of the share; negative drops none
	DropIncrease  float64       // connection_throttle_drop_increase
	DropDecrease  float64       // connection_throttle_drop_decrease
	DecreaseRatio float64       // connection_throttle_decrease_ratio: part of the bucket; missing more, no decrease
	Weighted      bool          // connection_throttle_weight_enabled: else every session takes one token
	GlobalWeight  int           // connection_throttle_global_session_weight: of a new session
	LocalWeight   int           // connection_throttle_local_session_weight; the others are no less
	RenewWeight   int           // connection_throttle_renew_session_weight: of a session that comes back
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
