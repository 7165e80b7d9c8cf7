package main

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/quorum/snapshot"
	"zkd/quorum/transport"
	"zkd/server"
	"zkd/storage"
	"zkd/storage/ensemble"
)

// peers is what a member of an ensemble has that a server alone has not: streams to the others, checkpoints for them
// and from them, and the members as the ensemble has agreed on them.
type peers struct {
	config   *conf.Config
	logger   *slog.Logger
	machine  *storage.Machine
	founding ensemble.Config // the server lines of the configuration
	streams  *transport.Transport
	shipper  *snapshot.Sender
	stores   reloader // of the goroutine that follows

	node    *quorum.Node // set before the streams begin
	joins   atomic.Bool  // this server founds nothing
	asking  asking
	known   map[uint64]*placed // who is dialed; of the goroutine that follows
	client  string             // where this server's clients are, as the configuration has it; likewise
	moves   chan string        // of size 1: where they are to be
	changed chan struct{}      // one token: the state has other members
	halt    chan struct{}      // closed by close
	running sync.WaitGroup
	closing sync.Once
}

// openPeers listens on the peer port. Nothing is accepted or dialed before start.
func openPeers(ctx context.Context, c *conf.Config, dir *storage.DataDir, m *storage.Machine, moves chan string,
	logger *slog.Logger) (*peers, error) {
	p := &peers{config: c, logger: logger, machine: m, moves: moves, changed: make(chan struct{}, 1),
		halt: make(chan struct{})}
	var err error
	if p.founding, err = ensemble.Parse(strings.Join(c.Ensemble.Lines(), "\n")); err != nil {
		return nil, err
	}
	own, _ := p.founding.Server(uint64(c.Ensemble.MyID))
	p.client = own.ClientAddr
	receiver, err := snapshot.NewReceiver(snapshot.ReceiverOptions{
		FS: vfs.Default, Dir: dir.StagingDir(), Clock: clock.Real(), Logger: logger, Silence: c.Ensemble.InitTimeout,
		Staged: func(from uint64, header []byte, dir string) error { return p.node.Staged(from, header, dir) },
	})
	if err != nil {
		return nil, err
	}
	source, err := newSource()
	if err != nil {
		return nil, err
	}
	revision, _ := buildInfo()
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: c.Ensemble.KeepAlive}}
	o := transport.Options{
		ID: uint64(c.Ensemble.MyID), Name: "zkd " + revision, ClusterID: m.ClusterID,
		Dial: dialer.DialContext, Clock: clock.Real(), Rand: source, Logger: logger, Streams: receiver.Receive,
		IdleTimeout: c.Ensemble.SyncTimeout, DialTimeout: c.Ensemble.ConnectTimeout, Stranger: p.asking.note,
		Knows: func(id uint64) bool { return p.node.Knows(id) }, Founders: p.founders, Differ: p.differ,
	}
	if err := p.secure(&o); err != nil {
		return nil, err
	}
	if o.Listeners, err = listenPeers(ctx, c.Ensemble.Listen); err != nil {
		return nil, err
	}
	if p.streams, err = transport.New(o); err != nil {
		return nil, err
	}
	p.shipper, err = snapshot.NewSender(snapshot.SenderOptions{FS: vfs.Default, Open: p.streams.OpenStream,
		Clock: clock.Real(), Logger: logger, BytesPerSecond: snapshotRate(c.Ensemble.SnapshotRate),
		Silence: c.Ensemble.InitTimeout})
	return p, err
}

// snapshotRate is the sender's bytes a second for zkd.snapshotRate, where 0 is no limit: more than any disk gives.
func snapshotRate(configured int64) int {
	if configured == 0 {
		return math.MaxInt32
	}
	return int(min(configured, math.MaxInt32))
}

// listenPeers listens on all addresses, or on none.
func listenPeers(ctx context.Context, addresses []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, a := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // nobody has come yet
			}
			return nil, fmt.Errorf("listen for the other servers on the peer port of the own server line: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// newSource returns randomness that differs from process to process.
func newSource() (*rand.Rand, error) {
	var seed [16]byte
	if _, err := cryptorand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("draw the mark of this process: %w", err)
	}
	source := rand.NewPCG(binary.NativeEndian.Uint64(seed[:]), binary.NativeEndian.Uint64(seed[8:]))
	return rand.New(source), nil //nolint:gosec // tells processes apart, and is no secret
}

// checkpointSuffix makes the directory of checkpoints for other members from the state's, beside which it is.
const checkpointSuffix = ".checkpoints"

// raftTick is raft's unit of time: a leader sends heartbeats once in it.
const raftTick = 100 * time.Millisecond

// join adds to the node's options what makes it a member of the group; founds says whether it may found one.
func (p *peers) join(ctx context.Context, o *quorum.Options, dir *storage.DataDir, founds bool) error {
	for i := range p.founding.Servers {
		s := &p.founding.Servers[i]
		o.Members = append(o.Members, quorum.Member{ID: s.ID, Learner: s.Observer})
	}
	if quorum.Imported(o.Log) && o.Log.LastIndex() == 0 {
		if err := p.mayFound(ctx); err != nil {
			return err
		}
	}
	o.Joining = p.config.Ensemble.Join || !founds || isEmpty(o.Log) && p.runsAlready(ctx)
	if !founds {
		p.logger.Warn("there is no data, and db.autocreate is false: waits for an ensemble to join",
			slog.String("allow", initializePath(p.config)))
	}
	p.joins.Store(o.Joining)
	o.Asking = p.asking.lately
	o.Transport, o.Shipper = p.streams, p.shipper
	o.CheckpointDir = dir.StateDir() + checkpointSuffix
	o.ElectionTicks = int(p.config.Ensemble.ElectionTimeout / raftTick)
	o.TickInterval = raftTick
	founding := storage.FoundTxn{Config: []byte(p.founding.Text())}
	if _, err := cryptorand.Read(founding.ClusterID[:]); err != nil {
		return fmt.Errorf("draw the id of the cluster: %w", err)
	}
	o.Founding = founding.Append(nil)
	return nil
}

// start connects the node with the other members.
func (p *peers) start(node *quorum.Node) {
	p.node = node
	p.reconnect()
	p.writeFiles()
	p.streams.Start(node)
	p.running.Go(p.follow)
}

// agreed returns the members that the state has, nil if it has none yet. They are not those of /zookeeper/config, whose
// data anybody may write who has the right.
func (p *peers) agreed() (*ensemble.Config, error) {
	text := p.machine.EnsembleConfig()
	if text == "" {
		return nil, nil //nolint:nilnil // none, and nothing wrong
	}
	c, err := ensemble.Parse(text)
	return &c, err
}

// peerAddresses are where a server is for the others, host:port.
func peerAddresses(s *ensemble.Server) []string {
	found := make([]string, 0, len(s.Addresses))
	for _, a := range s.Addresses {
		found = append(found, net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))))
	}
	return found
}

// compare tells the operator when zoo.cfg names other members than there are: what it says counted once, at the
// founding.
func (p *peers) compare(agreed *ensemble.Config) {
	if p.config.Tree.Reconfig {
		return // the dynamic file follows
	}
	same := len(agreed.Servers) == len(p.founding.Servers)
	for i := range agreed.Servers {
		s, ok := p.founding.Server(agreed.Servers[i].ID)
		same = same && ok && s.Observer == agreed.Servers[i].Observer
	}
	if !same {
		p.logger.Warn("the server lines of zoo.cfg are not the members of the ensemble, and do not change them: "+
			"use reconfig, or correct the lines",
			slog.String("configured", p.founding.Text()), slog.String("members", agreed.Text()))
	}
}

// founders is the list of the servers that this one would found an ensemble with; empty if it founds none.
func (p *peers) founders() string {
	if p.joins.Load() || p.machine.ClusterID() != [16]byte{} {
		return ""
	}
	return p.founding.Members()
}

// differ says how the server lines of another server differ from those here, as far as that makes another ensemble:
// servers may see each other under different addresses.
func (p *peers) differ(server uint64, founders string) string {
	theirs, err := ensemble.Parse(founders)
	if err != nil {
		return fmt.Sprintf("the server lines of server %d cannot be read here: %v", server, err)
	}
	extra := func(has, lacks *ensemble.Config, whose uint64) (lines []string) {
		for i := range has.Servers {
			s := &has.Servers[i]
			if o, ok := lacks.Server(s.ID); !ok || o.Observer != s.Observer {
				lines = append(lines, fmt.Sprintf("server %d has server.%d=%s", whose, s.ID, s))
			}
		}
		return lines
	}
	lines := append(extra(&p.founding, &theirs, uint64(p.config.Ensemble.MyID)), extra(&theirs, &p.founding, server)...)
	return strings.Join(lines, "; ")
}

// close ends the streams. The node is told nothing any more.
func (p *peers) close() {
	p.closing.Do(func() { close(p.halt) })
	p.running.Wait()
	p.streams.Close()
}

// committed is the node's observer in an ensemble: the server, and who wants to know of other members.
type committed struct {
	*server.Server
	peers *peers
}

// Committed implements quorum.Observer.
func (c committed) Committed(r *storage.Result) {
	c.Server.Committed(r)
	if r.Code == jute.OK && (r.Op == jute.OpReconfig || r.Op == storage.OpFoundEnsemble) {
		c.peers.membersChanged()
	}
}

// members is what the node knows of the group, as the four-letter words show it.
func (i *instance) members() server.Members {
	s := i.node.Status()
	m := server.Members{
		Voters: s.Voters, Learners: s.Learners, Elections: int64(s.Elections), LastElection: s.LastElection,
	}
	for _, p := range s.Peers {
		m.Peers = append(m.Peers, server.Peer{
			ID: p.ID, LagEntries: p.LagEntries, Learner: p.Learner, Active: p.Active, Snapshotting: p.Snapshotting,
		})
	}
	return m
}
