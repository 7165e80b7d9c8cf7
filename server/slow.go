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

// applying is a Node that knows when it began to apply the present entry.
type applying interface {
	// ApplyBegan is that time, for the apply goroutine: in its Waiters and its Observer.
	ApplyBegan() time.Time
}

// slowRead tells of a read, or of what else the reader answers. The path is read anew: what the handler has decoded may
// be of another request by now.
func (s *Server) slowRead(c *conn, r *request, took time.Duration) {
	s.slow.seen.Add(1)
	s.slow.lines.Warn("slow request", s.slowAttrs(c, r.op, r.xid, pathOf(r), took,
		slog.Duration("throttled", c.admitter.waited),           // in the queue of request_throttle_max_requests
		slog.Duration("in_turn", c.queueWait-c.admitter.waited), // behind the writes of the same connection
		slog.Duration("read_index", c.barrierWait),              // for the leader to confirm that it leads
		slog.Duration("served", took-max(c.queueWait, c.admitter.waited)-c.barrierWait))...)
}

// slowWrite tells of a write. The apply goroutine calls it.
func (s *Server) slowWrite(c *conn, r *apply.Result, a socket.Arrival, now time.Duration) {
	s.slow.seen.Add(1)
	path := r.Path
	if path == "" && len(r.Events) > 0 {
		path = r.Events[0].Path
	}
	began := now
	if node, ok := s.opts.node.(applying); ok {
		began = min(max(node.ApplyBegan().Sub(s.started), a.Taken), now)
	}
	s.slow.lines.Warn("slow request", s.slowAttrs(c, r.Op, r.Xid, path, now-a.At,
		slog.String("code", r.Code.String()), zxidAttr("zxid", r.Zxid),
		slog.Duration("held", a.Taken-a.At),    // by a limit, or because the client does not read
		slog.Duration("commit", began-a.Taken), // in the batch, the log of the quorum, and behind other entries
		slog.Duration("apply", now-began))...)
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
func shown(text string) string {
	if len(text) <= shownBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:shownBytesMax], "") + "…"
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
