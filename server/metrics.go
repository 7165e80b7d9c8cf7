package server

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/server/auth"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/server/traffic"
	"zkd/storage/entry"
	"zkd/storage/serverid"
	"zkd/storage/state"
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
	unsuccessfulHandshakes  atomic.Int64    // of TLS
	plainLocal, plainRemote atomic.Int64    // connections without TLS, while there is a port with TLS
	tokenDeficit            stats.Histogram // of newcomers, after each session that it lets in
	notServing              atomic.Int64    // ConnectRequests while there was no leader
	unavailable             stats.Histogram // milliseconds without a leader that this server had caught up with
	revalidated             atomic.Int64    // sessions that came back to this server
	staleReplies            atomic.Int64    // to connections that had ended
	watchBytes              atomic.Int64
	watchesRefused          atomic.Int64
	rejectedForSpace        atomic.Int64 // writes refused for want of room on the disks
	bytesReceived           atomic.Int64
	output                  socket.Figures // of what is sent
	proposals               stats.MinMax   // bytes of writes of all servers, while this one leads
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
	m.output.Replies.Reset()
}

// figures tell what operators ask of a server: metrics, and what the four-letter commands show. Any goroutine may.
type figures struct{ *Server }

// set sets all that the server and Options.Metrics have to tell.
func (s figures) set(v *catalog.Values) {
	s.setState(v)
	s.setTraffic(v)
	s.setOperations(v)
	s.setLimits(v)
	if e, ok := s.opts.Registry.Provider(auth.SchemeEnsemble).(*auth.Ensemble); ok {
		n := e.Counts()
		v.Set("ensemble_auth_success", n.Right)
		v.Set("ensemble_auth_fail", n.Wrong)
		v.Set("ensemble_auth_skip", n.Skipped)
	}
	s.setWatches(v)
	s.setRole(v)
	if s.opts.Status != nil {
		setAgreement(v, s.opts.Status())
	}
	if s.opts.Ensemble != nil {
		s.setMemberMetrics(v)
	}
	v.Set("zkd_slow_requests_total", s.slow.seen.Load())
	s.watchdog.set(v.Set, v.SetFloat)
	v.Set("zkd_writes_refused_total", s.metrics.rejectedForSpace.Load())
	s.setMemory(v)
	v.Set("zkd_large_reads_total", s.readTurns.Taken())
	v.Set("zkd_large_reads_waiting", s.readTurns.InLine())
	if s.opts.Metrics != nil {
		s.opts.Metrics(v)
	}
}

// setState sets what the state has.
func (s figures) setState(v *catalog.Values) {
	if s.available.shown() == stateDown {
		return // it may be being replaced
	}
	if _, long := s.watchdog.applying(nil); long {
		return // whoever asks would wait for it, and learn of it too late
	}
	view := s.opts.Machine.View()
	nodes, ephemerals, bytes := view.NodeCount(), view.EphemeralCount(), view.ApproximateDataBytes()
	sessions, zxid := view.SessionCount(), view.Zxid()
	quotas(view, v)
	view.Close()
	v.Set("znode_count", int64(nodes)+1)
	v.Set("ephemerals_count", int64(ephemerals))
	v.Set("approximate_data_size", bytes)
	v.Set("global_sessions", int64(sessions))
	v.Set("zkd_zxid", int64(zxid))
}

// setTraffic sets what clients have brought about.
func (s figures) setTraffic(v *catalog.Values) {
	m := &s.metrics
	latency := m.latency.Load()
	v.SetFloat("avg_latency", latency.Avg)
	v.Set("max_latency", latency.Max)
	v.Set("min_latency", latency.Min)
	v.Set("packets_received", m.received.Load())
	v.Set("packets_sent", m.sent.Load())
	v.Set("bytes_received_count", m.bytesReceived.Load())
	v.Set("response_bytes", m.output.Sent.Load())
	last, least, greatest := m.output.Replies.Sizes()
	v.Set("last_client_response_size", last)
	v.Set("min_client_response_size", least)
	v.Set("max_client_response_size", greatest)
	v.Set("num_alive_connections", int64(s.connections.count()))
	v.Set("outstanding_requests", s.inFlight.Count())
	v.Set("uptime", s.elapsed().Milliseconds())
	v.Set("auth_failed_count", m.authFailed.Load())
	v.Set("unsuccessful_handshake", m.unsuccessfulHandshakes.Load())
	v.Set("tls_handshake_exceeded", s.handshakes.Exceeded())
	v.Set("outstanding_tls_handshake", s.handshakes.Outstanding())
	v.Set("non_mtls_local_conn_count", m.plainLocal.Load())
	v.Set("non_mtls_remote_conn_count", m.plainRemote.Load())
	v.Set("local_sessions", int64(s.locals.count()))
	v.Set("connection_request_count", m.connections.Load())
	v.Set("connection_rejected", m.rejected.Load())
	v.Set("connection_drop_count", m.drops.Load())
	v.Set("connection_revalidate_count", m.revalidated.Load())
	v.Set("stale_sessions_expired", m.expired.Load())
	v.Set("stale_replies", m.staleReplies.Load())
	v.Set("sessionless_connections_expired", m.sessionless.Load())
	v.Set("cnxn_closed_without_zk_server_running", m.notServing.Load())
	v.SetHistogram("readlatency", &m.reads)
	v.SetHistogram("updatelatency", &m.updates)
	v.SetHistogram("unavailable_time", &m.unavailable)
	if s.opts.OpenFiles != nil {
		v.Set("open_file_descriptor_count", s.opts.OpenFiles())
		v.Set("max_file_descriptor_count", s.opts.MaxOpenFiles())
	}
}

// setOperations sets what was answered, by operation.
func (s figures) setOperations(v *catalog.Values) {
	s.traffic.Totals(func(op jute.Op, t *traffic.Total) {
		name := traffic.Name(op)
		v.SetKeyed("zkd_requests_total", name, int64(t.Requests))
		v.SetKeyed("zkd_requests_failed_total", name, int64(t.Failed))
		v.SetKeyed("zkd_request_bytes_total", name, int64(t.BytesIn))
		v.SetKeyed("zkd_answer_bytes_total", name, int64(t.BytesOut))
		below := map[time.Duration]uint64{}
		for power := operationPowerMin; power <= operationPowerMax; power += 2 {
			bound := time.Microsecond << power
			below[bound] = t.Below(bound)
		}
		v.SetKeyedLatency("zkd_request_seconds", name, catalog.Latency{Count: t.Requests, Total: t.Sum, Max: t.Max,
			P50: t.Quantile(0.5), P99: t.Quantile(0.99), P999: t.Quantile(0.999), Below: below})
	})
}

// The bounds of zkd_request_seconds are each four times the one before, from 64 µs to 16.8 s: a series of the page for
// each bound and operation.
const (
	operationPowerMin = 6
	operationPowerMax = 24
)

// setLimits sets what the limits have held back.
func (s figures) setLimits(v *catalog.Values) {
	v.SetFloat("connection_drop_probability", s.newcomers.DropProbability())
	v.SetHistogram("connection_token_deficit", &s.metrics.tokenDeficit)
	v.Set("large_requests_rejected", s.frames.Refused())
	if t := s.inFlight.Gate; t != nil {
		n := t.Counts()
		v.Set("request_throttle_wait_count", n.Waits)
		v.Set("stale_requests", n.Stale)
		v.Set("stale_requests_dropped", n.Dropped)
		v.Set("throttled_ops", n.Refused)
		v.SetHistogram("request_throttle_queue_time_ms", t.Times())
	}
}

// setMemory sets what clients hold.
func (s figures) setMemory(v *catalog.Values) {
	v.SetKeyed("zkd_client_memory_bytes", "unread", s.memory.Used(limits.Unread))
	v.SetKeyed("zkd_client_memory_bytes", "requests", s.memory.Used(limits.Requests))
	v.SetKeyed("zkd_client_memory_bytes", "watches", int64(s.watches.Bytes()))
	v.Set("zkd_client_memory_max_bytes", s.memory.Max()+int64(s.opts.Limits.Watches.Bytes))
	v.Set("zkd_client_memory_most_bytes", s.memory.Most())
	v.Set("zkd_client_memory_closed_total", s.memory.Closed())
	v.Set("zkd_watches_refused_total", s.metrics.watchesRefused.Load())
}

// setWatches sets what the watches have done.
func (s figures) setWatches(v *catalog.Values) {
	v.Set("watch_count", int64(s.watches.Counts().All))
	v.Set("watch_bytes", s.metrics.watchBytes.Load())
	fired := s.watches.Fired()
	v.SetHistogram("node_created_watch_count", &fired.Created)
	v.SetHistogram("node_deleted_watch_count", &fired.Deleted)
	v.SetHistogram("node_changed_watch_count", &fired.Changed)
	v.SetHistogram("node_children_watch_count", &fired.Children)
}

// setRole sets the part that this server plays.
func (s figures) setRole(v *catalog.Values) {
	p := s.available.shown()
	role := "standalone"
	if s.opts.Ensemble != nil {
		state := s.available.latest()
		role = string(state.Role)
		switch {
		case p == stateReadOnly:
			role = "read-only"
		case s.observes(state):
			role = "observer"
		}
	}
	if role != "" {
		v.SetKeyed("zkd_role", role, 1)
	}
	v.Set("zkd_serving", 0)
	if p != stateDown {
		v.Set("zkd_serving", 1)
	}
}

// setAgreement sets what the node tells of raft and its log.
func setAgreement(v *catalog.Values, status quorum.Status) {
	v.Set("commit_count", int64(status.Commits.Count))
	v.Set("proposal_count", int64(status.Proposals))
	v.Set("looking_count", int64(status.Elections))
	v.Set("snap_count", int64(status.SnapshotsSent))
	v.SetDistribution("fsynctime", milliseconds(status.Fsync))
	v.SetDistribution("proposal_latency", milliseconds(status.Commits))
	v.SetDistribution("election_time", milliseconds(status.Leaderless))
	v.SetDistribution("leader_unavailable_time", milliseconds(status.Leaderless))
	for name, n := range map[string]uint64{ // any order
		"zkd_term": status.Term, "zkd_quorum": uint64(status.Quorum),
		"zkd_voters": uint64(len(status.Voters)), "zkd_learners": uint64(len(status.Learners)),
		"zkd_first_index": status.FirstIndex, "zkd_last_index": status.LastIndex, "zkd_commit_index": status.Commit,
		"zkd_applied_index": status.Applied, "zkd_durable_index": status.Durable,
		"zkd_apply_lag_entries":          status.Commit - min(status.Commit, status.Applied),
		"zkd_outstanding_proposal_bytes": uint64(status.OutstandingBytes),
		"zkd_feature_level":              uint64(status.Level),
		"zkd_feature_level_supported":    uint64(entry.LevelNewest),
		"zkd_elections_total":            status.Elections, "zkd_proposals_total": status.Proposals,
		"zkd_entries_total": status.Entries, "zkd_log_bytes_total": status.EntryBytes,
		"zkd_snapshots_sent_total":      status.SnapshotsSent,
		"zkd_snapshot_failures_total":   status.SnapshotFailures,
		"zkd_snapshots_installed_total": status.SnapshotsInstalled,
		"zkd_log_kept_bytes":            status.LogBytes, "zkd_log_kept_max_bytes": status.LogBytesMax,
		"zkd_disk_handovers_total": status.DiskTransfers,
	} {
		v.Set(name, int64(n))
	}
	v.Set("zkd_leader_id", serverid.Number(status.Leader))
	v.Set("zkd_log_kept_for_id", serverid.Number(status.LogHolder))
	for store, disk := range map[string]quorum.DiskStatus{ // any order
		"raftlog": status.LogDisk, "state": status.StateDisk,
	} {
		v.SetKeyed("zkd_disk_hang_seconds", store, int64((disk.Hangs+time.Second-1)/time.Second))
		v.SetKeyed("zkd_disk_hangs_total", store, int64(disk.Stalls))
	}
	v.Set("zkd_low_space", int64(status.Space))
	v.Set("zkd_forwarded_writes_refused_total", int64(status.Refused))
	var missing quorum.MissingVoters
	if status.MissingVoters != nil {
		missing = *status.MissingVoters
	}
	v.Set("zkd_admitted", flag(!missing.StateLost))
	v.Set("zkd_voters_away", int64(len(missing.Away)))
	v.Set("zkd_voters_emptied", int64(len(missing.Emptied)))
	v.SetFloat("zkd_last_election_seconds", status.LastElection.Seconds())
	for _, c := range status.Clocks {
		v.SetKeyedFloat("zkd_clock_skew_seconds", strconv.FormatInt(serverid.Number(c.ID), 10), c.Skew.Seconds())
	}
	v.SetLatency("zkd_fsync_seconds", seconds(status.Fsync))
	v.SetLatency("zkd_commit_seconds", seconds(status.Commits))
	v.SetLatency("zkd_election_seconds", seconds(status.Leaderless))
}

// seconds is a summary of ours.
func seconds(l quorum.LatencySummary) catalog.Latency {
	below := make(map[time.Duration]uint64, len(l.Below))
	for i, n := range l.Below {
		below[quorum.LatencyBound(i)] = n
	}
	return catalog.Latency{Count: l.Count, Total: l.Total, Max: l.Max, P50: l.P50, P99: l.P99, P999: l.P999,
		Below: below}
}

// milliseconds is a summary of ZooKeeper's.
func milliseconds(l quorum.LatencySummary) catalog.Distribution {
	d := catalog.Distribution{
		Snapshot: stats.Snapshot{Count: int64(l.Count), Sum: l.Total.Milliseconds(), Min: l.Min.Milliseconds(),
			Max: l.Max.Milliseconds()},
		Percentiles: stats.Percentiles{P50: l.P50.Milliseconds(), P95: l.P99.Milliseconds(),
			P99: l.P99.Milliseconds(), P999: l.P999.Milliseconds()},
	}
	if l.Count > 0 {
		d.Avg = stats.Mean(l.Total.Seconds()*1000, int64(l.Count))
	}
	return d
}

// quotasMax is how many quotas the metrics show: a guess, more than anybody has.
const quotasMax = 1000

// quotas sets what quotas allow and count, together for each top-level path (QuotaMetricsUtils).
func quotas(view state.View, v *catalog.Values) {
	sums := map[string][4]int64{}
	view.Quotas(quotasMax, func(q state.Quota) {
		namespace, _, _ := strings.Cut(strings.TrimPrefix(q.Path, "/"), "/")
		if namespace == "" {
			return
		}
		sum := sums[namespace]
		for i, n := range [4]int64{q.CountLimit, q.BytesLimit, q.Count, q.Bytes} {
			sum[i] += n
		}
		sums[namespace] = sum
	})
	for namespace, sum := range sums { // any order
		v.SetKeyed("quota_count_limit_per_namespace", namespace, sum[0])
		v.SetKeyed("quota_bytes_limit_per_namespace", namespace, sum[1])
		v.SetKeyed("quota_count_usage_per_namespace", namespace, sum[2])
		v.SetKeyed("quota_bytes_usage_per_namespace", namespace, sum[3])
	}
}
