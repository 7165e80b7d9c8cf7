package quorum

import (
	"context"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/batcher"
	"zkd/storage/entry"
)

// Stepper is a node without goroutines: whoever has it gives each part its turns, in any order, and so decides what
// happens at once and what is late. All its methods, and those of its Node, are called by one goroutine; of the Node's
// methods those that wait, Stop, Staged and TransferLeadership, have a counterpart here. With the same Options, calls
// and raft's own draws, all of it happens again.
//
// A turn does all that has come to the part when it begins. It tells whether there was anything.
type Stepper struct {
	node   *Node
	begun  bool
	ended  bool
	append turns[appendWork]
	apply  turns[applyWork]
	read   turns[entryRange]
	jobs   []checkpointJob // taken and not done
}

// turns gives a part what is in its mailbox.
type turns[T any] struct {
	work  *mailbox[T]
	do    func([]T) error
	items []T
}

// turn does all there is.
func (t *turns[T]) turn() (worked bool, err error) {
	if !signalled(t.work.signal) {
		return false, nil
	}
	t.items = t.work.take(t.items)
	return len(t.items) > 0, t.do(t.items)
}

// signalled takes a signal of size 1, if it is set.
func signalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// NewStepper opens a member as Start does, and leaves it standing.
func NewStepper(o Options) (*Stepper, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	n, err := newNode(o)
	if err != nil {
		return nil, fmt.Errorf("start member %d: %w", o.ID, err)
	}
	s := &Stepper{node: n}
	s.append = turns[appendWork]{work: n.appender.work, do: n.appender.write}
	s.apply = turns[applyWork]{work: n.applier.work, do: n.applier.apply}
	s.read = turns[entryRange]{work: n.reader.work, do: n.reader.read}
	return s, nil
}

// Node is the node, for Propose, Barrier, Receive and what else does not wait. Propose waits if too much is
// outstanding, and Receive if CanReceive is false.
func (s *Stepper) Node() *Node { return s.node }

// CanReceive tells whether a frame of this member can be taken without waiting for the loop.
func (s *Stepper) CanReceive(from uint64) bool { return !s.node.inbox.full(from) }

// Tick passes one tick of raft's time; Options.TickInterval and Clock are not looked at for it.
func (s *Stepper) Tick() error {
	return s.run(func() error {
		s.node.loop.tick()
		s.node.loop.turn()
		return nil
	})
}

// Turn gives the loop a turn.
func (s *Stepper) Turn() (worked bool, err error) {
	l := s.node.loop
	err = s.run(func() error {
		switch {
		case !s.begun:
			s.begun, worked = true, true
			l.begin()
		case signalled(l.wake):
			worked = true
			l.turn()
		}
		return nil
	})
	return worked, err
}

// Append gives the append goroutine's part a turn: it writes the raft log, with one fsync at most.
func (s *Stepper) Append() (worked bool, err error) {
	err = s.run(func() (err error) { worked, err = s.append.turn(); return err })
	return worked, err
}

// Apply gives the apply goroutine's part a turn.
func (s *Stepper) Apply() (worked bool, err error) {
	err = s.run(func() (err error) { worked, err = s.apply.turn(); return err })
	return worked, err
}

// Read gives the read goroutine's part a turn: it reads the raft log for members that are behind.
func (s *Stepper) Read() (worked bool, err error) {
	err = s.run(func() (err error) { worked, err = s.read.turn(); return err })
	return worked, err
}

// Compact gives the compactor's part a turn: flushes by time and the compaction of the log. Start gives it one each
// second, and whenever worked would be true here: when a step of the log has been appended.
func (s *Stepper) Compact() (worked bool, err error) {
	worked = signalled(s.node.compactor.signal)
	return worked, s.run(s.node.compactor.work)
}

// Checkpoint makes, removes or sends one checkpoint; the SnapshotSender is called inline.
func (s *Stepper) Checkpoint(ctx context.Context) (worked bool) {
	if s.ended {
		return false
	}
	if len(s.jobs) == 0 {
		s.jobs = s.node.checkpointer.work.take(nil)
	}
	if len(s.jobs) == 0 {
		return false
	}
	w := s.jobs[0]
	s.jobs = s.jobs[1:]
	if w.send != nil {
		s.node.checkpointer.send(ctx, w.send)
	} else {
		s.node.checkpointer.do(ctx, &w)
	}
	return true
}

// Staged is Node.Staged, but done is told what that returns, in some later turn.
func (s *Stepper) Staged(from uint64, header []byte, dir string, done func(error)) error {
	return s.node.stage(from, header, dir, done)
}

// Transfer is Node.TransferLeadership; what it returns is received from the channel after some later turn.
func (s *Stepper) Transfer() <-chan error {
	told := make(chan error, 1) // told once
	if !s.node.inbox.put(arrival{what: transferRequest{told: told}}) {
		told <- ErrStopped
	}
	return told
}

// End ends the node as a crash does, but that those who wait are told: nothing has a turn any more.
func (s *Stepper) End() {
	if !s.ended {
		s.ended = true
		s.node.stop(ErrStopped)
		s.node.abandon()
	}
}

// run gives a part a turn. An error ends the node.
func (s *Stepper) run(turn func() error) error {
	if s.ended {
		return ErrStopped
	}
	err := turn()
	if err != nil {
		s.node.fail(err)
		s.End()
	}
	return err
}

// ProposeChange proposes a change of membership together with p, which decides about it: when the entry is applied and
// p comes out with jute.OK, the change comes into force, on every member at the same entry. w is told as for Propose;
// it is dropped with ErrChangePending if another change is under way, and with ErrNotLeader if this member does not
// lead when its turn comes.
func (n *Node) ProposeChange(cc *raftpb.ConfChangeV2, p *entry.Proposal, w batcher.Waiter) error {
	if s := n.loop.progress.state.Load(); s.Role != RoleLeader {
		return ErrNotLeader
	}
	return n.batcher.AddChange(cc, p, w)
}
