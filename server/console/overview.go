package console

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"zkd/server/console/survey"
)

// overview is what the first page shows.
type overview struct {
	Sample   *survey.Sample
	Findings []survey.Finding
	Charts   []chart
	Facts    []fact
	Members  []memberRow
	Lines    []Line
	HasLog   bool
	Operator bool
}

// fact is a figure with its name.
type fact struct{ Name, Value, Note string }

// memberRow is a server of the table.
type memberRow struct {
	*survey.Member
	Here     bool
	Uptime   string
	Disk     string // the free part of the fuller one
	Waiting  int64
	Latency  string
	Distance string // behind the leader
	Late     bool   // much of it
}

// chart is a picture of the last few minutes.
type chart struct {
	Title, Value, Unit string
	Line, Area         string // of a path, in the box of chartWidth and chartHeight
	Top                string // what the top is
	Says               string // for those who do not see it
	Known              bool
}

// The box of a chart, and the time that it shows.
const (
	chartWidth  = 300.0
	chartHeight = 72.0
	chartSpan   = 150 * time.Second
	chartGap    = 5 * time.Second // without samples: the line ends, and begins again
)

// overviewPage shows the ensemble.
func overviewPage(c *Console, w http.ResponseWriter, r *request) error {
	r.ensemble.look(r.ctx, c, r.visitor)
	show(w, http.StatusOK, &view{Title: "Overview", Active: "overview", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: c.overview(r)})
	return nil
}

// overviewLive shows what moves.
func overviewLive(c *Console, w http.ResponseWriter, r *request) error {
	r.ensemble.look(r.ctx, c, r.visitor)
	showLive(w, &view{Console: c, visitor: r.visitor, Ensemble: r.ensemble}, c.overview(r))
	return nil
}

// overview takes a sample and makes of it what is shown.
func (c *Console) overview(r *request) *overview {
	sample := r.ensemble.survey.Latest(r.ctx)
	history := r.ensemble.survey.History()
	o := &overview{Sample: sample, Findings: sample.Findings(), Operator: r.operator,
		Charts: []chart{
			draw("Writes", "a second", history, func(p *survey.Point) float64 { return p.Writes }, rateText),
			draw("Reads", "a second", history, func(p *survey.Point) float64 { return p.Reads }, rateText),
			draw("Latency", "mean", history, func(p *survey.Point) float64 { return p.Latency }, millisText),
			draw("Clients", "connected", history, func(p *survey.Point) float64 { return p.Clients }, wholeText),
		}}
	var leader *survey.Member
	for i := range sample.Members {
		m := &sample.Members[i]
		if m.Role == "leader" || m.Role == "standalone" {
			leader = m
		}
	}
	for i := range sample.Members {
		o.Members = append(o.Members, rowOf(&sample.Members[i], leader))
	}
	o.Facts = facts(sample, leader)
	if here := r.ensemble.Here; here != nil && here.Journal != nil && r.operator {
		o.HasLog, o.Lines = true, here.Journal.Latest(linesShown)
	}
	return o
}

// linesShown is how many lines of the log are shown.
const linesShown = 20

// rowOf is the row of a member.
func rowOf(m, leader *survey.Member) memberRow {
	row := memberRow{Member: m, Here: m.Place.Figures != nil}
	f := m.Figures
	if ms, ok := f.Int("uptime"); ok {
		row.Uptime = spanText(time.Duration(ms) * time.Millisecond)
	}
	for _, store := range []string{"raftlog", "state"} {
		total, _ := f.Float(store + "_zkd_disk_bytes")
		free, ok := f.Float(store + "_zkd_disk_free_bytes")
		if text := percentText(free / max(total, 1)); ok && total > 0 && (row.Disk == "" || len(text) < len(row.Disk) ||
			len(text) == len(row.Disk) && text < row.Disk) {
			row.Disk = text
		}
	}
	row.Waiting, _ = f.Int("outstanding_requests")
	if m.HasLatency {
		row.Latency = millisText(m.Latency)
	}
	switch {
	case m.Err != nil || leader == nil || leader == m:
	case m.HasLag:
		row.Distance, row.Late = countText(m.Lag), m.Lag > 1000
	case m.HasZxid && leader.HasZxid:
		row.Distance = countText(max(leader.Zxid-m.Zxid, 0))
	}
	return row
}

// facts are figures of the ensemble, of a member that has all data.
func facts(s *survey.Sample, leader *survey.Member) []fact {
	m := leader
	for i := range s.Members {
		if m == nil && s.Members[i].Err == nil {
			m = &s.Members[i]
		}
	}
	if m == nil {
		return nil
	}
	f := m.Figures
	var found []fact
	add := func(name, figure string, text func(any) string, note string) {
		if n, ok := f.Int(figure); ok {
			found = append(found, fact{name, text(n), note})
		}
	}
	add("Znodes", "znode_count", countText, "the root counts twice, as in ZooKeeper")
	add("Data", "approximate_data_size", bytesText, "paths and values")
	add("Ephemerals", "ephemerals_count", countText, "")
	add("Sessions", "global_sessions", countText, "")
	watches := int64(0)
	known := false
	for i := range s.Members {
		n, ok := s.Members[i].Figures.Int("watch_count")
		watches, known = watches+n, known || ok
	}
	if known {
		found = append(found, fact{"Watches", countText(watches), "on all servers that answer"})
	}
	add("Elections", "zkd_elections_total", countText, "that this server has seen since its start")
	if seconds, ok := f.Float("zkd_last_election_seconds"); ok && seconds > 0 {
		found = append(found, fact{"Last election", millisText(seconds * 1000), "without a leader"})
	}
	if m.HasZxid {
		found = append(found, fact{"Last zxid", hexText(m.Zxid), ""})
	}
	return found
}

// draw makes a picture of the samples.
func draw(title, unit string, history []survey.Point, of func(*survey.Point) float64, text func(float64) string) chart {
	c := chart{Title: title, Unit: unit, Value: "—"}
	top := 0.0
	for i := range history {
		top = max(top, of(&history[i]))
	}
	c.Top = text(top)
	if len(history) == 0 {
		return c
	}
	last := &history[len(history)-1]
	if c.Known = last.Known || title == "Clients"; c.Known && (title != "Latency" || of(last) > 0) {
		c.Value = text(of(last))
	}
	var line, area strings.Builder
	var before time.Time
	x0 := 0.0
	for i := range history {
		p := &history[i]
		age := last.At.Sub(p.At)
		if age > chartSpan || !p.Known && title != "Clients" {
			continue
		}
		x := chartWidth * (1 - age.Seconds()/chartSpan.Seconds())
		y := chartHeight - 1
		if top > 0 {
			y -= (chartHeight - 3) * of(p) / top
		}
		if before.IsZero() || p.At.Sub(before) > chartGap {
			if !before.IsZero() {
				fmt.Fprintf(&area, "V%.1fH%.1fZ", chartHeight, x0)
			}
			fmt.Fprintf(&line, "M%.1f %.1f", x, y)
			fmt.Fprintf(&area, "M%.1f %.1fV%.1f", x, chartHeight, y)
			x0 = x
		} else {
			fmt.Fprintf(&line, "L%.1f %.1f", x, y)
			fmt.Fprintf(&area, "L%.1f %.1f", x, y)
		}
		before = p.At
	}
	if area.Len() > 0 {
		fmt.Fprintf(&area, "V%.1fH%.1fZ", chartHeight, x0)
	}
	c.Line, c.Area = line.String(), area.String()
	c.Says = fmt.Sprintf("%s: %s %s now, at most %s in the last minutes", title, c.Value, unit, c.Top)
	return c
}
