package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"zkd/quorum"
	"zkd/storage/state"
)

// errCutOff means that a checkpoint was not brought over whole.
var errCutOff = errors.New("the connection broke")

// errRefused means that the receiver did not take a checkpoint.
var errRefused = errors.New("the receiver has no room")

// snapshotTransfer is a checkpoint on its way from one member to another: a coroutine, as the node sends inline.
type snapshotTransfer struct {
	from   *member
	wait   func(time.Duration) bool // suspends the transfer; false: it is to end
	resume func() (time.Duration, bool)
	stop   func()
}

// checkpoint gives the sending part of a member's node a turn. What it sends goes on while the others have their turns.
func (m *member) checkpoint() {
	s := &snapshotTransfer{from: m}
	ctx, cancel := context.WithCancel(context.Background())
	worked := false
	s.resume, s.stop = iter.Pull(func(yield func(time.Duration) bool) {
		defer cancel()
		s.wait = yield
		m.transfer = s
		worked = m.stepper.Checkpoint(ctx)
	})
	m.transfers = append(m.transfers, s)
	s.goOn()
	if worked {
		m.want(partCheckpoint)
		m.want(partLoop)
	}
}

// goOn resumes the transfer until it waits again or is over.
func (s *snapshotTransfer) goOn() {
	m := s.from
	d, more := s.resume()
	if !more {
		m.transfers = slices.DeleteFunc(m.transfers, func(o *snapshotTransfer) bool { return o == s })
		m.want(partLoop)
		return
	}
	m.want(partCheckpoint) // the next one need not wait for this one
	m.plan(d, s.goOn)
}

// snapshotSender brings checkpoints to other members over the simulated network.
type snapshotSender struct{ m *member }

// SendSnapshot implements quorum.SnapshotSender: the checkpoint arrives some time later, or breaks off, with the
// connection, with the receiver, or when the run cuts it off.
func (s snapshotSender) SendSnapshot(ctx context.Context, to uint64, header []byte, dir string) error {
	m, w, on := s.m, s.m.w, s.m.transfer
	w.trace.note(w.now, "send snapshot", m.id, to, hashBytes(header))
	target := w.members[to-1]
	life, pair := target.life, w.net.link(m.id, to).pair
	epoch := pair.epoch
	broken := func() bool { return !target.up || target.life != life || !pair.up || pair.epoch != epoch }
	if target.refusing {
		w.count(drawnSnapshotRefused)
		return errRefused
	}
	busy := func() bool { return broken() || target.receiving }
	if ctx.Err() != nil || busy() || !on.wait(w.upTo(200*time.Millisecond)) || busy() {
		return errCutOff
	}
	staged := target.dir.StagingDir()
	if err := target.disk.RemoveAll(staged); err != nil {
		return err
	}
	copied, err := copyTree(m.disk, dir, target.disk, staged, target.transferBytes)
	if err == nil && target.transferBytes >= 0 {
		err = errCutOff // at its end: how large a checkpoint is depends on how far Pebble's goroutines are
	}
	if err != nil {
		w.trace.textf(w.now, "checkpoint from %d to %d ends after %d bytes: %v", m.id, to, copied, err)
		return err
	}
	if err := target.disk.syncDir(target.disk.PathDir(staged)); err != nil {
		return err
	}
	target.receiving = true
	var answer error
	answered := false
	target.after(w.upTo(5*time.Millisecond), func() {
		done := func(err error) { target.receiving, answered, answer = false, true, err }
		if err := target.stepper.Staged(m.id, header, staged, done); err != nil {
			done(err)
		}
	})
	for !answered {
		if !on.wait(10*time.Millisecond) || ctx.Err() != nil || !target.up || target.life != life {
			return errCutOff
		}
	}
	w.trace.note(w.now, "snapshot sent", m.id, to, boolNumber(answer == nil))
	return answer
}

// finishInstall completes or discards what a crash has left of a checkpoint's install, as a server does at its start.
func (m *member) finishInstall() error {
	return quorum.SettleInstall(m.log, m.dir, func(dir string) (state.Verified, error) {
		return state.Verify(m.disk, dir, discard, func() error { return nil })
	})
}
