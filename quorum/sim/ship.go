package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// errCutOff means that a checkpoint was not brought over whole.
var errCutOff = errors.New("the connection broke")

// errRefused means that the receiver did not take a checkpoint.
var errRefused = errors.New("the receiver has no room")

// shipment is a checkpoint on its way from one member to another: a coroutine, as the node ships in line.
type shipment struct {
	from   *member
	wait   func(time.Duration) bool // suspends the shipment; false: it is to end
	resume func() (time.Duration, bool)
	stop   func()
}

// ship gives the shipping part of a member's node a turn. What it ships goes on while the others have their turns.
func (m *member) ship() {
	s := &shipment{from: m}
	ctx, cancel := context.WithCancel(context.Background())
	worked := false
	s.resume, s.stop = iter.Pull(func(yield func(time.Duration) bool) {
		defer cancel()
		s.wait = yield
		m.shipment = s
		worked = m.stepper.Ship(ctx)
	})
	m.shipments = append(m.shipments, s)
	s.goOn()
	if worked {
		m.want(partShip)
		m.want(partLoop)
	}
}

// goOn resumes the shipment until it waits again or is over.
func (s *shipment) goOn() {
	m := s.from
	d, more := s.resume()
	if !more {
		m.shipments = slices.DeleteFunc(m.shipments, func(o *shipment) bool { return o == s })
		m.want(partLoop)
		return
	}
	m.want(partShip) // the next one need not wait for this one
	m.plan(d, s.goOn)
}

// shipper brings checkpoints to other members over the simulated network.
type shipper struct{ m *member }

// Ship implements quorum.Shipper: the checkpoint arrives some time later, or breaks off, with the connection, with the
// receiver, or when the run cuts it off.
func (s shipper) Ship(ctx context.Context, to uint64, header []byte, dir string) error {
	m, w, on := s.m, s.m.w, s.m.shipment
	w.trace.note(w.now, "ship", m.id, to, hashBytes(header))
	target := w.members[to-1]
	life, pair := target.life, w.net.link(m.id, to).pair
	epoch := pair.epoch
	broken := func() bool { return !target.up || target.life != life || !pair.up || pair.epoch != epoch }
	if target.refusing {
		w.count(drawnShipRefused)
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
	copied, err := copyTree(m.disk, dir, target.disk, staged, target.shipping)
	if err == nil && target.shipping >= 0 {
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
	w.trace.note(w.now, "shipped", m.id, to, boolNumber(answer == nil))
	return answer
}

// finishInstall completes or discards what a crash has left of a checkpoint's install, as a server does at its start.
func (m *member) finishInstall() error {
	if _, under := m.log.Meta("installing"); under {
		return m.dir.FinishInstall()
	}
	return m.dir.DiscardInstall()
}
