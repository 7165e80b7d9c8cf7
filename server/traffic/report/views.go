package report

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Column is one column of a view.
type Column struct {
	Title string
	Left  bool // aligned to the left: what strangers have named
	Text  func(r *Row) string
	// Value is what is sorted by, the greatest first; nil: by the text, the least first.
	Value func(r *Row) float64
}

// View is one table of a report.
type View struct {
	Name    string
	Title   string
	List    func(l *Lists) []Row // nil: the slow requests
	Columns []Column
}

// Views are all, in the order of their keys. They are not changed.
var Views = []View{
	{Name: "operations", Title: "Operations", List: func(l *Lists) []Row { return l.Operations },
		Columns: with(counted, name("OPERATION", func(r *Row) string { return r.Operation }))},
	{Name: "subtrees", Title: "Subtrees", List: func(l *Lists) []Row { return l.Subtrees },
		Columns: with(sampled, name("SUBTREE", func(r *Row) string { return r.Path }))},
	{Name: "znodes", Title: "Znodes", List: func(l *Lists) []Row { return l.Znodes },
		Columns: with(sampled, name("ZNODE", func(r *Row) string { return r.Path }))},
	{Name: "sessions", Title: "Sessions", List: func(l *Lists) []Row { return l.Sessions },
		Columns: with(counted, name("SESSION", func(r *Row) string { return r.Session }),
			name("ADDRESS", func(r *Row) string { return r.Address }), name("USER", userOf),
			name("SERVER", func(r *Row) string { return r.Server }))},
	{Name: "addresses", Title: "Addresses", List: func(l *Lists) []Row { return l.Addresses },
		Columns: with(counted, name("ADDRESS", func(r *Row) string { return r.Address }))},
	{Name: "users", Title: "Users", List: func(l *Lists) []Row { return l.Users },
		Columns: with(counted, name("USER", userOf))},
	{Name: "slow", Title: "Slow requests"},
}

// SlowView is the place of the slow requests, which are another table.
const SlowView = 6

// userOf is who a client has proven to be.
func userOf(r *Row) string { return cmp.Or(r.User, "-") }

// name is a column of keys.
func name(title string, text func(r *Row) string) Column {
	return Column{Title: title, Left: true, Text: text}
}

// with are columns of keys before others.
func with(others []Column, names ...Column) []Column { return append(names, others...) }

// number is a column of numbers.
func number(title string, value func(r *Row) float64, text func(v float64) string) Column {
	return Column{Title: title, Value: value, Text: func(r *Row) string { return r.Told(value(r), text) }}
}

// Told writes a number, or a dash for 0 where a server may not have told it.
func (r *Row) Told(v float64, text func(v float64) string) string {
	if v == 0 && r.Untold {
		return "-"
	}
	return text(v)
}

// counted are the columns of counts. What is per second is of the row's window.
var counted = []Column{
	number("REQ/S", func(r *Row) float64 { return r.PerSecond }, Short),
	number("FAIL%", func(r *Row) float64 { return Ratio(100*r.Failed, r.Requests) }, Percent),
	number("IN/S", func(r *Row) float64 { return r.Rate(r.BytesIn) }, Short),
	number("OUT/S", func(r *Row) float64 { return r.Rate(r.BytesOut) }, Short),
	number("MEAN", func(r *Row) float64 { return float64(r.MeanUs) }, Micros),
	number("P50", func(r *Row) float64 { return float64(r.P50Us) }, Micros),
	number("P99", func(r *Row) float64 { return float64(r.P99Us) }, Micros),
	number("MAX", func(r *Row) float64 { return float64(r.MaxUs) }, Micros),
	number("WATCH/S", func(r *Row) float64 { return r.Rate(r.WatchesSet) }, Short),
	number("EVENT/S", func(r *Row) float64 { return r.Rate(r.Notices) }, Short),
	number("APPLY%", func(r *Row) float64 { return r.Rate(r.ApplyUs) / 1e4 }, Percent),
}

// sampled are those of paths, with what they may be wrong by.
var sampled = append(counted[:len(counted):len(counted)],
	number("±", func(r *Row) float64 { return r.Rate(r.SamplingError + r.MissedAtMost) }, Short))

// Ratio is a/b, 0 for nothing of nothing.
func Ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Short writes a number in a few characters: 12, 12.3k, 4.56M.
func Short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 1e6:
		return scaled(v/1e3) + "k"
	case v < 1e9:
		return scaled(v/1e6) + "M"
	}
	return scaled(v/1e9) + "G"
}

// scaled writes a number below 1000 in three digits.
func scaled(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Percent writes a percentage.
func Percent(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return "<0.1"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Micros writes microseconds.
func Micros(v float64) string {
	switch {
	case v <= 0:
		return "-"
	case v < 1e3:
		return strconv.FormatFloat(v, 'f', 0, 64) + "us"
	case v < 1e6:
		return scaled(v/1e3) + "ms"
	}
	return scaled(v/1e6) + "s"
}

// SlowTitles are the titles of the slow requests.
var SlowTitles = []string{"TIME", "TOOK", "OPERATION", "PATH", "QUEUE", "TURN", "CONFIRM", "LOG", "REPLICATE", "APPLY",
	"ANSWER", "BYTES", "SESSION", "ADDRESS", "USER", "SERVER"}

// SlowLeft are those that are aligned to the left.
var SlowLeft = map[int]bool{0: true, 2: true, 3: true, 12: true, 13: true, 14: true, 15: true}

// cells are the cells of a slow request, with its time as a zone has it.
func (s *Slow) cells(zone *time.Location) []string {
	operation := s.Operation
	if s.Failed {
		operation += "!"
	}
	p := &s.PhasesUs
	cells := []string{time.UnixMilli(s.AtMs).In(zone).Format("15:04:05.000"), Micros(float64(s.TookUs)), operation,
		cmp.Or(s.Path, "-")}
	for _, us := range []int64{p.Queue, p.Turn, p.Confirm, p.Log, p.Replicate, p.Apply, p.Answer} {
		cells = append(cells, Micros(float64(us)))
	}
	cells = append(cells, Short(float64(s.Bytes)), s.Session, s.Address, cmp.Or(s.User, "-"), s.Server)
	return cells
}

// SlowRows are the cells of the slow requests, as shown makes each of them, that have filter in them.
func (l *Lists) SlowRows(filter string, zone *time.Location, shown func(cell string) string) (found [][]string) {
	for i := range l.Slow {
		cells := l.Slow[i].cells(zone)
		for k := range cells {
			cells[k] = shown(cells[k])
		}
		if strings.Contains(strings.Join(cells, " "), filter) {
			found = append(found, cells)
		}
	}
	return found
}

// Rows are those of a view whose keys have filter in them, sorted by a column of it; -1: as the report has them.
func (v *View) Rows(l *Lists, filter string, column int, reversed bool) []Row {
	rows := slices.Clone(v.List(l))
	rows = slices.DeleteFunc(rows, func(row Row) bool { return !strings.Contains(row.Text(), filter) })
	if column < 0 {
		return rows
	}
	by := &v.Columns[column]
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := &rows[i], &rows[j]
		if reversed {
			a, b = b, a
		}
		if by.Value != nil {
			return by.Value(a) > by.Value(b)
		}
		return by.Text(a) < by.Text(b)
	})
	return rows
}

// Column finds a column by its title; -1 if there is none.
func (v *View) Column(title string) int {
	return slices.IndexFunc(v.Columns, func(c Column) bool { return strings.EqualFold(c.Title, title) })
}

// ViewOf finds a view by its name; -1 if there is none.
func ViewOf(name string) int {
	return slices.IndexFunc(Views, func(v View) bool { return v.Name == name })
}
