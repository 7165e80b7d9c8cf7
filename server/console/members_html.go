package console

import "zkd/server/console/page"

// main implements body.
func (m *members) main(p *page.Page, v *view) {
	p.Put(`<h1 class="visually-hidden">Ensemble</h1>
`)
	if m.Preview != nil {
		m.Preview.write(p, v, m.VersionIs)
	}
	m.table(p, v)
	m.care(p, v)
}

// write writes what a change means, and what makes it.
func (c *preview) write(p *page.Page, v *view, version string) {
	p.Put(`<section class="card" aria-labelledby="h-preview"><h2 id="h-preview">What this change means</h2>
<ul>`)
	for _, says := range c.Says {
		p.Put(`<li>{}</li>`, plain(says))
	}
	p.Put(`</ul>
`)
	for _, w := range c.Warnings {
		warning(p, w)
	}
	v.post(p, "members/change", "actions")
	hidden(p, "joining", c.Joining)
	hidden(p, "leaving", c.Leaving)
	hidden(p, "version", version)
	p.Put(`<button class="primary danger">Change the members</button>
<a class="button" href="{}/members">Cancel</a></form>
</section>
`, v.Base())
}

// table writes the members.
func (m *members) table(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-members"><h2 id="h-members">Members`)
	p.PutIf(m.Version >= 0, ` <span class="muted">configuration {}</span>`, m.VersionIs)
	p.Put(`</h2>
`)
	warning(p, m.Problem)
	switch {
	case len(m.Rows) > 0:
		m.rows(p, v)
	case m.Problem == "":
		p.Put(`<p class="empty">This server stands alone.</p>
`)
	}
	if v.CanChange() && len(m.Rows) > 0 {
		v.post(p, "members/preview", "fields")
		p.Put(`<label for="joining">A server that joins, or the new line of one that is there</label>
<input id="joining" name="joining" class="mono" placeholder="server.4=zk4:2888:3888:participant;2181" spellcheck="false"
autocapitalize="none" required>
<p><button>Show what that means</button></p></form>
<p class="hint">It needs reconfigEnabled=true on the servers, and the right to change /zookeeper/config: the
superuser's.</p>
`)
	}
	p.Put(`</section>
`)
}

// rows writes a row for each member.
func (m *members) rows(p *page.Page, v *view) {
	p.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-members"><table>
<thead><tr><th scope="col">Server</th><th scope="col">Now</th><th scope="col">Line</th>`)
	p.PutIf(v.CanChange(), `<th scope="col"><span class="visually-hidden">Remove</span></th>`)
	p.Put(`</tr></thead>
<tbody>`)
	for i := range m.Rows {
		row := &m.Rows[i]
		p.Put(`<tr><th scope="row">{}</th><td>`, plain(row.ID))
		switch row.State {
		case "":
			p.Put(none)
		case stateAway:
			p.Put(`<span class="badge bad">away</span>`)
		default:
			p.Put(`<span class="badge {}">{}</span>`, row.State, plain(row.State))
		}
		p.Put(`</td><td><code>{}</code></td>`, plain(row.Line))
		if v.CanChange() {
			p.Put(`<td class="n">`)
			v.post(p, "members/preview", "")
			hidden(p, "leaving", row.ID)
			p.Put(`<button class="quiet">Remove…</button></form></td>`)
		}
		p.Put(`</tr>
`)
	}
	p.Put(`</tbody></table></div>
`)
}

// care writes what the superuser does with this server.
func (m *members) care(p *page.Page, v *view) {
	if !m.CanHand && !m.CanBackup {
		return
	}
	p.Put(`<section class="card" aria-labelledby="h-care"><h2 id="h-care">This server</h2><div class="actions">
`)
	p.PutIf(m.CanBackup, `<a class="button" href="{}/backup" download>Download a backup</a>
`, v.Base())
	if m.CanHand {
		v.ask(p, "members/handover", "Have another server lead?")
		p.Put(`<button>Have another server lead</button></form>`)
	}
	p.Put(`</div>
`)
	p.PutIf(m.CanBackup, `<p class="hint">The whole state, with all ACLs and sessions, as of one moment.</p>`)
	p.Put(`</section>
`)
	if m.CanRestore {
		v.restoreForm(p)
	}
}
