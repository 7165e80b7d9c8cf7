package main

import (
	cryptorand "crypto/rand"
	"log/slog"
	"strings"

	"zkd/conf"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/server"
	"zkd/server/fourletter"
	"zkd/server/watch"
	"zkd/storage"
)

// serverOptions turns the configuration into the server's options.
func (i *instance) serverOptions(a authentication) server.Options {
	c := i.config
	revision, built := buildInfo()
	version := fourletter.FullVersion(revision, built)
	i.registry = a.registry
	words := fourletter.New(fourletter.Options{Whitelist: strings.Join(c.Commands.Whitelist, ","),
		ReadOnlyMode: c.Client.ReadOnlyMode, Version: version})
	if unknown := words.Unknown(); len(unknown) > 0 {
		i.logger.Warn("4lw.commands.whitelist names what is no command", slog.Any("words", unknown))
	}
	i.words = words
	o := server.Options{
		ServerID: i.serverID(), Machine: i.machine, Clock: clock.Real(), Logger: i.logger,
		Registry: a.registry, SASL: a.sasl, Random: cryptorand.Reader, Words: words,
		Flags:    proposalFlags(c) | a.flags,
		TickTime: c.Session.TickTime, MinTimeout: c.Session.MinTimeout, MaxTimeout: c.Session.MaxTimeout,
		HandshakeTimeout: c.Client.HandshakeTimeout, MaxFrameBytes: int(c.Client.MaxFrameBytes),
		MaxConnectionsPerIP: c.Client.MaxPerIP, MaxConnections: c.Client.MaxTotal, KeepAlive: c.Client.KeepAlive,
		Limits: limits(c.Limits), ReconfigEnabled: c.Tree.Reconfig, ContainerCheck: c.Tree.ContainerCheck,
		ContainerMaxPerMinute: c.Tree.ContainerMaxPerMinute, ContainerMaxNeverUsed: c.Tree.ContainerMaxNeverUsed,
		Conf: i.shownConfiguration(), ClientPort: i.clientPort, Environment: environment(c), DirSizes: i.dirSizes,
		OpenFiles: openFiles, MaxOpenFiles: maxOpenFiles,
		Status:            func() quorum.Status { return i.node.Status() },
		Metrics:           i.setMetrics,
		SlowFsyncs:        i.figures.slowFsyncs.Load,
		SlowRequest:       c.Metrics.SlowRequest,
		LinearizableReads: c.Client.LinearizableReads,
		Audit:             i.audit.log, AuditUser: i.audit.user,
	}
	o.Limits.Handshakes, o.Limits.HandshakesComputing = c.TLS.HandshakesMax, handshakesComputing()
	if c.Ensemble.Distributed {
		o.Ensemble = &server.Ensemble{Observer: c.Ensemble.Observer && !c.Tree.Reconfig, Members: i.members}
		o.LeaderGrace, o.ReadOnlyMode = c.Ensemble.LeaderGrace, c.Client.ReadOnlyMode
		o.IdleLeader = !c.Client.LeaderServes
		o.LocalSessions, o.LocalSessionsUpgrading = c.Client.LocalSessions, c.Client.LocalSessionsUpgrading
	}
	return o
}

// limits turns the configuration's limits into the server's.
func limits(c conf.Limits) server.Limits {
	s := c.Connections
	return server.Limits{
		Outstanding: c.Outstanding, LargeRequestBytes: int(c.LargeRequestThresholdBytes),
		LargeRequestsBytes: c.LargeRequestMaxBytes,
		Requests: server.RequestThrottle{
			MaxRequests: c.ThrottleMaxRequests, Stall: c.ThrottleStall, DropStale: c.ThrottleDropStale,
			StaleConnection: c.StaleConnectionCheck, StaleLatency: c.StaleLatencyCheck,
			ThrottledOpWait: c.ThrottledOpWait,
		},
		Sessions: server.SessionThrottle{
			Tokens: s.Tokens, FillTime: s.FillTime, FillCount: s.FillCount, FreezeTime: s.FreezeTime,
			DropIncrease: s.DropIncrease, DropDecrease: s.DropDecrease, DecreaseRatio: s.DecreaseRatio,
			Weighted: s.Weighted, GlobalWeight: s.GlobalWeight, LocalWeight: s.LocalWeight,
			RenewWeight: s.RenewWeight,
		},
		SessionsMax: c.Sessions, Watches: watch.Bounds{All: c.Watches, PerHolder: c.WatchesPerConnection},
	}
}

// proposalFlags is what all servers must evaluate writes by, but for the schemes of ACLs.
func proposalFlags(c *conf.Config) (f storage.Flags) {
	for _, flag := range []struct {
		on   bool
		flag storage.Flags
	}{
		{c.Tree.ExtendedTypes, storage.FlagExtendedTypes},
		{c.Tree.EnforceQuota, storage.FlagEnforceQuota},
		{c.Tree.SkipACL, storage.FlagSkipACL},
		{!c.Ensemble.StandaloneEnabled, storage.FlagSingleVoter},
		{c.Ensemble.MultiAddress, storage.FlagMultiAddress},
	} {
		if flag.on {
			f |= flag.flag
		}
	}
	return f
}
