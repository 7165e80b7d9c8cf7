package server

import (
	"errors"
	"log/slog"

	"zkd/jute"
	"zkd/server/watch"
)

// errWatches means a setWatches beyond what the server or a connection may have. An answer would not do: clients take
// an error for all watches set.
var errWatches = errors.New("there are too many watches: zkd.maxWatches, zkd.maxWatchesPerConnection or " +
	"zkd.clientMemory refuses more")

// watchable reports whether the connection may have these watches, too, and counts and warns if not.
func (c *admitter) watchable(more watch.Asked) bool {
	s := c.server
	if !s.watches.Full(s.opts.Limits.Watches, &c.watch, more) {
		return true
	}
	s.metrics.watchesRefused.Add(int64(more.Watches))
	s.bad.Warn("watch limit reached: zkd.maxWatches, zkd.maxWatchesPerConnection or zkd.clientMemory",
		slog.String("peer", c.remote.String()), session(c.session))
	return false
}

// tooManyWatches answers a request that asks for a watch too much: it is not executed.
func (c *admitter) tooManyWatches(r *request) error {
	c.answerShort(r, jute.Throttled)
	return nil
}

// roomForSession reports whether a new session may be made, and counts and warns if not. What is being made at the same
// time does not count, so that a few more may come.
func (c *admitter) roomForSession() bool {
	s := c.server
	if s.opts.Limits.SessionsMax == 0 {
		return true
	}
	v := s.opts.Machine.Present()
	n := v.SessionCount() + s.locals.count()
	v.Close()
	if n < s.opts.Limits.SessionsMax {
		return true
	}
	s.metrics.rejected.Add(1)
	s.bad.Warn("session limit reached: zkd.maxSessions", slog.String("peer", c.remote.String()))
	return false
}

// welcome reports whether the bucket has tokens for one more session.
func (c *admitter) welcome(renewed bool) bool {
	s := c.server
	var missing int64
	if s.newcomers != nil {
		var ok bool
		if missing, ok = s.newcomers.Take(s.elapsed(), renewed); !ok {
			s.metrics.rejected.Add(1)
			s.bad.Warn("session rate limit reached: connection_throttle_tokens", slog.String("peer", c.remote.String()))
			return false
		}
	}
	s.metrics.tokenDeficit.Add(missing)
	s.metrics.connections.Add(1)
	return true
}
