package fourletter

// The metrics of a 3.9.5 server in the order in which mntr writes them: an order of Java's hash tables, which holds for
// every server of that release (recorded from a standalone one and from the leader, a follower and an observer of an
// ensemble).

// gauges come first; those in floatGauges have decimals.
var gauges = []string{
	"ephemerals_count", "num_alive_connections", "avg_latency", "min_proposal_size", "outstanding_requests",
	"znode_count", "global_sessions", "non_mtls_remote_conn_count", "last_client_response_size", "packets_sent",
	"packets_received", "max_proposal_size", "max_client_response_size", "synced_followers",
	"connection_drop_probability", "watch_count", "synced_non_voting_followers", "synced_observers",
	"auth_failed_count", "min_latency", "max_file_descriptor_count", "approximate_data_size",
	"open_file_descriptor_count", "last_proposal_size", "pending_syncs", "leader_uptime", "local_sessions",
	"uptime", "max_latency", "outstanding_tls_handshake", "learners", "min_client_response_size",
	"non_mtls_local_conn_count", "quorum_size",
}

// memberGauges are the gauges that only a leader has, or a member of an ensemble: they are shown if they are set.
var memberGauges = []string{
	"min_proposal_size", "max_proposal_size", "last_proposal_size", "synced_followers",
	"synced_non_voting_followers", "synced_observers", "pending_syncs", "leader_uptime", "learners", "quorum_size",
}

// counters follow.
var counters = []string{
	"watch_bytes", "stale_requests_dropped", "throttled_ops", "insecure_admin_count", "connection_rejected",
	"sessionless_connections_expired", "dead_watchers_queued", "stale_requests", "connection_drop_count",
	"response_packet_cache_hits", "bytes_received_count", "add_dead_watcher_stall_time",
	"request_throttle_wait_count", "requests_not_forwarded_to_commit_processor", "response_packet_cache_misses",
	"prep_processor_request_queued", "stale_replies", "response_bytes", "ensemble_auth_fail", "diff_count",
	"connection_revalidate_count", "quit_leading_due_to_disloyal_voter", "unrecoverable_error_count",
	"unsuccessful_handshake", "commit_count", "outstanding_changes_queued", "request_commit_queued",
	"ensemble_auth_skip", "skip_learner_request_to_next_processor_count", "proposal_count",
	"large_requests_rejected", "outstanding_changes_removed", "restore_error_count",
	"cnxn_closed_without_zk_server_running", "looking_count", "snapshot_rate_limited_count",
	"learner_proposal_received_count", "digest_mismatches_count", "dead_watchers_cleared",
	"ensemble_auth_success", "learner_commit_received_count", "snapshot_error_count", "connection_request_count",
	"response_packet_get_children_cache_misses", "snap_count", "stale_sessions_expired",
	"restore_rate_limited_count", "response_packet_get_children_cache_hits", "sync_processor_request_queued",
	"tls_handshake_exceeded", "revalidate_count",
}

// summaries have an average, a minimum, a maximum, a count and a sum.
var summaries = []string{
	"socket_closing_time", "proposal_process_time", "leader_unavailable_time", "node_created_watch_count",
	"session_queues_drained", "write_commit_proc_req_queued", "connection_token_deficit",
	"read_commit_proc_req_queued", "node_deleted_watch_count", "startup_txns_load_time",
	"sync_processor_queue_size", "follower_sync_time", "prep_processor_queue_size", "fsynctime",
	"inflight_snap_count", "reads_issued_from_session_queue", "restore_time",
	"learner_request_processor_queue_size", "snapshottime", "unavailable_time", "startup_txns_loaded",
	"reads_after_write_in_session_queue", "requests_in_session_queue", "write_commit_proc_issued",
	"prep_process_time", "pending_session_queue_size", "time_waiting_empty_pool_in_commit_processor_read_ms",
	"commit_process_time", "dbinittime", "inflight_diff_count", "netty_queued_buffer_capacity", "election_time",
	"commit_commit_proc_req_queued", "sync_processor_batch_size", "node_children_watch_count",
	"write_batch_time_in_commit_processor", "read_commit_proc_issued",
	"concurrent_request_processing_in_commit_processor", "observer_sync_time", "node_changed_watch_count",
	"sync_process_time", "startup_snap_load_time",
}

// histograms are summaries with percentiles.
var histograms = []string{
	"prep_processor_queue_time_ms", "jvm_pause_time_ms", "close_session_prep_time", "read_commitproc_time_ms",
	"updatelatency", "local_write_committed_time_ms", "request_throttle_queue_time_ms", "readlatency",
	"quorum_ack_latency", "om_commit_process_time_ms", "read_final_proc_time_ms", "commit_propagation_latency",
	"dead_watchers_cleaner_latency", "write_final_proc_time_ms", "proposal_ack_creation_latency",
	"proposal_latency", "om_proposal_process_time_ms", "sync_processor_queue_and_flush_time_ms",
	"propagation_latency", "server_write_committed_time_ms", "sync_processor_queue_time_ms",
	"sync_processor_queue_flush_time_ms", "write_commitproc_time_ms",
}

// floatGauges are the gauges that are shown with decimals.
var floatGauges = []string{"avg_latency", "connection_drop_probability"}
