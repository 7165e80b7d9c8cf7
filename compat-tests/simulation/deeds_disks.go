package simulation

import (
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"zkd/server/sim"
)

// The kinds of faults that are drawn from numbers of their own.
const (
	LieDisk     Kind = "lying disk"      // keeps nothing of what it says it has synced, and loses it
	RestoreDisk Kind = "restored disk"   // is what it was some time before
	AgeReads    Kind = "stale reads"     // a server that starts reads what was there before
	StrayWrite  Kind = "stray write"     // goes over another file
	StallOne    Kind = "one stalls"      // operation of a disk
	FailOne     Kind = "one fails"       // operation of a disk
	NarrowLines Kind = "narrow lines"    // carry so many bytes in a second
	SlowOneWay  Kind = "slow in one way" // lines
	Drift       Kind = "drift"           // its date is too fast or too slow
)

// faultKinds are all of them. A new one goes to the end, and leaves what is drawn of the others as it is.
var faultKinds = []Kind{LieDisk, RestoreDisk, AgeReads, StrayWrite, StallOne, FailOne, NarrowLines, SlowOneWay,
	Drift}

// faultPercent is how many plans of a hundred have a fault of each kind.
const faultPercent = 20

// Bounds of what is drawn as a part of a thousand.
const (
	rateLeast = 4 << 10 // bytes in a second
	rateMost  = 1 << 20
	strayMost = 50 // writes before the one that strays
	tripMost  = 3  // operations before the one that stalls or fails
	agedMost  = 20 // reads, of which one is stale
	driftMost = 90 // what a date gains or loses in a hundred seconds: so it stays within skewMost
	driftFor  = 3  // times as long as other deeds
)

// wholeTries is how often is looked, once a second, whether the ensemble can do without a server's disk.
const wholeTries = 6

// writtenWithin bounds the wait for a write that a server had no part in.
const writtenWithin = 10 * time.Second

// drawFaults draws further deeds, from numbers of their own: the other deeds of each plan stay as they are.
func (p *Plan) drawFaults() {
	for i, kind := range faultKinds {
		r := drawer{rand.New(rand.NewPCG(p.Seed, 0x6661756c74+uint64(i)))} //nolint:gosec // a run must repeat
		if !r.chance(faultPercent) {
			continue
		}
		d := r.deed(p, []Kind{kind}, r.upTo(p.Length/2))
		at := sort.Search(len(p.Deeds), func(i int) bool { return p.Deeds[i].At > d.At })
		p.Deeds = slices.Insert(p.Deeds, at, d)
	}
}

// trips are the operations that stall or fail, of those that there are.
var trips = []sim.Trip{
	{Op: sim.Write, Of: sim.Log}, {Op: sim.Sync, Of: sim.Log}, {Op: sim.Create, Of: sim.Log},
	{Op: sim.Remove, Of: sim.Log}, {Op: sim.Write, Of: sim.Table}, {Op: sim.Sync, Of: sim.Table},
	{Op: sim.Create, Of: sim.Table}, {Op: sim.Remove, Of: sim.Table}, {Op: sim.Write, Of: sim.Manifest},
	{Op: sim.Sync, Of: sim.Manifest}, {Op: sim.Create, Of: sim.Manifest}, {Op: sim.Create, Of: sim.Marker},
	{Op: sim.Sync, Of: sim.Marker}, {Op: sim.Remove, Of: sim.Marker}, {Op: sim.Write, Of: sim.Mark},
	{Op: sim.Sync, Of: sim.Mark}, {Op: sim.Sync, Of: sim.Directory},
}

// doFault does a deed of these kinds, and plans its end.
func (g *play) doFault(d *Deed, i int) {
	s := g.w.Servers[i]
	switch d.What {
	case LieDisk, RestoreDisk, AgeReads:
		g.whenWhole(d, wholeTries, func() { g.loseAcknowledged(d, i) })
	case StrayWrite:
		g.whenWhole(d, wholeTries, func() { g.stray(d, i) })
	case StallOne, FailOne:
		if g.rotten { // it may wait for an operation, too
			g.leftOut(d, "a disk waits for an operation, or is to be replaced")
			return
		}
		t := trips[d.Much%len(trips)]
		t.After, t.Stalls = d.Much/len(trips)%tripMost, d.What == StallOne
		g.harmed[i] = time.Now().Add(d.For + stopsWithin)
		s.TripDisk(t)
		g.after(d.For, func() {
			if !s.HasCome() {
				g.leftOut(d, "there was no such operation")
			}
			s.MendDisk()
		})
	case NarrowLines, SlowOneWay:
		g.narrow(d, i)
	case Drift:
		s.Drift(float64(2*driftMost*d.Much-1000*driftMost) / 1e5)
		g.after(driftFor*d.For, func() { s.Skew(0) })
	}
}

// whenWhole does a deed when the ensemble can do without a server's disk, which is looked at several times.
func (g *play) whenWhole(d *Deed, tries int, do func()) {
	why := ""
	if g.plan.small() {
		why = "the others can write nothing without it"
	} else {
		why = g.needed()
	}
	switch {
	case why == "":
		g.rotten = true
		do()
	case tries == 1:
		g.leftOut(d, why)
	default:
		g.after(againAfter, func() { g.whenWhole(d, tries-1, do) })
	}
}

// narrow bounds what lines carry, or has those in one direction be late.
func (g *play) narrow(d *Deed, i int) {
	own := g.w.Servers[i].Host()
	for j, server := range g.w.Servers {
		if j == i {
			continue
		}
		host := server.Host()
		switch {
		case d.What == NarrowLines:
			rate := rateLeast + (rateMost-rateLeast)*d.Much*d.Much/1e6
			g.w.Network.Slow(own, host, 0, rate)
			g.w.Network.Slow(host, own, 0, rate)
		case d.Much%2 == 0:
			g.w.Network.Slow(own, host, laterMost*time.Duration(d.Much)/1000, 0)
		default:
			g.w.Network.Slow(host, own, laterMost*time.Duration(d.Much)/1000, 0)
		}
		g.after(d.For, func() { g.heal(own, host) })
	}
}

// loseAcknowledged has a server come back on a disk that lacks some of what it has acknowledged, or that says so.
//
// No server can know of itself that all of its disk is older, and one that is elected by such a one and by another that
// lags behind lacks what was acknowledged: so the others have a write without it before it comes back.
func (g *play) loseAcknowledged(d *Deed, i int) {
	s := g.w.Servers[i]
	copied := s.CopyDisk()
	if d.What == LieDisk {
		s.LieDisk()
	}
	all := d.Much%2 == 0
	g.after(d.For, func() {
		if d.What == LieDisk {
			s.PowerOff()
		}
		if !g.writtenWithout(s) {
			g.leftOut(d, "the others have no write without it")
			if d.What == LieDisk {
				s.KeepLies()
			}
			g.rotten = false
			s.Start()
			return
		}
		switch {
		case d.What == LieDisk:
			s.LoseLies(all)
		case d.What == RestoreDisk:
			s.RestoreDisk(copied)
		default:
			s.AgeReads(copied, 1+d.Much%agedMost)
		}
		if d.What == RestoreDisk || d.What == LieDisk && all { // each file is as it was at one moment
			g.rotten = false
			s.Start()
			return
		}
		g.harmed[i] = time.Now().Add(time.Hour)
		s.Start()
		g.after(d.For, func() { g.replaceDisk(i) })
	})
}

// stray has a disk misdirect a write, and then the server start anew.
func (g *play) stray(d *Deed, i int) {
	last := d.Much%4 > 1
	if last && i == g.leader() { // the next leader would not know what it has acknowledged
		i = (i + 1) % len(g.w.Servers)
	}
	g.harmed[i] = time.Now().Add(time.Hour)
	g.w.Servers[i].MisdirectWrite(d.Much%strayMost, d.Much%4 == 0, last)
	g.after(d.For, func() { g.reopen(d, i) })
}

// dataLost is what a server logs that lacks what it has acknowledged, and has not noticed when it started.
const dataLost = "data lost: leader has acknowledgments beyond this log"

// reopen starts a server anew whose disk has misdirected a write. It must notice then if its log lacks what it has
// acknowledged: one write is not both of what is in the log, and of the mark beside it.
func (g *play) reopen(d *Deed, i int) {
	s := g.w.Servers[i]
	if !s.HasCome() {
		g.leftOut(d, "there was no such write")
		s.MendDisk()
		g.rotten, g.harmed[i] = false, time.Now().Add(stopsWithin) // it may have failed meanwhile: another deed
		return
	}
	before := s.Logged(dataLost)
	s.Kill()
	s.MendDisk()
	s.Start()
	g.after(d.For, func() {
		if s.Logged(dataLost) > before {
			g.violated("server %d has started with less than it has acknowledged", s.ID)
		}
		g.replaceDisk(i)
	})
}

// writtenWithout keeps a server down until the others have had a write acknowledged without it, and reports whether
// they have.
func (g *play) writtenWithout(s *sim.Server) bool {
	began := g.now()
	for end := time.Now().Add(writtenWithin); time.Now().Before(end); {
		if s.Up() {
			s.Kill()
			began = g.now()
		}
		for _, c := range g.clients {
			if c.LastAck.Load() > began {
				return true
			}
		}
		g.sleepUntil(time.Now().Add(againAfter / 10))
	}
	s.Kill()
	return false
}

// mayEnd tells whether a server may end by itself: its disk has failed, hangs, rots or is full.
func (g *play) mayEnd(i int) bool {
	return time.Now().Before(g.harmed[i]) || time.Now().Before(g.filled[i])
}

// mayNotStop tells whether a server that was told to stop may wait for its disk as long as that hangs: it has not
// started yet, or is of the version before.
func (g *play) mayNotStop(i int) bool {
	s := g.w.Servers[i]
	return g.mayEnd(i) && (s.Older() || s.LastLogged("server started") == "")
}
