package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/quorum/proof"
	"zkd/quorum/snapshot"
	"zkd/quorum/transport"
	"zkd/server/instance/tlsstores"
	"zkd/storage/datadir"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/serverid"
	"zkd/storage/state"
)

// Peers is what a member of an ensemble has that a server alone has not: streams to the others, checkpoints for them
// and from them, and the members as the ensemble has agreed on them.
type Peers struct {
	opts       Options
	config     *conf.Config // of opts, as what follows
	id         uint64       // of this server
	logger     *slog.Logger
	machine    *state.Machine
	configured ensemble.Config // the server lines of the configuration
	// bootstrap and data, the cluster that this server bootstraps with the data that it has, are set by Join before
	// anybody is answered.
	bootstrap *quorum.BootstrapChoice
	data      [16]byte
	streams   *transport.Transport
	ports     *peerPorts
	sender    *snapshot.Sender
	receiver  *snapshot.Receiver
	stores    *tlsstores.Reloader // nil: read at the start alone

	node      *quorum.Node // set before the streams begin
	joins     atomic.Bool  // this server bootstraps nothing
	asking    asking
	known     map[uint64]*dialedPeer          // who is dialed; of the goroutine that follows
	led       bool                            // this server has had a leader since its start; likewise
	unwritten bool                            // the files do not follow the members yet; likewise
	toldAt    time.Time                       // when the log said what keeps them from it; likewise
	againIn   time.Duration                   // from toldAt to when it says so again; 0: it has not; likewise
	client    string                          // where this server's clients are, as the configuration has it; likewise
	changed   chan struct{}                   // one token: the state has other members
	coming    atomic.Pointer[ensemble.Config] // a reconfig in the log, maybe not committed
	preparing *preparation                    // the last one; of the node's loop
	halt      chan struct{}                   // closed by Close
	ending    context.Context                 // ends with halt
	end       context.CancelFunc
	running   sync.WaitGroup
	closing   sync.Once
}

// Files are the configuration, which follows the members, and the file that lets a server begin empty.
type Files interface {
	conf.Files
	// Stat is os.Stat.
	Stat(name string) (fs.FileInfo, error)
}

// Network is what the streams go over.
type Network interface {
	tlsstores.Network
	// Listen opens a port. backlog is how many connections the system holds before they are accepted; 0 or less leaves
	// that to the system.
	Listen(ctx context.Context, address string, backlog int) (net.Listener, error)
	// Dial makes a connection, which the system looks after if keepAlive is true.
	Dial(ctx context.Context, address string, keepAlive bool) (net.Conn, error)
	Names
}

// Options says what peers consist of. All of it but Login is needed.
type Options struct {
	Config          *conf.Config
	Logger          *slog.Logger
	Program         string // its name and version, for the others
	Clock           clock.Clock
	FS              vfs.FS // of the state
	Files           Files
	Network         Network
	Random          io.Reader  // of the ids of clusters and of proofs
	Rand            *rand.Rand // of the streams alone
	Dir             *datadir.Dir
	Machine         *state.Machine
	ClientAddresses chan string // of size 1: where the clients of this server are to be
	// Login is how servers log in at each other; nil: they do not. By Kerberos only principals of members' hosts may.
	Login *proof.Login
}

// Open listens on the peer port. Nothing is accepted or dialed before Start. What was opened before a failure is
// closed.
func Open(ctx context.Context, o Options) (_ *Peers, err error) {
	p := &Peers{opts: o, config: o.Config, id: serverid.Of(o.Config.Ensemble.MyID), logger: o.Logger,
		machine: o.Machine, changed: make(chan struct{}, 1), halt: make(chan struct{})}
	p.ending, p.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	c := o.Config
	if p.configured, err = ensemble.Parse(strings.Join(c.Ensemble.Lines(), "\n")); err != nil {
		return nil, err
	}
	own, _ := p.configured.Server(p.id)
	p.client = own.ClientAddr
	p.receiver, err = snapshot.NewReceiver(snapshot.ReceiverOptions{
		FS: o.FS, Dir: o.Dir.StagingDir(), Clock: o.Clock, Logger: o.Logger, Silence: c.Ensemble.InitTimeout,
		Staged: func(from uint64, header []byte, dir string) error { return p.node.Staged(from, header, dir) },
		Fits:   p.fits,
	})
	if err != nil {
		return nil, err
	}
	streams := transport.Options{
		ID: p.id, Name: o.Program, ClusterID: p.cluster,
		Standing: p.standing, BootstrapConflict: p.bootstrapConflict,
		Disguise: quorum.Disguise,
		Dial:     p.dial, Clock: o.Clock, Rand: o.Rand, Logger: o.Logger, Streams: p.receiver.Receive,
		IdleTimeout: c.Ensemble.SyncTimeout, DialTimeout: c.Ensemble.ConnectTimeout,
		TryTimeout: c.Ensemble.ReachabilityTimeout, UnknownPeer: p.called,
		Knows: func(id uint64) bool { return p.node.Knows(id) }, Founders: p.founders, Differ: p.differ,
		Level: uint16(entry.LevelNewest), LevelAgreed: uint16(LevelMax(c)),
		EnsembleLevel: func() uint16 { return uint16(o.Machine.Level()) },
		Where:         func() []string { return p.ports.where() },
	}
	if err := p.secure(&streams); err != nil {
		return nil, err
	}
	if err := p.prove(&streams); err != nil {
		return nil, err
	}
	if p.streams, err = transport.New(streams); err != nil {
		return nil, err
	}
	if err := p.openPorts(ctx); err != nil {
		return nil, err
	}
	p.sender, err = snapshot.NewSender(snapshot.SenderOptions{FS: o.FS, Open: p.streams.OpenStream,
		Clock: o.Clock, Logger: o.Logger, BytesPerSecond: snapshotRate(c.Ensemble.SnapshotRate),
		Silence: c.Ensemble.InitTimeout})
	return p, err
}

// fits tells what is wrong with a snapshot that another server begins to send.
func (p *Peers) fits(from uint64, header []byte) error {
	err := p.node.CheckSnapshot(from, header)
	if errors.Is(err, quorum.ErrNoLeader) {
		err = fmt.Errorf("%w: %w", snapshot.ErrLater, err)
	}
	return err
}

// dial connects with another server.
func (p *Peers) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return p.opts.Network.Dial(ctx, address, p.config.Ensemble.KeepAlive)
}

// secure has the streams use TLS, if the configuration asks for it (sslQuorum, portUnification).
func (p *Peers) secure(o *transport.Options) error {
	c := &p.config.TLS
	if !c.QuorumEnabled && !c.QuorumPortUnification {
		return nil
	}
	from := tlsstores.Source{Clock: p.opts.Clock, Files: p.opts.Files, Network: p.opts.Network}
	set, err := from.OpenFor(c.Quorum, "ssl.quorum.", "other servers", false, p.logger)
	if err != nil {
		return err
	}
	o.TLSServer, o.PortUnification = set.Server(), c.QuorumPortUnification
	o.DetectionTimeout = c.Quorum.HandshakeDetection
	if c.QuorumEnabled {
		o.TLSClient = set.Client
	}
	if c.QuorumCertReload {
		p.stores = tlsstores.NewReloader(set, "other servers", p.opts.Clock, p.logger)
	}
	return nil
}

// LevelMax is the highest feature level to which this server agrees that the ensemble is raised.
func LevelMax(c *conf.Config) entry.Level {
	if limit := c.Ensemble.FeatureLevelMax; limit > 0 && limit < int64(entry.LevelNewest) {
		return entry.Level(limit)
	}
	return entry.LevelNewest
}

// snapshotRate is the sender's bytes a second for zkd.snapshotRate, where 0 is no limit: more than any disk gives.
func snapshotRate(configured int64) int {
	if configured == 0 {
		return math.MaxInt32
	}
	return int(min(configured, math.MaxInt32))
}

// checkpointSuffix makes the directory of checkpoints for other members from the state's, beside which it is.
const checkpointSuffix = ".checkpoints"

// raftTick is raft's unit of time: a leader sends heartbeats once in it.
const raftTick = 100 * time.Millisecond

// Join adds to the node's options what makes it a member of the group; bootstraps says whether it may found one.
func (p *Peers) Join(ctx context.Context, o *quorum.Options, bootstraps bool) error {
	for i := range p.configured.Servers {
		s := &p.configured.Servers[i]
		o.Members = append(o.Members, quorum.Member{ID: s.ID, Learner: s.Observer})
	}
	if err := p.openBootstrap(o); err != nil {
		return err
	}
	if IsEmpty(o.Log) || p.standing() == transport.WithData {
		p.reconnect()
		p.streams.Answer()
	}
	if quorum.Unserved(o.Log) && p.standing() == transport.WithData {
		if err := p.mayFound(ctx, p.ask); err != nil {
			return err
		}
	}
	o.Joining = p.config.Ensemble.Join || !bootstraps || IsEmpty(o.Log) && p.runsAlready(ctx)
	if !bootstraps {
		p.logger.Warn("no data and db.autocreate=false: waiting to join",
			slog.String("allow", initializePath(p.config)))
	}
	p.joins.Store(o.Joining)
	o.Asking, o.MayReconfigure, o.OnProposed = p.asks, p.mayReconfigure, p.proposed
	o.PrepareAddresses = p.prepareAddresses
	o.PeerLevel = func(id uint64) entry.Level { return entry.Level(p.streams.AgreedLevel(id)) }
	o.Transport, o.SnapshotSender, o.WhyAway = p.streams, p.sender, p.streams.WhyAway
	o.CheckpointDir = p.opts.Dir.StateDir() + checkpointSuffix
	o.ElectionTicks = int(p.config.Ensemble.ElectionTimeout / raftTick)
	o.TickInterval = raftTick
	o.RetainBytes = p.config.Ensemble.LogRetainBytes
	o.RemovedGrace = p.config.Ensemble.RemovedGrace
	// The version is that of no other configuration to come, which are zxids of reconfigs, and never 0, which clients
	// read as none; ZooKeeper's is the zxid at which the first leader began (Leader.lead).
	first := ensemble.Config{Servers: p.configured.Servers, Version: max(1, int64(p.machine.LastZxid()))}
	bootstrap := entry.FoundTxn{Config: []byte(first.Text()), ClusterID: p.data}
	if p.data == [16]byte{} {
		var err error
		if bootstrap.ClusterID, err = quorum.DrawCluster(p.opts.Random); err != nil {
			return err
		}
	}
	o.Bootstrap = bootstrap.Append(nil)
	return nil
}

// Start connects the node with the other members.
func (p *Peers) Start(node *quorum.Node) {
	p.node = node
	p.reconnect()
	p.compare()
	p.writeFiles()
	p.streams.Start(node)
	p.running.Go(p.follow)
	if p.stores != nil {
		p.running.Go(func() { p.stores.Run(p.ending) })
	}
}

// agreed returns the members that the state has, nil if it has none yet. They are not those of /zookeeper/config, whose
// data anybody may write who has the right.
func (p *Peers) agreed() (*ensemble.Config, error) {
	text := p.machine.EnsembleConfig()
	if text == "" {
		return nil, nil //nolint:nilnil // none, and nothing wrong
	}
	c, err := ensemble.Parse(text)
	return &c, err
}

// compare tells the operator when zoo.cfg names other members than there are: what it says counted once, at the
// bootstrap.
func (p *Peers) compare() {
	if p.config.Tree.Reconfig {
		return // the dynamic file follows
	}
	agreed, err := p.agreed()
	if err != nil || agreed == nil {
		return // reconnect has told
	}
	same := len(agreed.Servers) == len(p.configured.Servers)
	for i := range agreed.Servers {
		s, ok := p.configured.Server(agreed.Servers[i].ID)
		same = same && ok && s.Observer == agreed.Servers[i].Observer
	}
	if !same {
		p.logger.Warn("server lines in zoo.cfg differ from the membership: ignored",
			slog.String("configured", p.configured.Text()), slog.String("members", agreed.Text()))
	}
}

// founders is the list of the servers that this one would found an ensemble with; empty if it bootstraps none.
func (p *Peers) founders() string {
	if p.joins.Load() || p.machine.ClusterID() != [16]byte{} {
		return ""
	}
	return p.configured.Members()
}

// differ says how the server lines of another server differ from those here, as far as that makes another ensemble:
// servers may see each other under different addresses.
func (p *Peers) differ(server uint64, founders string) string {
	theirs, err := ensemble.Parse(founders)
	if err != nil {
		return fmt.Sprintf("the server lines of server %d cannot be read here: %v", serverid.Number(server), err)
	}
	extra := func(has, lacks *ensemble.Config, whose uint64) (lines []string) {
		for i := range has.Servers {
			s := &has.Servers[i]
			if o, ok := lacks.Server(s.ID); !ok || o.Observer != s.Observer {
				lines = append(lines, fmt.Sprintf("server %d has server.%d=%s", serverid.Number(whose),
					serverid.Number(s.ID), s))
			}
		}
		return lines
	}
	lines := extra(&p.configured, &theirs, p.id)
	lines = append(lines, extra(&theirs, &p.configured, server)...)
	return strings.Join(lines, "; ")
}

// Stop is Close for a server that stops as it was asked to: the other servers are told before; ctx bounds that.
func (p *Peers) Stop(ctx context.Context) {
	p.finish()
	if p.streams != nil {
		p.streams.Stop(ctx)
	}
	p.Close()
}

// finish ends what runs beside the streams.
func (p *Peers) finish() {
	p.closing.Do(func() { close(p.halt); p.end() })
	p.running.Wait()
}

// Close ends the streams. The node is told nothing any more.
func (p *Peers) Close() {
	p.finish()
	if p.streams != nil {
		p.streams.Close()
	}
	if p.receiver != nil {
		p.receiver.Close()
	}
}
