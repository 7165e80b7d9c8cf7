package attack

import (
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestLatencies(t *testing.T) {
	begin := time.Unix(1000, 0)
	var samples []sample
	for i := range 100 {
		samples = append(samples, sample{begin.Add(time.Duration(i) * time.Second), time.Duration(100-i) * time.Second,
			i == 0})
	}
	got := latencies(samples, begin, begin.Add(100*time.Second))
	if want := (Latencies{51 * time.Second, 100 * time.Second, 100 * time.Second, 100, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = latencies(samples, begin.Add(98*time.Second), begin.Add(99*time.Second))
	if want := (Latencies{2 * time.Second, 2 * time.Second, 2 * time.Second, 1, 0}); got != want {
		t.Errorf("one of them: %+v, want %+v", got, want)
	}
	if got := latencies(samples, begin.Add(-time.Hour), begin); got != (Latencies{}) {
		t.Errorf("none of them: %+v", got)
	}
}

func TestTable(t *testing.T) {
	l := Latencies{P50: 400 * time.Microsecond, P99: 20 * time.Millisecond, Max: 3 * time.Second, Count: 3, Lost: 2}
	got := Table([]Result{{Attack: "a", Server: target.Zkd, Healthy: [phases]Latencies{{}, l, {}},
		Memory: [phases]int64{1 << 20, 5 << 20, 2 << 20}, Took: 1500 * time.Millisecond, Notes: "n"}})
	want := "| a | zkd | – | 0.4 / 20 / 3000 (2 lost) | – | 1 / 5 / 2 | 0 / 0 / 0 | 1.5 | n |\n"
	if _, last, _ := strings.Cut(got, "|---|---|---|---|---|---|---|---|---|\n"); last != want {
		t.Errorf("%q, want %q", last, want)
	}
}
