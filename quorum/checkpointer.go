package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkpointJob is one thing for the checkpointer goroutine.
type checkpointJob struct {
	make   string            // a checkpoint is to be made in this directory
	send   *snapshotTransfer // or this is to be sent
	remove string            // or this directory is to be removed
	done   func(error)       // told when it is; may be nil
	cancel bool              // or all transfers are to end
}

// snapshotTransfer is one checkpoint on its way to one member.
type snapshotTransfer struct {
	to     uint64
	header []byte // the marshalled MsgSnap
	dir    string
	index  uint64

	ctx    context.Context //nolint:containedctx // it lives as long as the transfer
	giveUp context.CancelCauseFunc
	ended  error // why the loop has given it up; the loop's
}

// checkpointer makes, sends and removes checkpoints: a goroutine of its own, and one for each member that gets one.
// None of it waits for another part of the node.
type checkpointer struct {
	machine Machine
	sender  SnapshotSender // nil: nothing is ever sent
	fs      vfs.FS
	dir     string
	logger  *slog.Logger
	work    *mailbox[checkpointJob] // from the loop
	tell    func(what any)          // the loop
	spawn   func(func() error)      // begins a goroutine of the node
	taken   []checkpointJob         // from work, and not done; owned by the checkpointer goroutine
	sent    atomic.Uint64           // transfers that the member has
	failed  atomic.Uint64           // and those that it has not
}

// clean removes what earlier processes have left of checkpoints.
func (s *checkpointer) clean() error {
	if s.dir == "" {
		return nil
	}
	if err := s.fs.MkdirAll(s.dir, 0o750); err != nil {
		return fmt.Errorf("make the directory of checkpoints: %w", err)
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("list the directory of checkpoints: %w", err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "checkpoint-") {
			continue
		}
		if err := s.fs.RemoveAll(s.fs.PathJoin(s.dir, name)); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}

// run is the checkpointer goroutine. All that is sent ends when this member stops leading.
func (s *checkpointer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		leading, cancel := context.WithCancel(ctx)
		s.serve(ctx, leading)
		cancel()
	}
	return nil
}

// serve does what comes until all transfers are to end, or ctx does.
func (s *checkpointer) serve(ctx, leading context.Context) {
	for {
		for len(s.taken) == 0 {
			select {
			case <-s.work.signal:
			case <-ctx.Done():
				return
			}
			s.taken = s.work.take(nil)
		}
		w := s.taken[0]
		s.taken = s.taken[1:]
		switch {
		case w.cancel:
			return
		case w.send != nil:
			s.spawn(func() error { s.send(leading, w.send); return nil })
		default:
			s.do(ctx, &w)
		}
	}
}

// do makes or removes a checkpoint.
func (s *checkpointer) do(ctx context.Context, w *checkpointJob) {
	switch {
	case w.make != "":
		made := checkpointMade{dir: w.make}
		made.index, made.term, made.err = s.machine.Checkpoint(ctx, w.make)
		s.tell(made)
	case w.remove != "":
		err := s.fs.RemoveAll(w.remove)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.logger.Warn("failed to remove checkpoint", slog.String("path", w.remove), slog.Any("err", err))
			if w.done == nil {
				s.tell(checkpointLeft{w.remove})
			}
		}
		if w.done != nil {
			w.done(nil)
		}
	}
}

// send sends a checkpoint to a member, until ctx ends or the loop gives it up.
func (s *checkpointer) send(ctx context.Context, job *snapshotTransfer) {
	stop := context.AfterFunc(ctx, func() { job.giveUp(context.Cause(ctx)) })
	defer stop()
	err := s.sender.SendSnapshot(job.ctx, job.to, job.header, job.dir)
	if err == nil {
		s.sent.Add(1)
	} else {
		s.failed.Add(1)
	}
	s.tell(transferEnded{snapshotTransfer: job, err: err})
}
