package admin

import (
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"zkd/quorum/clock"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

// page is the page for Prometheus, as its own parser reads it.
func parsedPage(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	status, body := ask(t, h, http.MethodGet, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if status != http.StatusOK || err != nil {
		t.Fatalf("%d, %v:\n%.2000s", status, err, body)
	}
	return families
}

// newPage returns the page of what set sets.
func newPage(t *testing.T, runtime bool, set func(*catalog.Values)) http.Handler {
	t.Helper()
	h, err := NewPage(PageOptions{Clock: clock.Real(), Logger: slog.New(slog.DiscardHandler), Metrics: set,
		Runtime: runtime})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// everything sets every metric.
func everything(v *catalog.Values) {
	var h stats.Histogram
	h.Add(3)
	for r := range catalog.All() {
		switch {
		case r.Label != "" && r.Kind <= catalog.Counter:
			v.SetKeyed(r.Name, "a\xff\"b", 7)
		case r.Label != "": // nobody sets these
		case r.Own && r.Kind == catalog.Percentiles:
			v.SetLatency(r.Name, catalog.Latency{Count: 2, Total: time.Second, Below: map[time.Duration]uint64{
				time.Millisecond: 1, time.Second: 2}})
		case r.Kind >= catalog.Summary:
			v.SetHistogram(r.Name, &h)
		case r.Float:
			v.SetFloat(r.Name, 0.5)
		default:
			v.Set(r.Name, 7)
		}
	}
}

// TestPage: Prometheus' parser takes the page, and finds ZooKeeper's names in ZooKeeper's types.
func TestPage(t *testing.T) {
	found := parsedPage(t, newPage(t, true, everything))
	types := map[catalog.Kind]dto.MetricType{
		catalog.Gauge: dto.MetricType_GAUGE, catalog.Counter: dto.MetricType_COUNTER,
		catalog.Summary: dto.MetricType_SUMMARY, catalog.Percentiles: dto.MetricType_SUMMARY,
	}
	for r := range catalog.All() {
		f := found[r.Name]
		if r.Hidden || r.Label != "" && r.Kind >= catalog.Summary {
			if f != nil {
				t.Errorf("%s is there", r.Name)
			}
			continue
		}
		want := types[r.Kind]
		if r.Own && r.Kind == catalog.Percentiles {
			want = dto.MetricType_HISTOGRAM
		}
		if f == nil || f.GetType() != want {
			t.Errorf("%s: %v, want a %v", r.Name, f, want)
		}
	}
	for name, want := range map[string][]float64{"readlatency": {0.5, 0.9, 0.99}, "unavailable_time": {0.5}} {
		var got []float64
		for _, q := range found[name].GetMetric()[0].GetSummary().GetQuantile() {
			got = append(got, q.GetQuantile())
			if q.GetValue() != 3 {
				t.Errorf("%s at %v: %v, want 3", name, q.GetQuantile(), q.GetValue())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has quantiles %v, want %v", name, got, want)
		}
	}
	if found["go_goroutines"] == nil || found["process_open_fds"] == nil {
		t.Error("the runtime's metrics are missing")
	}
	alone := parsedPage(t, newPage(t, false, func(*catalog.Values) {}))
	if alone["go_goroutines"] != nil || alone["synced_followers"] != nil || alone["znode_count"] == nil {
		t.Errorf("with nothing set: %v", slices.Sorted(maps.Keys(alone)))
	}
	q := alone["readlatency"].GetMetric()[0].GetSummary().GetQuantile()[0]
	if !math.IsNaN(q.GetValue()) {
		t.Errorf("a quantile of nothing is %v, want NaN", q.GetValue())
	}
}

// TestQuantilesForget: they are of the last ten minutes.
func TestQuantilesForget(t *testing.T) {
	var h stats.Histogram
	now := clock.NewManual(time.Unix(0, 0))
	page, err := NewPage(PageOptions{Clock: now, Logger: slog.New(slog.DiscardHandler),
		Metrics: func(v *catalog.Values) { v.SetHistogram("readlatency", &h) }})
	if err != nil {
		t.Fatal(err)
	}
	median := func() float64 {
		return parsedPage(t, page)["readlatency"].GetMetric()[0].GetSummary().GetQuantile()[0].GetValue()
	}
	for range 10 {
		h.Add(20)
	}
	if got := median(); got != 20 {
		t.Errorf("at first %v, want 20", got)
	}
	h.Add(2)
	for range windowParts + 1 {
		now.Advance(windowPart)
		_ = median()
	}
	if got := median(); !math.IsNaN(got) {
		t.Errorf("after a quiet window %v, want NaN", got)
	}
	h.Add(2)
	if got := median(); got != 2 {
		t.Errorf("of the new value %v, want 2", got)
	}
	h.Reset()
	h.Add(9)
	if got := median(); got != 9 {
		t.Errorf("after a reset %v, want 9", got)
	}
}

// metricName finds names in queries: an identifier that is not a function, a label, or a command of the language.
var metricName = regexp.MustCompile(`\b([a-z][a-z0-9_]*)\b(\{|\[|\s|\)|$)`)

// TestDashboardsAskForWhatThereIs: every metric in the Grafana dashboard and in the rules is on the page.
func TestDashboardsAskForWhatThereIs(t *testing.T) {
	known := map[string]bool{"up": true}
	for name, f := range parsedPage(t, newPage(t, true, everything)) {
		known[name] = true
		switch f.GetType() {
		case dto.MetricType_SUMMARY:
			known[name+"_sum"], known[name+"_count"] = true, true
		case dto.MetricType_HISTOGRAM:
			known[name+"_sum"], known[name+"_count"], known[name+"_bucket"] = true, true, true
		default:
		}
	}
	for file, expression := range map[string]*regexp.Regexp{
		"grafana/zkd.json":          regexp.MustCompile(`"(?:expr|query)": "((?:[^"\\]|\\.)*)"`),
		"prometheus/zkd-alerts.yml": regexp.MustCompile(`(?m)^\s+expr: (.*)$`),
	} {
		text, err := os.ReadFile(filepath.Join("../../conf", file))
		if err != nil {
			t.Fatal(err)
		}
		expressions := expression.FindAllSubmatch(text, -1)
		if len(expressions) < 10 {
			t.Errorf("%s: %d expressions", file, len(expressions))
		}
		for _, e := range expressions {
			checkQuery(t, file, string(e[1]), known)
		}
	}
}

// TestAlertsOfAdmission: who waits to be let in, and who is missed, is told of.
func TestAlertsOfAdmission(t *testing.T) {
	text, err := os.ReadFile("../../conf/prometheus/zkd-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for alert, metric := range map[string]string{ // order: each for itself
		"ZkdWaitsForAdmission": "zkd_admitted", "ZkdVotersMissed": "zkd_voters_away",
		"ZkdVotersEmptied": "zkd_voters_emptied",
	} {
		rule := regexp.MustCompile(`- alert: ` + alert + `\n\s+expr: .*\b` + metric + `\b.*\n\s+for: `)
		if !rule.Match(text) {
			t.Errorf("no rule %s asks for %s for a while", alert, metric)
		}
	}
}

// TestAlertsOfGreed: memory that clients hold, and what makes everybody wait, is told of.
func TestAlertsOfGreed(t *testing.T) {
	text, err := os.ReadFile("../../conf/prometheus/zkd-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for alert, metric := range map[string]string{ // order: each for itself
		"ZkdClientMemory": "zkd_client_memory_bytes", "ZkdClientMemoryClosed": "zkd_client_memory_closed_total",
		"ZkdSlowEntry": "zkd_slow_entries_total", "ZkdSlowRead": "zkd_slow_reads_total",
	} {
		if !regexp.MustCompile(`- alert: ` + alert + `\n\s+expr: .*\b` + metric + `\b`).Match(text) {
			t.Errorf("no rule %s asks for %s", alert, metric)
		}
	}
}

// inQuery are words that are no metrics.
var (
	labelList = regexp.MustCompile(`\{[^}]*\}|\b(by|without|on|ignoring|group_left)\s*\([^)]*\)|"[^"]*"|\\.`)
	inQuery   = []string{"and", "or", "unless", "bool", "sum", "max", "min", "rate", "increase", "changes", "delta",
		"count", "by", "histogram_quantile", "prometheus", "s", "m", "h", "d"}
)

// checkQuery looks at the metrics in one query.
func checkQuery(t *testing.T, file, query string, known map[string]bool) {
	t.Helper()
	if rest, ok := strings.CutPrefix(query, "label_values("); ok {
		query, _, _ = strings.Cut(rest, ",")
	}
	bare := labelList.ReplaceAllString(query, " ")
	for _, m := range metricName.FindAllStringSubmatch(bare, -1) {
		if !known[m[1]] && !slices.Contains(inQuery, m[1]) {
			t.Errorf("%s: %q asks for %s, which is not on the page", file, query, m[1])
		}
	}
}
