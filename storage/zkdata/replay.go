package zkdata

import (
	"errors"
	"fmt"
	"io"

	"zkd/jute"
)

// ErrGap says that transactions are missing between two that are there. The error names both.
var ErrGap = errors.New("transactions are missing")

// ReplayOptions says how logs are read.
type ReplayOptions struct {
	// AcceptGaps goes on over missing transactions, with a notice.
	AcceptGaps bool
	// Read is told how many bytes have been read since the last time. It may be nil.
	Read func(bytes int64)
}

// Replay reads the transactions behind a snapshot, over all logs. It is for one goroutine.
type Replay struct {
	// Last is the zxid of the last transaction that Next has returned, at first that of the snapshot.
	Last jute.Zxid
	// Notices are what an operator should know: torn ends, gaps.
	Notices []string

	opts  ReplayOptions
	next  func() (*Log, io.Closer, error)
	file  io.Closer
	log   *Log
	at    int64 // of the log, told to Read
	begun bool  // a transaction behind the snapshot was returned
}

// NewReplay begins to read behind from. next opens one log after the other, and returns nil behind the last one. Close
// ends it.
func NewReplay(from jute.Zxid, o ReplayOptions, next func() (*Log, io.Closer, error)) *Replay {
	return &Replay{Last: from, opts: o, next: next}
}

// Next returns the next transaction and is false behind the last one. The transaction is valid until the next call.
// Where one is missing it fails with ErrGap: in an epoch each has the zxid of the one before it plus 1, and each epoch
// begins with 1.
func (r *Replay) Next() (*Txn, bool, error) {
	for {
		if r.log == nil {
			more, err := r.open()
			if err != nil || !more {
				return nil, false, err
			}
		}
		t, ok, err := r.log.Next()
		r.tell()
		if err != nil {
			return nil, false, err
		}
		if !ok {
			if torn := r.log.Torn(); torn != "" {
				r.Notices = append(r.Notices, "a write that a crash has torn was left out: "+torn)
			}
			if err := r.Close(); err != nil {
				return nil, false, err
			}
			continue
		}
		skip, err := r.step(t)
		if err != nil {
			return nil, false, err
		}
		if !skip {
			return t, true, nil
		}
	}
}

// tell tells what was read.
func (r *Replay) tell() {
	if r.opts.Read != nil {
		r.opts.Read(r.log.Offset() - r.at)
	}
	r.at = r.log.Offset()
}

// open opens the next log.
func (r *Replay) open() (bool, error) {
	log, file, err := r.next()
	r.log, r.file, r.at = log, file, 0
	return log != nil, err
}

// step decides whether t is to be passed over, because the snapshot has it.
func (r *Replay) step(t *Txn) (skip bool, err error) {
	first := r.Last
	follows := t.Zxid == first+1 || epochOf(t.Zxid) > epochOf(first) && counterOf(t.Zxid) == 1
	switch {
	case t.Zxid <= first && !r.begun:
		return true, nil
	case t.Zxid < first:
		return false, damaged(r.log.name, r.log.Offset(), logRemedy, "transaction %#x stands behind %#x",
			int64(t.Zxid), int64(first))
	case t.Zxid == first, follows:
		// ZooKeeper logs a request that it could not read under the zxid before it, too.
	case !r.opts.AcceptGaps:
		return false, fmt.Errorf("%w: %s at offset %d has transaction %#x behind %#x: add the logs between them "+
			"to the "+
			"directory, or import the directory of another server", ErrGap, r.log.name, r.log.Offset(), int64(t.Zxid),
			int64(first))
	default:
		r.Notices = append(r.Notices, fmt.Sprintf("transactions are missing between %#x and %#x", int64(first),
			int64(t.Zxid)))
	}
	r.Last = t.Zxid
	r.begun = true
	return false, nil
}

// Close closes the log that is open.
func (r *Replay) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file, r.log = nil, nil
	return err
}
