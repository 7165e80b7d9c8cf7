package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"zkd/cmd/zkd/terminal"
)

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
func (r *Report) tableOf(v int, filter string, by order) *table {
	if v == slowView {
		return r.slowTable(filter)
	}
	columns := views[v].columns
	t := &table{left: map[int]bool{}, sorted: by.column}
	for i := range columns {
		t.titles = append(t.titles, columns[i].title)
		t.left[i] = columns[i].left
	}
	rows := slices.Clone(views[v].list(&r.Lists))
	rows = slices.DeleteFunc(rows, func(row Row) bool { return !strings.Contains(row.text(), filter) })
	if by.column >= 0 {
		sortRows(rows, &columns[by.column], by.reversed)
	}
	for i := range rows {
		cells := make([]string, len(columns))
		for k := range columns {
			cells[k] = columns[k].text(&rows[i])
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// sortRows sorts rows by a column.
func sortRows(rows []Row, by *column, reversed bool) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		var c int
		if by.value != nil {
			c = cmp.Compare(by.value(&b), by.value(&a))
		} else {
			c = strings.Compare(by.text(&a), by.text(&b))
		}
		if reversed {
			return -c
		}
		return c
	})
}

// slowTable is the table of the slow requests.
func (r *Report) slowTable(filter string) *table {
	t := &table{titles: slowTitles, left: slowLeft, sorted: 1}
	for i := range r.Slow {
		cells := slowCells(&r.Slow[i])
		if strings.Contains(strings.Join(cells, " "), filter) {
			t.rows = append(t.rows, cells)
		}
	}
	return t
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
func (r *Report) header() []string {
	var lines []string
	for i := range r.Servers {
		lines = append(lines, r.Servers[i].line())
	}
	t := &r.Total
	one := int64(1)
	for i := range r.Servers {
		one = max(one, r.Servers[i].SampledOneIn)
	}
	all := fmt.Sprintf("%s req/s  %s%% failed  in %s/s  out %s/s  mean %s  p50 %s  p99 %s  max %s", short(t.PerSecond),
		t.told(ratio(100*t.Failed, t.Requests), percent), t.told(t.perSecond(t.BytesIn), short),
		t.told(t.perSecond(t.BytesOut), short),
		micros(float64(t.MeanUs)), micros(float64(t.P50Us)), micros(float64(t.P99Us)), micros(float64(t.MaxUs)))
	lines = append(lines, all)
	if one > 1 {
		lines = append(lines, fmt.Sprintf("paths: one request in %d is sampled", one))
	}
	return lines
}

// line is what is said of a server.
func (s *Server) line() string {
	if s.Error != "" {
		return terminal.Clean(fmt.Sprintf("%s  %s", s.Address, s.Error))
	}
	st := s.State
	perSecond := float64(0)
	if s.Seconds > 0 {
		perSecond = float64(s.Total.Requests) / s.Seconds
	}
	role := cmp.Or(st.State, "not serving")
	if s.Kind != kindZkd {
		role += " (" + s.Kind + ")"
	}
	text := fmt.Sprintf("%s  %s  up %s  %s req/s  p99 %s  outstanding %d  clients %d  watches %d  znodes %d  zxid %s",
		s.Address, role, uptime(st.UptimeMs), short(perSecond), micros(float64(s.Total.P99Us)), st.Outstanding,
		st.Connections, st.Watches, st.Znodes, cmp.Or(st.Zxid, "-"))
	return terminal.Clean(text)
}
