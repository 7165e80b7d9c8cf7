package instance

import (
	"cmp"
	"log/slog"
	"runtime"

	"zkd/conf"
	"zkd/quorum"
	"zkd/server"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/server/watch"
	"zkd/storage/entry"
)

// serverOptions turns the configuration into the server's options.
func (i *Instance) serverOptions(a authentication) server.Options {
	c := i.config
	version := fourletter.FullVersion(i.options.Revision, i.options.Built)
	i.registry = a.registry
	words := newWords(c, version)
	if unknown := words.Unknown(); len(unknown) > 0 {
		i.logger.Warn("4lw.commands.whitelist: unknown command", slog.Any("words", unknown))
	}
	i.commands = words
	o := server.Options{
		ServerID: i.id, Machine: i.machine, Clock: i.world.Clock, Logger: i.logger,
		Registry: a.registry, SASL: a.sasl, Random: i.world.Random, Commands: words,
		Flags:    proposalFlags(c) | a.flags,
		TickTime: c.Session.TickTime, MinTimeout: c.Session.MinTimeout, MaxTimeout: c.Session.MaxTimeout,
		HandshakeTimeout: c.Client.HandshakeTimeout, MaxFrameBytes: int(c.Client.MaxFrameBytes),
		MaxConnectionsPerIP: c.Client.MaxPerIP, MaxConnections: c.Client.MaxTotal, KeepAlive: c.Client.KeepAlive,
		Limits:          limitsOf(c.Limits, i.world.System.MemoryLimit()),
		ReconfigEnabled: c.Tree.Reconfig, ContainerCheck: c.Tree.ContainerCheck,
		ContainerMaxPerMinute: c.Tree.ContainerMaxPerMinute, ContainerMaxNeverUsed: c.Tree.ContainerMaxNeverUsed,
		Conf: shownConfiguration(c), ClientPort: i.clientPort, Environment: environment(i.world.System),
		DirSizes:  i.dirSizes,
		OpenFiles: i.world.System.OpenFiles, MaxOpenFiles: i.world.System.MaxOpenFiles,
		Status:            func() quorum.Status { return i.node.Status() },
		Metrics:           i.setMetrics,
		SlowFsyncs:        i.figures.slowFsyncs.Load,
		SlowRequest:       c.Metrics.SlowRequest,
		TrafficOff:        !c.Metrics.Traffic,
		LinearizableReads: c.Client.LinearizableReads,
		Audit:             i.audit.log, AuditUser: i.audit.user,
	}
	o.Limits.Handshakes, o.Limits.HandshakesComputing = c.TLS.HandshakesMax, handshakesComputing()
	if c.Ensemble.Distributed {
		o.Ensemble = &server.Ensemble{
			Observer: c.Ensemble.Observer && !c.Tree.Reconfig, Members: i.members,
			MembersChanged: func() { i.peers.MembersChanged() }, // opened later, but before anything is applied
		}
		o.LeaderGrace, o.ReadOnlyMode = c.Ensemble.LeaderGrace, c.Client.ReadOnlyMode
		o.RemovedGrace = c.Ensemble.RemovedGrace
		o.IdleLeader = !c.Client.LeaderServes
		o.LocalSessions, o.LocalSessionsUpgrading = c.Client.LocalSessions, c.Client.LocalSessionsUpgrading
	}
	return o
}

// dirSizes are the sizes of the two directories.
func (i *Instance) dirSizes() fourletter.DirSizes {
	return fourletter.DirSizes{DataBytes: DirBytes(i.world.FS, i.dir.StateDir()),
		LogBytes: DirBytes(i.world.FS, i.dir.RaftLogDir())}
}

// program is what this server calls itself to others.
func (i *Instance) program() string { return "zkd " + i.build() }

// build names the release that the program is, or else its commit.
func (i *Instance) build() string { return cmp.Or(i.options.Release, i.options.Revision) }

// clientMemoryPart is the part of the memory of the process that clients may hold: a guess, as stores and caches take
// less than 100 MiB, and the collector a third of what lives.
const clientMemoryPart = 4

// clientMemory is what clients may hold of a process that may use so much memory.
func clientMemory(configured, all int64) int64 {
	if configured < 0 {
		return max(all, 0) / clientMemoryPart
	}
	return configured
}

// limitsOf turns the configuration's limits into the server's. memory is what the process may use.
func limitsOf(c conf.Limits, memory int64) server.Limits {
	s := c.Connections
	clients := clientMemory(c.ClientMemoryBytes, memory)
	return server.Limits{
		MemoryBytes: clients - clients/2,
		Outstanding: c.Outstanding, LargeRequestBytes: int(c.LargeRequestThresholdBytes),
		LargeRequestsBytes: c.LargeRequestMaxBytes,
		Requests: limits.RequestThrottle{
			MaxRequests: c.ThrottleMaxRequests, Stall: c.ThrottleStall, DropStale: c.ThrottleDropStale,
			StaleConnection: c.StaleConnectionCheck, StaleLatency: c.StaleLatencyCheck,
			ThrottledOpWait: c.ThrottledOpWait,
		},
		Sessions: limits.SessionThrottle{
			Tokens: s.Tokens, FillTime: s.FillTime, FillCount: s.FillCount, FreezeTime: s.FreezeTime,
			DropIncrease: s.DropIncrease, DropDecrease: s.DropDecrease, DecreaseRatio: s.DecreaseRatio,
			Weighted: s.Weighted, GlobalWeight: s.GlobalWeight, LocalWeight: s.LocalWeight,
			RenewWeight: s.RenewWeight,
		},
		SessionsMax: c.Sessions,
		Watches:     watch.Bounds{All: c.Watches, PerHolder: c.WatchesPerConnection, Bytes: int(clients / 2)},
		Identities:  auth.Bounds{Identities: c.Identities, Bytes: c.IdentityBytes},
	}
}

// proposalFlags is what all servers must evaluate writes by, but for the schemes of ACLs.
func proposalFlags(c *conf.Config) (f entry.Flags) {
	for _, flag := range []struct {
		on   bool
		flag entry.Flags
	}{
		{c.Tree.ExtendedTypes, entry.FlagExtendedTypes},
		{c.Tree.EnforceQuota, entry.FlagEnforceQuota},
		{c.Tree.SkipACL, entry.FlagSkipACL},
		{!c.Ensemble.StandaloneEnabled, entry.FlagSingleVoter},
		{c.Ensemble.MultiAddress, entry.FlagMultiAddress},
	} {
		if flag.on {
			f |= flag.flag
		}
	}
	return f
}

// handshakesComputing is how many TLS handshakes may compute at once, and how many logins by Kerberos: half of the
// processors, so that a crowd of clients leaves the rest to those that are there. There may be more threads than those.
func handshakesComputing() int { return max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2) }

// members is what the node knows of the group, as the four-letter commands show it.
func (i *Instance) members() server.Members {
	s := i.node.Status()
	m := server.Members{
		Voters: s.Voters, Learners: s.Learners, Elections: int64(s.Elections), LastElection: s.LastElection,
		MissingVoters: s.MissingVoters.Text(),
	}
	for _, p := range s.Peers {
		m.Peers = append(m.Peers, server.Peer{
			ID: p.ID, LagEntries: p.LagEntries, Learner: p.Learner, Leaving: p.Leaving, Active: p.Active,
			Snapshotting: p.Snapshotting, Transfers: p.Transfers, TransferFailures: p.TransferFailures, Pause: p.Pause,
			Stalled: p.Stalled,
		})
	}
	return m
}
