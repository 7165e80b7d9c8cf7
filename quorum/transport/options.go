package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/proof"
)

// Handler is told what arrives and which peers can be reached. Calls for different peers come at once.
type Handler interface {
	// Receive takes one frame of a peer. Those of SendInOrder come one after the other, in the order in which the peer
	// sent them, and so do those of Send, which may come during the call for a large one. body is valid during the
	// call, which may block: then that peer waits, and no other.
	Receive(from uint64, kind uint8, body []byte)
	// Connected says that the outgoing stream to peer is up: Send works from now on. It must not block.
	Connected(peer uint64)
	// Lost says that the outgoing or the incoming stream of peer broke, once for each: frames may be lost. It is not
	// called when the peer is removed nor at Close. For an incoming stream it comes after the last frame of it and
	// before the first frame of its successor. It must not block.
	Lost(peer uint64)
	// Left is Lost for the incoming stream of a peer that has said that it stops: it is not there again at once.
	Left(peer uint64)
}

// Peer says where another server is.
type Peer struct {
	// Addresses are host:port, tried in turn; names are looked up at each attempt.
	Addresses []string
	// Former are where it may be yet: they are tried after those. A stream to one of them stays until one to the
	// Addresses can take its place.
	Former []string
}

// Options says what a Transport consists of. ID, Dial, Clock and Rand are needed; the rest has defaults.
type Options struct {
	ID uint64 // this server, not 0
	// Name and version of this program, for the other side's log; at most 255 bytes count.
	Name string
	// ClusterID returns the id of the cluster, zero while it is not known; any goroutine, at each handshake. nil: zero.
	ClusterID func() [16]byte
	// Disguise returns what those are told who are not known to be servers of the ensemble, in place of a cluster's id:
	// a new server that calls learns that there is an ensemble, and not which one. Any goroutine. nil: the same for all
	// clusters.
	Disguise func(cluster [16]byte) [16]byte
	// Listeners accept the other servers. The transport closes them. None: nobody can connect before Accept.
	Listeners []net.Listener
	// Where returns the addresses, host:port, at which the others reach this server now. They are told at each
	// handshake, and try them when it cannot be reached where it is meant to be. Any goroutine. nil: nobody is told.
	Where func() []string
	// Dial makes a connection, as net.Dialer.DialContext.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Clock  clock.Clock
	Rand   *rand.Rand // the number of this process and the jitter; the transport is its only user
	Logger *slog.Logger
	// Streams takes a snapshot stream that the server from has opened, on a goroutine of its own. The connection is
	// closed when it returns, and before by Close or the removal of the peer. nil: such streams are refused.
	Streams func(from uint64, conn net.Conn)

	// Knows tells whether a server with that id was met as a member; any goroutine, for ProbeCluster of another server.
	// nil: none was.
	Knows func(id uint64) bool
	// Founders returns the list of the servers that this one would found a cluster with, for Differ of the others;
	// empty if it bootstraps none. Any goroutine, at each handshake. nil: empty.
	Founders func() string
	// Differ returns how the list of another server differs from this one's, for people; empty if it does not, or does
	// not matter. It is asked when neither knows a cluster and both have a list; any goroutine. nil: no list differs.
	Differ func(server uint64, founders string) string
	// Standing returns what this server has to do with an ensemble that is not founded yet. Any goroutine, at each
	// handshake. nil: Idle.
	Standing func() Standing
	// BootstrapConflict returns what speaks against a connection with a peer of that cluster and standing, for people;
	// empty: nothing. It is asked in each handshake, on both sides, for questions too; any goroutine. What it returns
	// is logged on both sides. nil: nothing ever.
	BootstrapConflict func(server uint64, cluster [16]byte, standing Standing) string
	// UnknownPeer is told that a server that is no peer has called, and was refused; any goroutine. It must not block.
	// nil: nobody is told.
	UnknownPeer func(id uint64)

	// Level is the highest feature level that this program can do, LevelAgreed the highest to which it agrees that the
	// ensemble is raised. 0: as of a program that knows none.
	Level, LevelAgreed uint16
	// EnsembleLevel returns the feature level that the ensemble is at: servers that cannot do it are refused. Any
	// goroutine, at each handshake and now and then. nil: none is refused for it.
	EnsembleLevel func() uint16

	// TLSServer, if not nil, is for accepted connections: plain ones are refused, unless PortUnification is set. It
	// should ask for a certificate of the client.
	TLSServer *tls.Config
	// TLSClient, if not nil, returns the configuration of one connection that is made to host, a name or an IP address.
	// Without a ServerName that host is verified.
	TLSClient func(host string) *tls.Config
	// Gate is what this server proves to others, within TLS if there is any, and wants proven before anything else is
	// said. nil: nothing.
	Gate *proof.Gate

	// PortUnification accepts connections with and without TLS; needs TLSServer.
	PortUnification bool
	// DetectionTimeout bounds how long an accepted connection may take to show what it speaks, with PortUnification;
	// 0 is DialTimeout.
	DetectionTimeout time.Duration

	// QueueBytesMax bounds what waits to be sent to one peer. A frame that is larger alone is taken when none waits.
	QueueBytesMax int
	// IdleTimeout is how long an incoming stream may be silent, and a write make no progress, before the stream is
	// given up; noticed up to a tenth late. Keep-alive frames are sent every fifth of it.
	IdleTimeout time.Duration
	// DialTimeout bounds an attempt to connect to one address, and any handshake.
	DialTimeout time.Duration
	// TryTimeout bounds the first attempt at each address of a peer that has several.
	TryTimeout time.Duration
}

// Defaults of Options.
const (
	defaultQueueBytesMax = 32 << 20         // a guess: 32 raft messages of full size
	defaultIdleTimeout   = 10 * time.Second // a guess: many times a long pause of a garbage collector or a disk
	defaultDialTimeout   = 5 * time.Second  // ZooKeeper's zookeeper.cnxTimeout
	defaultTryTimeout    = time.Second      // ZooKeeper's zookeeper.multiAddress.reachabilityCheckTimeoutMs
)

// Back-off between attempts to connect: doubled from the least to the most, each time with a jitter of up to half. The
// most is a guess: what an election may cost. A peer that connects to us is dialed at once.
const (
	backoffLeast = 20 * time.Millisecond
	backoffMost  = 2 * time.Second
)

// check fills in defaults and tells what is missing.
func (o *Options) check() error {
	if o.ID == 0 || o.Dial == nil || o.Clock == nil || o.Rand == nil {
		return errors.New("transport options: ID, Dial, Clock and Rand must be given")
	}
	if o.PortUnification && o.TLSServer == nil {
		return errors.New("transport options: PortUnification needs TLSServer: give the key and trust stores")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = &proof.Gate{}
	}
	if o.ClusterID == nil {
		o.ClusterID = func() [16]byte { return [16]byte{} }
	}
	if o.Disguise == nil {
		o.Disguise = func([16]byte) [16]byte { return [16]byte{1} }
	}
	if o.Level == 0 {
		o.Level, o.LevelAgreed = levelUnsaid, levelUnsaid
	}
	if o.EnsembleLevel == nil {
		o.EnsembleLevel = func() uint16 { return 0 }
	}
	if o.Founders == nil {
		o.Founders = func() string { return "" }
	}
	if o.Differ == nil {
		o.Differ = func(uint64, string) string { return "" }
	}
	if o.Where == nil {
		o.Where = func() []string { return nil }
	}
	if o.QueueBytesMax <= 0 {
		o.QueueBytesMax = defaultQueueBytesMax
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.TryTimeout <= 0 {
		o.TryTimeout = min(defaultTryTimeout, o.DialTimeout)
	}
	return nil
}
