package top

import (
	"cmp"
	"strconv"
	"time"

	"zkd/cmd/zkd/terminal"
)

// column is one column of a view.
type column struct {
	title string
	left  bool // aligned to the left
	text  func(r *Row) string
	// value is what is sorted by, the greatest first; nil: by the text, the least first.
	value func(r *Row) float64
}

// view is one table.
type view struct {
	name    string
	title   string
	list    func(l *Lists) []Row // nil: the slow requests
	columns []column
}

// views are all, in the order of their keys.
var views = []view{
	{name: "operations", title: "Operations", list: func(l *Lists) []Row { return l.Operations },
		columns: with(counted, name("OPERATION", func(r *Row) string { return r.Operation }))},
	{name: "subtrees", title: "Subtrees", list: func(l *Lists) []Row { return l.Subtrees },
		columns: with(sampled, name("SUBTREE", func(r *Row) string { return r.Path }))},
	{name: "znodes", title: "Znodes", list: func(l *Lists) []Row { return l.Znodes },
		columns: with(sampled, name("ZNODE", func(r *Row) string { return r.Path }))},
	{name: "sessions", title: "Sessions", list: func(l *Lists) []Row { return l.Sessions },
		columns: with(counted, name("SESSION", func(r *Row) string { return r.Session }),
			name("ADDRESS", func(r *Row) string { return r.Address }), name("USER", userOf),
			name("SERVER", func(r *Row) string { return r.Server }))},
	{name: "addresses", title: "Addresses", list: func(l *Lists) []Row { return l.Addresses },
		columns: with(counted, name("ADDRESS", func(r *Row) string { return r.Address }))},
	{name: "users", title: "Users", list: func(l *Lists) []Row { return l.Users },
		columns: with(counted, name("USER", userOf))},
	{name: "slow", title: "Slow requests"},
}

// slowView is the place of the slow requests, which are another table.
const slowView = 6

// userOf is who a client has proven to be.
func userOf(r *Row) string { return cmp.Or(r.User, "-") }

// name is a column of keys.
func name(title string, text func(r *Row) string) column {
	return column{title: title, left: true, text: func(r *Row) string { return terminal.Clean(text(r)) }}
}

// with are columns of keys before others.
func with(others []column, names ...column) []column { return append(names, others...) }

// number is a column of numbers.
func number(title string, value func(r *Row) float64, text func(v float64) string) column {
	return column{title: title, value: value, text: func(r *Row) string { return r.told(value(r), text) }}
}

// told writes a number, or a dash for 0 where a server may not have told it.
func (r *Row) told(v float64, text func(v float64) string) string {
	if v == 0 && r.untold {
		return "-"
	}
	return text(v)
}

// counted are the columns of counts. What is per second is of the row's window.
var counted = []column{
	number("REQ/S", func(r *Row) float64 { return r.PerSecond }, short),
	number("FAIL%", func(r *Row) float64 { return ratio(100*r.Failed, r.Requests) }, percent),
	number("IN/S", func(r *Row) float64 { return r.perSecond(r.BytesIn) }, short),
	number("OUT/S", func(r *Row) float64 { return r.perSecond(r.BytesOut) }, short),
	number("MEAN", func(r *Row) float64 { return float64(r.MeanUs) }, micros),
	number("P50", func(r *Row) float64 { return float64(r.P50Us) }, micros),
	number("P99", func(r *Row) float64 { return float64(r.P99Us) }, micros),
	number("MAX", func(r *Row) float64 { return float64(r.MaxUs) }, micros),
	number("WATCH/S", func(r *Row) float64 { return r.perSecond(r.WatchesSet) }, short),
	number("EVENT/S", func(r *Row) float64 { return r.perSecond(r.Notices) }, short),
	number("APPLY%", func(r *Row) float64 { return r.perSecond(r.ApplyUs) / 1e4 }, percent),
}

// sampled are those of paths, with what they may be wrong by.
var sampled = append(counted[:len(counted):len(counted)],
	number("±", func(r *Row) float64 { return r.perSecond(r.SamplingError + r.MissedAtMost) }, short))

// perSecond is a count of the row's window in a second.
func (r *Row) perSecond(n int64) float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(n) / r.Seconds
}

// ratio is a/b, 0 for nothing of nothing.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// short writes a number in a few characters: 12, 12.3k, 4.56M.
func short(v float64) string {
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

// percent writes a percentage.
func percent(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return "<0.1"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// micros writes microseconds.
func micros(v float64) string {
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

// slowTitles are the titles of the slow requests.
var slowTitles = []string{"TIME", "TOOK", "OPERATION", "PATH", "QUEUE", "TURN", "CONFIRM", "LOG", "REPLICATE", "APPLY",
	"ANSWER", "BYTES", "SESSION", "ADDRESS", "USER", "SERVER"}

// slowLeft are those that are aligned to the left.
var slowLeft = map[int]bool{0: true, 2: true, 3: true, 12: true, 13: true, 14: true, 15: true}

// slowCells are the cells of a slow request.
func slowCells(s *Slow) []string {
	operation := s.Operation
	if s.Failed {
		operation += "!"
	}
	p := &s.PhasesUs
	cells := []string{time.UnixMilli(s.AtMs).Format("15:04:05.000"), micros(float64(s.TookUs)), operation,
		cmp.Or(s.Path, "-")}
	for _, us := range []int64{p.Queue, p.Turn, p.Confirm, p.Log, p.Replicate, p.Apply, p.Answer} {
		cells = append(cells, micros(float64(us)))
	}
	cells = append(cells, short(float64(s.Bytes)), s.Session, s.Address, cmp.Or(s.User, "-"), s.Server)
	for i := range cells {
		cells[i] = terminal.Clean(cells[i])
	}
	return cells
}

// uptime writes how long a server runs.
func uptime(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Truncate(time.Second).String()
}
