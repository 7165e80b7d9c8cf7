package simulation

import (
	"math/rand/v2"
	"time"
)

// The kinds of what an operator does to the membership.
const (
	Join       Kind = "join"        // a server that is no member is started, and added
	Leave      Kind = "leave"       // a member is removed, and stopped, or not
	ChangeRole Kind = "change role" // of a participant that becomes an observer, or the other way
	Move       Kind = "move"        // a member has its ports elsewhere
	MoveAll    Kind = "move all"    // likewise all, in one reconfig
	Replace    Kind = "replace"     // a member by a server that is none, in one reconfig
)

// memberKinds are those that are drawn, in proportion.
var memberKinds = []Kind{Join, Join, Join, Leave, Leave, ChangeRole, ChangeRole, Move, Move, MoveAll, Replace, Replace}

// How many plans of a hundred have an operator, and servers that start at different times; what is drawn for those.
const (
	memberPercent = 30
	smallPercent  = 75 // of those with fewer than three voters
	startPercent  = 20
	latePercent   = 30 // of them have one that starts after the clients
	startMost     = 5 * time.Second
	lateMost      = 15 * time.Second
	memberGap     = 4 * time.Second
)

// places is in how many places a server has its ports in a plan with an operator.
const places = 3

// drawMembers draws what an operator does, and when servers start for the first time, from numbers of their own: the
// rest of each plan stays as it is.
func drawMembers(p *Plan) {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x6d656d62))} //nolint:gosec // a run must repeat
	small := p.Participants < 3
	if small && r.chance(smallPercent) || !small && r.chance(memberPercent) {
		if p.Spares = 1 + r.IntN(2); small { // it grows, and shrinks back
			p.Participants, p.Spares = 1+r.IntN(2), 2
		}
		all := p.Participants + p.Observers + p.Spares
		for at := r.upTo(memberGap); at < p.Length; at += r.upTo(2 * memberGap) {
			d := Deed{At: at, What: one(r, memberKinds...), Whom: r.IntN(all), For: r.upTo(memberGap),
				Much: r.IntN(1000)}
			if r.chance(30) {
				d.Whom = Leader
			}
			p.Members = append(p.Members, d)
		}
	}
	r = drawer{rand.New(rand.NewPCG(p.Seed, 0x73746172))} //nolint:gosec // a run must repeat
	if !r.chance(startPercent) {
		return
	}
	for range p.Participants + p.Observers {
		p.Starts = append(p.Starts, r.upTo(startMost))
	}
	if p.Participants >= 3 && r.chance(latePercent) {
		p.Starts[r.IntN(len(p.Starts))] = r.between(startMost, lateMost)
	}
}
