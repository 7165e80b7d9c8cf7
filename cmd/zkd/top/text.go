package top

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"zkd/server/traffic/report"
)

// TextOptions says what is shown as text.
type TextOptions struct {
	View   string // "" for all
	Filter string
	Sort   string // title of a column; "" for the order of the report
	Rows   int    // of each table
}

// ViewNames are the names of the views.
func ViewNames() (names []string) {
	for i := range report.Views {
		names = append(names, report.Views[i].Name)
	}
	return names
}

// sortOf finds how a view is sorted by the title of a column.
func sortOf(v int, title string) (order, bool) {
	if title == "" {
		return order{column: -1}, true
	}
	at := report.Views[v].Column(title)
	return order{column: at}, at >= 0
}

// Check says what is wrong with options.
func (o *TextOptions) Check() error {
	if o.View != "" && report.ViewOf(o.View) < 0 {
		return fmt.Errorf("--view %q: want one of %s", o.View, strings.Join(ViewNames(), ", "))
	}
	if o.Sort == "" {
		return nil
	}
	var titles []string
	for v := range report.Views {
		if o.View != "" && v != report.ViewOf(o.View) {
			continue
		}
		if _, ok := sortOf(v, o.Sort); ok {
			return nil
		}
		for _, c := range report.Views[v].Columns {
			if !slices.Contains(titles, c.Title) {
				titles = append(titles, c.Title)
			}
		}
	}
	return fmt.Errorf("--sort %q: want one of %s", o.Sort, strings.Join(titles, ", "))
}

// Text writes a report as text: who it is of, and tables.
func Text(w io.Writer, r *Report, o *TextOptions) error {
	var b strings.Builder
	for _, line := range header(r) {
		b.WriteString(line + "\n")
	}
	for v := range report.Views {
		if o.View != "" && v != report.ViewOf(o.View) {
			continue
		}
		by, _ := sortOf(v, o.Sort) // a view that has no such column keeps its order
		t := tableOf(r, v, o.Filter, by)
		t.rows = t.rows[:min(len(t.rows), o.Rows)]
		if len(t.rows) == 0 && o.View == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", report.Views[v].Title)
		for _, line := range t.lines() {
			b.WriteString(line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
