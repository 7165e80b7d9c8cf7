package quorum

import (
	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
)

// clocks is the loop's part that asks the other members for the time of day, and gives the writes theirs. Its fields
// never change, and what they hold has locks of its own: receive and next may be called by any goroutine.
type clocks struct {
	*facts
	transport  Transport // nil in a group of one
	skew       *clockSkew
	timestamps *timestamper
}

// newClocks returns those of a member whose log ends with an entry of that time, 0 if that is not known.
func newClocks(f *facts, t Transport, last jute.Millis) clocks {
	s := newClockSkew(f.options)
	return clocks{facts: f, transport: t, skew: s, timestamps: newTimestamper(f.options, s, last)}
}

// next is the time of the next entry.
func (c *clocks) next() jute.Millis { return c.timestamps.next() }

// newest is the newest time that this member knows of, 0 if none.
func (c *clocks) newest() jute.Millis { return c.timestamps.newest() }

// noteTimes takes note of entries that another member has dated and that are appended.
func (c *clocks) noteTimes(entries []*raftpb.Entry) {
	if c.leads() {
		return
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if at, ok := timeOf(entries[i]); ok {
			c.timestamps.note(at)
			return
		}
	}
}

// installed says that a snapshot has taken the log's place, with the newest time in the log of who has sent it, as
// appendTime has written it, or nothing.
func (c *clocks) installed(newest []byte) {
	c.timestamps.forget()
	if at, ok := decodeTime(newest); ok {
		c.timestamps.note(at)
	}
}

// connected says that a member may be another program than before: its hello tells what it knows.
func (c *clocks) connected(id uint64) { c.skew.speaks(id, false) }

// greeted is told by a member whether it knows frames about clocks, and asks it at once if that is new.
func (c *clocks) greeted(id uint64, speaks bool) {
	if c.skew.speaks(id, speaks) {
		c.ask(id)
	}
}

// tick asks the other members for the time, now and then.
func (c *clocks) tick() {
	if c.now%max(uint64(clockInterval/c.options.TickInterval), 1) != 0 {
		return
	}
	c.skew.settle(c.member.Voters())
	for _, id := range c.skew.asked() {
		c.ask(id)
	}
}

// ask asks a member for the time.
func (c *clocks) ask(id uint64) {
	f := clockFrame{asked: c.skew.elapsed(), newest: c.timestamps.newest()}
	c.transport.Send(id, frameClock, f.append) // lost, it is sent again later
}

// receive takes a frame about clocks, on the goroutine that has read it: what waits in a queue tells no time.
func (c *clocks) receive(from uint64, body []byte) error {
	f, err := decodeClock(body)
	if err != nil {
		return err
	}
	if c.transport == nil {
		return nil
	}
	c.timestamps.heard(f.newest)
	if f.answer {
		c.skew.take(from, &f)
		return nil
	}
	f.answer, f.now, f.newest = true, c.options.Now().UnixNano(), c.timestamps.newest()
	c.transport.Send(from, frameClock, f.append) // lost, it is asked again
	return nil
}
