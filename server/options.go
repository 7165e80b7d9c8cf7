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

	TickTime                time.Duration // width of the expiry grid
	MinTimeout, MaxTimeout  time.Duration // bounds of negotiated session timeouts
	HandshakeTimeout        time.Duration // of connections without a session (nio.sessionlessCnxnTimeout)
	MaxFrameBytes           int           // jute.maxbuffer: the longest frame that a client may send
	MaxConnectionsPerIP     int           // maxClientCnxns; 0 for no limit
	MaxConnections          int           // maxCnxns; 0 for no limit
	KeepAlive               bool          // TCP keep-alive on client connections
	ReconfigEnabled         bool
	ContainerCheck          time.Duration // znode.container.checkIntervalMs
	ContainerMaxPerMinute   int           // znode.container.maxPerMinute
	ContainerMaxNeverUsed   time.Duration // znode.container.maxNeverUsedIntervalMs; 0 keeps them
	MaxUnreadBytes          int           // output that a client may leave unread before it is cut off
	Conf                    fourletter.Configuration
	Environment             func() []fourletter.Setting
	DirSizes                func() fourletter.DirSizes
	OpenFiles, MaxOpenFiles func() int64
	Status                  func() quorum.Status

	node Node // set by Start
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
	if o.ContainerCheck == 0 {
		o.ContainerCheck = time.Minute
	}
	if o.ContainerMaxPerMinute == 0 {
		o.ContainerMaxPerMinute = 10000
	}
}
