package bench

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// errUsageUnknown means that a memory load was run on a server whose process is not known.
var errUsageUnknown = errors.New("memory is what this load measures: name the server's process with --pid, " +
	"or have one started with --start")

// warmUnits is the share of the units, one in so many, that is made before the first reading of the server's memory,
// so that what it allocates once does not count for each.
const warmUnits = 10

// idle opens sessions that only ping, and measures what the server holds for each.
func (r *run) idle() ([]Result, error) {
	if r.target.Usage == nil {
		return nil, errUsageUnknown
	}
	crowd := &crowd{run: r, pinged: nanos()}
	defer func() { r.closeAll(crowd.conns) }()
	if err := crowd.grow(max(r.o.Count/warmUnits, 1)); err != nil {
		return nil, err
	}
	before, err := crowd.settle()
	if err != nil {
		return nil, err
	}
	began := nanos()
	if err := crowd.grow(r.o.Count); err != nil {
		return nil, err
	}
	seconds := time.Duration(nanos() - began).Seconds()
	after, err := crowd.settle()
	if err != nil {
		return nil, err
	}
	result := Result{
		Name: r.o.String(), Requests: int64(r.o.Count), Seconds: seconds, PerSecond: float64(r.o.Count) / seconds,
		RSSBytes: after, UnitBytes: float64(after-before) / float64(r.o.Count), Unit: "session", Errors: crowd.dead(),
	}
	return []Result{result}, nil
}

// crowd is connections that must be kept alive while more are opened.
type crowd struct {
	run    *run
	conns  []*client.Conn
	pinged int64
}

// grow opens n more connections.
func (c *crowd) grow(n int) error {
	const step = 256 // connections between two looks at the time
	for n > 0 {
		more, err := c.run.dial(min(n, step))
		if err != nil {
			return err
		}
		c.conns, n = append(c.conns, more...), n-len(more)
		if err := c.keepAlive(); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) keepAlive() error {
	if len(c.conns) == 0 || nanos()-c.pinged < int64(c.conns[0].Timeout/4) {
		return nil
	}
	c.pinged = nanos()
	return pingAll(c.conns)
}

// settle waits for the run's duration and reads the server's memory.
func (c *crowd) settle() (rssBytes int64, err error) {
	for end := nanos() + int64(c.run.o.Duration); nanos() < end; {
		if err := pause(c.run.ctx, min(c.run.o.Duration, time.Second)); err != nil {
			return 0, err
		}
		if err := c.keepAlive(); err != nil {
			return 0, err
		}
	}
	usage, err := c.run.usage()
	return usage.RSSBytes, err
}

// dead asks every connection for a sign of life and counts those that have none.
func (c *crowd) dead() map[string]int64 {
	var lost atomic.Int64
	_ = parallel(len(c.conns), dialers, func(i int) error { // what fails is counted
		if c.conns[i].Alive() != nil {
			lost.Add(1)
		}
		return nil
	})
	if lost.Load() == 0 {
		return nil
	}
	return map[string]int64{jute.ConnectionLoss.String(): lost.Load()}
}

// watches has every client watch the same znodes, and measures what the server holds for each watch.
func (r *run) watches() ([]Result, error) { return r.watched(func(_, n int) int { return n }) }

// ownWatches is watches with each on a znode of its own.
func (r *run) ownWatches() ([]Result, error) {
	nodes := r.o.Count / r.o.Clients
	return r.watched(func(client, n int) int { return client*nodes + n })
}

// watched is both: node is the number of the znode that is a client's nth.
func (r *run) watched(node func(client, n int) int) ([]Result, error) {
	if r.target.Usage == nil {
		return nil, errUsageUnknown
	}
	nodes := r.o.Count / r.o.Clients
	if err := r.createMany(r.admin, node(r.o.Clients-1, nodes-1)+1, r.node, nil); err != nil {
		return nil, err
	}
	ask := func(conns []*client.Conn, watch bool) error { return r.askAll(conns, nodes, node, watch) }
	crowd := &crowd{run: r, pinged: nanos()}
	defer func() { r.closeAll(crowd.conns) }()
	if err := crowd.grow(r.o.Clients); err != nil {
		return nil, err
	}
	// The same requests without a watch first: buffers and caches are there before the first reading.
	if err := ask(crowd.conns, false); err != nil {
		return nil, err
	}
	before, err := crowd.settle()
	if err != nil {
		return nil, err
	}
	began := nanos()
	if err := ask(crowd.conns, true); err != nil {
		return nil, err
	}
	seconds := time.Duration(nanos() - began).Seconds()
	after, err := crowd.settle()
	if err != nil {
		return nil, err
	}
	n := nodes * r.o.Clients
	result := Result{
		Name: r.o.String(), Requests: int64(n), Seconds: seconds, PerSecond: float64(n) / seconds,
		RSSBytes: after, UnitBytes: float64(after-before) / float64(n), Unit: "watch", Errors: crowd.dead(),
	}
	return []Result{result}, nil
}

// askAll sends an exists of each of its znodes on every connection.
func (r *run) askAll(conns []*client.Conn, nodes int, node func(client, n int) int, watch bool) error {
	return parallel(len(conns), len(conns), func(i int) error {
		request := &jute.PathWatchRequest{Watch: watch}
		body := request.Append
		return conns[i].Pipeline(r.ctx, nodes, prepareWindow, func(b []byte, n int, xid jute.Xid) []byte {
			request.Path = r.base + "/n" + strconv.Itoa(node(i, n))
			return client.Request(b, xid, jute.OpExists, body)
		}, func(_ int, code jute.Code) error {
			if code != jute.OK {
				return errors.New("exists: " + code.String())
			}
			return nil
		})
	})
}
