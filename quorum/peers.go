package quorum

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// connected and lost are news of the streams to and from a member.
type (
	connected struct{}
	lost      struct{}
)

// Receive takes a frame that a member has sent with Transport.Send. body is valid during the call. It blocks while too
// much of that member's is not taken yet; any goroutine may call it, but one at a time for each member.
func (n *Node) Receive(from uint64, kind uint8, body []byte) {
	what, err := n.decode(from, kind, body)
	if err != nil {
		n.options.Logger.Warn("a frame is not of this protocol", slog.Uint64("peer", from), slog.Int("kind", int(kind)),
			slog.Int("bytes", len(body)), slog.Any("err", err))
		return
	}
	if what != nil {
		n.inbox.put(arrival{from: from, bytes: max(len(body), 1), what: what})
	}
}

// decode reads a frame. What is returned keeps nothing of body. A report is handed on at once: nil.
func (n *Node) decode(from uint64, kind uint8, body []byte) (any, error) {
	if from == n.options.ID || from == 0 {
		return nil, fmt.Errorf("%w: it comes from member %d", errFrame, from)
	}
	switch kind {
	case frameRaft:
		return decodeRaft(body, from, n.options.ID)
	case frameForward:
		return decodeForward(body)
	case frameRefusal:
		return decodeRefusal(body)
	case frameHello:
		return decodeHello(body)
	case frameRemoved:
		m, err := decodeMembership(body)
		return &m, err
	case frameReport:
		if s := n.loop.progress.state.Load(); n.options.OnReport != nil && s.Role == RoleLeader {
			n.options.OnReport(from, body)
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: unknown kind", errFrame)
	}
}

// Connected says that frames go to and come from a member from now on.
func (n *Node) Connected(peer uint64) { n.inbox.put(arrival{from: peer, what: connected{}}) }

// Lost says that the connection to a member broke: frames on their way may be lost. If the member led, the voters
// choose another one at once.
func (n *Node) Lost(peer uint64) { n.inbox.put(arrival{from: peer, what: lost{}}) }

// Report sends the leader a frame for its OnReport; on the leader that is called at once. encode appends the body to a
// buffer and returns it. False: there is no leader, or the frame was dropped. True promises no arrival.
func (n *Node) Report(encode func(b []byte) []byte) bool {
	s := n.loop.progress.state.Load()
	switch {
	case s.Leader == 0:
		return false
	case s.Leader == n.options.ID:
		if n.options.OnReport != nil {
			n.options.OnReport(n.options.ID, encode(nil))
		}
		return true
	default:
		return n.options.Transport != nil && n.options.Transport.Send(s.Leader, frameReport, encode)
	}
}

// arrive does what an arrival asks for.
func (l *loop) arrive(a *arrival) {
	switch what := a.what.(type) {
	case *raftpb.Message:
		l.receiveRaft(what)
	case *forward:
		l.forwarded(a.from, what)
	case refusal:
		l.refused(a.from, what)
	case hello:
		l.greeted(a.from, what)
	case *membership:
		l.toldRemoved(what)
	case connected:
		l.peerConnected(a.from)
	case lost:
		l.peerLost(a.from)
	case transferRequest:
		l.beginTransfer(what.told)
	case *staged:
		l.receiveSnapshot(what)
	case checkpointMade:
		l.checkpointMade(what)
	case shipped:
		l.shipped(what)
	}
}

// receiveRaft takes a message of another member's raft.
func (l *loop) receiveRaft(m *raftpb.Message) {
	if l.screen(m) || l.postpone(m) {
		return
	}
	l.noteHeard(m.GetFrom())
	l.notePreVote(m)
	l.stepRaft(m)
}

// stepRaft gives raft a message of another member.
func (l *loop) stepRaft(m *raftpb.Message) {
	// The errors possible are an answer of a member that has left the group, and what nobody leads for.
	if err := l.raw.Step(m); err != nil {
		l.logger.Debug("raft refused a message", slog.Any("type", m.GetType()), slog.Any("err", err))
	}
}

// peerConnected greets a member. What was on its way to it before may be lost.
func (l *loop) peerConnected(peer uint64) {
	l.greet(peer)
	switch l.soft.Lead {
	case raft.None:
		l.hurry(0)
	case peer:
		l.resendAfter(0)
		l.reads.ticks = readIndexTicks
	}
}

// peerLost has raft send a follower again what is not acknowledged, or has the voters choose another leader.
func (l *loop) peerLost(peer uint64) {
	switch {
	case l.soft.RaftState == raft.StateLeader:
		l.raw.ReportUnreachable(peer)
	case l.soft.Lead == peer:
		l.logger.Info("lost the connection to the leader", slog.Uint64("leader", peer), slog.Uint64("term", l.term))
		if err := l.raw.ForgetLeader(); err != nil {
			l.logger.Warn("raft does not forget the leader", slog.Any("err", err))
		}
		l.handOut()
		l.hurry(peer)
	}
}

// sendRaft sends messages to other members. raft is told of an append that was dropped, and sends it again.
func (l *loop) sendRaft(messages ...*raftpb.Message) {
	for _, m := range messages {
		if m.GetType() == raftpb.MsgSnap {
			l.ship(m)
			continue
		}
		if l.transport == nil {
			continue
		}
		l.betterLog(m)
		l.sending = m
		if l.transport.Send(m.GetTo(), frameRaft, l.encodeRaft) {
			continue
		}
		switch m.GetType() {
		case raftpb.MsgApp:
			l.raw.ReportUnreachable(m.GetTo())
		case raftpb.MsgReadIndex:
			l.reads.ticks = readIndexTicks - 1 // at the next tick
		}
	}
	l.sending = nil
}

// appendSending adds the message that is sent to a frame.
func (l *loop) appendSending(b []byte) []byte {
	frame, err := appendRaft(b, l.sending)
	if err != nil {
		l.logger.Error("cannot encode a raft message", slog.Any("type", l.sending.GetType()), slog.Any("err", err))
		return b
	}
	return frame
}
