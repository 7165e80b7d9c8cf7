package server

import (
	"log/slog"
	"math"
	"strings"
	"time"

	"zkd/jute"
	"zkd/quorum/warning"
	"zkd/server/socket"
	"zkd/storage/apply"
)

// slowLog tells which requests took long, and where the time went. It is asked with one comparison; when it is off,
// the comparison never comes out.
type slowLog struct {
	threshold time.Duration // immutable
	seen      counter       // told or not
	lines     *warning.Limiter
}

// init sets up the log; a threshold of 0 is off.
func (l *slowLog) init(o *Options) {
	l.threshold = o.SlowRequest
	if l.threshold <= 0 {
		l.threshold = math.MaxInt64
	}
	l.lines = warning.NewLimiter(o.Logger, o.Clock)
}

// slowRead tells of a read, or of what else the reader answers. The path is read anew: what the handler has decoded may
// be of another request by now.
func (s *Server) slowRead(c *conn, r *request, took time.Duration) {
	s.slow.seen.Add(1)
	p := c.metered.phases(took)
	s.slow.lines.Warn("slow request", s.slowAttrs(c, r.op, r.xid, pathOf(r), took,
		slog.Duration("throttled", p.Queue),    // in the queue of request_throttle_max_requests
		slog.Duration("in_turn", p.Turn),       // behind the writes of the same connection
		slog.Duration("read_index", p.Confirm), // for the leader to confirm that it leads
		slog.Duration("served", p.Answer))...)
}

// slowWrite tells of a write. The apply goroutine calls it.
func (s *Server) slowWrite(c *conn, r *apply.Result, a socket.Arrival, now time.Duration) {
	s.slow.seen.Add(1)
	p := c.metered.writePhases(a, now)
	s.slow.lines.Warn("slow request", s.slowAttrs(c, r.Op, r.Xid, changedPath(r), now-a.At,
		slog.String("code", r.Code.String()), zxidAttr("zxid", r.Zxid),
		slog.Duration("held", p.Queue),          // by a limit, or because the client does not read
		slog.Duration("log", p.Log),             // in the batch, on the way to the leader, until it is on this disk
		slog.Duration("replicate", p.Replicate), // from then on, until it is known to be committed
		slog.Duration("apply", p.Apply))...)     // behind other entries, and with its own
}

// changedPath is the first path of a write's result; "" if it has changed nothing.
func changedPath(r *apply.Result) string {
	if r.Path == "" && len(r.Events) > 0 {
		return r.Events[0].Path
	}
	return r.Path
}

// slowAttrs are the attributes of every line.
func (s *Server) slowAttrs(c *conn, op jute.Op, xid jute.Xid, path string, took time.Duration, parts ...any) []any {
	return append([]any{
		session(c.session), slog.String("peer", c.remote.String()), slog.String("op", op.String()),
		slog.Int("xid", int(xid)), slog.String("path", shown(path)), slog.Duration("took", took),
		slog.Int64("under_way", s.inFlight.Count()),
	}, parts...)
}

// shownBytesMax is how much of a text that a client has sent is in a line of the log: it may be as long as a request.
const shownBytesMax = 512

// shown is the beginning of a text from a client, for the log.
func shown(text string) string { return shownUpTo(text, shownBytesMax) }

// shownUpTo is the beginning of a text of at most so many bytes.
func shownUpTo(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax], "") + "…"
}

// pathOf is the first path of a request that is no write; "" for one without any.
func pathOf(r *request) string {
	var d jute.Decoder
	d.Reset(r.body)
	switch r.op {
	case jute.OpMultiRead:
		if ops := jute.NewMultiDecoder(&d); !ops.Next() {
			return ""
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		d.Long()                             // the client's zxid
		for d.Int() == 0 && d.Err() == nil { // lists without paths
		}
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpSync,
		jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
	default:
		return ""
	}
	var p jute.PathRequest
	p.Decode(&d)
	return p.Path
}

// isSlow reports whether a request is to be told of.
func (s *Server) isSlow(took time.Duration) bool { return took >= s.slow.threshold }
