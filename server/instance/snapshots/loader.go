package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// Proposer takes proposals; *quorum.Node is one.
type Proposer interface {
	Propose(p *entry.Proposal, w batcher.Waiter) error
}

// Loader puts snapshots that operators send into the place of the state: of the whole ensemble, through its log.
type Loader struct {
	node  Proposer
	clock clock.Clock
	draw  func() uint64 // a random number
	busy  chan struct{} // of size 1: one upload at a time
}

// NewLoader returns what restores through node; draw gives random numbers.
func NewLoader(node Proposer, c clock.Clock, draw func() uint64) *Loader {
	return &Loader{node: node, clock: c, draw: draw, busy: make(chan struct{}, 1)}
}

// errRestoring means that this server is at it already.
var errRestoring = errors.New("another restore is under way on this server: wait for its end")

// Restore implements admin.Restorer. It sends the snapshot piece by piece, each when the one before is applied here, so
// that memory and log hold little that is under way. What has come is given up on any failure.
func (l *Loader) Restore(_ context.Context, snapshot io.Reader) (jute.Zxid, error) {
	select {
	case l.busy <- struct{}{}:
	default:
		return 0, errRestoring
	}
	defer func() { <-l.busy }()
	id := l.draw()
	if _, err := l.propose(entry.OpLoadBegin, entry.LoadTxn{Upload: id}); err != nil {
		return 0, fmt.Errorf("begin to restore: %w", err)
	}
	length, sum, err := l.upload(id, snapshot)
	if err != nil {
		return 0, errors.Join(err, l.abort(id))
	}
	zxid, err := l.propose(entry.OpLoadCommit, entry.LoadTxn{Upload: id, Offset: length, Sum: sum})
	if dropped := (*droppedError)(nil); errors.As(err, &dropped) {
		return 0, fmt.Errorf("%w: look whether the snapshot was restored, on any server", err)
	}
	return zxid, err
}

// upload sends all of the snapshot, and returns its length and checksum.
func (l *Loader) upload(id uint64, snapshot io.Reader) (length int64, sum uint64, err error) {
	piece, hash := make([]byte, entry.LoadChunkBytesMax), xxhash.New()
	for {
		n, ended, err := fill(snapshot, piece)
		if err != nil {
			return 0, 0, fmt.Errorf("the snapshot did not come to its end, after %d bytes: %w", length+int64(n), err)
		}
		if n > 0 {
			_, _ = hash.Write(piece[:n]) // a hash does not fail
			txn := entry.LoadTxn{Upload: id, Offset: length, Data: piece[:n]}
			if _, err := l.propose(entry.OpLoadChunk, txn); err != nil {
				return 0, 0, fmt.Errorf("send the snapshot to the servers, at byte %d: %w", length, err)
			}
			length += int64(n)
		}
		if ended {
			return length, hash.Sum64(), nil
		}
	}
}

// fill reads until b is full or r has ended, and tells which. Not as io.ReadFull: that words an end in the middle of b
// as HTTP words a body that is cut off.
func fill(r io.Reader, b []byte) (n int, ended bool, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = r.Read(b[n:])
		n += more
	}
	if errors.Is(err, io.EOF) {
		return n, true, nil
	}
	return n, false, err
}

// abort gives the upload up. Without a leader it stays, until the next one begins.
func (l *Loader) abort(id uint64) error {
	if _, err := l.propose(entry.OpLoadAbort, entry.LoadTxn{Upload: id}); err != nil {
		return fmt.Errorf("give up what was sent: %w", err)
	}
	return nil
}

// propose proposes, and waits for the result.
func (l *Loader) propose(op jute.Op, txn entry.LoadTxn) (jute.Zxid, error) {
	w := make(restoreWaiter, 1)
	p := entry.Proposal{Op: op, Time: jute.Millis(l.clock.Now().UnixMilli()), Body: txn.Append(nil)}
	if err := l.node.Propose(&p, w); err != nil {
		return 0, err
	}
	outcome := <-w
	return outcome.zxid, outcome.err
}

// restoreWaiter has what became of one proposal; of size 1.
type restoreWaiter chan restoreOutcome

// restoreOutcome is what became of it.
type restoreOutcome struct {
	zxid jute.Zxid
	err  error
}

// Applied implements batcher.Waiter.
func (w restoreWaiter) Applied(r *apply.Result) {
	o := restoreOutcome{zxid: r.Zxid}
	if r.Code != jute.OK {
		o.err = fmt.Errorf("%w: %s", errRefused, cmp.Or(strings.Clone(r.Refusal), r.Code.String()))
	}
	w <- o
}

// Dropped implements batcher.Waiter.
func (w restoreWaiter) Dropped(err error) { w <- restoreOutcome{err: &droppedError{err}} }

// errRefused means that the servers have refused a restore, and nothing has changed.
var errRefused = errors.New("the snapshot is refused, and nothing has changed")

// droppedError means that it will not be known what became of a proposal.
type droppedError struct{ error }

// Unwrap returns why.
func (e *droppedError) Unwrap() error { return e.error }
