package quorum

import (
	"slices"

	"zkd/storage/ensemble"
)

// A reconfig is committed with the entry that holds it. Its roles are in force later: with the end of a joint
// membership, and if those who come cannot decide yet, when they have caught up. Who has asked is answered then, as in
// ZooKeeper, where a quorum of the new configuration has taken the reconfig before it is committed.

// inForce is the loop's part that tells when the configuration is in force on this member.
type inForce struct {
	*facts
	leaving *leaving
	waiting []inForceRequest
}

// inForceRequest asks to be told when a configuration, or a later one, is in force.
type inForceRequest struct {
	version int64
	told    func(error)
}

// tell tells those whose configuration is in force.
func (f *inForce) tell() {
	if len(f.waiting) == 0 {
		return
	}
	c, ok := f.leaving.configuration()
	reached := f.removed || !ok || f.reached(c)
	f.waiting = slices.DeleteFunc(f.waiting, func(r inForceRequest) bool {
		done := reached && (f.removed || !ok || c.Version >= r.version)
		if done {
			r.told(nil)
		}
		return done
	})
}

// reached tells whether the membership is what the configuration says, but for who has yet to get a vote.
func (f *inForce) reached(c *ensemble.Config) bool {
	if len(f.member.Conf.GetVotersOutgoing()) > 0 || f.leads() && !f.member.Votes(f.id) {
		return false
	}
	for _, id := range f.member.Voters() {
		if s, stays := c.Server(id); !stays || s.Observer {
			return false
		}
	}
	for i := range c.Servers {
		if _, returns := f.member.Returning[c.Servers[i].ID]; !returns && !f.member.Has(c.Servers[i].ID) {
			return false
		}
	}
	return true
}

// end tells all who wait that nothing will be known.
func (f *inForce) end(cause error) {
	for _, r := range f.waiting {
		r.told(cause)
	}
	f.waiting = nil
}
