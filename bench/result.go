package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Latency is the distribution of the time to a reply, in microseconds.
type Latency struct {
	P50Micros  int64 `json:"p50Micros"`
	P99Micros  int64 `json:"p99Micros"`
	P999Micros int64 `json:"p999Micros"`
	MaxMicros  int64 `json:"maxMicros"`
}

// Result is what one load, or a stage of it, has shown. Zero means not known or not applicable.
type Result struct {
	Name      string           `json:"name"` // load, shape and stage
	Requests  int64            `json:"requests,omitempty"`
	Seconds   float64          `json:"seconds,omitempty"`
	PerSecond float64          `json:"perSecond,omitempty"`
	Latency   *Latency         `json:"latency,omitempty"`
	Errors    map[string]int64 `json:"errors,omitempty"` // by ZooKeeper's name of the code
	// CPUMicros is the server's user and system time per request.
	CPUMicros float64 `json:"serverCpuMicrosPerRequest,omitempty"`
	// WrittenBytes is what was written to the server's disk per request, by it and by whoever else was there.
	WrittenBytes float64 `json:"diskWrittenBytesPerRequest,omitempty"`
	// LoadProcessors is how many processors the load generator itself kept busy.
	LoadProcessors float64 `json:"loadProcessors,omitempty"`
	// RSSBytes is the server's resident set at the end.
	RSSBytes int64 `json:"serverRssBytes,omitempty"`
	// UnitBytes is what the resident set has grown for each Unit.
	UnitBytes float64 `json:"bytesPerUnit,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	// RestartMillis is the time from the start of the killed server to its first answered read.
	RestartMillis float64 `json:"restartMillis,omitempty"`
	// GapMillis is the longest time between two acknowledged writes of a client when the leader ended: the median of
	// all times that it did. GapMaxMillis is the longest of all.
	GapMillis    float64 `json:"gapMillis,omitempty"`
	GapMaxMillis float64 `json:"gapMaxMillis,omitempty"`
}

// ErrorCount returns the number of all errors.
func (r *Result) ErrorCount() int64 {
	var sum int64
	for _, n := range r.Errors { // a sum, so the order does not matter
		sum += n
	}
	return sum
}

// WriteTable writes the results for people, one a line, and the errors by kind below.
func WriteTable(w io.Writer, results []Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line(table, "load", "requests", "req/s", "p50", "p99", "p99.9", "max", "errors", "cpu/req", "to disk/req", "rss",
		"bytes each", "restart", "gap", "longest")
	for i := range results {
		r := &results[i]
		latency := [4]string{"-", "-", "-", "-"}
		if l := r.Latency; l != nil {
			latency = [4]string{micros(l.P50Micros), micros(l.P99Micros), micros(l.P999Micros), micros(l.MaxMicros)}
		}
		each := known(r.UnitBytes, "%.0f")
		if r.Unit != "" {
			each += "/" + r.Unit
		}
		line(table, r.Name, known(float64(r.Requests), "%.0f"), known(r.PerSecond, "%.0f"),
			latency[0], latency[1], latency[2], latency[3], strconv.FormatInt(r.ErrorCount(), 10),
			known(r.CPUMicros, "%.1fµs"), known(r.WrittenBytes, "%.0fB"),
			known(float64(r.RSSBytes)/(1<<20), "%.1fMiB"), each,
			known(r.RestartMillis, "%.0fms"), known(r.GapMillis, "%.0fms"), known(r.GapMaxMillis, "%.0fms"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return writeErrors(w, results)
}

func writeErrors(w io.Writer, results []Result) error {
	for i := range results {
		r := &results[i]
		names := make([]string, 0, len(r.Errors))
		for name := range r.Errors { // sorted below, so the order does not matter
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if _, err := fmt.Fprintf(w, "errors of %s: %s %d\n", r.Name, name, r.Errors[name]); err != nil {
				return fmt.Errorf("write the errors: %w", err)
			}
		}
	}
	return nil
}

// WriteJSON writes v, results or a comparison, as indented JSON.
func WriteJSON[T []Result | Comparison](w io.Writer, v T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write the results as JSON: %w", err)
	}
	return nil
}

// line writes one line of a table; an error shows when the table is flushed.
func line(table *tabwriter.Writer, cells ...string) {
	_, _ = table.Write([]byte(strings.Join(cells, "\t") + "\t\n"))
}

// known formats a figure, or "-" for one that is not known.
func known(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// micros formats microseconds in the unit that leaves three digits or so.
func micros(v int64) string {
	switch {
	case v < 1000:
		return fmt.Sprintf("%dµs", v)
	case v < 1_000_000:
		return fmt.Sprintf("%.1fms", float64(v)/1e3)
	default:
		return fmt.Sprintf("%.2fs", float64(v)/1e6)
	}
}
