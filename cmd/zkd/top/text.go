package top

import (
	"fmt"
	"io"
	"slices"
	"strings"
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
	for i := range views {
		names = append(names, views[i].name)
	}
	return names
}

// viewOf finds a view by its name; -1 if there is none.
func viewOf(name string) int { return slices.Index(ViewNames(), name) }

// sortOf finds how a view is sorted by the title of a column.
func sortOf(v int, title string) (order, bool) {
	if title == "" {
		return order{column: -1}, true
	}
	at := slices.IndexFunc(views[v].columns, func(c column) bool { return strings.EqualFold(c.title, title) })
	return order{column: at}, at >= 0
}

// Check says what is wrong with options.
func (o *TextOptions) Check() error {
	if o.View != "" && viewOf(o.View) < 0 {
		return fmt.Errorf("--view %q: want one of %s", o.View, strings.Join(ViewNames(), ", "))
	}
	if o.Sort == "" {
		return nil
	}
	var titles []string
	for v := range views {
		if o.View != "" && v != viewOf(o.View) {
			continue
		}
		if _, ok := sortOf(v, o.Sort); ok {
			return nil
		}
		for _, c := range views[v].columns {
			if !slices.Contains(titles, c.title) {
				titles = append(titles, c.title)
			}
		}
	}
	return fmt.Errorf("--sort %q: want one of %s", o.Sort, strings.Join(titles, ", "))
}

// Text writes a report as text: who it is of, and tables.
func (r *Report) Text(w io.Writer, o *TextOptions) error {
	var b strings.Builder
	for _, line := range r.header() {
		b.WriteString(line + "\n")
	}
	for v := range views {
		if o.View != "" && v != viewOf(o.View) {
			continue
		}
		by, _ := sortOf(v, o.Sort) // a view that has no such column keeps its order
		t := r.tableOf(v, o.Filter, by)
		t.rows = t.rows[:min(len(t.rows), o.Rows)]
		if len(t.rows) == 0 && o.View == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", views[v].title)
		for _, line := range t.lines() {
			b.WriteString(line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
