package admin

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	"zkd/jute"
	"zkd/server/traffic"
	"zkd/storage/serverid"
)

// The windows of top and slow_requests, and how many rows each list of top has.
const (
	topSeconds     = 10
	slowSeconds    = 60
	topRows        = 20
	topRowsMax     = 256
	windowSecsMax  = int(traffic.WindowMax / time.Second)
	trafficIsOff   = "Requests are not counted: zkd.traffic=false"
	samplingSpread = 1.96 // standard deviations that 95 % are within
)

// top shows who has done what in the last seconds.
func (c *call) top() bool {
	seconds, ok := c.argument("seconds", topSeconds, windowSecsMax)
	if !ok {
		return false
	}
	rows, ok := c.argument("rows", topRows, topRowsMax)
	if !ok {
		return false
	}
	w := c.window(seconds)
	if w == nil {
		return false
	}
	c.double("seconds", w.Took.Seconds())
	c.num("sampled_one_in", int64(w.Every))
	c.topServer()
	c.field("total")
	c.object(func() { c.counts(&w.Total) })
	c.field("operations")
	c.array(func() {
		for i := range w.Operations {
			c.item()
			c.object(func() {
				c.str("operation", traffic.Name(w.Operations[i].Op))
				c.counts(&w.Operations[i].Counts)
			})
		}
	})
	every := float64(w.Every)
	path := func(p string) { c.str("path", p) }
	topList(c, "subtrees", w.Subtrees, rows, every, path)
	topList(c, "znodes", w.Znodes, rows, every, path)
	topList(c, "sessions", w.Sessions, rows, 1, c.client)
	topList(c, "addresses", w.Addresses, rows, 1, func(a netip.Addr) { c.str("address", a.String()) })
	topList(c, "users", w.Users, rows, 1, func(u string) { c.str("user", u) })
	c.slowList(w)
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
	c.double("seconds", w.Took.Seconds())
	c.slowList(w)
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

// topServer writes what the server is, and how it is now.
func (c *call) topServer() {
	i := c.info
	c.field("server")
	c.object(func() {
		id := int64(0)
		if c.server.opts.Members != nil {
			id = serverid.Number(c.server.opts.Members().ID)
		}
		c.num("id", id)
		c.flag("serving", i.Serving)
		c.str("state", i.Mode)
		c.num("uptime_ms", i.Uptime.Milliseconds())
		c.str("zxid", hexZxid(i.Zxid))
		c.num("connections", int64(i.AliveConnections))
		c.num("outstanding_requests", i.Outstanding)
		watches := 0
		if i.Watches != nil {
			watches = i.Watches.Counts().All
		}
		c.num("watches", int64(watches))
		c.num("znodes", i.Nodes)
	})
}

// counts writes the fields of Counts.
func (c *call) counts(n *traffic.Counts) {
	c.num("requests", int64(n.Requests))
	c.num("failed", int64(n.Failed))
	c.num("bytes_in", int64(n.BytesIn))
	c.num("bytes_out", int64(n.BytesOut))
	c.num("watches_set", int64(n.WatchesSet))
	c.num("notices", int64(n.Notices))
	c.num("applied", int64(n.Applied))
	c.num("apply_us", n.Apply.Microseconds())
	c.num("mean_us", n.Latency.Mean(n.Requests).Microseconds())
	c.num("p50_us", n.Latency.Quantile(0.5).Microseconds())
	c.num("p99_us", n.Latency.Quantile(0.99).Microseconds())
	c.num("max_us", n.Latency.Max.Microseconds())
}

// topList writes the first rows of a list. One in every of its requests was counted.
func topList[K comparable](c *call, name string, list []traffic.Row[K], rowsMax int, every float64, key func(K)) {
	c.field(name)
	c.array(func() {
		for i := range min(len(list), rowsMax) {
			r := &list[i]
			c.item()
			c.object(func() {
				key(r.Key)
				c.counts(&r.Counts)
				c.num("missed_at_most", int64(r.Missed))
				c.num("sampling_error", int64(math.Ceil(samplingSpread*math.Sqrt(float64(r.Requests)*(every-1)))))
			})
		}
	})
}

// client writes who a client is.
func (c *call) client(who traffic.Client) {
	c.str("session", hexZxid(jute.Zxid(who.Session)))
	c.str("address", who.Remote.String())
	c.str("user", who.User)
}

// slowList writes the slowest requests.
func (c *call) slowList(w *traffic.Window) {
	c.field("slow_requests")
	c.array(func() {
		for i := range w.Slowest {
			c.item()
			c.object(func() { c.slowRequest(&w.Slowest[i]) })
		}
	})
}

// slowRequest writes one of them.
func (c *call) slowRequest(s *traffic.Slow) {
	c.num("at_ms", s.At.UnixMilli())
	c.str("operation", traffic.Name(s.Op))
	c.str("path", s.Path)
	c.flag("failed", s.Failed)
	c.num("took_us", s.Took.Microseconds())
	c.num("bytes", int64(s.Bytes))
	c.client(s.Client)
	c.field("phases_us")
	c.object(func() {
		c.num("queue", s.Phases.Queue.Microseconds())
		c.num("turn", s.Phases.Turn.Microseconds())
		c.num("confirm", s.Phases.Confirm.Microseconds())
		c.num("log", s.Phases.Log.Microseconds())
		c.num("replicate", s.Phases.Replicate.Microseconds())
		c.num("apply", s.Phases.Apply.Microseconds())
		c.num("answer", s.Phases.Answer.Microseconds())
	})
}
