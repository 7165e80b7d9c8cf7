package console

import (
	"strconv"

	"zkd/server/console/page"
	"zkd/server/console/survey"
)

// main implements body.
func (q *quotas) main(p *page.Page, v *view) {
	p.Put(`<h1 class="visually-hidden">Watches and quotas</h1>
<section class="card" aria-labelledby="h-quotas"><h2 id="h-quotas">Quotas</h2>
`)
	warning(p, q.Problem)
	if len(q.Quotas) > 0 {
		q.table(p, v)
	} else {
		p.PutIf(q.Problem == "", `<p class="empty">There are no quotas.</p>
`)
	}
	p.Put(`</section>
`)
	if v.CanChange() {
		q.form(p, v)
	}
	q.watched(p, v)
}

// table writes the quotas.
func (q *quotas) table(p *page.Page, v *view) {
	p.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-quotas"><table>
<thead><tr><th scope="col">Path</th><th scope="col">Znodes</th><th scope="col">Data</th>`)
	p.PutIf(v.CanChange(), `<th scope="col"><span class="visually-hidden">Remove</span></th>`)
	p.Put(`</tr></thead>
<tbody>`)
	for i := range q.Quotas {
		one := &q.Quotas[i]
		p.Put(`<tr><th scope="row" class="path">`)
		v.linkToZnode(p, one.Path, one.Path)
		p.Put(`</th>
<td>`)
		one.Count.write(p, countText)
		p.Put(`</td>
<td>`)
		one.Bytes.write(p, bytesText)
		p.Put(`</td>`)
		if v.CanChange() {
			p.Put(`<td class="n">`)
			v.ask(p, "quotas/remove", "Remove the quota of "+plain(one.Path)+"?")
			hidden(p, "path", one.Path)
			p.Put(`<button class="quiet">Remove</button></form></td>`)
		}
		p.Put(`</tr>
`)
	}
	p.Put(`</tbody></table></div>
`)
	p.PutIf(q.Cut, `<p class="muted">There are more than are shown.</p>
`)
}

// write writes how much of a limit is used.
func (u usage) write(p *page.Page, text func(any) string) {
	p.Put(`{}`, text(u.Used))
	if u.Limit() < 0 {
		return
	}
	p.Put(` of {}`, text(u.Limit()))
	p.PutIf(u.Hard >= 0, ` <span class="badge">hard</span>`)
	p.Put(` <meter min="0" max="1" high="0.8" value="{}">{}</meter>`, strconv.FormatFloat(u.Part, 'f', 4, 64),
		percentText(u.Part))
	p.PutIf(u.Level == string(survey.Bad), ` <span class="badge bad">full</span>`)
	p.PutIf(u.Level == string(survey.Warn), ` <span class="badge warn">near</span>`)
}

// form writes the form for a quota.
func (q *quotas) form(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-set"><h2 id="h-set">Set a quota</h2>
`)
	v.post(p, "quotas", "grid")
	p.Put(`<label>Path <input name="path" value="{}" required spellcheck="false" autocapitalize="none"></label>
<label>Znodes <input name="count" inputmode="numeric"></label>
<label>Znodes, hard <input name="counthard" inputmode="numeric"></label>
<label>Bytes <input name="bytes" inputmode="numeric"></label>
<label>Bytes, hard <input name="byteshard" inputmode="numeric"></label>
<button class="primary">Set</button></form>
<p class="hint">A hard limit refuses writes where the servers have enforceQuota=true; another one is warned of in their
logs.</p></section>
`, q.Path)
}

// watched writes how much is watched.
func (q *quotas) watched(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-watches"><h2 id="h-watches">Watches</h2>
<dl class="facts">`)
	for _, s := range q.Servers {
		p.Put(`<div><dt>{}</dt><dd>{}</dd></div>`, plain(s.Server), countText(s.Count))
	}
	p.Put(`</dl>
`)
	if len(q.Paths) > 0 {
		p.Put(`<h3>Most watched, at this server</h3>
<table><thead><tr><th scope="col">Path</th><th scope="col" class="n">By sessions</th></tr></thead><tbody>
`)
		for _, w := range q.Paths {
			p.Put(`<tr><th scope="row" class="path">`)
			v.linkToZnode(p, w.Path, w.Path)
			p.Put(`</th><td class="n">{}</td></tr>
`, countText(w.Count))
		}
		p.Put(`</tbody></table>
`)
	} else {
		p.PutIf(q.Known, `<p class="empty">Nothing is watched at this server.</p>
`)
	}
	p.Put(`</section>
`)
}
