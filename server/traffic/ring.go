package traffic

import "time"

// Sizes of a ring: periods of one second for short windows, and of ten for long ones.
const (
	secondsKept  = 10
	longsKept    = 6
	secondsOfOne = 10 // of a long period
)

// WindowMax is the longest window.
const WindowMax = longsKept * secondsOfOne * second

// ring keeps the last periods. What is in it never changes.
type ring struct {
	seconds []*period // the oldest first, at most secondsKept
	longs   []*period // the oldest first, at most longsKept
	fresh   int       // of seconds, those that are in no long one yet
}

// push adds the period of the second that has just passed.
func (g *ring) push(p *period) {
	g.seconds = appendBounded(g.seconds, p, secondsKept)
	if g.fresh++; g.fresh < secondsOfOne {
		return
	}
	g.fresh = 0
	var all joining
	for _, p := range g.seconds {
		all.add(p)
	}
	g.longs = appendBounded(g.longs, all.seal(), longsKept)
}

// appendBounded adds p to a copy of all, without the first if they are too many: others read all.
func appendBounded(all []*period, p *period, most int) []*period {
	first := max(0, len(all)+1-most)
	return append(append(make([]*period, 0, most), all[first:]...), p)
}

// last returns the periods that span at least so much time together, or all.
func (g *ring) last(span time.Duration) (found []*period) {
	took := time.Duration(0)
	take := func(from []*period) {
		for i := len(from) - 1; i >= 0 && took < span; i-- {
			found = append(found, from[i])
			took += from[i].took
		}
	}
	if span <= secondsKept*second {
		take(g.seconds)
		return found
	}
	take(g.seconds[len(g.seconds)-g.fresh:])
	take(g.longs)
	return found
}
