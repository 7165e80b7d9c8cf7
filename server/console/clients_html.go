package console

import (
	"strconv"

	"zkd/server/console/page"
)

// main implements body.
func (c *clients) main(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-sessions">
<div class="row"><h1 id="h-sessions">Sessions <span class="muted">{}</span></h1>
<form method="get" action="{}/sessions" class="filter">
<label for="filter" class="visually-hidden">Only those with</label>
<input id="filter" type="search" name="filter" value="{}" placeholder="address, session, user…">
<button class="quiet">Filter</button></form></div>
`, countText(c.Total), v.Base(), c.Filter)
	for _, problem := range c.Problems {
		p.Put(`<p class="notice note">{}</p>
`, plain(problem))
	}
	switch {
	case len(c.Rows) > 0:
		c.table(p, v)
	case c.Filter != "":
		p.Put(`<p class="empty">No session fits “{}”. <a href="{}/sessions">Show all</a></p>
`, plain(c.Filter), v.Base())
	default:
		p.Put(`<p class="empty">Nobody is connected.</p>
`)
	}
	p.Put(`</section>
`)
}

// table writes the sessions of one page.
func (c *clients) table(p *page.Page, v *view) {
	p.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-sessions"><table>
<thead><tr><th scope="col">From</th><th scope="col">Session</th><th scope="col">As</th><th scope="col">At</th>
<th scope="col">Since</th><th scope="col">Timeout</th><th scope="col" class="n">Requests</th><th scope="col">Last</th>
<th scope="col" class="n">Latency</th><th scope="col" class="n">Ephemerals</th><th scope="col" class="n">Watches</th>`)
	p.PutIf(v.CanEnd(), `<th scope="col"><span class="visually-hidden">End</span></th>`)
	p.Put(`</tr></thead>
<tbody>`)
	for i := range c.Rows {
		c.Rows[i].write(p, v)
	}
	p.Put(`</tbody></table></div>
<nav class="pager" aria-label="Pages of sessions">
`)
	c.page(p, v, c.HasPrev, "prev", "Before", c.PrevPage)
	p.Put(`<span>page {} of {}</span>
`, strconv.Itoa(c.Page), strconv.Itoa(c.Pages))
	c.page(p, v, c.HasNext, "next", "After", c.NextPage)
	p.Put(`</nav>
`)
}

// page writes the link to another page of sessions.
func (c *clients) page(p *page.Page, v *view, is bool, rel, word string, n int) {
	p.PutIf(is, `<a class="button" rel="{}" href="{}/sessions?filter={}&amp;page={}">{}</a>
`, rel, v.Base(), query(c.Filter), strconv.Itoa(n), word)
}

// write writes the row of a session.
func (c *clientRow) write(p *page.Page, v *view) {
	session := hexText(c.Session)
	p.Put(`<tr><th scope="row">{}`, plain(c.Remote))
	p.PutIf(c.Secure, ` <span class="badge">TLS</span>`)
	p.Put(`</th><td><code>{}</code></td>
<td>`, session)
	for _, user := range c.Users {
		p.Put(`<code>{}</code> `, plain(user))
	}
	p.PutIf(len(c.Users) == 0, `<span class="muted">—</span>`)
	p.Put(`</td><td>{}</td><td class="t">{}</td><td>{}</td><td class="n">{}</td><td>{}</td><td class="n">{}</td>
<td class="n">`, plain(c.Server), whenText(c.Since), spanText(c.Timeout), countText(c.Received),
		plain(fourletterOp(c.LastOp)), millisText(c.MeanLatency))
	switch {
	case !c.KnowsOwned:
		p.Put(none)
	case len(c.OwnedPaths) == 0:
		p.Put(`<span class="muted">·</span>`)
	default:
		p.Put(`<details><summary>{}</summary><ul class="paths">`, countText(c.Ephemerals))
		for _, path := range c.OwnedPaths {
			p.Put(`<li>`)
			v.linkToZnode(p, path, path)
			p.Put(`</li>`)
		}
		p.Put(`</ul></details>`)
	}
	watches := none
	if c.KnowsOwned {
		watches = countText(c.Watches)
	}
	p.Put(`</td>
<td class="n">{}</td>`, watches)
	if v.CanEnd() {
		p.Put(`<td class="n">`)
		v.ask(p, "sessions/end", "End the session "+session+" of "+plain(c.Remote)+"? Its ephemerals go with it.")
		hidden(p, "session", session)
		p.Put(`<button class="quiet">End</button></form></td>`)
	}
	p.Put(`</tr>
`)
}
