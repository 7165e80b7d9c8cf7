package quorum

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"

	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// MissingVoters is why this member has no leader: not enough of the voters that count can be reached.
type MissingVoters struct {
	StateLost bool     // this member has no data, and the log has not admitted it
	Away      []uint64 // voters that are not connected, sorted
	Emptied   []uint64 // voters that are, and have lost their disks: none of them counts before it is admitted, sorted
	Lost      bool     // so many disks were lost that those who are away cannot help
}

// Text says it to an operator; empty: there is nothing to say.
func (a *MissingVoters) Text() string {
	if a == nil {
		return ""
	}
	var parts []string
	if a.StateLost {
		parts = append(parts, "this server has no data, and does not vote before the others have admitted it")
	}
	if len(a.Emptied) > 0 {
		parts = append(parts, "without data, and not counted before the others have admitted them: "+servers(a.Emptied))
	}
	if len(a.Away) > 0 {
		parts = append(parts, "missing: "+servers(a.Away))
	}
	if a.Lost {
		parts = append(parts, "a majority has lost its disks: put them back, or restore a backup")
	}
	return strings.Join(parts, "; ")
}

// servers names servers.
func servers(ids []uint64) string {
	names := make([]string, len(ids))
	for i, number := range serverid.Numbers(ids) {
		names[i] = fmt.Sprintf("server %d", number)
	}
	return strings.Join(names, ", ")
}

// voterWatch is the loop's part that tells why there is no leader.
type voterWatch struct {
	*facts
	admission *admission
	published *atomic.Pointer[MissingVoters]

	ticks     int    // without a leader
	found     string // why
	foundTick uint64 // since when that is so
	told      string
	toldTick  uint64
	again     time.Duration // from toldTick to the next time
}

// tick finds out why there is no leader for long, publishes it, and logs it when that begins, when the reason is
// another and stays so for a moment, and again at growing intervals.
func (w *voterWatch) tick() {
	if w.soft.Lead != raft.None || w.removed {
		w.ticks, w.told, w.toldTick, w.again = 0, "", 0, 0
		w.published.Store(nil)
		return
	}
	if w.ticks++; w.ticks < 2*w.options.ElectionTicks {
		return
	}
	a := w.find()
	w.published.Store(a)
	text := a.Text()
	if text != w.found {
		w.found, w.foundTick = text, w.now
	}
	since := w.now - w.toldTick
	if text == w.told && time.Duration(since)*w.options.TickInterval < w.again {
		return
	}
	if w.told != "" && text != w.told && w.now-w.foundTick < 2*uint64(w.options.ElectionTicks) {
		return // servers come, or go, one after the other
	}
	if text != w.told {
		w.again = 0
	}
	w.told, w.toldTick, w.again = text, w.now, warning.NextAgain(w.again)
	if a == nil {
		return
	}
	attrs := []any{slog.Bool("admitted", !a.StateLost), slog.Any("away", serverid.Numbers(a.Away)),
		slog.Any("emptied", serverid.Numbers(a.Emptied)), slog.Int("quorum", w.member.Quorum()),
		slog.String("why", w.whyAway(a.Away))}
	switch {
	case a.Lost:
		w.logger.Error("quorum lost: majority of disks emptied", attrs...)
	case a.StateLost:
		w.logger.Warn("no leader: this server has no data and cannot vote", attrs...)
	default:
		w.logger.Warn("no leader: too few admitted voters reachable", attrs...)
	}
}

// whyAway says why members are not connected, as far as that is known.
func (w *voterWatch) whyAway(ids []uint64) string {
	if w.options.WhyAway == nil {
		return ""
	}
	var all []string
	for _, id := range ids {
		if why := w.options.WhyAway(id); why != "" {
			all = append(all, fmt.Sprintf("server %d: %s", serverid.Number(id), why))
		}
	}
	return strings.Join(all, "; ")
}

// find tells what stands in the way of a leader; nil: nothing that lasts.
func (w *voterWatch) find() *MissingVoters {
	r := w.admission
	voters := w.member.Voters()
	if w.member.Empty() { // by its file of the configuration; it has no vote itself that could be missing
		for _, m := range w.options.founders() {
			if !m.Learner && m.ID != w.id {
				voters = append(voters, m.ID)
			}
		}
	}
	counted := r.members.counted()
	a := &MissingVoters{StateLost: r.stateLost() || w.member.Empty() || !r.mayLead() && w.member.Votes(w.id)}
	for _, id := range voters {
		switch {
		case id == w.id:
		case !r.here[id]:
			a.Away = append(a.Away, id)
		case r.quarantinedPeers[id], counted != nil && counted[id] != r.met[id] && !r.otherOfTwoVoters(id):
			a.Emptied = append(a.Emptied, id)
		}
	}
	silent := len(a.Emptied)
	if a.StateLost && slices.Contains(voters, w.id) {
		silent++
	}
	least := len(voters)/2 + 1
	a.Lost = len(voters) > 0 && len(voters)-silent < least
	if !a.StateLost && len(voters)-silent-len(a.Away) >= least {
		return nil
	}
	return a
}
