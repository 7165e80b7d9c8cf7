package quorum

import (
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/invariants"
	"zkd/storage/serverid"
)

// sender is the loop's part that sends what raft says to other members.
type sender struct {
	*facts
	transport   Transport       // nil in a group of one
	unreachable func(id uint64) // tells raft of an append that was dropped
	admission   *admission
	checkpoints *checkpoints
	election    *election
	reads       *readIndex
	retention   *retention
	space       *spaceControl

	sending     *raftpb.Message
	encodeRaft  func(b []byte) []byte // appendSending
	encodeLarge func(b []byte) []byte // appendSendingLarge
	larges      map[uint64]sentLarge  // by member; the last one
	appends     map[uint64]sentAppend // likewise
}

// forget forgets what is on its way to a member: it is of no use to it, or lost.
func (s *sender) forget(peer uint64) {
	delete(s.larges, peer)
	delete(s.appends, peer)
}

// send sends messages to other members. raft is told of an append that was dropped, and sends it again.
func (s *sender) send(messages ...*raftpb.Message) {
	for _, m := range messages {
		if m.GetType() == raftpb.MsgSnap {
			s.checkpoints.send(m)
			continue
		}
		if s.transport == nil {
			continue
		}
		if slices.ContainsFunc(m.GetEntries(), withoutData) {
			invariants.Violated("an entry without its data is to be sent",
				slog.Int64("peer", serverid.Number(m.GetTo())))
		}
		s.election.betterLog(m)
		s.election.tellCommitted(m)
		s.retention.tell(m)
		s.admission.tellAcknowledged(m)
		if bearsIncarnation(m) {
			m.Vote = &s.admission.incarnation
		}
		s.sending = m
		if !s.space.withheld(m) && s.sendOne(m) {
			continue
		}
		switch m.GetType() {
		case raftpb.MsgApp:
			s.unreachable(m.GetTo())
		case raftpb.MsgReadIndex:
			s.reads.dropped()
		}
	}
	s.sending = nil
}

// sendOne sends a message. Those that have entries, or tell how far a member's log should go, come in order; all others
// may pass them.
func (s *sender) sendOne(m *raftpb.Message) bool {
	if m.GetType() == raftpb.MsgApp {
		return s.sendAppend(m)
	}
	return s.transport.Send(m.GetTo(), frameRaft, s.encodeRaft)
}

// appendSending adds the message that is sent to a frame.
func (s *sender) appendSending(b []byte) []byte {
	frame, err := appendRaft(b, s.sending)
	if err != nil {
		s.logger.Error("cannot encode a raft message", slog.Any("type", s.sending.GetType()), slog.Any("err", err))
		return b
	}
	return frame
}
