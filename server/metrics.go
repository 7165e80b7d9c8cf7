package server

import (
	"sync/atomic"

	"zkd/server/fourletter"
	"zkd/server/stats"
)

// counter is an atomic count.
type counter = atomic.Int64

// metrics are the figures of a server, under ZooKeeper's names. Atomic.
type metrics struct {
	received, sent             atomic.Int64
	latency                    stats.Summary   // milliseconds, of all requests since srst
	reads, updates             stats.Histogram // milliseconds
	connections, rejected      atomic.Int64
	drops, expired, authFailed atomic.Int64
	// sessionless counts connections that were silent for HandshakeTimeout without a session
	// (org.apache.zookeeper.server.NIOServerCnxnFactory.ConnectionExpirerThread).
	sessionless             atomic.Int64
	tokenDeficit            stats.Summary // of newcomers, after each session that it lets in
	unsuccessfulHandshakes  atomic.Int64  // of TLS
	plainLocal, plainRemote atomic.Int64  // connections without TLS, while there is a port with TLS
	notServing              atomic.Int64  // ConnectRequests while there was no leader
	unavailable             stats.Summary // milliseconds without a leader that this server had caught up with
}

// countPlain counts a connection without TLS (ServerStats.getNonMTLSLocalConnCount and its like).
func (m *metrics) countPlain(c *conn) {
	if !c.port.CountPlain {
		return
	}
	if c.remote.Addr().IsLoopback() {
		m.plainLocal.Add(1)
	} else {
		m.plainRemote.Add(1)
	}
}

// reset is srst.
func (m *metrics) reset() {
	m.received.Store(0)
	m.sent.Store(0)
	m.latency.Reset()
}

// setMetrics sets what mntr shows.
func (s *Server) setMetrics(m *fourletter.Metrics) {
	v := s.opts.Machine.View()
	nodes, ephemerals, bytes, sessions := v.NodeCount(), v.EphemeralCount(), v.ApproximateDataBytes(), v.SessionCount()
	v.Close()
	latency := s.metrics.latency.Load()
	m.SetFloatGauge("avg_latency", latency.Avg)
	for _, g := range []struct {
		name  string
		value int64
	}{
		{"max_latency", latency.Max},
		{"min_latency", latency.Min},
		{"packets_received", s.metrics.received.Load()},
		{"packets_sent", s.metrics.sent.Load()},
		{"num_alive_connections", int64(s.connections.count())},
		{"outstanding_requests", s.underWay.n.Load()},
		{"znode_count", int64(nodes) + 1},
		{"ephemerals_count", int64(ephemerals)},
		{"approximate_data_size", bytes},
		{"watch_count", int64(s.watches.Counts().All)},
		{"global_sessions", int64(sessions)},
		{"uptime", s.elapsed().Milliseconds()},
		{"outstanding_tls_handshake", s.shaking.outstanding.Load()},
		{"non_mtls_local_conn_count", s.metrics.plainLocal.Load()},
		{"non_mtls_remote_conn_count", s.metrics.plainRemote.Load()},
		{"auth_failed_count", s.metrics.authFailed.Load()},
		{"open_file_descriptor_count", s.opts.OpenFiles()},
		{"max_file_descriptor_count", s.opts.MaxOpenFiles()},
	} {
		m.SetGauge(g.name, g.value)
	}
	m.SetFloatGauge("connection_drop_probability", s.newcomers.dropProbability())
	m.SetSummary("connection_token_deficit", &s.metrics.tokenDeficit)
	m.SetCounter("large_requests_rejected", s.frames.rejected.Load())
	if t := s.underWay.gate; t != nil {
		m.SetCounter("request_throttle_wait_count", t.waits.Load())
		m.SetCounter("stale_requests", t.stale.Load())
		m.SetCounter("stale_requests_dropped", t.dropped.Load())
		m.SetCounter("throttled_ops", t.refused.Load())
		m.SetHistogram("request_throttle_queue_time_ms", &t.queued)
	}
	m.SetCounter("unsuccessful_handshake", s.metrics.unsuccessfulHandshakes.Load())
	m.SetCounter("tls_handshake_exceeded", s.shaking.exceeded.Load())
	m.SetCounter("cnxn_closed_without_zk_server_running", s.metrics.notServing.Load())
	m.SetSummary("unavailable_time", &s.metrics.unavailable)
	m.SetGauge("local_sessions", int64(s.locals.count()))
	m.SetCounter("connection_request_count", s.metrics.connections.Load())
	m.SetCounter("connection_rejected", s.metrics.rejected.Load())
	m.SetCounter("connection_drop_count", s.metrics.drops.Load())
	m.SetCounter("stale_sessions_expired", s.metrics.expired.Load())
	m.SetCounter("sessionless_connections_expired", s.metrics.sessionless.Load())
	m.SetHistogram("readlatency", &s.metrics.reads)
	m.SetHistogram("updatelatency", &s.metrics.updates)
	fired := s.watches.Fired()
	m.SetSummary("node_created_watch_count", &fired.Created)
	m.SetSummary("node_deleted_watch_count", &fired.Deleted)
	m.SetSummary("node_changed_watch_count", &fired.Changed)
	m.SetSummary("node_children_watch_count", &fired.Children)
	if s.opts.Ensemble != nil {
		s.setMemberMetrics(m)
	}
	if s.opts.Status != nil {
		status := s.opts.Status()
		m.SetCounter("commit_count", int64(status.Commits.Count))
		m.SetCounter("proposal_count", int64(status.Proposals))
	}
}
