package top

import (
	"fmt"
	"strings"

	"zkd/cmd/zkd/terminal"
	"zkd/server/traffic/report"
)

// Model is what a terminal shows of reports, and what keys have made of it.
type Model struct {
	report  *Report // nil until the first
	next    *Report // that came while it is frozen
	view    int
	orders  []order // by view
	filter  string
	editing bool // the filter is being typed
	frozen  bool
	first   int // row that is shown
	page    int // rows that were shown last
	rows    int // that there are
}

// NewModel returns a model that begins with a view.
func NewModel(o *TextOptions) *Model {
	m := &Model{orders: make([]order, len(report.Views)), filter: o.Filter}
	for v := range m.orders {
		m.orders[v], _ = sortOf(v, o.Sort)
	}
	m.view = max(report.ViewOf(o.View), 0)
	return m
}

// Show takes another report. One that comes while the view is frozen is shown when it is not any more.
func (m *Model) Show(r *Report) {
	if m.frozen {
		m.next = r
		return
	}
	m.report = r
}

// Key does what a key asks for. It returns true for the end.
func (m *Model) Key(k terminal.Key) (ends bool) {
	if m.editing {
		return m.edit(k)
	}
	switch k {
	case 'q', 'Q', terminal.KeyInterrupt:
		return true
	case ' ':
		m.frozen = !m.frozen
		if !m.frozen && m.next != nil {
			m.report, m.next = m.next, nil
		}
	case '/':
		m.editing = true
	case terminal.KeyEscape:
		m.filter = ""
	case 's', 'r':
		m.sort(k == 'r')
	default:
		m.move(k)
	}
	return false
}

// edit does what a key does to the filter.
func (m *Model) edit(k terminal.Key) (ends bool) {
	switch {
	case k == terminal.KeyInterrupt:
		return true
	case k == terminal.KeyEnter:
		m.editing = false
	case k == terminal.KeyEscape:
		m.editing, m.filter = false, ""
	case k == terminal.KeyBackspace:
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	case k >= ' ':
		m.filter += string(rune(k))
	}
	m.first = 0
	return false
}

// sort sorts by the next column, or the other way round.
func (m *Model) sort(reverse bool) {
	if m.view == report.SlowView {
		return
	}
	o := &m.orders[m.view]
	if reverse {
		o.reversed = !o.reversed
		if o.column < 0 {
			o.column = 0
		}
		return
	}
	*o = order{column: (o.column+2)%(len(report.Views[m.view].Columns)+1) - 1}
}

// move moves to another view or other rows.
func (m *Model) move(k terminal.Key) {
	before := m.view
	switch k {
	case terminal.KeyTab, terminal.KeyRight:
		m.view = (m.view + 1) % len(report.Views)
	case terminal.KeyBackTab, terminal.KeyLeft:
		m.view = (m.view + len(report.Views) - 1) % len(report.Views)
	case terminal.KeyUp:
		m.first--
	case terminal.KeyDown:
		m.first++
	case terminal.KeyPageUp:
		m.first -= m.page
	case terminal.KeyPageDown:
		m.first += m.page
	case terminal.KeyHome:
		m.first = 0
	case terminal.KeyEnd:
		m.first = m.rows
	default:
		if k >= '1' && int(k-'1') < len(report.Views) {
			m.view = int(k - '1')
		}
	}
	if m.view != before {
		m.first = 0
	}
}

// Lines are what a window of that many rows shows.
func (m *Model) Lines(rows int) []terminal.Line {
	if m.report == nil {
		return []terminal.Line{{Text: "asking the servers…", Style: terminal.Dim}}
	}
	lines := []terminal.Line{{Text: m.title(), Style: terminal.Inverse}}
	header := header(m.report)
	for i, text := range header[:min(len(header), max(rows-4, 1))] { // a large ensemble leaves room for some rows
		style := terminal.Plain
		if i < len(m.report.Servers) && m.report.Servers[i].Error != "" {
			style = terminal.Bold
		}
		lines = append(lines, terminal.Line{Text: text, Style: style})
	}
	lines = append(lines, terminal.Line{Text: m.tabs()})
	t := tableOf(m.report, m.view, m.filter, m.orders[m.view])
	texts := t.lines()
	lines = append(lines, terminal.Line{Text: texts[0], Style: terminal.Bold})
	texts = texts[1:]
	m.rows, m.page = len(texts), max(rows-len(lines), 1)
	m.first = max(min(m.first, m.rows-m.page), 0)
	for _, text := range texts[m.first:min(m.first+m.page, m.rows)] {
		lines = append(lines, terminal.Line{Text: text})
	}
	return lines
}

// title is the first line.
func (m *Model) title() string {
	text := fmt.Sprintf(" zkd top  %s  the last %.0f s", m.report.At.Format("15:04:05"), m.report.Total.Seconds)
	if m.frozen {
		text += "  FROZEN"
	}
	if m.filter != "" || m.editing {
		text += "  /" + terminal.Clean(m.filter)
	}
	if m.editing {
		return text + "_"
	}
	return text + "   q quit  1-7 view  s sort  r reverse  / filter  space freeze"
}

// tabs are the names of the views, with the present one marked.
func (m *Model) tabs() string {
	var names []string
	for v := range report.Views {
		name := fmt.Sprintf("%d %s", v+1, report.Views[v].Title)
		if v == m.view {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, "  ")
}
