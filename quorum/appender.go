package quorum

import (
	"fmt"
	"sync/atomic"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

// appendWork is one thing for the append goroutine: a MsgStorageAppend of the loop, or the news of the apply goroutine
// that the state of an install is in its place.
type appendWork struct {
	message   *raftpb.Message
	install   *install // of the message's snapshot; nil if it has none
	installed *install // or this
	key       string   // or a blob of the log is to be made durable
	blob      []byte
	then      func() // what the loop does when it is; may be nil
}

// appender writes what raft wants stored: one write, and one fsync, for all that has come together meanwhile. It is the
// append goroutine's alone but for the mailbox and the counters.
type appender struct {
	log          *raftlog.Log
	clock        clock.Clock
	work         *mailbox[appendWork] // from the loop and the apply goroutine
	done         func(stored)         // tells the loop
	replaceState func(*install)       // has the apply goroutine put the state of an install in its place
	entries      []raftlog.LogEntry
	hard         []byte
	level        entry.Level  // the highest that an entry of the log has needed, as the log says
	dirty        bool         // something was written that was not synced
	held         []appendWork // an install, while the apply goroutine is at it, and what is behind; bounded as raft's
	fsyncs       latency
	last         uint64 // entry that was written
	durable      durableTimes
	bytes        atomic.Uint64   // of data appended since the start
	compactor    chan<- struct{} // set each time that step bytes are appended, as is spaceMonitor
	spaceMonitor chan<- struct{}
	step         uint64
	// installs counts beginnings and ends of installs: it is odd during one.
	installs atomic.Uint64
}

// stored is what the append goroutine tells the loop: this many messages are stored, their responses can be delivered.
type stored struct {
	responses []*raftpb.Message
	messages  int
	bytes     int      // of the entries' data in them
	last      uint64   // of these entries; 0: there are none
	then      []func() // of blobs
}

// write stores all messages, in order, up to a snapshot, which it begins to install: what is behind it waits until the
// apply goroutine has the state in its place.
func (a *appender) write(works []appendWork) error {
	if len(a.held) > 0 {
		for i := range works {
			if works[i].installed == nil {
				a.held = append(a.held, works[i])
				continue
			}
			if err := a.endInstall(works[i].installed); err != nil {
				return err
			}
			a.held[0].install = nil
		}
		if a.held[0].install != nil {
			return nil
		}
		works, a.held = append(a.held, works[:0]...), nil
	}
	for i := range works {
		if works[i].install == nil {
			continue
		}
		a.held = append(a.held, works[i:]...)
		if err := a.writeAll(works[:i]); err != nil {
			return err
		}
		return a.beginInstall(works[i].install)
	}
	return a.writeAll(works)
}

// writeAll stores messages, and then delivers their responses. Responses promise that everything before them is
// durable.
func (a *appender) writeAll(works []appendWork) error {
	if len(works) == 0 {
		return nil
	}
	done, answers := stored{messages: len(works)}, false
	for i := range works {
		answers = answers || len(works[i].message.GetResponses()) > 0
	}
	for i := range works {
		m := works[i].message
		last := i == len(works)-1
		if m == nil {
			if err := a.writeBlob(&works[i], &done); err != nil {
				return err
			}
			continue
		}
		if err := a.writeOne(m, last && answers); err != nil {
			return fmt.Errorf("append to the raft log: %w", err)
		}
		for _, e := range m.GetEntries() {
			done.bytes += len(e.GetData())
			done.last = e.GetIndex()
		}
		if done.responses == nil {
			done.responses = m.GetResponses()
		} else {
			done.responses = append(done.responses, m.GetResponses()...)
		}
	}
	a.done(done)
	return nil
}

// writeBlob makes a blob durable, and with it all that was written before.
func (a *appender) writeBlob(w *appendWork, done *stored) error {
	if err := a.log.SetMeta(w.key, w.blob); err != nil {
		return fmt.Errorf("store %s in the raft log: %w", w.key, err)
	}
	a.dirty = false
	if w.then != nil {
		done.then = append(done.then, w.then)
	}
	return nil
}

// writeOne stores one message, and syncs it and all before it if sync is set and there is anything to sync.
func (a *appender) writeOne(m *raftpb.Message, sync bool) error {
	a.entries = logEntries(a.entries[:0], m.GetEntries())
	if err := a.noteLevel(); err != nil {
		return err
	}
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
	if n := len(a.entries); n > 0 {
		a.last = a.entries[n-1].Index
	}
	if sync {
		now := a.clock.Now()
		a.fsyncs.add(now.Sub(began))
		a.durable.add(a.last, now)
		a.dirty = false
	}
	bytes := uint64(0)
	for i := range a.entries {
		bytes += uint64(len(a.entries[i].Data))
	}
	if after := a.bytes.Add(bytes); after/a.step != (after-bytes)/a.step {
		notify(a.compactor)
		notify(a.spaceMonitor)
	}
	clear(a.entries) // the log keeps the data as long as it needs
	return nil
}
