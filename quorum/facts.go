package quorum

import (
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/quorum/member"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

// facts is what every component of the loop may know of this member and its group. It is the loop goroutine's; the loop
// writes it, and the components, which share it, only read.
type facts struct {
	id      uint64
	options *Options // immutable
	logger  *slog.Logger
	origin  uint64 // of the entries of this process
	log     *raftlog.Log
	raft    raftStatus

	member      member.Membership
	removed     bool // this member was told that it does not belong to the group any more
	soft        raft.SoftState
	term        uint64
	termReached bool   // the apply goroutine was handed an entry of term
	termIndex   uint64 // the first such entry
	led         uint64 // the last term in which this member has led, if its log has entries of that; 0: none
	commit      uint64
	appended    uint64 // the last entry handed to the append goroutine
	syncing     int    // messages handed to the append goroutine that it has not answered
	elected     uint64 // the first entry of the log when this leader was elected
	own         uint64 // the first entry of term, once the log of this leader has it; else 0
	now         uint64 // the time in ticks, from the start of this process
}

// raftStatus is what raft tells of itself.
type raftStatus interface {
	BasicStatus() raft.BasicStatus
	WithProgress(visit func(id uint64, kind raft.ProgressType, pr tracker.Progress))
}

// leads tells whether this member leads.
func (f *facts) leads() bool { return f.soft.RaftState == raft.StateLeader }

// progressOf returns what this leader knows of a member's log; ok is false if it does not lead, or has no such member.
func (f *facts) progressOf(id uint64) (kind raft.ProgressType, pr tracker.Progress, ok bool) {
	f.raft.WithProgress(func(peer uint64, k raft.ProgressType, p tracker.Progress) {
		if peer == id {
			kind, pr, ok = k, p, true
		}
	})
	return kind, pr, ok
}

// lastIndex is the last entry of raft's log, on disk or not.
func (f *facts) lastIndex() uint64 { return max(f.appended, f.log.LastIndex()) }

// ownTermOf returns the term of an entry of this leader's log, on disk or not. It is not known if the log begins behind
// the entry, or what this leader has from others is not on disk yet: there may still be what that takes the place of.
func (f *facts) ownTermOf(index uint64) (term uint64, known bool) {
	if f.own == 0 {
		return 0, false
	}
	if index >= f.own {
		return f.term, true
	}
	if term, err := f.log.Term(f.own); err != nil || term != f.term {
		return 0, false
	}
	term, err := f.log.Term(index)
	return term, err == nil
}

// level is the feature level of the ensemble: what is new at a higher one is neither proposed nor sent. It never goes
// down.
func (f *facts) level() entry.Level { return f.options.Machine.Level() }

// ownEntry returns the entry of a proposal that is nobody's who waits.
func (f *facts) ownEntry(p *entry.Proposal) *raftpb.Entry {
	return &raftpb.Entry{Data: entry.AppendProposal(entry.AppendEntryHeader(nil, f.origin, 0), p)}
}

// ticksTake is how long ticks take.
func (f *facts) ticksTake(ticks int) time.Duration {
	return time.Duration(ticks) * f.options.TickInterval
}
