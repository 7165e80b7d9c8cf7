package main

import (
	"fmt"
	"strings"
	"testing"

	"zkd/compat-tests/target"
)

// TestStatusTellsOfServersBehind asks a leader of whose followers one does not take the state, and for which its log is
// kept; and one that keeps little.
func TestStatusTellsOfServersBehind(t *testing.T) {
	for kept, want := range map[int][]string{ // order: each for itself
		200 << 20: {
			"server 3 has not taken the state that it lacks, 4 of 5 times; the next try is in 16 s, " +
				"and its log says why",
			"the raft logs keep 200 MiB, at most 256 MiB, for server 3: beyond that it is sent the whole state",
		},
		2 << 20: {"server 3 has not taken the state that it lacks, 4 of 5 times; the next try is in 16 s"},
	} {
		port := target.FreePorts(t, 1)[0]
		fakeServer(t, port, nil, map[string]string{
			"srvr": fmt.Sprintf(recordedSrvr, "0x10000000a", "leader"),
			"mntr": fmt.Sprintf(recordedMntr, "leader") + fmt.Sprintf("zk_zkd_log_kept_bytes\t%d\n"+
				"zk_zkd_log_kept_max_bytes\t%d\nzk_zkd_log_kept_for_id\t3\nzk_2_zkd_peer_snapshot_pause_seconds\t0\n"+
				"zk_3_zkd_peer_snapshot_pause_seconds\t16\nzk_3_zkd_peer_snapshots_total\t5\n"+
				"zk_3_zkd_peer_snapshot_failures_total\t4\n", kept, 256<<20),
			"conf": fmt.Sprintf("server.1=127.0.0.1:1:2:participant;127.0.0.1:%d\n", port),
		})
		out, err := zkd(t, "status", "--timeout", "60s", "--server", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
		}
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("%q is not in\n%s", line, out)
			}
		}
		if strings.Contains(out, "server 2 has not") || strings.Count(out, "raft logs keep") != len(want)-1 {
			t.Errorf("with %d bytes kept:\n%s", kept, out)
		}
	}
}
