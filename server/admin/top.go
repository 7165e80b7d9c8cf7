package admin

import (
	"fmt"
	"strconv"
	"time"

	"zkd/server/traffic"
	"zkd/server/traffic/report"
	"zkd/storage/serverid"
)

// The windows of top and slow_requests, and how many rows each list of top has.
const (
	topSeconds    = 10
	slowSeconds   = 60
	topRows       = 20
	windowSecsMax = int(traffic.WindowMax / time.Second)
	trafficIsOff  = "Requests are not counted: zkd.traffic=false"
)

// top shows who has done what in the last seconds.
func (c *call) top() bool {
	seconds, ok := c.argument("seconds", topSeconds, windowSecsMax)
	if !ok {
		return false
	}
	rows, ok := c.argument("rows", topRows, report.RowsMax)
	if !ok {
		return false
	}
	w := c.window(seconds)
	if w == nil {
		return false
	}
	a := report.Of(w, rows)
	c.double("seconds", a.Seconds)
	c.num("sampled_one_in", a.SampledOneIn)
	c.topServer()
	c.field("total")
	c.object(func() { c.counts(&a.Total) })
	c.field("operations")
	c.array(func() {
		for i := range a.Operations {
			r := &a.Operations[i]
			c.item()
			c.object(func() {
				c.str("operation", r.Operation)
				c.counts(&r.Counts)
			})
		}
	})
	path := func(r *report.Row) { c.str("path", r.Path) }
	c.topList("subtrees", a.Subtrees, path)
	c.topList("znodes", a.Znodes, path)
	c.topList("sessions", a.Sessions, func(r *report.Row) { c.client(r.Session, r.Address, r.User) })
	c.topList("addresses", a.Addresses, func(r *report.Row) { c.str("address", r.Address) })
	c.topList("users", a.Users, func(r *report.Row) { c.str("user", r.User) })
	c.slowList(a.Slow)
	return true
}

// slowRequests shows the slowest requests of the last seconds.
func (c *call) slowRequests() bool {
	seconds, ok := c.argument("seconds", slowSeconds, windowSecsMax)
	if !ok {
		return false
	}
	w := c.window(seconds)
	if w == nil {
		return false
	}
	a := report.Of(w, 0)
	c.double("seconds", a.Seconds)
	c.slowList(a.Slow)
	return true
}

// argument is a number from 1 on of the query. If it is none, the error is written.
func (c *call) argument(name string, def, greatest int) (n int, ok bool) {
	text, given := c.query[name]
	if !given {
		return def, true
	}
	n, err := strconv.Atoi(text[0])
	if err != nil || n < 1 || n > greatest {
		c.str("error", fmt.Sprintf("%s must be a whole number from 1 to %d", name, greatest))
		return 0, false
	}
	return n, true
}

// window is what was counted in the last seconds. If nothing is counted, the error is written.
func (c *call) window(seconds int) *traffic.Window {
	if c.server.opts.Traffic == nil {
		c.str("error", trafficIsOff)
		return nil
	}
	return c.server.opts.Traffic(time.Duration(seconds) * time.Second)
}

// topServer writes the state of the server.
func (c *call) topServer() {
	id := int64(0)
	if c.server.opts.Members != nil {
		id = serverid.Number(c.server.opts.Members().ID)
	}
	s := report.StateOf(c.info, id)
	c.field("server")
	c.object(func() {
		c.num("id", s.ID)
		c.flag("serving", s.Serving)
		c.str("state", s.State)
		c.num("uptime_ms", s.UptimeMs)
		c.str("zxid", s.Zxid)
		c.num("connections", s.Connections)
		c.num("outstanding_requests", s.Outstanding)
		c.num("watches", s.Watches)
		c.num("znodes", s.Znodes)
	})
}

// counts writes the fields of Counts.
func (c *call) counts(n *report.Counts) {
	c.num("requests", n.Requests)
	c.num("failed", n.Failed)
	c.num("bytes_in", n.BytesIn)
	c.num("bytes_out", n.BytesOut)
	c.num("watches_set", n.WatchesSet)
	c.num("notices", n.Notices)
	c.num("applied", n.Applied)
	c.num("apply_us", n.ApplyUs)
	c.num("mean_us", n.MeanUs)
	c.num("p50_us", n.P50Us)
	c.num("p99_us", n.P99Us)
	c.num("max_us", n.MaxUs)
}

// topList writes a list, with what its rows are called by.
func (c *call) topList(name string, list []report.Row, key func(*report.Row)) {
	c.field(name)
	c.array(func() {
		for i := range list {
			r := &list[i]
			c.item()
			c.object(func() {
				key(r)
				c.counts(&r.Counts)
				c.num("missed_at_most", r.MissedAtMost)
				c.num("sampling_error", r.SamplingError)
			})
		}
	})
}

// client writes who a client is.
func (c *call) client(session, address, user string) {
	c.str("session", session)
	c.str("address", address)
	c.str("user", user)
}

// slowList writes the slowest requests.
func (c *call) slowList(list []report.Slow) {
	c.field("slow_requests")
	c.array(func() {
		for i := range list {
			c.item()
			c.object(func() { c.slowRequest(&list[i]) })
		}
	})
}

// slowRequest writes one of them.
func (c *call) slowRequest(s *report.Slow) {
	c.num("at_ms", s.AtMs)
	c.str("operation", s.Operation)
	c.str("path", s.Path)
	c.flag("failed", s.Failed)
	c.num("took_us", s.TookUs)
	c.num("bytes", s.Bytes)
	c.client(s.Session, s.Address, s.User)
	p := &s.PhasesUs
	c.field("phases_us")
	c.object(func() {
		c.num("queue", p.Queue)
		c.num("turn", p.Turn)
		c.num("confirm", p.Confirm)
		c.num("log", p.Log)
		c.num("replicate", p.Replicate)
		c.num("apply", p.Apply)
		c.num("answer", p.Answer)
	})
}
