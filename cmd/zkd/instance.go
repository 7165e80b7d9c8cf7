package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/server"
	"zkd/server/admin"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/storage"
)

// stopTimeout is how long a clean stop may take before what is left is given up.
const stopTimeout = 30 * time.Second

// failedStopTimeout is that after a failure: what waits for a disk that failed would wait for ever, and the server is
// back the sooner the sooner its process ends. A guess.
const failedStopTimeout = 2 * time.Second

// instance is one running server: what is opened, in the order of opening.
type instance struct {
	config *conf.Config
	logger *slog.Logger
	fatal  chan error // room for one; the first failure that ends the process

	audit   auditLog
	dir     *storage.DataDir
	log     *storage.RaftLog
	machine *storage.Machine
	server  *server.Server
	peers   *peers // nil if this server is alone
	figures figures

	words     *fourletter.Commands
	registry  *auth.Registry
	operators *operators    // nil until the server runs
	admin     *admin.Server // nil if there is none
	node      *quorum.Node
	ports     *clientPorts
	stores    []*reloader      // of the ports that are served with TLS; complete once all is open
	client    *movable         // nil if there is only the port with TLS
	secure    *movable         // nil if there is none with TLS alone
	moves     chan string      // where the port for clients is to be; the last counts
	wanted    string           // the last of moves; owned by run
	retry     <-chan time.Time // when it is tried again, nil: not; owned by run
	port      atomic.Int64     // where clients connect since it has moved, else 0
	done      chan struct{}    // closed when run has returned
	manager   *notifier
}

// newInstance returns a server of which nothing is open yet.
func newInstance(config *conf.Config, logger *slog.Logger) *instance {
	return &instance{config: config, logger: logger, fatal: make(chan error, 1), moves: make(chan string, 1),
		done: make(chan struct{}), manager: newNotifier(logger)}
}

// serve runs a server until ctx ends or it fails.
func serve(ctx context.Context, config *conf.Config, logger *slog.Logger) error {
	i := newInstance(config, logger)
	err := i.open(ctx)
	i.audit.begin(err)
	if err == nil {
		tuning, done := context.WithCancel(ctx)
		defer done()
		// Not before: a heap that grows from nothing would be collected all the time.
		go tuneCollector(tuning, clock.Real())
		for _, r := range i.stores {
			go r.run(tuning)
		}
		logger.Info("serving", slog.String("client", i.client.address()), slog.String("secure", i.secure.address()),
			slog.String("data", config.Storage.DataDir), slog.String("zxid", hexText(i.machine.LastZxid())))
		i.manager.tell(notifyReady)
		err = i.run(ctx)
	}
	i.manager.tell(notifyStopping)
	within := stopTimeout
	if errors.Is(err, errCannotGoOn) {
		within = failedStopTimeout
	}
	return errors.Join(err, i.close(within))
}

// run serves until ctx ends or something fails.
func (i *instance) run(ctx context.Context) error {
	ended := make(chan served)
	defer close(i.done)
	i.serveClients(i.client, ended)
	i.serveClients(i.secure, ended)
	beats, stop := i.manager.beats()
	defer stop()
	for {
		select {
		case <-beats: // from here: it is this loop that would see the server fail
			i.manager.tell(notifyWatchdog)
		case <-ctx.Done():
			i.logger.Info("stopping")
			return nil
		case end := <-ended:
			if end.listener == i.client || end.listener == i.secure {
				return end.err
			}
		case addr := <-i.moves:
			i.wanted, i.retry = addr, nil
			i.moveClients(ctx, ended)
		case <-i.retry:
			i.moveClients(ctx, ended)
		case err := <-i.fatal:
			return fmt.Errorf("%w: %w", errCannotGoOn, err)
		}
	}
}

// errCannotGoOn says that a part of the server has failed for good.
var errCannotGoOn = errors.New("the server cannot go on")

// fail records the first failure.
func (i *instance) fail(err error) {
	select {
	case i.fatal <- err:
	default: // one is there already
	}
}

// open opens everything. What was opened before a failure is closed by close.
func (i *instance) open(ctx context.Context) error {
	authentication, err := newAuthentication(i.config, i.logger) // first: what it refuses leaves nothing behind
	if err != nil {
		return err
	}
	if i.audit, err = openAudit(i.config.Audit, authentication.login, i.logger); err != nil {
		return err
	}
	if err := i.openStores(ctx); err != nil {
		return err
	}
	if i.ports, err = newClientPorts(i.config, authentication.registry, i.logger); err != nil {
		return err
	}
	i.reload(i.ports.stores, "clients")
	i.server = server.New(i.serverOptions(authentication))
	if i.node, err = i.startNode(ctx); err != nil {
		return err
	}
	i.server.Start(i.node)
	if i.peers != nil {
		i.peers.start(i.node)
	}
	if err := i.openOperators(ctx); err != nil {
		return err
	}
	// The port opens last: who can connect is served.
	return i.openClientPorts(ctx)
}

// startNode starts the raft node: alone, or as a member of an ensemble.
func (i *instance) startNode(ctx context.Context) (*quorum.Node, error) {
	empty, founds := isEmpty(i.log), true
	if empty {
		var err error
		if founds, err = mayBeginEmpty(i.config); err != nil {
			return nil, err
		}
	}
	source, err := newSource()
	if err != nil {
		return nil, err
	}
	o := quorum.Options{
		ID: i.serverID(), Log: i.log, Machine: i.machine, Clock: clock.Real(), Logger: i.logger, Observer: i.server,
		Rand: source, OnFatal: i.fail, OnRestoring: i.server.Restoring, OnRestored: i.restored,
	}
	if i.config.Ensemble.Distributed {
		if i.peers, err = openPeers(ctx, i.config, i.dir, i.machine, i.moves, i.logger); err != nil {
			return nil, err
		}
		o.Observer = committed{i.server, i.peers}
		o.OnState, o.OnReport = i.server.SetState, i.server.Heard
		if err := i.peers.join(ctx, &o, i.dir, founds); err != nil {
			return nil, err
		}
	}
	node, err := quorum.Start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start the raft node: %w", err)
	}
	if empty {
		err = i.begun()
	}
	return node, err
}

// restored is told that a snapshot has replaced the state.
func (i *instance) restored() {
	i.server.Restored()
	if i.peers != nil {
		i.peers.membersChanged()
	}
}

// openStores locks the data directory and opens the raft log and the state.
func (i *instance) openStores(ctx context.Context) (err error) {
	s := i.config.Storage
	if err := importOnStart(ctx, i.config, i.logger); err != nil {
		return err
	}
	begun := clock.Real().Now()
	defer func() { i.figures.opening.Add(clock.Real().Since(begun).Milliseconds()) }()
	i.dir, err = storage.OpenDataDir(storage.DataDirOptions{Dir: s.DataDir, LogDir: s.DataLogDir, FS: vfs.Default,
		Logger: i.logger, MustExist: !s.AutocreateDataDir})
	if err != nil {
		return err
	}
	start := clock.Real().Now()
	i.log, err = storage.OpenRaftLog(storage.RaftLogOptions{
		Dir: i.dir.RaftLogDir(), FS: vfs.Default, Logger: i.logger, OnFatal: i.fail,
		Nanotime: func() int64 { return int64(clock.Real().Since(start)) },
		OnFsync: func(took time.Duration) {
			if took > s.FsyncWarning {
				i.figures.slowFsyncs.Inc()
				i.logger.Warn("a write to the raft log took long: look at the disk", slog.Duration("took", took))
			}
		},
	})
	if err != nil {
		return err
	}
	if err := i.settleInstall(); err != nil {
		return err
	}
	i.machine, err = storage.OpenMachine(storage.MachineOptions{
		Dir: i.dir.StateDir(), FS: vfs.Default, Logger: i.logger, OnFatal: i.fail,
	})
	return err
}

// settleInstall completes the install of a received state that a crash has interrupted, or removes what is left of one
// that was not to be.
func (i *instance) settleInstall() error {
	if quorum.Installing(i.log) {
		return i.dir.FinishInstall()
	}
	return i.dir.DiscardInstall()
}

// serverID is myid; a standalone server without one is 1, as in ZooKeeper's session ids.
func (i *instance) serverID() uint64 {
	if id := i.config.Ensemble.MyID; id > 0 {
		return uint64(id)
	}
	return 1
}

// close stops what runs and closes what is open, the last first. What has not stopped within the time is given up.
func (i *instance) close(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	i.audit.stop()
	var errs []error
	if i.operators != nil { // first: they look at all that is closed below
		errs = append(errs, i.operators.close(ctx))
	}
	serving := i.client != nil || i.secure != nil
	if serving {
		errs = append(errs, i.server.Shutdown(ctx))
	}
	if i.node != nil {
		errs = append(errs, i.node.Stop(ctx))
		if !serving {
			errs = append(errs, i.server.Shutdown(ctx))
		}
	}
	if i.peers != nil {
		i.peers.close()
	}
	if i.machine != nil {
		errs = append(errs, i.machine.Close())
	}
	if i.log != nil {
		errs = append(errs, i.log.Close())
	}
	if i.dir != nil {
		errs = append(errs, i.dir.Close())
	}
	return errors.Join(append(errs, i.audit.close())...)
}
