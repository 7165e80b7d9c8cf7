package server

import (
	"time"

	"zkd/jute"
)

// gathered are figures of reads that the connection's counts and the server's metrics do not have yet: all connections
// share the latter, and a reader that adds to them once for what came together costs each of its requests much less. It
// adds before the answers leave, so that nobody who has one finds it not counted. Owned by the reader.
type gathered struct {
	conn *conn

	received, answers      int64
	sum, shortest, longest int64 // milliseconds
	reads, readMillis      int64 // that the histogram of reads lacks: so many of so many milliseconds
	op                     jute.Op
	xid                    jute.Xid
	zxid                   jute.Zxid
	at                     time.Duration // of the last answer
	last                   int64         // milliseconds that it took
}

// read gathers the answer to a read.
func (g *gathered) read(r *request, zxid jute.Zxid, came, now time.Duration) {
	ms := (now - came).Milliseconds()
	if g.reads > 0 && g.readMillis != ms {
		g.addReads()
	}
	g.reads++
	g.readMillis = ms
	if g.answers == 0 {
		g.shortest, g.longest = ms, ms
	}
	g.answers++
	g.sum += ms
	g.shortest, g.longest = min(g.shortest, ms), max(g.longest, ms)
	if r.xid >= 0 { // the special ones do not hide the last real one (conn.answered)
		g.xid = r.xid
	} else if g.answers == 1 {
		g.xid = -1
	}
	g.op, g.zxid, g.at, g.last = r.op, zxid, now, ms
}

// addReads adds to the histogram of reads.
func (g *gathered) addReads() {
	g.conn.server.metrics.reads.AddMany(g.readMillis, g.reads)
	g.reads = 0
}

// add adds what was gathered.
func (g *gathered) add() {
	c := g.conn
	if g.received > 0 {
		c.counts.received.Add(g.received)
		c.server.metrics.received.Add(g.received)
		g.received = 0
	}
	if g.answers == 0 {
		return
	}
	g.addReads()
	if g.xid >= 0 {
		c.counts.lastXid.Store(int64(g.xid))
	}
	c.counts.lastZxid.Store(int64(g.zxid))
	c.sent(g.answers)
	c.counts.lastOp.Store(int32(g.op))
	c.counts.lastLat.Store(g.last)
	c.counts.lastResponse.Store(g.at.Milliseconds())
	c.counts.latency.AddMany(g.answers, g.sum, g.shortest, g.longest)
	c.server.metrics.latency.AddMany(g.answers, g.sum, g.shortest, g.longest)
	g.answers, g.sum = 0, 0
}
