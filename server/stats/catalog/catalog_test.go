package catalog

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/server/stats"
)

//go:generate go test -run TestMetricsPage -update .

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// notOnPage are ZooKeeper's metrics that its page for Prometheus has only on members of an ensemble, or not at all.
var notOnPage = []string{
	"min_proposal_size", "max_proposal_size", "last_proposal_size", "synced_followers", "synced_non_voting_followers",
	"synced_observers", "pending_syncs", "leader_uptime", "learners", "quorum_size", "jvm_pause_time_ms",
}

// TestNames: every name that the page of a standalone 3.9.5 has is in the table, in its kind, and no other that is
// called ZooKeeper's (recorded from one).
func TestNames(t *testing.T) {
	recorded, err := os.ReadFile("testdata/zookeeper.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := range All() {
		if !r.Own && !slices.Contains(notOnPage, r.Name) {
			got = append(got, r.Name+" "+r.Kind.String()+"\n")
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(string(recorded), strings.Join(got, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRows: each is there once, says what it is, and has a name of its kind.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for r := range All() {
		if seen[r.Name] || Find(r.Name) != r {
			t.Errorf("%s is there twice", r.Name)
		}
		seen[r.Name] = true
		if !strings.HasSuffix(r.Help, ".") || strings.HasSuffix(r.Absent, ".") {
			t.Errorf("%s: %q, %q", r.Name, r.Help, r.Absent)
		}
		if r.Own != strings.HasPrefix(r.Name, "zkd_") || r.Own && r.Absent != "" {
			t.Errorf("%s: ours is %v", r.Name, r.Own)
		}
		if r.Own && (r.Kind == Counter) != strings.HasSuffix(r.Name, "_total") {
			t.Errorf("%s: a %s", r.Name, r.Kind)
		}
		if r.Label != "" && r.Part != OnDemand && !r.Own {
			t.Errorf("%s: a set that is always there", r.Name)
		}
	}
}

func TestValues(t *testing.T) {
	v := New()
	v.Set("znode_count", 3)
	v.Set("avg_latency", 2)
	v.SetFloat("zkd_last_election_seconds", 0.5)
	v.SetKeyed("zkd_peer_active", "2", 1)
	v.SetLatency("zkd_fsync_seconds", Latency{Count: 1, Total: time.Second})
	v.SetDistribution("fsynctime", Distribution{Snapshot: stats.Snapshot{Count: 4}})
	if n, ok := v.Number("znode_count"); !ok || n.Whole != 3 {
		t.Errorf("znode_count: %v %v", n, ok)
	}
	if n, _ := v.Number("avg_latency"); n.Decimals != 2 {
		t.Errorf("avg_latency: %v", n)
	}
	if l, ok := v.Latency("zkd_fsync_seconds"); !ok || l.Count != 1 || v.Distribution("fsynctime").Count != 4 {
		t.Errorf("fsync: %v %v", l, v.Distribution("fsynctime"))
	}
	if v.Keyed("zkd_peer_active")["2"].Whole != 1 {
		t.Errorf("zkd_peer_active: %v", v.Keyed("zkd_peer_active"))
	}
	shown := map[string]bool{
		"znode_count": true, "ephemerals_count": true, "quorum_size": false, "zkd_term": false,
		"zkd_peer_active": false, "zkd_last_election_seconds": true, "zkd_fsync_seconds": true, "readlatency": true,
	}
	for name, want := range shown { // any order: each by itself
		if got := v.Shown(Find(name)); got != want {
			t.Errorf("%s is shown: %v", name, got)
		}
	}
	for name, set := range map[string]func(){ // any order
		"unknown": func() { v.Set("nonsense", 1) }, "wrong kind": func() { v.Set("readlatency", 1) },
		"decimals": func() { v.SetFloat("znode_count", 1) }, "set": func() { v.SetKeyed("readlatency", "x", 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no violation", name)
				}
			}()
			set()
		}()
	}
}

// TestMetricsPage compares docs/metrics.md with what the table makes of it; -update writes it.
func TestMetricsPage(t *testing.T) {
	const file = "../../../docs/metrics.md"
	head, err := os.ReadFile("testdata/head.md")
	if err != nil {
		t.Fatal(err)
	}
	want := string(head) + tables()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go generate ./server/stats/catalog", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s does not agree with the catalog, run go generate ./server/stats/catalog (-want +got):\n%s", file,
			diff)
	}
}

// tables are the three parts of docs/metrics.md.
func tables() string {
	var ours, here, absent strings.Builder
	for r := range All() {
		label := r.Label
		if label != "" {
			label = "`" + label + "`"
		}
		switch {
		case r.Own:
			kind := r.Kind.String()
			if r.Kind == Percentiles {
				kind = "histogram"
			}
			fmt.Fprintf(&ours, "| `%s` | %s | %s | %s |\n", r.Name, kind, label, r.Help)
		case r.Absent == "":
			fmt.Fprintf(&here, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Kind, label, r.Part, r.Help)
		default:
			fmt.Fprintf(&absent, "| `%s` | %s | %s | %s |\n", r.Name, r.Kind, r.Help, r.Absent)
		}
	}
	return "## ZooKeeper's, measured here\n\n| name | kind | label | servers | what |\n|---|---|---|---|---|\n" +
		here.String() +
		"\n## ZooKeeper's, always 0\n\n| name | kind | what it is in ZooKeeper | why it has no meaning here |\n" +
		"|---|---|---|---|\n" + absent.String() +
		"\n## Ours\n\n| name | kind | label | what |\n|---|---|---|---|\n" + ours.String()
}
