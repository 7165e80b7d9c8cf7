package quorum

import (
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage"
)

// appender writes what raft wants stored: one write, and one fsync, for all that has come together meanwhile. It is the
// append goroutine's alone but for the mailbox and the counters.
type appender struct {
	log     *storage.RaftLog
	clock   clock.Clock
	work    *mailbox[*raftpb.Message] // MsgStorageAppend, from the loop
	done    func(stored)              // tells the loop
	entries []storage.LogEntry
	hard    []byte
	dirty   bool // something was written that was not synced
	fsyncs  latency
	bytes   atomic.Uint64   // of data appended since the start
	keeper  chan<- struct{} // set each time that step bytes are appended
	step    uint64
}

// stored is what the append goroutine tells the loop: the responses of this many messages can be delivered.
type stored struct {
	responses []*raftpb.Message
	messages  int // that had responses
}

// errSnapshot means that raft wants a snapshot stored, which nobody can have sent.
var errSnapshot = errors.New("a snapshot came for the raft log: this version has no way to receive one")

// write stores all messages, in order, and then delivers their responses. Responses promise that everything before them
// is durable.
func (a *appender) write(messages []*raftpb.Message) error {
	var done stored
	for _, m := range messages {
		if len(m.GetResponses()) > 0 {
			done.messages++
		}
	}
	for i, m := range messages {
		last := i == len(messages)-1
		if err := a.writeOne(m, last && done.messages > 0); err != nil {
			return fmt.Errorf("append to the raft log: %w", err)
		}
		if done.responses == nil {
			done.responses = m.GetResponses()
		} else {
			done.responses = append(done.responses, m.GetResponses()...)
		}
	}
	if done.messages > 0 {
		a.done(done)
	}
	return nil
}

// writeOne stores one message, and syncs it and all before it if sync is set and there is anything to sync.
func (a *appender) writeOne(m *raftpb.Message, sync bool) error {
	if m.GetSnapshot() != nil {
		return errSnapshot
	}
	a.entries = logEntries(a.entries[:0], m.GetEntries())
	var hard []byte
	if m.Term != nil && m.Commit != nil {
		a.hard = appendHardState(a.hard[:0], m.GetTerm(), m.GetVote(), m.GetCommit())
		hard = a.hard
	}
	a.dirty = a.dirty || len(a.entries) > 0 || hard != nil
	if !a.dirty {
		return nil
	}
	began := a.clock.Now()
	if err := a.log.Append(a.entries, hard, sync); err != nil {
		return err
	}
	if sync {
		a.fsyncs.add(a.clock.Since(began))
		a.dirty = false
	}
	bytes := uint64(0)
	for i := range a.entries {
		bytes += uint64(len(a.entries[i].Data))
	}
	if after := a.bytes.Add(bytes); after/a.step != (after-bytes)/a.step {
		notify(a.keeper)
	}
	clear(a.entries) // the log keeps the data as long as it needs
	return nil
}
