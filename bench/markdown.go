package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// column is one of the figures that the table of a document has for each load.
type column struct {
	figure string
	head   string
	scale  float64 // the figure is divided by it
}

// columns are the figures of the wide table; what else a load shows has a table of its own.
var columns = []column{
	{throughput, "req/s", 1},
	{"p50 (µs)", "p50, ms", 1e3},
	{"p99 (µs)", "p99, ms", 1e3},
	{"p99.9 (µs)", "p99.9, ms", 1e3},
	{"server cpu (µs/req)", "CPU, µs/req", 1},
	{"to disk (bytes/req)", "to disk, KB/req", 1e3},
	{"memory (MiB)", "memory, MiB", 1},
}

// WriteMarkdown writes comparisons of the same sides as one table for a document: for each load the medians of both
// sides, and of the limit where there is one, and the median ratio, in bold where the first side is behind. A load that
// several comparisons have is that of the last one.
func WriteMarkdown(w io.Writer, all []Comparison) error {
	if len(all) == 0 {
		return nil
	}
	loads, rows := rowsByLoad(all)
	var b strings.Builder
	head := strings.Join(all[0].Sides[:], " / ")
	if anyLimit(rows) {
		head += " / limit"
	}
	b.WriteString("| " + head + " |")
	for _, c := range columns {
		b.WriteString(" " + c.head + " | ratio |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|---|", len(columns)) + "\n")
	var others []Row
	for _, load := range loads {
		if !slices.ContainsFunc(rows[load], func(r Row) bool { return r.Figure == throughput }) {
			others = append(others, rows[load]...)
			continue
		}
		b.WriteString("| `" + load + "` |")
		for _, c := range columns {
			b.WriteString(cells(rows[load], c))
		}
		b.WriteString("\n")
		for _, row := range rows[load] {
			if !slices.ContainsFunc(columns, func(c column) bool { return c.figure == row.Figure }) {
				others = append(others, row)
			}
		}
	}
	writeOthers(&b, all[0].Sides, others)
	writeNotes(&b, all)
	_, err := io.WriteString(w, b.String())
	return err
}

// rowsByLoad sorts rows by their load, in the order in which loads came first.
func rowsByLoad(all []Comparison) (loads []string, rows map[string][]Row) {
	rows = map[string][]Row{}
	for _, c := range all {
		fresh := map[string]bool{}
		for _, row := range c.Rows {
			if _, ok := rows[row.Load]; !ok {
				loads = append(loads, row.Load)
			}
			if !fresh[row.Load] {
				fresh[row.Load], rows[row.Load] = true, nil
			}
			rows[row.Load] = append(rows[row.Load], row)
		}
	}
	return loads, rows
}

func anyLimit(rows map[string][]Row) bool {
	for _, of := range rows { // any of them, so the order does not matter
		if slices.ContainsFunc(of, func(r Row) bool { return r.Limit != nil }) {
			return true
		}
	}
	return false
}

// cells are the two of one figure: the sides, and their ratio.
func cells(rows []Row, c column) string {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Figure == c.figure })
	if i < 0 {
		return "  |  |"
	}
	row := rows[i]
	text := short(row.First.Median/c.scale) + " / " + short(row.Second.Median/c.scale)
	if row.Limit != nil {
		text += " / " + short(row.Limit.Median/c.scale)
	}
	return " " + text + " | " + ratio(row) + " |"
}

// ratio formats a ratio, in bold if the first side is behind.
func ratio(row Row) string {
	rounded := math.Round(row.Ratio.Median*100) / 100
	text := fmt.Sprintf("%.2f", rounded)
	if rounded >= 10 {
		text = fmt.Sprintf("%.1f", rounded)
	}
	if row.Figure == throughput && rounded < 1 || row.Figure != throughput && rounded > 1 {
		return "**" + text + "**"
	}
	return text
}

// short formats a number with two or three digits that count.
func short(v float64) string {
	switch {
	case v >= 9_950:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 995:
		return fmt.Sprintf("%.1f k", v/1e3)
	case v >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.95:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// writeOthers writes the figures that have no column.
func writeOthers(b *strings.Builder, sides [2]string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| figure | %s | %s | ratio |\n|---|---|---|---|\n", sides[0], sides[1])
	for _, row := range rows {
		fmt.Fprintf(b, "| `%s`: %s | %s | %s | %s |\n", row.Load, row.Figure, short(row.First.Median),
			short(row.Second.Median), ratio(row))
	}
}

// writeNotes writes what is to be known of the comparisons, each sentence once.
func writeNotes(b *strings.Builder, all []Comparison) {
	var notes []string
	var failed [2]int64
	busy := 0.0
	for _, c := range all {
		for _, note := range c.Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		failed[0], failed[1] = failed[0]+c.Errors[0], failed[1]+c.Errors[1]
		busy = max(busy, c.LoadProcessors)
	}
	notes = append(notes, fmt.Sprintf("Failed requests: %s %d, %s %d.", all[0].Sides[0], failed[0], all[0].Sides[1],
		failed[1]))
	if busy > 0 {
		notes = append(notes, fmt.Sprintf("The load generator took at most %.2f of a processor.", busy))
	}
	b.WriteString("\n")
	for _, note := range notes {
		b.WriteString(note + "\n")
	}
}
