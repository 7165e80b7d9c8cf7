package console

import (
	"cmp"
	"strconv"
	"strings"

	"zkd/server/console/page"
	"zkd/server/traffic/report"
)

// with is the query of the page with one wish more, or another one: an empty one is none.
func (p *topPage) with(name, value string) string {
	sort, reversed := "", ""
	if p.Column >= 0 {
		sort = report.Views[p.View].Columns[p.Column].Title
	}
	if p.Reversed {
		reversed = "true"
	}
	wishes := [][2]string{{"view", report.Views[p.View].Name}, {"server", p.Server}, {"filter", p.Filter},
		{"seconds", strconv.Itoa(p.Seconds)}, {"sort", sort}, {"reversed", reversed}}
	var parts []string
	for _, wish := range wishes {
		if wish[0] == name {
			wish[1] = value
		}
		if wish[1] != "" {
			parts = append(parts, wish[0]+"="+query(wish[1]))
		}
	}
	return strings.Join(parts, "&")
}

// main implements body.
func (p *topPage) main(out *page.Page, v *view) {
	out.Put(`<section class="card" aria-labelledby="h-top">
<div class="row"><h1 id="h-top">Top</h1><div class="actions">
<form method="get" action="{}/top" class="filter">`, v.Base())
	hidden(out, "view", report.Views[p.View].Name)
	out.Put(`<label for="seconds" class="visually-hidden">Seconds</label><select id="seconds" name="seconds">`)
	for _, n := range topWindows {
		option(out, strconv.Itoa(n), "the last "+strconv.Itoa(n)+" s", n == p.Seconds)
	}
	out.Put(`</select>
<label for="server" class="visually-hidden">Server</label><select id="server" name="server">`)
	option(out, "", "all servers", p.Server == "")
	for _, name := range p.All {
		option(out, name, plain(name), name == p.Server)
	}
	out.Put(`</select>
<label for="filter" class="visually-hidden">Only what has</label>
<input id="filter" type="search" name="filter" value="{}" placeholder="only with…"><button>Show</button></form>
<button type="button" data-freeze hidden aria-pressed="false">Freeze</button></div></div>
<nav aria-label="Tables"><ul class="tabs">
`, p.Filter)
	for i := range report.Views {
		to := *p
		to.View, to.Column, to.Reversed = i, -1, false
		out.Put(`<li><a href="{}/top?{}"`, v.Base(), to.with("", ""))
		out.PutIf(i == p.View, ` aria-current="page"`)
		out.Put(`>{}</a></li>
`, report.Views[i].Title)
	}
	out.Put(`</ul></nav>
<div id="live" data-refresh-url="{}/top/live?{}" data-every="1000">`, v.Base(), p.with("", ""))
	p.live(out, v)
	out.Put(`</div>
</section>
`)
}

// option writes a choice.
func option(out *page.Page, value, words string, chosen bool) {
	out.Put(`<option value="{}"`, value)
	out.PutIf(chosen, ` selected`)
	out.Put(`>{}</option>`, words)
}

// live implements moving.
func (p *topPage) live(out *page.Page, v *view) {
	p.servers(out)
	if p.View == report.SlowView {
		p.slowTable(out, v)
		return
	}
	p.table(out, v)
}

// servers writes what is said of all, and of each that has something to say of itself.
func (p *topPage) servers(out *page.Page) {
	t := &p.Report.Total
	out.Put(`<p class="sum"><strong>{}</strong> requests/s, {} of the last {} s failed; in {}/s, out {}/s; mean {},
p50 {}, p99 {}, longest {} <span class="muted">at {}</span></p>
`, report.Short(t.PerSecond), percentText(report.Ratio(t.Failed, t.Requests)),
		strconv.FormatFloat(t.Seconds, 'f', 0, 64), bytesText(t.Rate(t.BytesIn)), bytesText(t.Rate(t.BytesOut)),
		report.Micros(float64(t.MeanUs)), report.Micros(float64(t.P50Us)), report.Micros(float64(t.P99Us)),
		report.Micros(float64(t.MaxUs)), whenText(p.Report.At))
	for i := range p.Report.Servers {
		s := &p.Report.Servers[i]
		switch {
		case s.Error != "":
			out.Put(`<p class="notice note">{} does not tell: {}.</p>
`, plain(s.Address), plain(s.Error))
		case s.Kind != report.KindZkd:
			out.Put(`<p class="muted">{} tells requests and latencies of its clients alone ({}); its latencies are those
since they connected.</p>
`, plain(s.Address), s.Kind)
		case s.SampledOneIn > 1:
			out.Put(`<p class="muted">{}: of paths one request in {} is looked at; the column ± says how far a rate may
be off.</p>
`, plain(s.Address), strconv.FormatInt(s.SampledOneIn, 10))
		}
	}
	out.PutIf(p.waits, `<p class="muted">What comes about shows from now on.</p>
`)
}

// table writes the rows of a view.
func (p *topPage) table(out *page.Page, v *view) {
	columns := report.Views[p.View].Columns
	rows, more := p.rows()
	if len(rows) == 0 {
		out.Put(`<p class="empty">Nothing that would show here has come about.</p>
`)
		return
	}
	out.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-top"><table>
<thead><tr>`)
	for i := range columns {
		p.head(out, v, i)
	}
	out.Put(`</tr></thead>
<tbody>`)
	for i := range rows {
		out.Put(`<tr>`)
		for k := range columns {
			text := columns[k].Text(&rows[i])
			switch {
			case k == 0 && rows[i].Path != "":
				out.Put(`<th scope="row" class="path">`)
				v.linkToZnode(out, rows[i].Path, text)
				out.Put(`</th>`)
			case k == 0:
				out.Put(`<th scope="row"><bdi>{}</bdi></th>`, plain(text))
			case columns[k].Left:
				out.Put(`<td><bdi>{}</bdi></td>`, plain(text))
			default:
				out.Put(`<td class="n">{}</td>`, plain(text))
			}
		}
		out.Put(`</tr>
`)
	}
	out.Put(`</tbody></table></div>
`)
	out.PutIf(more > 0, `<p class="muted">and {} more</p>
`, countText(more))
}

// head writes the title of a column, by which the table is sorted when it is followed, and the other way round when it
// is already.
func (p *topPage) head(out *page.Page, v *view, i int) {
	c := &report.Views[p.View].Columns[i]
	to := *p
	to.Column, to.Reversed = i, i == p.Column && !p.Reversed
	class, order := "n", ""
	if c.Left {
		class = "left"
	}
	if i == p.Column {
		if order = "descending"; (c.Value == nil) != p.Reversed {
			order = "ascending"
		}
	}
	out.Put(`<th scope="col" class="{}"`, class)
	out.PutIf(order != "", ` aria-sort="{}"`, order)
	out.Put(`><a href="{}/top?{}">{}</a></th>`, v.Base(), to.with("", ""), c.Title)
}

// slowTable writes the slowest requests with the phases of their time.
func (p *topPage) slowTable(out *page.Page, v *view) {
	slow := p.slow()
	if len(slow) == 0 {
		out.Put(`<p class="empty">No slow request is known.</p>
`)
		return
	}
	out.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-top"><table>
<thead><tr>`)
	for i, title := range report.SlowTitles {
		class := "n"
		if report.SlowLeft[i] {
			class = "left"
		}
		out.Put(`<th scope="col" class="{}">{}</th>`, class, title)
	}
	out.Put(`</tr></thead>
<tbody>`)
	for _, cells := range slow {
		out.Put(`<tr>`)
		for i, text := range cells {
			switch {
			case report.SlowTitles[i] == "PATH" && strings.HasPrefix(text, "/"):
				out.Put(`<td class="path">`)
				v.linkToZnode(out, text, text)
				out.Put(`</td>`)
			case report.SlowLeft[i]:
				out.Put(`<td><bdi>{}</bdi></td>`, plain(cmp.Or(text, none)))
			default:
				out.Put(`<td class="n">{}</td>`, plain(text))
			}
		}
		out.Put(`</tr>
`)
	}
	out.Put(`</tbody></table></div>
<p class="hint">The slowest of the window, whatever their latency. Queue: until it was looked at; turn: behind others of
its session; confirm: until the leader was sure to lead; log, replicate: until the write was on this server's disk, and
committed; apply and answer: the work itself. A failed one has a “!”.</p>
`)
}
