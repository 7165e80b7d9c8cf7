package server

import (
	"io"
	"iter"
	"slices"
	"sort"
	"time"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/server/fourletter"
	"zkd/storage/schema"
)

// commandWriter gathers the pieces of an answer.
type commandWriter struct {
	to    io.Writer
	buf   []byte
	bytes int64 // of the whole answer
}

// commandFlushBytes is how much of a long answer is gathered before it is sent.
const commandFlushBytes = 32 << 10

// Write gathers b.
func (w *commandWriter) Write(b []byte) (int, error) {
	w.buf = append(w.buf, b...)
	w.bytes += int64(len(b))
	if len(w.buf) >= commandFlushBytes {
		return len(b), w.flush()
	}
	return len(b), nil
}

// commandPacketBytes is what ZooKeeper sends of an answer at once: the buffer of the BufferedWriter before its
// SendBufferWriter (measured on 3.9.5: mntr counts as four packets, short answers as one).
const commandPacketBytes = 8 << 10

// packets returns how many packets ZooKeeper would count.
func (w *commandWriter) packets() int64 {
	return (w.bytes + commandPacketBytes - 1) / commandPacketBytes
}

// flush sends what has gathered.
func (w *commandWriter) flush() error {
	_, err := w.to.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// info is what the four-letter commands show of the server. One that does not serve looks at nothing: there may be no
// state.
//
// w has the connections that are shown, or reset: of a command that came over the port for TLS alone those of that
// port, else the others (ServerCnxnFactory.getConnections).
func (s figures) info(w ports) *fourletter.Info {
	p := s.available.shown()
	if p == stateDown {
		info := &fourletter.Info{Environment: s.opts.Environment}
		if s.opts.Ensemble != nil {
			info.MissingVoters = s.members().MissingVoters
		}
		return info
	}
	v := s.opts.Machine.View()
	zxid, nodes := v.Zxid(), v.NodeCount()
	v.Close()
	info := &fourletter.Info{
		Serving:          true,
		ReadOnly:         p == stateReadOnly,
		Latency:          s.metrics.latency.Load(),
		PacketsReceived:  s.metrics.received.Load(),
		PacketsSent:      s.metrics.sent.Load(),
		AliveConnections: s.connections.count(),
		Outstanding:      s.inFlight.Count(),
		Uptime:           s.elapsed(),
		AuthFailed:       s.metrics.authFailed.Load(),
		Zxid:             zxid,
		Nodes:            int64(nodes) + 1, // Quirk: ZooKeeper's DataTree counts the root under two names
		Conf:             s.configuration,
		Connections:      s.connectionSeq(w),
		Dirs:             s.opts.DirSizes,
		Sessions:         func() []fourletter.SessionBucket { return s.sessionBuckets(s.tracker.Load()) },
		Clients:          func() []fourletter.ConnectionBucket { return s.connectionBuckets(w) },
		Ephemerals:       s.ephemerals(),
		Watches:          s.watches,
		Digests: func(yield func(jute.Zxid, uint64) bool) {
			v := s.opts.Machine.View()
			zxid, digest := v.Zxid(), v.Digest()
			v.Close()
			yield(zxid, digest)
		},
		Environment:      s.opts.Environment,
		Metrics:          s.SetMetrics,
		ResetConnections: func() { s.resetConnections(w) },
		ResetServer:      s.metrics.reset,
	}
	info.Replies.Last, info.Replies.Min, info.Replies.Max = s.metrics.output.Replies.Sizes()
	if s.opts.SlowFsyncs != nil {
		info.SlowFsyncs = s.opts.SlowFsyncs()
	}
	s.describeRole(info, p)
	return info
}

// configuration is what conf shows.
func (s figures) configuration() fourletter.Configuration {
	conf := s.opts.Conf
	conf.DirSizes = s.opts.DirSizes()
	if s.opts.ClientPort != nil {
		conf.ClientPort = s.opts.ClientPort()
	}
	if conf.Member == nil {
		return conf
	}
	member := *conf.Member
	if s.available.shown() == stateServing {
		v := s.opts.Machine.View()
		if n, ok := v.Get(schema.ConfigPath); ok {
			member.Membership = string(n.Data())
		}
		v.Close()
	}
	conf.Member = &member
	return conf
}

// connectionSeq yields what cons and stat show of each connection.
func (s figures) connectionSeq(w ports) iter.Seq[fourletter.Connection] {
	return func(yield func(fourletter.Connection) bool) {
		for _, c := range s.connections.of(w) {
			if !yield(c.describe()) {
				return
			}
		}
	}
}

// sessionBuckets is what dump shows of the expiry of sessions.
func (s figures) sessionBuckets(tracker *liveness.Tracker) []fourletter.SessionBucket {
	now := s.opts.Clock.Now()
	var buckets []fourletter.SessionBucket
	for _, b := range tracker.Buckets() {
		buckets = append(buckets, fourletter.SessionBucket{At: now.Add(b.In), Sessions: b.Sessions})
	}
	return buckets
}

// globalSessions is what dump shows of the sessions that the leader expires.
func (s figures) globalSessions() []fourletter.SessionTimeout {
	var list []fourletter.SessionTimeout
	hold, ended := s.watchdog.beginOwn("dump")
	defer ended()
	read := s.readTurns.Scan(nil, &hold.waits)
	defer read.End()
	v := s.opts.Machine.View()
	v.Pace(read.Pace)
	v.Sessions(func(info schema.SessionInfo) {
		timeout := time.Duration(info.TimeoutMillis) * time.Millisecond
		list = append(list, fourletter.SessionTimeout{Session: info.ID, Timeout: timeout})
	})
	v.Close()
	sort.Slice(list, func(i, j int) bool { return list[i].Session < list[j].Session })
	return list
}

// connectionBuckets is what dump shows of the connections: each with the bucket of its session, which is when it is
// cut, and last those without a session.
func (s figures) connectionBuckets(w ports) []fourletter.ConnectionBucket {
	now := s.opts.Clock.Now()
	var buckets []fourletter.ConnectionBucket
	for _, b := range slices.Concat(s.tracker.Load().Buckets(), s.locals.buckets()) {
		var clients []fourletter.Client
		for _, id := range b.Sessions {
			if c := s.connectionOf(id); c != nil && w.has(c) {
				clients = append(clients, fourletter.Client{Remote: c.remote, Session: id})
			}
		}
		if len(clients) > 0 {
			buckets = append(buckets, fourletter.ConnectionBucket{At: now.Add(b.In), Connections: clients})
		}
	}
	var connecting []fourletter.Client
	for _, c := range s.connections.of(w) {
		if !c.counts.bound.Load() {
			connecting = append(connecting, fourletter.Client{Remote: c.remote})
		}
	}
	at := now.Add(s.opts.HandshakeTimeout)
	return append(buckets, fourletter.ConnectionBucket{At: at, Connections: connecting})
}

// ephemerals yields what dump shows of ephemeral znodes. They are gathered first: a View is not kept open while a
// client reads.
func (s figures) ephemerals() iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		var ids []jute.SessionID
		paths := map[jute.SessionID][]string{}
		hold, ended := s.watchdog.beginOwn("dump")
		read := s.readTurns.Scan(nil, &hold.waits)
		v := s.opts.Machine.View()
		v.Pace(read.Pace)
		v.Ephemerals(func(id jute.SessionID, path string) {
			if paths[id] == nil {
				ids = append(ids, id)
			}
			paths[id] = append(paths[id], path)
		})
		v.Close()
		read.End()
		ended()
		for _, id := range ids {
			if !yield(id, paths[id]) {
				return
			}
		}
	}
}

// resetConnections is crst (ServerCnxn.resetStats).
func (s figures) resetConnections(w ports) {
	for _, c := range s.connections.of(w) {
		n := &c.counts
		n.received.Store(0)
		n.sent.Store(0)
		n.lastOp.Store(int32(jute.OpError)) // one without a name
		n.lastXid.Store(-1)
		n.lastZxid.Store(-1)
		n.lastResponse.Store(0)
		n.lastLat.Store(0)
		n.latency.Reset()
	}
}
