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

// removed reports whether state says that this server does not belong to the group any more, and then stops serving: it
// hears nothing of what is written, and its clients must go where they do. Unlike this, ZooKeeper's removed server
// goes on, without a vote, until it is started again.
func (a *roleController) removed(state quorum.State) bool {
	if state.Role != quorum.RoleRemoved {
		return false
	}
	if a.current {
		a.current, a.since = false, a.server.elapsed()
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
