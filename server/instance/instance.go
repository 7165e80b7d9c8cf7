package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/conf"
	"zkd/jute"
	"zkd/quorum"
	"zkd/server"
	"zkd/server/admin"
	"zkd/server/auth"
	"zkd/server/console"
	"zkd/server/fourletter"
	"zkd/server/instance/peers"
	"zkd/server/instance/tlsstores"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
	"zkd/storage/space"
	"zkd/storage/state"
)

// stopTimeout is how long a clean stop may take before what is left is given up.
const stopTimeout = 30 * time.Second

// failedStopTimeout is that after a failure: what waits for a disk that failed would wait for ever, and the server is
// back the sooner the sooner its process ends. A guess.
const failedStopTimeout = 2 * time.Second

// closeTimeout is how long no operation of the stores may end, after that, while they are closed: then their disk
// hangs. A slow one may take its time for a compaction. All that was acknowledged is in the log by then.
const closeTimeout = 5 * time.Second

// Instance is one running server: what is opened, in the order of opening.
type Instance struct {
	config  *conf.Config
	options Options
	logger  *slog.Logger // of options
	world   World
	id      uint64     // of the server; known once its raft log is open
	fatal   chan error // room for one; the first failure that ends the process

	giveUp atomic.Pointer[context.CancelCauseFunc] // of open, which may wait for what has failed; nil: it has ended

	audit   auditLog
	guard   *space.Guard
	dir     *datadir.Dir
	log     *raftlog.Log
	machine *state.Machine
	server  *server.Server
	peers   *peers.Peers // nil if this server is alone
	figures figures

	commands        *fourletter.Commands
	registry        *auth.Registry
	operators       *operators       // nil until the server runs
	admin           *admin.Server    // nil if there is none
	console         *console.Console // nil if there is none
	journal         *console.Journal // of logger; nil without a console
	node            *quorum.Node
	ports           *clientPorts
	stores          []*tlsstores.Reloader // of the ports that are served with TLS; complete once all is open
	client          *movable              // nil if there is only the port with TLS
	secure          *movable              // nil if there is none with TLS alone
	first           net.Addr              // of client as it was opened
	clientAddresses chan string           // where the port for clients is to be; the last counts
	wanted          string                // the last of moves; owned by run
	retry           <-chan time.Time      // when it is tried again, nil: not; owned by run
	port            atomic.Int64          // where clients connect since it has moved, else 0
	done            chan struct{}         // closed when run has returned
	endScrubs       func(context.Context) // nil until the server runs
	running         sync.WaitGroup        // what serves ports and reads stores again
	broken          bool                  // run has returned errCannotGoOn, or a disk has failed at the start
	began           time.Time             // when Run was called; zero before

	stopWithin, closeWithin time.Duration // stopTimeout and closeTimeout, but in tests
}

// Options is what a server is told that is not of its configuration. Logger is needed.
type Options struct {
	Logger *slog.Logger
	// DiskLogger is told of the room on the disks in place of Logger, unless it is nil: servers of one process that
	// share a disk need not all tell of it.
	DiskLogger *slog.Logger

	Release  string    // the name of the release that the program is, as 1.2.3; "" if it is none
	Revision string    // the commit that the program was built from
	Built    time.Time // when that was made
	// Notify is told how far the server is, on the goroutines of Open and Run. nil: nobody is told.
	Notify func(Stage)
	Beat   time.Duration // how often Notify is told that the server is Alive; 0 is never
}

// Stage is how far a server is.
type Stage int

// The stages, of which Alive repeats.
const (
	Ready Stage = iota
	Alive
	Stopping
)

// newInstance returns a server of which nothing is open yet.
func newInstance(config *conf.Config, world World, o Options) *Instance {
	if o.DiskLogger == nil {
		o.DiskLogger = o.Logger
	}
	i := &Instance{config: config, options: o, logger: o.Logger, world: world, fatal: make(chan error, 1),
		stopWithin: stopTimeout, closeWithin: closeTimeout,
		clientAddresses: make(chan string, 1), done: make(chan struct{})}
	if config.Admin.Enabled && config.Admin.Console {
		i.journal = console.NewJournal(o.Logger.Handler())
		i.logger = slog.New(i.journal)
	}
	return i
}

// Open opens a server: its stores, its node, and its ports, at which nobody is served before Run. What was opened
// before a failure is closed.
func Open(ctx context.Context, c *conf.Config, w World, o Options) (*Instance, error) {
	i := newInstance(c, w, o)
	if err := i.openWhole(ctx); err != nil {
		return nil, err
	}
	return i, nil
}

// openWhole opens all, or nothing. Its context ends with a failure alone: what was opened may keep it.
func (i *Instance) openWhole(ctx context.Context) error {
	opening, giveUp := context.WithCancelCause(ctx)
	i.giveUp.Store(&giveUp)
	err := i.open(opening)
	i.giveUp.Store(nil)
	i.audit.begin(err)
	if err != nil {
		i.tell(Stopping)
		i.broken = errors.Is(err, disk.ErrDiskFailed)
		return errors.Join(err, i.Close())
	}
	return nil
}

// Run serves until ctx ends or something fails. It is called once at most.
func (i *Instance) Run(ctx context.Context) error {
	running, end := context.WithCancel(ctx)
	defer end()
	for _, r := range i.stores {
		i.running.Go(func() { r.Run(running) })
	}
	i.endScrubs = i.scrub(running)
	i.began = i.world.Clock.Now()
	i.logger.Info("server started", i.summary()...)
	i.tell(Ready)
	err := i.run(ctx)
	i.broken = errors.Is(err, errCannotGoOn)
	i.tell(Stopping)
	return err
}

// ClientAddr is where clients connect, as it was opened: a reconfig may have moved it. nil if there is only the port
// with TLS.
func (i *Instance) ClientAddr() net.Addr { return i.first }

// Machine is the state of the server, until Close.
func (i *Instance) Machine() *state.Machine { return i.machine }

// summary is what an operator wants to know of a server that starts, in one line.
func (i *Instance) summary() []any {
	c, s := i.config, i.node.Status()
	attrs := []any{
		slog.String("client", i.client.address()), slog.String("secure", i.secure.address()),
		slog.String("data", c.Storage.DataDir), slog.String("log", c.Storage.DataLogDir),
		slog.String("zxid", zxidText(i.machine.LastZxid())),
		slog.String("version", fourletter.FullVersion(i.options.Revision, i.options.Built)),
		slog.Int64("id", serverid.Number(i.id)),
	}
	if i.peers != nil {
		attrs = append(attrs, slog.Any("peers", c.Ensemble.Listen), slog.Any("voters", serverid.Numbers(s.Voters)),
			slog.Any("observers", serverid.Numbers(s.Learners)))
	}
	return append(attrs, slog.Duration("tick", c.Session.TickTime), slog.Int("max_clients", c.Client.MaxTotal),
		slog.Int("max_clients_per_ip", c.Client.MaxPerIP), slog.Int64("max_frame", c.Client.MaxFrameBytes),
		slog.Int64("memory_limit", i.world.System.MemoryLimit()))
}

// tellStopped is the last line of a server that was started: how long it has served, what it has, whether it has ended
// because it could not go on, and what went wrong at the end.
func (i *Instance) tellStopped(zxid jute.Zxid, err error) {
	if i.began.IsZero() {
		return
	}
	attrs := []any{slog.String("zxid", zxidText(zxid)), slog.Duration("served", i.world.Clock.Since(i.began)),
		slog.Bool("failed", i.broken)}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	i.logger.Info("server stopped", attrs...)
}

// tell tells how far the server is.
func (i *Instance) tell(s Stage) {
	if i.options.Notify != nil {
		i.options.Notify(s)
	}
}

// zxidText writes a zxid as ZooKeeper does.
func zxidText(zxid jute.Zxid) string { return fmt.Sprintf("%#x", uint64(zxid)) }

// run serves until ctx ends or something fails.
func (i *Instance) run(ctx context.Context) error {
	ended := make(chan served)
	defer close(i.done)
	i.serveClients(i.client, ended)
	i.serveClients(i.secure, ended)
	var beats <-chan time.Time
	if i.options.Beat > 0 {
		ticker := i.world.Clock.NewTicker(i.options.Beat)
		defer ticker.Stop()
		beats = ticker.C()
	}
	for {
		select {
		case <-beats: // from here: it is this loop that would see the server fail
			i.tell(Alive)
		case <-ctx.Done():
			i.logger.Info("server stopping")
			return nil
		case end := <-ended:
			if end.listener == i.client || end.listener == i.secure {
				return end.err
			}
		case addr := <-i.clientAddresses:
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

// fail records the first failure. A server that is being opened is given up.
func (i *Instance) fail(err error) {
	select {
	case i.fatal <- err:
	default: // one is there already
	}
	if giveUp := i.giveUp.Load(); giveUp != nil {
		(*giveUp)(err)
	}
}

// Close stops what runs and closes what is open, the last first. What has not stopped within bounded time is given up.
func (i *Instance) Close() error {
	within := i.stopWithin
	if i.broken {
		within = failedStopTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	i.audit.stop()
	var errs []error
	if i.console != nil { // its sessions are clients, and pages wait for them
		i.console.Close()
	}
	if i.operators != nil { // first: they look at all that is closed below
		errs = append(errs, i.operators.close(ctx))
	}
	serving := i.client != nil || i.secure != nil
	if serving {
		errs = append(errs, i.server.Shutdown(ctx))
	}
	var hung error // what the node says that cannot end
	if i.node != nil {
		hung = i.node.Stop(ctx)
		errs = append(errs, hung)
		if !serving {
			errs = append(errs, i.server.Shutdown(ctx))
		}
	}
	switch {
	case i.peers == nil:
	case i.broken: // who fails says nothing, and the others warn of it
		i.peers.Close()
	default:
		i.peers.Stop(ctx)
	}
	if i.endScrubs != nil {
		i.endScrubs(ctx)
	}
	var zxid jute.Zxid
	if i.machine != nil {
		zxid = i.machine.LastZxid()
	}
	if !errors.Is(hung, quorum.ErrHung) {
		errs = append(errs, i.closeStores())
	}
	for _, l := range []*movable{i.client, i.secure} { // those that nobody has served
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	ended := make(chan struct{})
	go func() { i.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done(): // of files that do not answer
	}
	if i.broken { // Run or Open has said why, and what is closed says it again
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, disk.ErrDiskFailed) })
	}
	err := errors.Join(append(errs, i.audit.close())...)
	i.tellStopped(zxid, err)
	return err
}

// errStoresHang says that what is on the disk is still open, for the process to end.
var errStoresHang = errors.New("the stores are not closed: their disk does not answer")

// closeStores closes what is on the disk, or gives up: who closes a store waits for what it writes.
func (i *Instance) closeStores() error {
	closed := make(chan error, 1)
	go func() {
		var errs []error
		if i.machine != nil {
			errs = append(errs, i.machine.Close())
		}
		if i.log != nil {
			errs = append(errs, i.log.Close())
		}
		if i.dir != nil {
			errs = append(errs, i.dir.Close())
		}
		closed <- errors.Join(errs...)
	}()
	look := i.world.Clock.NewTicker(i.closeWithin)
	defer look.Stop()
	for before := i.operationsEnded(); ; {
		select {
		case err := <-closed:
			return err
		case <-look.C():
		}
		ended := i.operationsEnded()
		if ended == before {
			return errStoresHang
		}
		before = ended
	}
}

// operationsEnded is how many operations of the stores have come to an end.
func (i *Instance) operationsEnded() (ended uint64) {
	if i.machine != nil {
		_, ended = i.machine.DiskProgress()
	}
	if i.log != nil {
		_, more := i.log.DiskProgress()
		ended += more
	}
	return ended
}

// scrub begins the scrubs of the server, and returns what ends them, as scrubber.start does.
func (i *Instance) scrub(ctx context.Context) (end func(context.Context)) {
	if i.config.Storage.ScrubRate > 0 {
		s := &scrubber{machine: i.machine, clock: i.world.Clock, logger: i.logger, figures: &i.figures.scrubs,
			rate: i.config.Storage.ScrubRate, interval: i.config.Storage.ScrubInterval, damaged: i.stateDamaged,
			spaceLevel: i.guard.Level}
		return s.start(ctx)
	}
	return func(context.Context) {}
}

// stateDamaged stops a member of an ensemble whose state a scrub has found damaged: the others have a good one. A
// server alone goes on: what it has is all that there is.
func (i *Instance) stateDamaged(cause error) {
	if i.peers == nil {
		return
	}
	i.fail(errors.Join(cause, i.machine.MarkDiverged(cause)))
}
