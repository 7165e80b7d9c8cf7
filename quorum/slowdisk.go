package quorum

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/serverid"
)

// A leader sees how the disks of the others answer by their acknowledgements, which come when an entry is on disk: no
// member has to say anything, and those of every version can be led so. The leader takes an entry now and then, and
// measures how long its own disk and each of the others takes. What another one takes includes the way there and back,
// so a leader transfers the leadership only if that, too, is much less than what its own disk takes, with a majority of
// the voters: then writes are quicker elsewhere. A leader whose disk is as slow as the others' never sees that, so the
// leadership does not go round.
const (
	// slowFactor is how many times longer than the others a disk takes that is slow; below slowFactor/2 it is not any
	// more. A guess: disks of one kind differ by less.
	slowFactor = 4
	// slowTimeouts is for how many election timeouts a leader's disk must be slow, and slowProbes how many entries must
	// show it, before it transfers the leadership. Guesses: longer than a compaction, or a snapshot of a volume, has a
	// disk busy.
	slowTimeouts = 10
	slowProbes   = 8
	// smoothing is how many measurements a latency is about the mean of.
	smoothing = 4
)

// disks is what a leader knows of the voters' disks. It begins anew with each leadership.
type disks struct {
	own    time.Duration // how long its disk takes, smoothed; 0: not known
	peers  map[uint64]*peerDisk
	probe  probe
	slow   int // ticks that its disk has been slow
	probes int // measurements that have shown it
}

// peerDisk is what a leader knows of another member's disk.
type peerDisk struct {
	heard   uint64        // the tick at which something of it came last; 0: nothing has
	match   uint64        // what it had acknowledged at the last tick
	ticks   int           // in which it answered, lacked entries, and acknowledged none
	stalled bool          // it was told that this is so
	took    time.Duration // until it acknowledges, smoothed; 0: not known
}

// probe is an entry that is measured.
type probe struct {
	index uint64 // 0: none is
	began time.Time
	ticks int
	own   bool            // this member's disk has answered
	acked map[uint64]bool // who has acknowledged it
}

// reset forgets everything: a leadership begins or ends.
func (d *disks) reset() { *d = disks{peers: map[uint64]*peerDisk{}} }

// peer is what is known of a member's disk.
func (d *disks) peer(id uint64) *peerDisk {
	p := d.peers[id]
	if p == nil {
		p = &peerDisk{}
		d.peers[id] = p
	}
	return p
}

// active tells whether a member was heard within an election timeout. raft's own note of it is empty at times.
func (h *health) active(id uint64) bool {
	heard := h.disks.peer(id).heard
	return heard > 0 && h.now < heard+uint64(h.options.ElectionTicks)
}

// stands tells whether a member answers and acknowledges nothing, as far as this leader knows.
func (h *health) stands(id uint64) bool { return h.disks.peer(id).stalled }

// takesOver tells whether a member is there and its disks answer, as far as this leader knows.
func (h *health) takesOver(id uint64) bool { return h.active(id) && !h.stands(id) }

// smoothed takes a measurement into a latency.
func smoothed(before, took time.Duration) time.Duration {
	took = max(took, 1)
	if before == 0 {
		return took
	}
	return before + (took-before)/smoothing
}

// beginProbe measures the entry at index if none is measured.
func (h *health) beginProbe(index uint64) {
	p := &h.disks.probe
	if p.index == 0 && h.leads() && !h.alone {
		clear(p.acked)
		*p = probe{index: index, began: h.options.Clock.Now(), acked: p.acked}
	}
}

// probeStored is told what this member's disk has taken.
func (h *health) probeStored(last uint64) {
	p := &h.disks.probe
	if p.index != 0 && !p.own && last >= p.index {
		p.own = true
		h.disks.own = smoothed(h.disks.own, h.options.Clock.Since(p.began))
	}
}

// heard is told what another member's raft says.
func (h *health) heard(m *raftpb.Message) {
	p, from := &h.disks.probe, m.GetFrom()
	asksVote := m.GetType() == raftpb.MsgPreVote || m.GetType() == raftpb.MsgVote // it leads no more
	if from == h.soft.Lead && !asksVote {
		h.stall.silent = 0
	}
	if !h.leads() {
		return
	}
	h.disks.peer(from).heard = max(h.now, 1)
	if p.index == 0 || m.GetType() != raftpb.MsgAppResp || m.GetReject() || m.GetIndex() < p.index || p.acked[from] {
		return
	}
	if p.acked == nil {
		p.acked = map[uint64]bool{}
	}
	p.acked[from] = true
	peer := h.disks.peer(from)
	peer.took = smoothed(peer.took, h.options.Clock.Since(p.began))
}

// newLeadership says that this member comes to lead, or does not any more.
func (h *health) newLeadership() { h.disks.reset() }

// tickDisks ends a measurement when all have answered, or after an election timeout, and looks who acknowledges nothing
// at all.
func (h *health) tickDisks() {
	if !h.leads() {
		return
	}
	h.tickPeers()
	d := &h.disks
	if d.slow > 0 {
		d.slow++
	}
	if d.probe.index == 0 {
		return
	}
	d.probe.ticks++
	all := d.probe.own
	for _, id := range h.member.Voters() {
		all = all && (id == h.id || d.probe.acked[id])
	}
	if !all && d.probe.ticks < h.options.ElectionTicks {
		return
	}
	h.endProbe()
	h.judge()
}

// endProbe takes those who have not answered for as slow as that.
func (h *health) endProbe() {
	d := &h.disks
	took := h.options.Clock.Since(d.probe.began)
	if !d.probe.own {
		d.own = smoothed(d.own, took)
	}
	for _, id := range h.member.Voters() {
		if id != h.id && !d.probe.acked[id] {
			d.peer(id).took = smoothed(d.peer(id).took, took)
		}
	}
	d.probe.index = 0
}

// judge looks whether this leader's disk is slow, and transfers the leadership when it has been for long.
func (h *health) judge() {
	d := &h.disks
	others := h.quorumLatency()
	factor := time.Duration(slowFactor)
	if d.slow > 0 {
		factor /= 2
	}
	if others == 0 || d.own < h.options.TickInterval || d.own < factor*others {
		d.slow, d.probes = 0, 0
		return
	}
	d.slow, d.probes = max(d.slow, 1), d.probes+1
	if d.slow < slowTimeouts*h.options.ElectionTicks || d.probes < slowProbes || h.transfer.inProgress() ||
		h.transfer.target() == 0 {
		return
	}
	h.logger.Warn("slow leader disk: transferring leadership", slog.Duration("took", d.own),
		slog.Duration("others", others))
	d.slow, d.probes = 0, 0
	h.transfer.beginForDisk()
}

// quorumLatency is how long a majority of the voters takes without this one; 0: it is not known, or there is none.
func (h *health) quorumLatency() time.Duration {
	var took []time.Duration
	for _, id := range h.member.Voters() {
		if p := h.disks.peers[id]; id != h.id && p != nil && p.took > 0 && !p.stalled {
			took = append(took, p.took)
		}
	}
	slices.Sort(took)
	if n := h.member.Quorum(); len(took) >= n {
		return took[n-1]
	}
	return 0
}

// tickPeers looks which members answer, and acknowledge nothing: their disks hang.
func (h *health) tickPeers() {
	last := h.lastIndex()
	h.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == h.id {
			return
		}
		p := h.disks.peer(id)
		if pr.Match >= last || pr.Match != p.match || !h.active(id) || pr.State == tracker.StateSnapshot {
			if p.stalled {
				h.logger.Info("follower acknowledging again", slog.Int64("peer", serverid.Number(id)),
					slog.Uint64("index", pr.Match))
			}
			p.match, p.ticks, p.stalled = pr.Match, 0, false
			return
		}
		if p.ticks++; p.ticks == h.stallTicks()+h.patienceWith(id, pr.Match) {
			p.stalled = true
			h.logger.Warn("follower stalled: not acknowledging", slog.Int64("peer", serverid.Number(id)),
				slog.Uint64("index", pr.Match))
		}
	})
}
