package catalog

// ownGauges are what only zkd has of values that go up and down. They begin with zkd_ and carry base units. The label
// peer is a member's id, store is raftlog or state.
var ownGauges = []Row{
	{Name: "zkd_build_info", Help: "1; the label is the version.", Label: "version"},
	{Name: "zkd_role",
		Help: "1 for the part that this server plays: standalone, leader, follower, observer, candidate, " +
			"read-only or removed.", Label: "role"},
	{Name: "zkd_serving", Help: "1 while clients are served, read-only too."},
	{Name: "zkd_term", Help: "Raft's term."},
	{Name: "zkd_leader_id", Help: "Id of the leader; 0 while there is none."},
	{Name: "zkd_quorum", Help: "Voters that a decision takes."},
	{Name: "zkd_voters", Help: "Members that vote."},
	{Name: "zkd_learners", Help: "Members that do not vote."},
	{Name: "zkd_first_index", Help: "First entry that is kept of the raft log."},
	{Name: "zkd_last_index", Help: "Last entry of the raft log."},
	{Name: "zkd_commit_index", Help: "Last entry known here to be committed."},
	{Name: "zkd_applied_index", Help: "Last entry applied here."},
	{Name: "zkd_durable_index", Help: "Entry up to which no crash takes back what was applied."},
	{Name: "zkd_apply_lag_entries", Help: "Entries that are committed and not applied here."},
	{Name: "zkd_last_election_seconds", Help: "Time without a leader before the present one.", Float: true},
	{Name: "zkd_outstanding_proposal_bytes", Help: "Bytes proposed here and not answered."},
	{Name: "zkd_zxid", Help: "Last zxid applied here."},
	{Name: "zkd_store_bytes", Help: "Disk space of a store.", Label: "store"},
	{Name: "zkd_store_memory_bytes", Help: "Memory of a store: its blocks, and what is not flushed.", Label: "store"},
	{Name: "zkd_store_files", Help: "Table files of a store.", Label: "store"},
	{Name: "zkd_cache_bytes", Help: "Memory of the znodes that were in use lately."},
	{Name: "zkd_cache_entries", Help: "Znodes in that memory."},
	{Name: "zkd_peer_lag_entries", Help: "Log entries that a member has not confirmed; on the leader.", Label: "peer"},
	{Name: "zkd_peer_active", Help: "1 if a member was heard of lately; on the leader.", Label: "peer"},
	{Name: "zkd_peer_snapshotting", Help: "1 while a member is sent a snapshot; on the leader.", Label: "peer"},
	{Name: "zkd_peer_connected", Help: "1 while there are streams to a member and from it.", Label: "peer"},
}

// ownCounters are what only zkd has of values that only grow.
var ownCounters = []Row{
	{Name: "zkd_elections_total", Help: "Times that this server learned of a leader."},
	{Name: "zkd_proposals_total", Help: "Writes that this server has proposed."},
	{Name: "zkd_entries_total", Help: "Entries of the log that this server has proposed, and that were applied."},
	{Name: "zkd_log_bytes_total", Help: "Bytes of entries written to the raft log."},
	{Name: "zkd_store_written_bytes_total", Help: "Bytes that a store has written to disk, compactions too.",
		Label: "store"},
	{Name: "zkd_cache_hits_total", Help: "Znodes found in the memory of those in use lately."},
	{Name: "zkd_cache_misses_total", Help: "Znodes looked up in the store."},
	{Name: "zkd_snapshots_sent_total", Help: "Snapshots sent to members too far behind."},
	{Name: "zkd_snapshot_failures_total", Help: "Snapshots that could not be sent."},
	{Name: "zkd_snapshots_installed_total", Help: "Snapshots that replaced the state of this server."},
	{Name: "zkd_peer_sent_bytes_total", Help: "Bytes sent to a member.", Label: "peer"},
	{Name: "zkd_peer_received_bytes_total", Help: "Bytes received from a member.", Label: "peer"},
	{Name: "zkd_peer_dropped_messages_total", Help: "Messages to a member that had no room.", Label: "peer"},
	{Name: "zkd_slow_requests_total", Help: "Requests that took longer than zkd.slowRequestThreshold."},
	{Name: "zkd_slow_fsyncs_total", Help: "Writes of the raft log that took longer than fsync.warningthresholdms."},
}

// ownSummaries are what only zkd has of durations: histograms for Prometheus, percentiles since the start in mntr.
var ownSummaries = []Row{
	{Name: "zkd_fsync_seconds", Help: "Time to write and sync the raft log."},
	{Name: "zkd_commit_seconds", Help: "Time from the proposal of a batch on this server until it is applied here."},
	{Name: "zkd_election_seconds", Help: "Time without a leader, until one was known."},
}
