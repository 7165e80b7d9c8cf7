package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zkd/cmd/zkd/terminal"
	"zkd/server/traffic/report"
)

// Report is what is shown.
type Report = report.Report

// table is what is shown of a view.
type table struct {
	titles []string
	left   map[int]bool
	rows   [][]string
	// sorted is the column that the rows are sorted by.
	sorted int
}

// order is how a view is sorted.
type order struct {
	column   int // of those of the view; -1: as the report has them
	reversed bool
}

// tableOf makes the table of a view, with the rows whose keys have filter in them.
func tableOf(r *Report, v int, filter string, by order) *table {
	if v == report.SlowView {
		return slowTable(r, filter)
	}
	view := &report.Views[v]
	t := &table{left: map[int]bool{}, sorted: by.column}
	for i := range view.Columns {
		t.titles = append(t.titles, view.Columns[i].Title)
		t.left[i] = view.Columns[i].Left
	}
	rows := view.Rows(&r.Lists, filter, by.column, by.reversed)
	for i := range rows {
		cells := make([]string, len(view.Columns))
		for k := range view.Columns {
			cells[k] = terminal.Clean(view.Columns[k].Text(&rows[i]))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// slowTable is the table of the slow requests.
func slowTable(r *Report, filter string) *table {
	return &table{titles: report.SlowTitles, left: report.SlowLeft, sorted: 1,
		rows: r.SlowRows(filter, time.Local, terminal.Clean)}
}

// pathWidthMax is how wide a column of names is at most.
const pathWidthMax = 60

// lines are the rows as text, the titles first.
func (t *table) lines() []string {
	widths := make([]int, len(t.titles))
	titles := slices.Clone(t.titles)
	if t.sorted >= 0 {
		titles[t.sorted] += "*"
	}
	for _, cells := range append([][]string{titles}, t.rows...) {
		for i, cell := range cells {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cell), pathWidthMax))
		}
	}
	lines := []string{t.line(titles, widths)}
	for _, cells := range t.rows {
		lines = append(lines, t.line(cells, widths))
	}
	return lines
}

// line is one row as text.
func (t *table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		cell = shorten(cell, widths[i])
		pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
		if t.left[i] {
			b.WriteString(cell + pad)
		} else {
			b.WriteString(pad + cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// shorten cuts the middle out of a text that is too long: its beginning and its end tell paths apart.
func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	head := (width - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

// header are the lines above the tables: each server, and all together.
func header(r *Report) []string {
	var lines []string
	for i := range r.Servers {
		lines = append(lines, serverLine(&r.Servers[i]))
	}
	t := &r.Total
	one := int64(1)
	for i := range r.Servers {
		one = max(one, r.Servers[i].SampledOneIn)
	}
	all := fmt.Sprintf("%s req/s  %s%% failed  in %s/s  out %s/s  mean %s  p50 %s  p99 %s  max %s",
		report.Short(t.PerSecond),
		t.Told(report.Ratio(100*t.Failed, t.Requests), report.Percent), t.Told(t.Rate(t.BytesIn), report.Short),
		t.Told(t.Rate(t.BytesOut), report.Short),
		report.Micros(float64(t.MeanUs)), report.Micros(float64(t.P50Us)), report.Micros(float64(t.P99Us)),
		report.Micros(float64(t.MaxUs)))
	lines = append(lines, all)
	if one > 1 {
		lines = append(lines, fmt.Sprintf("paths: one request in %d is sampled", one))
	}
	return lines
}

// serverLine is what is said of a server.
func serverLine(s *report.Server) string {
	if s.Error != "" {
		return terminal.Clean(fmt.Sprintf("%s  %s", s.Address, s.Error))
	}
	st := s.State
	perSecond := float64(0)
	if s.Seconds > 0 {
		perSecond = float64(s.Total.Requests) / s.Seconds
	}
	role := cmp.Or(st.State, "not serving")
	if s.Kind != report.KindZkd {
		role += " (" + s.Kind + ")"
	}
	text := fmt.Sprintf("%s  %s  up %s  %s req/s  p99 %s  outstanding %d  clients %d  watches %d  znodes %d  zxid %s",
		s.Address, role, uptime(st.UptimeMs), report.Short(perSecond), report.Micros(float64(s.Total.P99Us)),
		st.Outstanding,
		st.Connections, st.Watches, st.Znodes, cmp.Or(st.Zxid, "-"))
	return terminal.Clean(text)
}

// uptime writes how long a server runs.
func uptime(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Truncate(time.Second).String()
}
