package sim

import (
	"slices"
	"time"
)

// fault is one kind of fault, and how often it happens against others.
type fault struct {
	kind   drawn
	weight int
	do     func(*world)
}

// allFaults are the kinds of faults.
func allFaults() []fault {
	return []fault{
		{drawnCrash, 10, (*world).crashOne},
		{drawnCrashSeveral, 4, (*world).crashSeveral},
		{drawnCrashAll, 3, (*world).crashAll},
		{drawnPartition, 6, (*world).partition},
		{drawnOneWay, 6, (*world).oneWay},
		{drawnIsolatedLeader, 5, (*world).isolateLeader},
		{drawnBrokenConnection, 10, (*world).breakConnection},
		{drawnSlowDisk, 5, (*world).slowDisk},
		{drawnSlowApply, 5, (*world).slowApply},
		{drawnHungLog, 6, (*world).hangLog},
		{drawnHungState, 4, (*world).hangState},
		{drawnPause, 6, (*world).pause},
		{drawnClockJump, 3, (*world).jumpClock},
		{drawnSnapshotsCutOff, 4, (*world).cutOffSnapshots},
		{drawnSnapshotsRefused, 8, (*world).refuseSnapshots},
		{drawnMovedLeader, 4, (*world).moveLeader},
		{drawnReconfig, 14, (*world).changeMembers},
		{drawnLostDisk, 5, (*world).wipe},
	}
}

// drawFaults draws which faults a run has: all, or some of them. Where members change without a configuration, nobody
// can tell who must not lose a disk.
func (w *world) drawFaults(p *profile) []fault {
	all := slices.DeleteFunc(allFaults(), func(f fault) bool {
		return p.reserves > 0 && !p.reconfigs && f.kind == drawnLostDisk ||
			p.reserves == 0 && !p.reconfigs && f.kind == drawnReconfig
	})
	if w.cfg.Plant == PlantKeptIncarnation { // it takes one that is behind and one that forgets, and nobody else
		p.faultGap /= 4
		return slices.DeleteFunc(all, func(f fault) bool {
			return !slices.Contains([]drawn{drawnLostDisk, drawnCrash, drawnCrashSeveral, drawnIsolatedLeader}, f.kind)
		})
	}
	if p.reconfigs && w.chance(15) || p.votersMin == 1 && w.chance(50) { // members come, go and forget, one by one
		p.faultGap /= 4
		return slices.DeleteFunc(all, func(f fault) bool {
			return !slices.Contains([]drawn{drawnReconfig, drawnLostDisk, drawnCrash, drawnMovedLeader}, f.kind)
		})
	}
	if w.chance(40) || p.votersMin == 1 {
		return all
	}
	keep := 1 + w.rng.IntN(4)
	for len(all) > keep {
		i := w.rng.IntN(len(all))
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// plague has faults happen until the healing.
func (w *world) plague() {
	w.after(w.between(w.profile.faultGap/4, 2*w.profile.faultGap), func() {
		if w.healing {
			return
		}
		sum := 0
		for i := range w.profile.faults {
			sum += w.profile.faults[i].weight
		}
		n := w.rng.IntN(sum)
		for i := range w.profile.faults {
			if n -= w.profile.faults[i].weight; n < 0 {
				w.trace.note(w.now, "fault", uint64(i))
				w.trace.textf(w.now, "FAULT: %v", w.profile.faults[i].kind)
				w.profile.faults[i].do(w)
				break
			}
		}
		w.plague()
	})
}

// later does something unless the faults have stopped by then.
func (w *world) later(d time.Duration, do func()) {
	w.after(d, func() {
		if !w.healing {
			do()
		}
	})
}

// upMembers are the members that are up.
func (w *world) upMembers() []*member {
	var up []*member
	for _, m := range w.members {
		if m.up {
			up = append(up, m)
		}
	}
	return up
}

// leader is a member that takes itself for the leader, or nil.
func (w *world) leader() *member {
	for _, m := range w.members {
		if m.up && m.state.Leader == m.id {
			return m
		}
	}
	return nil
}

// drawCut draws what a crash does to a disk.
func (w *world) drawCut() powerCut {
	switch n := w.rng.IntN(10); {
	case n < 4:
		return noCut
	case n < 6 || w.cfg.Whole:
		return cleanCut
	default:
		return tornCut
	}
}

// crashOne crashes a member, often the leader, and starts it again after a while.
func (w *world) crashOne() {
	up := w.upMembers()
	if len(up) == 0 {
		return
	}
	m := draw(w, up)
	if leader := w.leader(); leader != nil && w.chance(40) {
		m = leader
	}
	w.count(drawnCrash)
	m.crash(w.drawCut())
	w.later(w.between(10*time.Millisecond, 2*time.Second), m.start)
}

// crashSeveral crashes about half of the members at once.
func (w *world) crashSeveral() {
	for _, m := range w.upMembers() {
		if w.chance(50) {
			w.count(drawnCrashSeveral)
			m.crash(w.drawCut())
			w.later(w.between(10*time.Millisecond, 2*time.Second), m.start)
		}
	}
}

// crashAll cuts the power of all members.
func (w *world) crashAll() {
	w.count(drawnCrashAll)
	pause := w.upTo(500 * time.Millisecond)
	for _, m := range w.upMembers() {
		m.crash(max(w.drawCut(), cleanCut))
		w.later(pause+w.upTo(500*time.Millisecond), m.start)
	}
}

// block stops all frames between two sets of members, for a while, in one direction or both.
func (w *world) block(from, to func(*member) bool, both bool) {
	var blocked [][2]uint64
	for _, a := range w.members {
		for _, b := range w.members {
			if a != b && from(a) && to(b) {
				blocked = append(blocked, [2]uint64{a.id, b.id})
				if both {
					blocked = append(blocked, [2]uint64{b.id, a.id})
				}
			}
		}
	}
	for _, l := range blocked {
		w.net.block(l[0], l[1], true)
	}
	w.later(w.between(100*time.Millisecond, 2*time.Second), func() {
		for _, l := range blocked {
			w.net.block(l[0], l[1], false)
		}
	})
}

// partition parts the members in two.
func (w *world) partition() {
	w.count(drawnPartition)
	side := make(map[*member]bool, len(w.members)) // never iterated
	for _, m := range w.members {
		side[m] = w.chance(50)
	}
	w.block(func(m *member) bool { return side[m] }, func(m *member) bool { return !side[m] }, true)
}

// oneWay keeps the frames of one member from one or all others, or those of others from it.
func (w *world) oneWay() {
	m, other := draw(w, w.members), draw(w, w.members)
	all := w.chance(50)
	this := func(o *member) bool { return o == m }
	that := func(o *member) bool { return o != m && (all || o == other) }
	if w.chance(50) {
		this, that = that, this
	}
	w.count(drawnOneWay)
	w.block(this, that, false)
}

// isolateLeader cuts the leader off from all others.
func (w *world) isolateLeader() {
	if m := w.leader(); m != nil {
		w.count(drawnIsolatedLeader)
		w.block(func(o *member) bool { return o == m }, func(o *member) bool { return o != m }, w.chance(60))
	}
}

// breakConnection breaks one connection; it comes up again soon.
func (w *world) breakConnection() {
	w.count(drawnBrokenConnection)
	w.net.cut(draw(w, w.net.pairs), 10*time.Millisecond)
}

// slowDisk makes a member's disk slow for a while.
func (w *world) slowDisk() {
	w.count(drawnSlowDisk)
	m := draw(w, w.members)
	m.slowDisk = w.between(10*time.Millisecond, 400*time.Millisecond)
	w.later(w.upTo(2*time.Second), func() { m.slowDisk = 0 })
}

// slowApply makes a member apply slowly for a while.
func (w *world) slowApply() {
	w.count(drawnSlowApply)
	m := draw(w, w.members)
	m.slowApply = w.between(10*time.Millisecond, 300*time.Millisecond)
	w.later(w.upTo(2*time.Second), func() { m.slowApply = 0 })
}

// hangLog has the disk of a member's log hang for a while, or until the faults stop: of the leader, or of any. Of all
// the voters fewer than half hang at once.
func (w *world) hangLog() {
	if m := w.drawHanging(); m != nil {
		w.count(drawnHungLog)
		m.hangsLog = true
		w.thawLater(func() { m.hangsLog = false })
	}
}

// hangState has the disk of a member's state hang: nothing is applied.
func (w *world) hangState() {
	if m := w.drawHanging(); m != nil {
		w.count(drawnHungState)
		m.hangsState = true
		w.thawLater(func() { m.hangsState = false })
	}
}

// drawHanging draws whose disk is to hang, nil if too many do.
func (w *world) drawHanging() *member {
	up, hanging := w.upMembers(), 1
	for _, m := range w.members {
		if m.hangsLog || m.hangsState {
			hanging++
		}
	}
	if len(up) == 0 || 2*hanging >= max(len(w.group.voters), 3) {
		return nil
	}
	if leader := w.leader(); leader != nil && w.chance(60) {
		return leader
	}
	return draw(w, up)
}

// thawLater has a disk answer again.
func (w *world) thawLater(thaw func()) {
	if w.chance(70) {
		w.later(w.between(50*time.Millisecond, 4*time.Second), thaw)
	}
}

// pause stops a member for a while, as a collector of garbage, or a stopped process, does.
func (w *world) pause() {
	m := draw(w, w.members)
	if m.pausedUntil <= w.now { // a pause that grew would change the order of what waits for its end
		w.count(drawnPause)
		m.pausedUntil = w.now + w.between(20*time.Millisecond, 1500*time.Millisecond)
	}
}

// jumpClock makes the clock by which a member dates its proposals jump.
func (w *world) jumpClock() {
	w.count(drawnClockJump)
	draw(w, w.members).skew = w.upTo(40*time.Second) - 20*time.Second
}

// cutOffSnapshots has checkpoints for a member break off for a while.
func (w *world) cutOffSnapshots() {
	m := draw(w, w.members)
	w.count(drawnSnapshotsCutOff)
	m.transferBytes = w.rng.IntN(8 << 10)
	w.later(w.upTo(2*time.Second), func() { m.transferBytes = -1 })
}

// refuseSnapshots has a member take no checkpoint for long, as one without room does, often when it has been away.
func (w *world) refuseSnapshots() {
	m := draw(w, w.members)
	w.count(drawnSnapshotsRefused)
	m.refusing = true
	if w.chance(80) {
		m.crash(w.drawCut())
		w.later(w.between(500*time.Millisecond, 2*time.Second), m.start)
	}
	w.later(w.between(time.Second, 8*time.Second), func() { m.refusing = false })
}

// heal ends all faults, for good.
func (w *world) heal() {
	w.healing = true
	w.trace.note(w.now, "heal")
	w.trace.textf(w.now, "HEALING")
	for _, a := range w.members {
		a.slowDisk, a.slowApply, a.transferBytes, a.refusing = 0, 0, -1, false
		a.hangsLog, a.hangsState = false, false
		for _, b := range w.members {
			if a != b && (w.cfg.Plant != PlantNoHeal || a.id != 1) {
				w.net.block(a.id, b.id, false)
			} else if a != b {
				w.net.block(a.id, b.id, true)
			}
		}
	}
	for _, m := range w.members {
		if !m.up && m.everUp {
			w.after(w.upTo(100*time.Millisecond), m.start)
		}
	}
}

// healed tells whether the ensemble is well again: one leader, all members as far as it is, and every client has
// written and read since.
func (w *world) healed() bool {
	for _, c := range w.clients {
		if c.last != wishGranted {
			return false
		}
	}
	return w.whyNotHealed() == ""
}
