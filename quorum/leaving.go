package quorum

import (
	"log/slog"

	"zkd/storage/ensemble"
)

// A server that a reconfig takes out of the configuration has clients, who learn of that from it and move when they
// like. So it stays a member without a vote for Options.RemovedGrace, if it can be reached: raft sends it what is
// committed, and the leader takes what it forwards. In nothing that is decided, counted or agreed on does it count, as
// an observer does not. Then the leader removes it, and so it does when it has not heard of it for a while
// (docs/decisions/0039).

// leavingAwayTimeouts is how many election timeouts a member that leaves may be silent before it is removed: it was
// stopped, most likely, and the log need not be kept for it. A guess: one that starts again at once is back by then.
const leavingAwayTimeouts = 5

// leaving is the loop's part that knows which members are not in the configuration any more. All members follow that,
// so that another leader counts on from where the one before has got to.
type leaving struct {
	*facts
	heard func(id uint64) (tick uint64) // when raft last had a message of a member; 0: never

	text   string          // of the configuration that is read
	config ensemble.Config // what it says
	since  map[uint64]uint64
	termAt uint64 // the tick at which the term has begun
}

// configuration returns the configuration in the state; false: there is none that can be read.
func (d *leaving) configuration() (*ensemble.Config, bool) {
	if text := d.options.Machine.EnsembleConfig(); text != d.text {
		c, err := ensemble.Parse(text)
		if err != nil {
			d.logger.Debug("cannot parse the membership", slog.Any("err", err)) // the streams tell of it
		}
		d.text, d.config = text, c
	}
	return &d.config, d.config.Voters() > 0
}

// leaves tells whether a member is not in the configuration any more.
func (d *leaving) leaves(id uint64) bool {
	c, ok := d.configuration()
	if !ok || !d.member.Has(id) {
		return false
	}
	_, stays := c.Server(id)
	return !stays
}

// newTerm says that another term has begun.
func (d *leaving) newTerm() { d.termAt = d.now }

// tick notes who leaves, and who does not any more.
func (d *leaving) tick() {
	if d.since == nil {
		d.since = map[uint64]uint64{}
	}
	for id := range d.since { // order: each for itself
		if !d.leaves(id) {
			delete(d.since, id)
		}
	}
	for _, id := range d.member.IDs() {
		if _, known := d.since[id]; !known && d.leaves(id) {
			d.since[id] = d.now
		}
	}
}

// keeps tells whether the leader keeps a member that is not in the configuration, or is not to be in the next: one that
// leaves only now if it can be reached, and each for so long and no longer.
func (d *leaving) keeps(id uint64) bool {
	grace := uint64(d.options.RemovedGrace / d.options.TickInterval)
	since, known := d.since[id]
	away := uint64(d.options.ElectionTicks)
	if known {
		away *= leavingAwayTimeouts
	} else {
		since = d.now
	}
	silent := d.now - max(d.heard(id), d.termAt)
	return d.now-since < grace && (id == d.id || silent <= away)
}
