package faults

import "time"

// Bounds on what servers may do late. expirySlack is what a session may take to go beyond its time-out: a new leader
// gives each its full time-out anew, after an election; the faults of a round follow each other within it.
const (
	expirySlack = 60 * time.Second
	toldSlack   = 15 * time.Second // between the word that a session is gone and the end of its ephemerals
)

// CheckEphemerals holds what was seen of ephemeral znodes against the lives of their sessions: there from the
// acknowledged create for as long as the session shows that it lives, gone from the acknowledged close on, and not
// expired before its time-out. tick is how much earlier a server may have heard of a session than it was asked.
func CheckEphemerals(
	ephemerals map[string]*Ephemeral, sightings []Sighting, tick time.Duration, violated func(string, ...any),
) {
	for _, s := range sightings {
		e := ephemerals[s.Path]
		switch {
		case e == nil:
		case s.Present && s.Owner != e.Session:
			violated("%s belongs to session %#x on %s, its creator is %#x", s.Path, s.Owner, s.Addr, e.Session)
		case !s.Present && e.Created != 0 && s.Call > e.Created && e.Acked > s.Ret:
			violated("%s was gone on %s at %.6f, its session %#x wrote at %.6f",
				s.Path, s.Addr, float64(s.Ret)/1e9, e.Session, float64(e.Acked)/1e9)
		case s.Present && e.Closed != 0 && s.Call > e.Closed:
			violated("%s was there on %s at %.6f, its session %#x was closed at %.6f",
				s.Path, s.Addr, float64(s.Call)/1e9, e.Session, float64(e.Closed)/1e9)
		case s.Present && e.Expired != 0 && s.Call > e.Expired+int64(toldSlack):
			violated("%s was there on %s at %.6f, its session %#x had expired by %.6f",
				s.Path, s.Addr, float64(s.Call)/1e9, e.Session, float64(e.Expired)/1e9)
		case s.Present && e.Ending != 0 && s.Call > e.Ending+e.Timeout+int64(expirySlack):
			violated("%s was there on %s at %.6f, its session %#x was left at %.6f",
				s.Path, s.Addr, float64(s.Call)/1e9, e.Session, float64(e.Ending)/1e9)
		}
	}
	for _, e := range ephemerals { // a check of each, so the order does not matter
		if e.Expired != 0 && e.Ending == 0 {
			l := Life{Session: e.Session, Timeout: e.Timeout, Acked: e.Acked, Expired: e.Expired}
			CheckLives([]Life{l}, tick, violated)
		}
	}
}
