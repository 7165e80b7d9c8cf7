package server

import (
	"log/slog"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/apply"
	"zkd/storage/serverid"
)

// appendConfig appends the body of a reconfig's reply: the configuration that it has made, as a getData of
// /zookeeper/config answers it.
func appendConfig(b []byte, r *apply.Result) []byte {
	return (&jute.GetDataResponse{Data: r.Data, Stat: r.Stat}).Append(b)
}

// leaves follows that this server is not in the configuration any more, or is again. For Options.RemovedGrace it serves
// on, as one that follows without a vote (org.apache.zookeeper.server.quorum.QuorumPeer.updateLearnerType): its clients
// learn of the configuration from it. ZooKeeper's does so until it is stopped.
func (a *roleController) leaves(before quorum.State) {
	leaves, left := a.state.Role == quorum.RoleLeaving, before.Role == quorum.RoleLeaving
	s := a.server
	switch {
	case leaves && !left:
		if s.opts.RemovedGrace > 0 {
			s.opts.Logger.Warn("removed from the ensemble: serving clients for a while",
				slog.Int64("server", serverid.Number(s.opts.ServerID)), slog.Duration("grace", s.opts.RemovedGrace))
		}
		a.leave.Reset(s.opts.RemovedGrace)
	case left && !leaves:
		a.leave.Stop()
		a.left = false
	}
}

// removed reports whether this server does not belong to the group any more, or the grace of one that leaves is over,
// and then stops serving: its clients must go where others write.
func (a *roleController) removed() bool {
	if a.state.Role != quorum.RoleRemoved && !a.left {
		return false
	}
	if a.current {
		a.lapse()
	}
	a.passed = nil
	a.retry.Stop()
	a.grace.Stop()
	if s := a.server; s.available.serving() != stateDown {
		s.opts.Logger.Warn("removed from the ensemble: not serving clients",
			slog.Int64("server", serverid.Number(s.opts.ServerID)))
		s.beginEpoch(stateDown)
	}
	return true
}
