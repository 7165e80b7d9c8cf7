package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/serverid"
)

// commitWatch is the loop's part that tells whether this leader can commit what it proposes. Voters may answer it, and
// count, so that it leads on, and store nothing: one is being sent a snapshot, or its disk hangs.
type commitWatch struct {
	*facts
	health  *health
	changed func() // publishes how this member stands in its group

	seen  uint64 // the last entry committed, at the last tick
	ticks int    // in which none was, and there were entries to commit, or too few voters to store one
	stuck bool
	told  bool // in the log
}

// stuckTold is for how many election timeouts nothing can be committed until that is logged. A guess: over lines that
// are slower than an election timeout a leader is stuck again and again, and commits all the same.
const stuckTold = 5

// tick counts. A leader is stuck after an election timeout, when one that cannot be heard would have been replaced. It
// is, too, when it has nothing to commit: the next entry may be the end of a session, which would not be taken back.
func (w *commitWatch) tick() {
	ticks := w.ticks
	if w.ticks++; !w.leads() || w.commit != w.seen || w.commit >= w.lastIndex() && w.inStep() {
		w.seen, w.ticks = w.commit, 0
	}
	w.tell(ticks)
	if stuck := w.ticks >= w.options.ElectionTicks; stuck != w.stuck {
		w.stuck = stuck
		w.changed()
	}
}

// tell logs that this leader is stuck, and who stores nothing, or that it commits again after so many ticks. Who leads
// no more says so elsewhere.
func (w *commitWatch) tell(after int) {
	switch {
	case w.ticks == stuckTold*w.options.ElectionTicks:
		w.told = true
		w.logger.Warn("leader cannot commit: too few voters store its entries", slog.Uint64("committed", w.commit),
			slog.Uint64("last", w.lastIndex()), slog.Any("behind", serverid.Numbers(w.behind())))
	case w.ticks == 0 && w.told:
		w.told = false
		if w.leads() {
			w.logger.Info("leader commits again", slog.Uint64("committed", w.commit),
				slog.Duration("took", w.ticksTake(after)))
		}
	}
}

// inStep tells whether a majority would store an entry, as far as this leader knows.
func (w *commitWatch) inStep() bool {
	return len(w.member.Voters())-len(w.behind()) >= w.member.Quorum()
}

// behind returns the voters that have not stored what is to be committed next, or would not.
func (w *commitWatch) behind() (ids []uint64) {
	pending := w.commit < w.lastIndex()
	for _, id := range w.member.Voters() {
		_, pr, _ := w.progressOf(id)
		follows := id == w.id || pr.State != tracker.StateSnapshot && w.health.takesOver(id)
		if !follows || pending && pr.Match <= w.commit {
			ids = append(ids, id)
		}
	}
	return ids
}
