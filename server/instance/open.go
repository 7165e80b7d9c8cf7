package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"time"

	"zkd/conf"
	"zkd/conf/keystore"
	"zkd/quorum"
	"zkd/server"
	"zkd/server/instance/peers"
	"zkd/server/instance/tlsstores"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
	"zkd/storage/space"
	"zkd/storage/state"
)

// open opens everything. What was opened before a failure is closed by close.
func (i *Instance) open(ctx context.Context) error {
	// First: what it refuses leaves nothing behind.
	authentication, err := newAuthentication(i.config, &i.world, i.logger)
	if err != nil {
		return err
	}
	if i.audit, err = openAudit(i.config.Audit, authentication.login, &i.world, i.logger); err != nil {
		return err
	}
	if err := i.openStores(ctx); err != nil {
		return err
	}
	if i.ports, err = newClientPorts(i.config, authentication.registry, i.world.stores(), i.logger); err != nil {
		return err
	}
	i.reload(i.ports.stores, "clients")
	described, err := quorum.DescribeLog(i.log)
	if err != nil {
		return err
	}
	i.id = ServerID(i.config, &described)
	i.server = server.New(i.serverOptions(authentication))
	if i.node, err = i.startNode(ctx); err != nil {
		return err
	}
	i.server.Start(i.node)
	if i.peers != nil {
		i.peers.Start(i.node)
	}
	if err := i.openOperators(ctx); err != nil {
		return err
	}
	// The port opens last: who can connect is served.
	return i.openClientPorts(ctx)
}

// startNode starts the raft node: alone, or as a member of an ensemble.
func (i *Instance) startNode(ctx context.Context) (*quorum.Node, error) {
	empty, bootstraps := peers.IsEmpty(i.log), true
	if empty {
		var err error
		if bootstraps, err = peers.MayBeginEmpty(i.config, i.world.Files); err != nil {
			return nil, err
		}
	}
	source, err := newSource(i.world.Random)
	if err != nil {
		return nil, err
	}
	o := quorum.Options{
		ID: i.id, Log: i.log, Machine: i.machine, FS: i.world.FS, Clock: i.world.Clock, Logger: i.logger,
		Observer: i.server, Rand: source, OnFatal: i.fail, OnReplacing: i.server.Replacing, OnReplaced: i.replaced,
		LevelMax:  peers.LevelMax(i.config),
		DiskSpace: i.guard, Reclaim: i.reclaim,
	}
	if i.config.Ensemble.Distributed {
		if err := i.openPeers(ctx); err != nil {
			return nil, err
		}
		o.OnState, o.OnReport, o.OnForwarded = i.server.SetState, i.server.Heard, i.server.Forwarded
		if err := i.peers.Join(ctx, &o, bootstraps); err != nil {
			return nil, err
		}
	}
	node, err := quorum.Start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start the raft node: %w", err)
	}
	if empty {
		err = peers.Begun(i.config, i.world.Files, i.logger)
	}
	return node, err
}

// openPeers opens what a member of an ensemble has.
func (i *Instance) openPeers(ctx context.Context) (err error) {
	source, err := newSource(i.world.Random)
	if err != nil {
		return err
	}
	login, err := newQuorumLogin(i.config, &i.world)
	if err != nil {
		return fmt.Errorf("SASL between servers: %w", err)
	}
	w := &i.world
	i.peers, err = peers.Open(ctx, peers.Options{
		Config: i.config, Logger: i.logger, Program: i.program(), Clock: w.Clock, FS: w.FS, Files: w.Files,
		Network: w.Network, Random: w.Random, Rand: source, Dir: i.dir, Machine: i.machine,
		ClientAddresses: i.clientAddresses, Login: login,
	})
	return err
}

// newSource returns randomness that differs from process to process.
func newSource(random io.Reader) (*rand.Rand, error) {
	var seed [16]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("draw the mark of this process: %w", err)
	}
	source := rand.NewPCG(binary.NativeEndian.Uint64(seed[:]), binary.NativeEndian.Uint64(seed[8:]))
	return rand.New(source), nil //nolint:gosec // tells processes apart, and is no secret
}

// replaced is told that a snapshot has replaced the state.
func (i *Instance) replaced() {
	i.server.Replaced()
	if i.peers != nil {
		i.peers.MembersChanged()
	}
}

// openStores locks the data directory and opens the raft log and the state.
func (i *Instance) openStores(ctx context.Context) (err error) {
	s := i.config.Storage
	release, err := claimPorts(ctx, &i.world, i.config)
	if err != nil {
		return err
	}
	err = importOnStart(ctx, i.config, &i.world, i.logger)
	release()
	if err != nil {
		return err
	}
	begun := i.world.Clock.Now()
	defer func() { i.figures.opening.Add(i.world.Clock.Since(begun).Milliseconds()) }()
	i.guard = space.New(space.Options{FS: i.world.FS, Dirs: []string{s.DataDir, s.DataLogDir},
		Logger: i.options.DiskLogger, ReserveBytes: s.DiskReserveBytes})
	fs := i.guard.FS()
	i.dir, err = datadir.Open(datadir.Options{Dir: s.DataDir, LogDir: s.DataLogDir, FS: fs,
		Logger: i.logger, MustExist: !s.AutocreateDataDir, PID: i.world.System.Process().ID})
	if err != nil {
		return err
	}
	defer func() { err = i.fullDisk(err) }()
	i.warnOfOthers()
	i.guard.Look()
	outages := disk.Outages{FS: i.world.FS}
	start := i.world.Clock.Now()
	i.log, err = raftlog.Open(raftlog.Options{
		Dir: i.dir.RaftLogDir(), FS: fs, Logger: i.logger, OnFatal: i.fail, SlowAfter: s.FsyncWarning,
		Outage:   outages.Of(i.dir.RaftLogDir()),
		Ample:    func() bool { return i.guard.Level() == space.Ample },
		Nanotime: func() int64 { return int64(i.world.Clock.Since(start)) },
		OnFsync: func(took time.Duration) {
			if took > s.FsyncWarning {
				i.figures.slowFsyncs.Inc()
				i.logger.Warn("slow raft log fsync: check the disk", slog.Duration("took", took))
			}
		},
	})
	if err != nil {
		return err
	}
	if err := i.settleInstall(ctx); err != nil {
		return err
	}
	i.machine, err = state.OpenMachine(state.MachineOptions{
		Dir: i.dir.StateDir(), FS: fs, Logger: i.logger, OnFatal: i.fail, SlowAfter: s.FsyncWarning,
		Outage: outages.Of(i.dir.StateDir()), CacheBytes: s.CacheBytes,
	})
	if err != nil {
		return err
	}
	if err := CheckImported(ctx, i.config, i.world.FS, i.machine.LastZxid(), i.log); err != nil {
		return err
	}
	return i.dir.ForgetReplaced()
}

// warnOfOthers logs which directories of the data other users of the machine may look into. It asks the system, not the
// file system of the stores, which may be one of memory, where everything has one mode.
func (i *Instance) warnOfOthers() {
	s := i.config.Storage
	dirs := []string{s.DataDir}
	if s.DataLogDir != "" && s.DataLogDir != s.DataDir {
		dirs = append(dirs, s.DataLogDir)
	}
	for _, dir := range dirs {
		if info, err := i.world.Files.Stat(dir); err == nil && datadir.OpenToOthers(info.Mode()) {
			i.logger.Warn("data directory accessible to other users: chmod o-rwx",
				slog.String("path", dir), slog.String("mode", info.Mode().Perm().String()))
		}
	}
}

// settleInstall completes the install of a received state that a crash has interrupted, or goes back to the state
// before it, or removes what is left of one that was not to be.
func (i *Instance) settleInstall(ctx context.Context) error {
	return quorum.SettleInstall(i.log, i.dir, func(dir string) (state.Verified, error) {
		return state.Verify(i.dir.Opts.FS, dir, i.logger, func() error { return context.Cause(ctx) })
	})
}

// reload has stores read again when they change; whose says of which, for messages. Without TLS there are none.
func (i *Instance) reload(set *keystore.Set, with string) {
	if set != nil {
		i.stores = append(i.stores, tlsstores.NewReloader(set, with, i.world.Clock, i.logger))
	}
}

// reclaim gives the room of what was removed back. The node calls it, while there is little.
func (i *Instance) reclaim(ctx context.Context) error {
	little := i.guard.Level() != space.Ample
	i.machine.Frugal(little)
	return errors.Join(i.log.Frugal(little), i.machine.Reclaim(ctx), i.log.Reclaim(ctx))
}

// fullDisk adds to an error of the start, if it is that of a full disk, what the operator needs to know: the reserve is
// gone by then.
func (i *Instance) fullDisk(err error) error {
	if err == nil || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w: the reserve is used up, or there was none; a start needs about %d MiB", err,
		(space.LeastToOpen(i.world.FS, i.dir.RaftLogDir())+1<<20-1)>>20)
}

// ServerID is the id of the server with the number in myid. A server alone needs none: it is whom its raft log is of,
// if that knows nobody else, and without a number 1, as in ZooKeeper's session ids.
func ServerID(c *conf.Config, log *quorum.LogInfo) uint64 {
	id := serverid.Of(c.Ensemble.MyID)
	switch {
	case c.Ensemble.Distributed:
	case log.Member != serverid.None && len(log.Voters)+len(log.Learners) <= 1:
		return log.Member
	case id == serverid.None:
		return idAlone
	}
	return id
}

// idAlone is the id of a server alone that has no number.
const idAlone = 1
