package simulation

import (
	"slices"
	"time"

	"zkd/server/sim/network"
)

// Bounds of what is drawn as a part of a thousand.
const (
	skewMost  = 20 * time.Second
	laterMost = 400 * time.Millisecond
	syncMost  = 500 * time.Millisecond
	lullMost  = 2 * time.Second
)

// What there is in a storm: lullLeast is the least, about, that a server has between two crashes, stormSync the most
// that a sync takes.
const (
	lullLeast = 100 * time.Millisecond
	stormSync = 100 * time.Millisecond
)

// do does a deed, and plans its end.
func (g *play) do(d *Deed) {
	i := g.whom(d.Whom)
	g.w.Story.Tell("", "-- %v (s%d)", d, g.w.Servers[i].Number)
	g.done[d.What]++
	g.meet(d, i)
	s := g.w.Servers[i]
	part := func(of time.Duration) time.Duration { return of * time.Duration(d.Much) / 1000 }
	switch d.What {
	case Kill:
		s.Kill()
		g.after(d.For, s.Start)
	case Power:
		s.PowerOff()
		g.after(d.For, s.Start)
	case KillAll, PowerAll:
		for _, s := range g.w.Servers {
			if d.What == KillAll {
				s.Kill()
			} else {
				s.PowerOff()
			}
			g.after(d.For/2+time.Duration(g.random.Int64N(int64(d.For/2)+1)), s.Start)
		}
	case Stop:
		g.stopServer(i)
		g.after(d.For, s.Start)
	case Isolate, Silence, Deafen, Mute, SlowLines, CutLine, Reset:
		g.lines(d, i, part(laterMost))
	case SlowDisk:
		s.SlowDisk(part(syncMost))
		g.after(d.For, s.MendDisk)
	case HangDisk, FailDisk:
		g.harmed[i] = time.Now().Add(d.For + stopsWithin)
		if d.What == HangDisk {
			s.HangDisk()
		} else {
			s.FailDisk()
		}
		g.after(d.For, s.MendDisk)
	case FillDisk:
		g.fillDisk(d, i)
	case LoseDisk, RotDisk:
		g.loseDisk(d, i)
	case Pause:
		s.Pause()
		g.after(d.For, s.Resume)
	case Skew:
		s.Skew(part(2*skewMost) - skewMost)
		g.after(d.For, func() { s.Skew(0) })
	case Storm:
		g.storm(d)
	case Upgrade, GoBack:
		g.roll(d, i)
	default:
		g.doFault(d, i)
	}
}

// leftOut says that a deed was not done.
func (g *play) leftOut(d *Deed, why string) {
	g.w.Story.Tell("", "-- not done: %s", why)
	g.done[d.What]--
}

// storm has all servers crash again and again, on slow disks: so some crash while others begin, and some while they
// vote or put a snapshot in its place.
func (g *play) storm(d *Deed) {
	gap := lullLeast + (lullMost-lullLeast)*time.Duration(d.Much)/1000
	for _, s := range g.w.Servers {
		s.SlowDisk(g.upTo(stormSync))
		g.after(d.For, s.MendDisk)
		for at := g.upTo(gap); at < d.For; at += lullLeast/2 + g.upTo(gap) {
			crash := s.Kill
			if g.random.IntN(2) == 0 {
				crash = s.PowerOff
			}
			g.after(at, crash)
			g.after(at+g.upTo(lullLeast), s.Start)
		}
	}
}

// upTo draws a duration below d.
func (g *play) upTo(d time.Duration) time.Duration { return time.Duration(g.random.Int64N(int64(d))) }

// stopServer stops a server cleanly, and lets time pass until it has.
func (g *play) stopServer(i int) {
	s := g.w.Servers[i]
	g.stopping = s
	defer func() { g.stopping = nil }()
	s.AskToStop()
	life := s.Lives() // another deed may start it again, which asks nobody to stop
	for end := time.Now().Add(stopsWithin); s.Lives() == life && !s.Stopped(); {
		if time.Now().After(end) {
			if !g.mayNotStop(i) {
				g.violated("server %d does not stop", s.ID)
			}
			s.Kill()
			return
		}
		g.sleepUntil(time.Now().Add(10 * time.Millisecond))
	}
}

// lines harms what is between a server and others.
func (g *play) lines(d *Deed, i int, extra time.Duration) {
	own := g.w.Servers[i].Host()
	for j, other := range g.w.Servers {
		if j == i || d.What == CutLine && j != d.Other {
			continue
		}
		host := other.Host()
		switch d.What {
		case Isolate, CutLine:
			g.w.Network.Cut(own, host)
			g.w.Network.Cut(host, own)
		case Silence:
			g.w.Network.Cut(own, host)
		case Deafen:
			g.w.Network.Cut(host, own)
		case Mute:
			g.w.Network.Mute(own, host)
			g.w.Network.Mute(host, own)
		case SlowLines:
			g.w.Network.Slow(own, host, extra, 0)
			g.w.Network.Slow(host, own, extra, 0)
		case Reset:
			g.w.Network.Reset(own, host)
		}
		g.after(d.For, func() { g.heal(own, host) })
	}
}

// heal mends what is between two hosts.
func (g *play) heal(a, b *network.Host) {
	g.w.Network.Heal(a, b)
	g.w.Network.Heal(b, a)
}

// fillDisk fills a disk. A server whose disk is full may end.
func (g *play) fillDisk(d *Deed, i int) {
	if g.plan.DiskBytes == 0 {
		return
	}
	s := g.w.Servers[i]
	g.filled[i] = time.Now().Add(d.For + stopsWithin) // whatever becomes of the disk: an empty one has no reserve then
	s.FillDisk(int64(d.Much) << 10)
	if d.Much%2 == 0 { // it takes what the server has given back, too
		g.after(d.For/2, func() { s.FillDisk(int64(d.Much)) })
	}
	g.after(d.For, s.FreeDisk)
}

// loseDisk takes a server's disk, or has it rot and takes it later, if the others can do without it.
func (g *play) loseDisk(d *Deed, i int) {
	if member, _ := g.belongs(i); !member && g.plan.small() {
		g.leftOut(d, "it was removed, and without its data would found an ensemble alone, as its file says")
		return
	}
	if why := g.needed(); why != "" {
		g.leftOut(d, why)
		return
	}
	s := g.w.Servers[i]
	s.Kill()
	if d.What == LoseDisk {
		s.LoseDisk()
		g.after(d.For, s.Start)
		return
	}
	s.RotDisk()
	s.Start()
	g.rotten, g.harmed[i] = true, time.Now().Add(time.Hour) // until it is replaced
	g.after(d.For, func() { g.replaceDisk(i) })
}

// needed says why no disk may be lost now, "" if one may: all other servers have theirs, and the ensemble knows them. A
// majority has to keep what was acknowledged, and who was emptied before and is not admitted yet keeps nothing.
func (g *play) needed() string {
	switch {
	case g.plan.small() && g.operator == nil:
		return "there are too few servers"
	case slices.Contains(g.plan.Settings, idleLeader):
		return "one that has no vote yet looks like the leader, which serves nobody either"
	case g.rotten:
		return "another server has a disk that rots"
	case g.operator != nil:
		return g.operator.wound()
	case !g.whole():
		return notWhole
	}
	return ""
}

// notWhole is why no disk may be lost while not all are whole.
const notWhole = "another server does not serve, or has no vote"

// replaceDisk puts an empty disk in the place of a server's that was harmed.
func (g *play) replaceDisk(i int) {
	s := g.w.Servers[i]
	s.Kill()
	s.LoseDisk()
	s.MendDisk()
	s.Start()
	g.rotten, g.harmed[i] = false, time.Now()
}

// firstStarts starts the servers, each at its time, and returns when the clients may begin: who is later than that is
// started by and by.
func (g *play) firstStarts() {
	var begin time.Duration
	for i, s := range g.w.Servers {
		if i == g.plan.absent() {
			s.Leave()
			g.done[Absent]++
		}
		if i >= len(g.plan.Starts) || s.Away() {
			s.Start()
			continue
		}
		g.after(g.plan.Starts[i], s.Start)
		if g.plan.Starts[i] < startMost {
			begin = max(begin, g.plan.Starts[i])
		}
	}
	if begin > 0 {
		g.sleepUntil(time.Now().Add(begin))
	}
}

// whom is whom a deed befalls. One that is no member of late does not bear anything: another one that is takes its
// place.
func (g *play) whom(i int) int {
	if i == Leader {
		i = g.leader()
	}
	for n := range g.w.Servers {
		if j := (i + n) % len(g.w.Servers); !g.w.Servers[j].Away() {
			return j
		}
	}
	return i
}

// missing is the server that is absent now, -1 if none is.
func (g *play) missing() int {
	if i := g.plan.absent(); i >= 0 && g.w.Servers[i].Away() {
		return i
	}
	return -1
}

// belongs tells whether a server is a member, and whether it has a vote; as far as the operator was told.
func (g *play) belongs(i int) (member, votes bool) {
	if g.operator == nil {
		return true, i < g.plan.Participants
	}
	s, ok := g.operator.seatOf(g.w.Servers[i].ID)
	return ok, ok && !s.observer
}
