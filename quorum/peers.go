package quorum

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"

	"zkd/quorum/member"
	"zkd/storage/serverid"
)

// connected and lost are news of the streams to and from a member.
type (
	connected struct{}
	lost      struct{ left bool } // left: it has said that it stops
)

// stopping says that the node takes nothing more.
type stopping struct{}

// Receive takes a frame that a member has sent with Transport.Send. body is valid during the call. It blocks while too
// much of that member's is not taken yet; any goroutine may call it, but for each member one at a time for frames sent
// with Send, and one for those sent with SendInOrder.
func (n *Node) Receive(from uint64, kind uint8, body []byte) {
	what, err := n.decode(from, kind, body)
	if err != nil {
		n.options.Logger.Warn("malformed peer frame", slog.Int64("peer", serverid.Number(from)),
			slog.Int("kind", int(kind)),
			slog.Int("bytes", len(body)), slog.Any("err", err))
		return
	}
	if what != nil {
		n.inbox.put(arrival{from: from, bytes: max(len(body), 1), what: what})
	}
}

// decode reads a frame. What is returned keeps nothing of body. A report and what is about clocks is dealt with at
// once: nil.
func (n *Node) decode(from uint64, kind uint8, body []byte) (any, error) {
	if from == n.options.ID || from == 0 {
		return nil, fmt.Errorf("%w: it comes from member %d", errFrame, serverid.Number(from))
	}
	switch kind {
	case frameRaft:
		return decodeRaft(body, from, n.options.ID)
	case frameForward:
		return n.decodeForward(body)
	case frameRefusal:
		return decodeRefusal(body)
	case frameHello:
		return member.DecodeHello(body)
	case frameMembers:
		m, err := member.Decode(body)
		return &m, err
	case frameClock:
		return nil, n.loop.clocks.receive(from, body)
	case frameSums:
		return decodeSums(body)
	case frameAddresses:
		return decodeAddresses(body)
	case frameSpace:
		return decodeSpace(body)
	case frameReport:
		if n.options.OnReport != nil && n.leads() {
			n.options.OnReport(from, body)
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: unknown kind", errFrame)
	}
}

// leads tells whether this member does, as far as all goroutines know.
func (n *Node) leads() bool { return n.loop.progress.state.Load().Role == RoleLeader }

// decodeForward reads a batch, and tells whose writes are in it: who writes is alive, whenever the batch is applied.
func (n *Node) decodeForward(body []byte) (*forward, error) {
	f, sessions, err := decodeForward(body)
	if err == nil && n.options.OnForwarded != nil && n.leads() {
		n.options.OnForwarded(sessions)
	}
	return f, err
}

// Connected says that frames go to and come from a member from now on.
func (n *Node) Connected(peer uint64) { n.inbox.put(arrival{from: peer, what: connected{}}) }

// Lost says that the connection to a member broke: frames on their way may be lost. If the member led, the voters
// choose another one at once.
func (n *Node) Lost(peer uint64) { n.inbox.put(arrival{from: peer, what: lost{}}) }

// Left is Lost of a member that has said that it stops.
func (n *Node) Left(peer uint64) { n.inbox.put(arrival{from: peer, what: lost{left: true}}) }

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

// peerConnected greets a member. What was on its way to it before may be lost.
func (l *loop) peerConnected(peer uint64) {
	l.clocks.connected(peer)
	l.sender.forget(peer)
	l.admission.greet(peer)
	if l.member.Has(peer) {
		l.members.tell(peer)
	}
	l.checkpoints.retrySoon(peer, false)
	switch l.soft.Lead {
	case raft.None:
		l.election.back(peer)
	case peer:
		l.forwarding.resendAfter(0)
		l.reads.again()
	}
}

// peerLost has raft send a follower again what is not acknowledged, or has the voters choose another leader.
func (l *loop) peerLost(peer uint64, left bool) {
	l.admission.lost(peer)
	if left {
		l.reconfig.noteLeft(peer)
	}
	l.sender.forget(peer)
	switch {
	case l.soft.RaftState == raft.StateLeader:
		l.raw.ReportUnreachable(peer)
		l.election.stepDownAlone()
		l.handOut()
	case l.soft.Lead == peer:
		l.logger.Debug("connection to leader lost", slog.Int64("leader", serverid.Number(peer)),
			slog.Uint64("term", l.term))
		if err := l.raw.ForgetLeader(); err != nil {
			l.logger.Warn("raft rejected forget-leader", slog.Any("err", err))
		}
		l.handOut()
		l.election.campaignSoon(peer)
	}
	if left {
		l.transfer.left(peer)
	}
	l.dropBarriers()
}

// toldMembers is told by a member of the group who belongs to it. If this one does not any more, it serves nobody. If
// it does, and has not seen that others came since, it has to know them before one of them can reach it and lead it. So
// has one that joins, and knows nobody but those in its file.
func (l *loop) toldMembers(m *member.Membership) {
	if m.Index < l.member.Index {
		return
	}
	if m.Has(l.id) {
		l.members.toldOf(m)
		return
	}
	if l.removed || l.member.Empty() {
		return
	}
	if !l.leaving.leaves(l.id) { // the server tells of the end of what it knows
		l.logger.Warn("removed from the ensemble", slog.Uint64("index", m.Index))
	}
	l.members.belongs(false)
	l.inForce.tell() // before the connections of who waits are closed
	if err := l.raw.ForgetLeader(); err != nil {
		l.logger.Debug("raft rejected forget-leader", slog.Any("err", err))
	}
	l.handOut()
	l.status.publish()
}

// dropBarriers drops the barriers of a node that stops, if too few of the others are connected to answer them.
func (l *loop) dropBarriers() {
	if l.stopping && !l.admission.quorumCounts() {
		l.reads.drop(ErrStopped)
	}
}
