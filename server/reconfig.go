package server

import (
	"log/slog"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage"
)

// appendConfig appends the body of a reconfig's reply: the configuration that it has made, as a getData of
// /zookeeper/config answers it.
func appendConfig(b []byte, r *storage.Result) []byte {
	return (&jute.GetDataResponse{Data: r.Data, Stat: r.Stat}).Append(b)
}

// removed reports whether state says that this server does not belong to the group any more, and then stops serving: it
// hears nothing of what is written, and its clients must go where they do. Unlike this, ZooKeeper's removed server
// goes on, without a vote, until it is started again.
func (a *attendant) removed(state quorum.State) bool {
	if state.Role != quorum.RoleRemoved {
		return false
	}
	if a.current {
		a.current, a.since = false, a.server.elapsed()
	}
	a.passed = nil
	a.retry.Stop()
	a.grace.Stop()
	if s := a.server; s.available.phase() != phaseDown {
		s.opts.Logger.Warn("this server was removed from the ensemble and serves no clients: stop it, or add it again "+
			"by reconfig", slog.Uint64("server", s.opts.ServerID))
		s.beginEpoch(phaseDown)
	}
	return true
}
