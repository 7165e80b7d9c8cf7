package console

import "zkd/server/console/page"

// restoreForm writes the form by which a backup is uploaded.
func (v *view) restoreForm(p *page.Page) {
	p.Put(`<section class="card" aria-labelledby="h-restore"><h2 id="h-restore">Restore a backup</h2>
`)
	v.upload(p, "restore/upload")
	p.Put(`<label for="file">A backup, as it is downloaded here or made by zkd backup</label>
<input id="file" name="file" type="file" required>
<p><button>Upload, and show what is in it</button></p></form>
<p class="hint">It is checked whole first, and nothing changes before you have confirmed it twice. Then the whole
ensemble goes back to it, while all servers run.</p>
</section>
`)
}

// main implements body.
func (b *restoring) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow"><h1>Restore a backup</h1>
`)
	problem(p, b.Problem)
	p.Put(`<dl class="about">
<div><dt>Taken</dt><dd><time datetime="{}">{}</time>, by {}</dd></div>
<div><dt>Holds</dt><dd>{}, {} of them ephemeral, and {}; {} of paths and data</dd></div>
<div><dt>Zxid</dt><dd class="mono">{}</dd></div>
<div><dt>Ensemble</dt><dd class="mono">{}</dd></div>
<div><dt>File</dt><dd>{}, whole and undamaged</dd></div>
<div><dt>Now here</dt><dd>{}, zxid <span class="mono">{}</span>, {}</dd></div>
</dl>
<h2>What that means</h2>
<ul>`, stampText(b.Then.Made), whenText(b.Then.Made), plain(b.Then.Writer),
		plural(b.Then.Znodes, "znode", "znodes"), countText(b.Then.Ephemerals),
		plural(b.Then.Sessions, "session", "sessions"), bytesText(b.Then.DataBytes), hexText(b.Then.Zxid),
		ofEnsemble(b.Then.ClusterID), bytesText(b.Bytes), plural(b.Now.Znodes, "znode", "znodes"),
		hexText(b.Now.Zxid), plural(b.Now.Sessions, "session", "sessions"))
	for _, says := range b.Says {
		p.Put(`<li>{}</li>`, says)
	}
	p.Put(`</ul>
`)
	for _, w := range b.Worries {
		warning(p, w)
	}
	if b.Sure {
		b.last(p, v)
	} else {
		b.first(p, v)
	}
	p.Put(`</section>
`)
}

// first writes the form of the first confirmation.
func (b *restoring) first(p *page.Page, v *view) {
	v.post(p, "restore/confirm", "fields")
	hidden(p, "id", b.ID)
	p.Put(`<label for="typed">Type <code>{}</code>, where this server is, to go on</label>
<input id="typed" name="typed" class="mono" autocomplete="off" autocapitalize="none" spellcheck="false" required>
<p class="actions"><button class="danger">Go on</button></p></form>
`, b.Into)
	b.give(p, v)
}

// last writes the form of the last confirmation.
func (b *restoring) last(p *page.Page, v *view) {
	p.Put(`<p class="notice bad" role="alert">Nothing brings back what is replaced. Download a backup of the present
state first, if there is none.</p>
`)
	v.post(p, "restore/run", "")
	hidden(p, "id", b.ID)
	hidden(p, "typed", b.Typed)
	hidden(p, "sure", "true")
	p.Put(`<p class="actions"><button class="primary danger">Replace the state now</button></p></form>
`)
	b.give(p, v)
}

// give writes what gives the backup up.
func (b *restoring) give(p *page.Page, v *view) {
	v.post(p, "restore/drop", "")
	p.Put(`<button>Give it up</button></form>
`)
}
