package quorum

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// transfer is a hand-over of the leadership that is under way. raft proposes nothing meanwhile: what is gathered waits,
// and goes to whoever leads then.
type transfer struct {
	to    uint64       // 0: none is under way
	ticks int          // since it began
	told  []chan error // who waits; each of size 1, told once
}

// transferRequest asks the loop for a hand-over; told is of size 1.
type transferRequest struct{ told chan error }

// TransferLeadership hands the leadership to the voter that has most of the log and returns when that one leads. If
// nobody has taken over within about an election timeout this member leads on: ErrTransferFailed. A member that does
// not lead answers ErrNotLeader.
func (n *Node) TransferLeadership(ctx context.Context) error {
	request := transferRequest{told: make(chan error, 1)}
	if !n.inbox.put(arrival{what: request}) {
		return ErrStopped
	}
	select {
	case err := <-request.told:
		return err
	case <-n.halt:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("hand over the leadership: %w", ctx.Err())
	}
}

// beginTransfer begins a hand-over, or joins the one that is under way.
func (l *loop) beginTransfer(told chan error) {
	if l.soft.RaftState != raft.StateLeader {
		tell(told, ErrNotLeader)
		return
	}
	t := &l.transfer
	if told != nil {
		t.told = append(t.told, told)
	}
	if t.to != 0 {
		return
	}
	to := l.successor()
	if to == 0 {
		l.endTransfer(ErrTransferFailed)
		return
	}
	l.logger.Info("handing over the leadership", slog.Uint64("peer", to))
	t.to, t.ticks = to, 0
	l.raw.TransferLeader(to)
}

// successor is the voter that is most caught up among those that answer, or 0.
func (l *loop) successor() uint64 {
	best, match := uint64(0), uint64(0)
	l.raw.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		able := id != l.id && kind == raft.ProgressTypePeer && pr.RecentActive && pr.State == tracker.StateReplicate
		if able && (best == 0 || pr.Match > match) {
			best, match = id, pr.Match
		}
	})
	return best
}

// endTransfer tells who waits how it went.
func (l *loop) endTransfer(err error) {
	for _, c := range l.transfer.told {
		tell(c, err)
	}
	l.transfer = transfer{}
}

// tell answers a request; nil wants no answer.
func tell(c chan error, err error) {
	if c != nil {
		c <- err
	}
}

// transferTo is told that another member leads, or that nobody does.
func (l *loop) transferTo(lead uint64) {
	if lead != raft.None && lead != l.id && (l.transfer.to != 0 || len(l.transfer.told) > 0) {
		l.endTransfer(nil)
	}
}

// tickTransfer ends a hand-over that raft has given up, and hands over if this leader does not belong to the group any
// more: it still tells the others that this is so.
func (l *loop) tickTransfer() {
	t := &l.transfer
	if t.to == 0 {
		if l.soft.RaftState == raft.StateLeader && !l.member.votes(l.id) {
			l.beginTransfer(nil)
		}
		return
	}
	t.ticks++
	if l.soft.RaftState == raft.StateLeader && l.raw.BasicStatus().LeadTransferee == raft.None ||
		t.ticks > 2*l.options.ElectionTicks {
		l.endTransfer(ErrTransferFailed)
	}
}
