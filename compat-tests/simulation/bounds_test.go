package simulation

import (
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/faults"
	"zkd/server/sim"
)

// watched returns a watch over servers of a plan of which nothing is known.
func watched(p *Plan, servers int) *watch {
	w := &sim.World{Servers: make([]*sim.Server, servers)}
	return &watch{g: &play{plan: p, w: w, history: faults.NewHistory()}, victim: -1, samples: make([][]sample, servers)}
}

// TestBounds: each thing that grows is told, and what is allowed is not.
func TestBounds(t *testing.T) {
	began := time.Unix(1000, 0)
	honest := func() []sample { // one that is old enough for all bounds, and the present one
		return []sample{
			{at: began, figures: map[string]int64{"zk_zkd_applied_index": 50, "zk_zkd_commit_index": 50,
				"zk_zkd_log_bytes_total": 1 << 20}},
			{at: began.Add(10 * time.Minute), figures: map[string]int64{
				"zk_zkd_applied_index": 100, "zk_zkd_commit_index": 100, "zk_zkd_durable_index": 60,
				"zk_zkd_log_bytes_total": 2 << 20, "zk_zkd_log_kept_max_bytes": 1 << 10,
				"zk_zkd_log_kept_bytes": 1 << 20, "zk_num_alive_connections": 2, "zk_outstanding_requests": 4}},
		}
	}
	for name, tc := range map[string]struct { // order: each for itself
		lie  func(s *sample)
		want string
	}{
		"nothing":         {func(*sample) {}, ""},
		"log":             {func(s *sample) { s.figures["zk_zkd_log_kept_bytes"] = 2 << 20 }, "the log keeps"},
		"disk of the log": {func(s *sample) { s.log.Bytes = 1 << 30 }, "the log takes"},
		"durable":         {func(s *sample) { s.figures["zk_zkd_durable_index"] = 49 }, "durable is entry 49"},
		"applied":         {func(s *sample) { s.figures["zk_zkd_applied_index"] = 49 }, "applied is entry 49"},
		"requests":        {func(s *sample) { s.figures["zk_outstanding_requests"] = 100 }, "requests in flight"},
		"proposals": {func(s *sample) { s.figures["zk_zkd_outstanding_proposal_bytes"] = 34 << 20 },
			"proposed"},
		"checkpoints":        {func(s *sample) { s.checkpoints.Entries = 5 }, "5 checkpoints"},
		"a state on its way": {func(s *sample) { s.staged.Bytes = 2 << 20 }, "received"},
	} {
		w := watched(&Plan{Settings: []string{"globalOutstandingLimit=4"}}, 3)
		samples := honest()
		w.samples[1] = samples[:1]
		tc.lie(&samples[1])
		got := w.beyond(1, &samples[1])
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestGrowth: what grows for as long as it is watched is told; what comes and goes is not.
func TestGrowth(t *testing.T) {
	for name, tc := range map[string]struct { // order: each for itself
		tasks func(i int) int64
		want  bool
	}{
		"grow":        {func(i int) int64 { return int64(300 + 30*i) }, true},
		"come and go": {func(i int) int64 { return int64(300 + 300*(i%2)) }, false},
	} {
		w := watched(&Plan{}, 1)
		for i := range 30 {
			w.samples[0] = append(w.samples[0], sample{at: time.Unix(int64(i), 0), tasks: tc.tasks(i)})
		}
		w.growth()
		found := strings.Join(w.g.history.Violations(), "\n")
		if strings.Contains(found, "goroutines") != tc.want {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// TestDrawWhatStays: some faults stay for long, and some are that a server is not there at all.
func TestDrawWhatStays(t *testing.T) {
	absent, lingers := 0, 0
	for seed := range uint64(500) {
		p := Draw(seed)
		if p.Linger > 0 && p.Stays == nil {
			t.Errorf("seed %d looks at what grows while nothing stays", seed)
		}
		if p.absent() >= p.Participants {
			t.Errorf("seed %d: %d is absent of %d", seed, p.absent(), p.Participants)
		}
		if p.absent() >= 0 {
			absent++
		}
		if p.Linger > 0 {
			lingers++
		}
	}
	if absent < 20 || lingers < 50 {
		t.Errorf("of 500 plans %d have a server that is absent, and %d look at what grows", absent, lingers)
	}
}
