package console

import (
	"cmp"
	"strings"

	"zkd/server/console/page"
)

// main implements body.
func (o *overview) main(p *page.Page, v *view) {
	p.Put(`<h1 class="visually-hidden">Overview</h1>
<div id="live" data-refresh-url="{}/overview/live" data-every="1000">`, v.Base())
	o.live(p, v)
	p.Put(`</div>
`)
}

// live implements moving.
func (o *overview) live(p *page.Page, _ *view) {
	o.findings(p)
	p.Put(`<section class="charts" aria-label="The last minutes">
`)
	for i := range o.Charts {
		o.Charts[i].write(p)
	}
	p.Put(`</section>
`)
	o.servers(p)
	o.data(p)
	o.log(p)
}

// findings writes what is wrong.
func (o *overview) findings(p *page.Page) {
	p.Put(`<section aria-labelledby="h-findings"><h2 id="h-findings" class="visually-hidden">What is wrong</h2>
`)
	if len(o.Findings) == 0 {
		p.Put(`<p class="notice good"><span class="tag">all is well</span> <span>Every server answers, and nothing is
wrong that its figures would show.</span></p>
`)
	} else {
		p.Put(`<ul class="findings">
`)
		for _, f := range o.Findings {
			p.Put(`<li class="notice {}"><span class="tag">{}</span><div><strong>{}</strong> {}</div></li>
`, string(f.Level), string(f.Level), plain(f.What), plain(f.Do))
		}
		p.Put(`</ul>
`)
	}
	p.Put(`</section>
`)
}

// write writes a picture.
func (c *chart) write(p *page.Page) {
	p.Put(`<figure class="card chart">
<figcaption><span class="label">{}</span> <span class="value">{}</span> <span class="unit">{}</span></figcaption>
<svg viewBox="0 0 300 72" preserveAspectRatio="none" role="img" aria-label="{}">
<path class="grid" d="M0 2H300M0 36H300M0 71H300"/><path class="area" d="{}"/><path class="line" d="{}"/></svg>
<span class="scale"><span>2½ min ago</span><span>top {}</span><span>now</span></span>
</figure>
`, c.Title, c.Value, c.Unit, c.Says, c.Area, c.Line, c.Top)
}

// servers writes the table of the servers.
func (o *overview) servers(p *page.Page) {
	p.Put(`<section class="card" aria-labelledby="h-servers"><h2 id="h-servers">Servers</h2>
<div class="scroll" tabindex="0" role="region" aria-labelledby="h-servers"><table>
<thead><tr><th scope="col">Server</th><th scope="col">Role</th><th scope="col" class="n">Writes/s</th>
<th scope="col" class="n">Reads/s</th><th scope="col" class="n">Latency</th><th scope="col" class="n">Clients</th>
<th scope="col" class="n">Waiting</th><th scope="col" class="n">Behind</th><th scope="col" class="n">Disk free</th>
<th scope="col">Up</th><th scope="col">Version</th></tr></thead>
<tbody>
`)
	for i := range o.Members {
		o.Members[i].write(p)
	}
	p.Put(`</tbody></table></div>
</section>
`)
}

// none stands for a figure that is not known.
const none = "—"

// write writes the row of a server.
func (m *memberRow) write(p *page.Page) {
	p.Put(`<tr><th scope="row">{}`, plain(m.Name()))
	p.PutIf(m.Here, ` <span class="muted">this one</span>`)
	p.Put(`</th>`)
	if m.Err != nil {
		p.Put(`<td><span class="badge bad">away</span></td><td colspan="9" class="muted">{}</td></tr>
`, plain(m.Err.Error()))
		return
	}
	writes, reads, late := none, none, ""
	if m.HasRates {
		writes, reads = rateText(m.Writes), rateText(m.Reads)
	}
	if m.Late {
		late = " late"
	}
	p.Put(`<td><span class="badge {}">{}</span></td><td class="n">{}</td><td class="n">{}</td><td class="n">{}</td>
<td class="n">{}</td><td class="n">{}</td><td class="n{}">{}</td><td class="n">{}</td><td>{}</td><td>{}`,
		m.Role, plain(m.Role), writes, reads, cmp.Or(m.Latency, none), countText(m.Clients), countText(m.Waiting), late,
		cmp.Or(m.Distance, none), cmp.Or(m.Disk, none), cmp.Or(m.Uptime, none), plain(m.Version))
	p.PutIf(m.Zkd != "", ` <span class="muted" title="zkd {}">zkd</span>`, plain(m.Zkd))
	p.Put(`</td></tr>
`)
}

// data writes figures of what the ensemble holds.
func (o *overview) data(p *page.Page) {
	if len(o.Facts) == 0 {
		return
	}
	p.Put(`<section class="card" aria-labelledby="h-data"><h2 id="h-data">Data</h2>
<dl class="facts">`)
	for _, f := range o.Facts {
		p.Put(`<div><dt>{}</dt><dd>{}</dd>`, f.Name, f.Value)
		p.PutIf(f.Note != "", `<dd class="muted">{}</dd>`, f.Note)
		p.Put(`</div>`)
	}
	p.Put(`</dl></section>
`)
}

// log writes the last lines of the log.
func (o *overview) log(p *page.Page) {
	if !o.HasLog {
		return
	}
	p.Put(`<section class="card" aria-labelledby="h-log"><h2 id="h-log">Warnings of this server's log</h2>
`)
	if len(o.Lines) == 0 {
		p.Put(`<p class="muted">None since it was started.</p>`)
	} else {
		p.Put(`<ol class="log">`)
		for i := range o.Lines {
			l := &o.Lines[i]
			level := strings.ToLower(l.Level.String())
			p.Put(`<li><time datetime="{}">{}</time> <span class="badge {}">{}</span> <strong>{}</strong>
<span class="muted">{}</span></li>
`, stampText(l.At), whenText(l.At), level, level, plain(l.Message), plain(l.More))
		}
		p.Put(`</ol>`)
	}
	p.Put(`</section>
`)
}
