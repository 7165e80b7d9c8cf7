package main

import (
	"context"
	"slices"
	"time"

	"zkd/quorum/clock"
	"zkd/server/traffic/report"
)

// followEvery is how often zkd top asks who belongs to the ensemble: that is a session, so a write. A guess.
const followEvery = 10 * time.Second

// followedMembers are the servers of an ensemble, which may become others. Used by one goroutine.
type followedMembers struct {
	status *statusFlags
	target func(place) report.Target // of a server
	seeds  []place                   // that the operator has named
	now    []place                   // who was found last
	asked  time.Time                 // when that was
	asking bool
	found  chan []place // of size 1: what was found beside the reports; nil if nobody has answered
}

// take has other servers be the members, and returns how they are asked.
func (m *followedMembers) take(places []place) (targets []report.Target) {
	m.now = places
	for _, p := range places {
		targets = append(targets, m.target(p))
	}
	return targets
}

// follow returns how other members are asked, if there are any. It waits for nobody: who belongs to the ensemble is
// asked beside the reports, and known to the next one. While nobody says it, all stay.
func (m *followedMembers) follow(ctx context.Context) (targets []report.Target, changed bool) {
	if m.target == nil {
		return nil, false
	}
	select {
	case places := <-m.found:
		m.asking = false
		if places != nil && !slices.EqualFunc(places, m.now, func(a, b place) bool { return a.address == b.address }) {
			targets, changed = m.take(places), true
		}
	default:
	}
	if !m.asking && clock.Real().Since(m.asked) >= followEvery {
		m.asking, m.asked = true, clock.Real().Now()
		go m.ask(ctx, m.from()) // it ends with ctx, or when the servers have had their time
	}
	return targets, changed
}

// from is who is asked: the members, as one of them knows the others, then who was named, where all of them have gone.
func (m *followedMembers) from() []place {
	from := slices.DeleteFunc(slices.Clone(m.now), func(p place) bool { return p.unknown || p.stranger })
	return withSeeds(from, m.seeds)
}

// ask asks who belongs to the ensemble.
func (m *followedMembers) ask(ctx context.Context, from []place) {
	places, ok := m.status.named(ctx, from)
	if !ok {
		places = nil
	}
	m.found <- places
}
