package console

import (
	"strconv"

	"zkd/jute"
	"zkd/server/console/page"
	"zkd/server/console/values"
)

// main implements body.
func (t *tree) main(p *page.Page, v *view) {
	p.Put(`<form class="goto" method="get" action="{}/tree" role="search">
<label for="path">Path</label><input id="path" name="path" value="{}" spellcheck="false" autocapitalize="none"
autocomplete="off"><button>Go</button>
</form>
<div id="live"`, v.Base(), t.Path)
	p.PutIf(t.Live, ` data-refresh-url="{}/tree/live?path={}&amp;page={}&amp;filter={}&amp;as={}" data-every="1000"`,
		v.Base(), query(t.Path), strconv.Itoa(t.Page), query(t.Filter), query(t.As))
	p.Put(`>`)
	t.live(p, v)
	p.Put(`</div>
`)
}

// live implements moving.
func (t *tree) live(p *page.Page, v *view) {
	p.Put(`<nav class="crumbs" aria-label="Where this znode is"><ol>`)
	for _, c := range t.Crumbs {
		p.Put(`<li>`)
		v.linkToZnode(p, c.Path, c.Name)
		p.Put(`</li>`)
	}
	p.Put(`</ol></nav>
<span class="state" data-seen="{}"></span>
`, strconv.FormatUint(t.Seen, 10))
	if !t.Exists {
		p.Put(`<section class="card narrow"><h1>{}</h1><p class="notice bad">{}</p>`, plain(t.Path), t.Problem)
		p.PutIf(!t.Home, `<p><a class="button" href="{}/tree?path={}">Its parent</a></p>`, v.Base(),
			query(jute.ParentPath(t.Path)))
		p.Put(`</section>
`)
		return
	}
	p.Put(`<div class="panes">
`)
	t.list(p, v)
	p.Put(`<div class="stack">
`)
	t.card(p, v)
	t.about(p, v)
	t.access(p, v)
	p.Put(`</div>
</div>
`)
}

// list writes the children.
func (t *tree) list(p *page.Page, v *view) {
	p.Put(`<section class="card list" aria-labelledby="h-children">
<div class="row"><h2 id="h-children">Children <span class="muted">{}</span></h2>
`, countText(t.Total))
	if t.Total > 1 {
		p.Put(`<form method="get" action="{}/tree" class="filter"><input type="hidden" name="path" value="{}">
<label for="filter" class="visually-hidden">Only names with</label>
<input id="filter" type="search" name="filter" value="{}" placeholder="only names with…">
<button class="quiet">Filter</button></form>`, v.Base(), t.Path, t.Filter)
	}
	p.Put(`</div>
`)
	p.Put(`<p class="actions">`)
	p.PutIf(v.CanChange() && !t.Ephemeral, `<a class="button" href="{}/tree/create?path={}">New znode</a>
<a class="button" href="{}/tree/import?path={}">Import</a>
`, v.Base(), query(t.Path), v.Base(), query(t.Path))
	p.Put(`<a class="button" href="{}/search?path={}">Search</a>
<a class="button" href="{}/export?path={}" download>Export</a></p>
`, v.Base(), query(t.Path), v.Base(), query(t.Path))
	switch {
	case t.ListProblem != "":
		warning(p, t.ListProblem)
	case t.Total == 0:
		p.Put(`<p class="empty">No children.</p>
`)
	case t.Matching == 0:
		p.Put(`<p class="empty">No child's name has “{}”. <a href="{}/tree?path={}">Show all</a></p>
`, plain(t.Filter), v.Base(), query(t.Path))
	default:
		t.rows(p, v)
	}
	p.Put(`</section>
`)
}

// rows writes the children of one page.
func (t *tree) rows(p *page.Page, v *view) {
	p.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-children"><table>
<thead><tr><th scope="col">Name</th><th scope="col" class="n">Children</th><th scope="col" class="n">Size</th>
<th scope="col" class="n">Version</th><th scope="col">Changed</th></tr></thead>
<tbody>
`)
	for i := range t.Children {
		c := &t.Children[i]
		p.Put(`<tr><th scope="row" class="path">`)
		v.linkToZnode(p, c.Path, c.Name)
		p.PutIf(c.Stat.EphemeralOwner != 0, ` <span class="dot" title="ephemeral">◌</span>`)
		p.Put(`</th>`)
		if !c.Known {
			p.Put(`<td colspan="4" class="muted">gone</td></tr>
`)
			continue
		}
		p.Put(`<td class="n">`)
		if c.Stat.NumChildren > 0 {
			p.Put(`{}`, countText(c.Stat.NumChildren))
		} else {
			p.Put(`<span class="muted">·</span>`)
		}
		p.Put(`</td><td class="n">{}</td><td class="n">{}</td><td class="t"><time datetime="{}">{}</time></td></tr>
`, bytesText(c.Stat.DataLength), strconv.Itoa(int(c.Stat.Version)), stampText(c.Stat.Mtime), whenText(c.Stat.Mtime))
	}
	p.Put(`</tbody></table></div>
<nav class="pager" aria-label="Pages of children">
`)
	t.page(p, v, t.HasPrev, "prev", "Before", t.PrevPage)
	p.Put(`<span>{}–{} of {}`, countText(t.First), countText(t.Last), countText(t.Matching))
	p.PutIf(t.Filter != "", ` with “{}”`, plain(t.Filter))
	p.Put(`</span>
`)
	t.page(p, v, t.HasNext, "next", "After", t.NextPage)
	p.Put(`</nav>
`)
}

// page writes the link to another page of children.
func (t *tree) page(p *page.Page, v *view, is bool, rel, word string, n int) {
	p.PutIf(is, `<a class="button" rel="{}" href="{}/tree?path={}&amp;filter={}&amp;page={}">{}</a>
`, rel, v.Base(), query(t.Path), query(t.Filter), strconv.Itoa(n), word)
}

// card writes the value.
func (t *tree) card(p *page.Page, v *view) {
	name := plain(jute.BaseName(t.Path))
	if t.Home {
		name = "/"
	}
	p.Put(`<section class="card" aria-labelledby="h-value">
<div class="row"><h1 id="h-value" class="znode"><bdi>{}</bdi></h1><div class="actions">`, name)
	p.PutIf(t.Value != nil && t.Value.Bytes > 0, `<a class="button" href="{}/value?path={}" download>Download</a>`,
		v.Base(), query(t.Path))
	if v.CanChange() {
		p.PutIf(t.Value != nil, `<a class="button" href="{}/tree/edit?path={}">Edit</a>`, v.Base(), query(t.Path))
		p.PutIf(!t.Home, `<a class="button danger" href="{}/tree/delete?path={}">Delete…</a>`, v.Base(), query(t.Path))
	}
	p.Put(`</div></div>
`)
	warning(p, t.DataProblem)
	if t.Value != nil {
		t.value(p, v)
	}
	p.Put(`</section>
`)
}

// value writes what the value is, and what it holds.
func (t *tree) value(p *page.Page, v *view) {
	value := t.Value
	p.Put(`<p class="kinds"><span class="badge">{}</span>`, string(value.Kind))
	p.PutIf(value.Inner != "", ` <span class="badge">holds {}</span>`, string(value.Inner))
	p.Put(` <span>{}`, bytesText(value.Bytes))
	p.PutIf(value.Inner != "", `, unpacked {}`, bytesText(value.UnpackedBytes))
	p.PutIf(value.Inner != "" && value.UnpackedCut, ` and more`)
	p.Put(`</span>
`)
	if value.Bytes > 0 && (t.As == asHex || value.Text != "") {
		other, word := asHex, "show as hexadecimal"
		if t.As == asHex {
			other, word = "", "show as text"
		}
		p.Put(`<a href="{}/tree?path={}&amp;page={}&amp;filter={}&amp;as={}">{}</a>`, v.Base(), query(t.Path),
			strconv.Itoa(t.Page), query(t.Filter), query(other), word)
	}
	p.Put(`</p>
`)
	p.PutIf(value.Fault != "", `<p class="notice warning">It cannot be unpacked to its end: {}</p>
`, plain(value.Fault))
	p.PutIf(value.Class != "",
		`<p>An object of the Java class <code>{}</code>. Nothing of it is read: to do so would run code.</p>
`, plain(value.Class))
	switch {
	case value.Kind == values.Null:
		p.Put(`<p class="empty">No value: it is null.</p>
`)
	case value.Kind == values.Empty:
		p.Put(`<p class="empty">The value is empty.</p>
`)
	case t.As == asHex || value.Text == "":
		p.Put(`<pre class="value hex" tabindex="0" aria-label="The value in hexadecimal">
{}</pre>`, value.Hex)
		p.PutIf(value.HexCut, `<p class="muted">Cut: only the first bytes are shown. Download it to have all.</p>`)
	default:
		p.Put(`<pre class="value" tabindex="0" aria-label="The value">
{}</pre>`, value.Text)
		p.PutIf(value.TextCut, `<p class="muted">Cut: only the beginning is shown. Download it to have all.</p>`)
	}
}

// about writes what its Stat says.
func (t *tree) about(p *page.Page, v *view) {
	s := &t.Stat
	p.Put(`<section class="card" aria-labelledby="h-stat"><h2 id="h-stat">About it</h2>
<dl class="about">
<div><dt>Kind</dt><dd>{}</dd></div>
`, t.Kind)
	owner := hexText(s.EphemeralOwner)
	p.PutIf(t.Ephemeral, `<div><dt>Owner</dt><dd>session <a href="{}/sessions?filter={}"><code>{}</code></a></dd></div>
`, v.Base(), query(owner), owner)
	p.Put(`<div><dt>Created</dt><dd><time datetime="{}">{}</time> <span class="muted">by the write {}</span></dd></div>
<div><dt>Value changed</dt><dd>`, stampText(s.Ctime), whenText(s.Ctime), hexText(s.Czxid))
	if s.Version > 0 {
		p.Put(`{}, the last <time datetime="{}">{}</time> <span class="muted">by {}</span>`, times(s.Version),
			stampText(s.Mtime), whenText(s.Mtime), hexText(s.Mzxid))
	} else {
		p.Put(`never`)
	}
	p.Put(`</dd></div>
<div><dt>Children changed</dt><dd>{}`, times(s.Cversion))
	p.PutIf(s.Cversion > 0, ` <span class="muted">the last by {}</span>`, hexText(s.Pzxid))
	p.Put(`</dd></div>
<div><dt>ACL changed</dt><dd>{}</dd></div>
</dl></section>
`, times(s.Aversion))
}

// times says how often something has changed.
func times(n jute.Version) string {
	if n <= 0 {
		return "never"
	}
	return plural(n, "time", "times")
}

// access writes the ACL.
func (t *tree) access(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-acl"><div class="row"><h2 id="h-acl">Who may do what</h2>`)
	p.PutIf(v.CanChange() && len(t.ACL) > 0, `<a class="button" href="{}/tree/acl?path={}">Change</a>`, v.Base(),
		query(t.Path))
	p.Put(`</div>
`)
	warning(p, t.ACLProblem)
	if len(t.ACL) > 0 {
		p.Put(`<table><thead><tr><th scope="col">Who</th><th scope="col">May</th></tr></thead><tbody>
`)
		for _, a := range t.ACL {
			p.Put(`<tr><th scope="row"><code>{}:{}</code>`, plain(a.Scheme), plain(a.ID))
			p.PutIf(a.Note != "", ` <span class="muted">{}</span>`, a.Note)
			p.Put(`</th><td>{}</td></tr>
`, a.Perms)
		}
		p.Put(`</tbody></table>`)
	}
	p.Put(`</section>
`)
}
