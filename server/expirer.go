package server

import (
	"encoding/binary"
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// expirer ends what is over: sessions that are silent, and the znodes that cleanUp looks for.
type expirer struct{ *Server }

// adoptSessions has the tracker know the sessions of the state and no others, each with its full timeout, as ZooKeeper
// does at a start. Nothing is committed while the present is held, so it fits in between what Committed is told.
func (s expirer) adoptSessions() {
	tracker := s.tracker.Load()
	v := s.opts.Machine.Present()
	defer v.Close()
	known := make(map[jute.SessionID]struct{}, v.SessionCount())
	v.Sessions(func(info schema.SessionInfo) {
		known[info.ID] = struct{}{}
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
	})
	tracker.Retain(func(id jute.SessionID) bool {
		_, ok := known[id]
		return ok
	})
}

// expire proposes the end of sessions that were silent for too long, and still are: each proposal may wait until less
// is in flight, and clients come back meanwhile. What a reconfig holds up comes again: who comes back meanwhile by
// another server writes ahead of it. The tracker calls it. A session whose end is not taken is gone with the node, or
// comes again when this server leads again. The end counts in this term alone: what is proposed at the end of one may
// be committed by the next leader, who has heard what this one has not.
func (s expirer) expire(ids []jute.SessionID) {
	tracker := s.tracker.Load()
	for _, id := range ids {
		taken, err := s.expireOne(id, func() bool { return tracker.Silent(id) })
		if err != nil {
			return
		}
		if !taken {
			tracker.Later(id)
		}
	}
}

// expireOne proposes the end of one session if it is still silent. An error means that no more can be proposed.
func (s expirer) expireOne(id jute.SessionID, silent func() bool) (taken bool, err error) {
	var term []byte
	if s.opts.Ensemble != nil {
		state := s.available.latest()
		if state.Role != quorum.RoleLeader {
			return false, quorum.ErrNotLeader
		}
		term = binary.BigEndian.AppendUint64(nil, state.Term)
	}
	p, w := s.inPieces(&entry.Proposal{
		Op: jute.OpCloseSession, Session: id, Time: s.millis(), Flags: s.opts.Flags, Body: term,
	}, nil)
	taken, err = s.opts.node.ProposeIf(p, w, silent)
	if err != nil {
		s.opts.Logger.Warn("failed to close expired session", session(id), slog.Any("err", err))
		return false, err
	}
	if taken {
		s.metrics.expired.Add(1)
		s.opts.Logger.Info("session expired", session(id))
	}
	return taken, nil
}
