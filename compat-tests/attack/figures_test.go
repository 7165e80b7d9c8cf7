package attack

import (
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestLatencies(t *testing.T) {
	begin := time.Unix(1000, 0)
	var samples []Sample
	for i := range 100 {
		samples = append(samples, Sample{begin.Add(time.Duration(i) * time.Second), time.Duration(100-i) * time.Second,
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

func TestRows(t *testing.T) {
	waits := func(most time.Duration) [phases]Latencies {
		return [phases]Latencies{during: {P50: time.Millisecond, P99: 2 * time.Millisecond, Max: most, Count: 3}}
	}
	got := Rows([]Result{
		{Attack: "a", Server: target.Zkd, Healthy: waits(300 * time.Millisecond), Notes: "n",
			Memory: [phases]int64{1 << 20, 5 << 20}, Disk: [phases]int64{0, 1 << 20, 7 << 20}},
		{Attack: "a", Server: target.Zookeeper, Healthy: waits(200 * time.Millisecond), Notes: "m"},
		{Attack: "b", Server: target.Zkd, Healthy: waits(99 * time.Millisecond)},
		{Attack: "c", Server: target.Zookeeper},
	})
	want := "| a | 1.0 / 2.0 / 300 | 1.0 / 2.0 / 200 | 5 | 0 | 7 | 0 | zkd: n; 3.9.5: m |\n" +
		"| b | 1.0 / 2.0 / 99 | – | 0 | – | 0 | – |  |\n" +
		"| c | – | – | – | 0 | – | 0 |  |\n\n" +
		"a: a healthy client waits for 300 ms\na: longer than beside 3.9.5\n"
	if _, rows, _ := strings.Cut(got, "|---|---|---|---|---|---|---|---|\n"); rows != want {
		t.Errorf("%q, want %q", rows, want)
	}
}
