package console

import (
	"strconv"

	"zkd/server/console/page"
)

// The forms that change one znode.
type (
	editForm   struct{ *edit }
	createForm struct{ *edit }
	aclForm    struct{ *edit }
	deleteForm struct{ *edit }
)

// main implements body.
func (e editForm) main(p *page.Page, v *view) {
	p.Put(`<section class="card">
`)
	v.heading(p, "Edit", e.Path)
	problem(p, e.Problem)
	version := strconv.Itoa(int(e.Version))
	if e.Conflict {
		theirs, shown, class := strconv.Itoa(int(e.TheirsVersion)), e.Theirs.Text, ""
		if shown == "" {
			shown, class = e.Theirs.Hex, " hex"
		}
		p.Put(`<h2>What is there now <span class="muted">version {}</span></h2>
<pre class="value{}" id="theirs" tabindex="0" aria-label="The value as it is now">
{}</pre>
<h2>What you have filled in <span class="muted">made of version {}</span></h2>
`, theirs, class, shown, version)
		version = theirs
	}
	v.upload(p, "tree/edit")
	hidden(p, "path", e.Path)
	hidden(p, "version", version)
	if e.CRLF() {
		hidden(p, "crlf", "true")
	}
	if e.IsText {
		p.Put(`<label for="value">Value</label><textarea id="value" name="value" rows="18" spellcheck="false"`)
		p.PutIf(!e.Conflict, ` autofocus`)
		p.Put(`>
{}</textarea>
<label for="file">or the content of a file</label><input id="file" name="file" type="file">
`, e.Text)
	} else {
		p.Put(`<p class="notice note">This value is no text that a form could hold unchanged, or is too long for one. It
can be replaced by the content of a file.</p>
<label for="file">File</label><input id="file" name="file" type="file" required>
`)
	}
	p.Put(`<p class="hint">It is saved if the version is still {}: what somebody else writes meanwhile is not
overwritten.</p>
<p class="actions">`, version)
	if e.Conflict {
		p.Put(`<button class="primary danger">Overwrite with mine</button>
<a class="button" href="{}/tree/edit?path={}">Begin with theirs</a>`, v.Base(), query(e.Path))
	} else {
		p.Put(`<button class="primary">Save</button>`)
	}
	p.Put(`</p></form>
</section>
`)
}

// main implements body.
func (e createForm) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow">
<div class="row"><h1>New znode</h1><a class="button" href="{}/tree?path={}">Cancel</a></div>
`, v.Base(), query(e.Path))
	problem(p, e.Problem)
	v.upload(p, "tree/create")
	hidden(p, "path", e.Path)
	p.Put(`<p class="muted">Below <code>{}</code></p>
<label for="name">Name</label><input id="name" name="name" value="{}" spellcheck="false" autocapitalize="none"
autocomplete="off" autofocus>
<fieldset><legend>Kind</legend>
`, plain(e.Path), e.Name)
	for _, kind := range []struct{ name, words string }{
		{"persistent", "persistent"},
		{"sequential", "persistent, with a number that the server adds to the name"},
		{"container", "container: it goes when its last child has gone"},
		{"ttl", "with a time to live"},
	} {
		p.Put(`<label><input type="radio" name="kind" value="{}"`, kind.name)
		p.PutIf(e.Kind == kind.name, ` checked`)
		p.Put(`> {}</label>
`, kind.words)
	}
	p.Put(`</fieldset>
<label for="ttl">Time to live, in seconds</label><input id="ttl" name="ttl" inputmode="numeric" value="{}">
<p class="hint">Only for that kind. The servers need extendedTypesEnabled=true.</p>
<fieldset><legend>Who may do what</legend>
<label><input type="radio" name="acl" value="world" checked> everybody may do everything</label>
<label><input type="radio" name="acl" value="parent"> as its parent has it</label></fieldset>
<label for="value">Value</label><textarea id="value" name="value" rows="8" spellcheck="false">
{}</textarea>
<label for="file">or the content of a file</label><input id="file" name="file" type="file">
<p><button class="primary">Create</button></p>
</form>
</section>
`, e.TTL, e.Text)
}

// schemes are those that the editor of ACLs offers, with their words.
var schemes = []struct{ scheme, words string }{
	{"world", "world"}, {"auth", "auth"}, {"digest", "digest"}, {schemePassword, "digest of name:password"},
	{"ip", "ip"}, {"sasl", "sasl"}, {"x509", "x509"},
}

// main implements body.
func (e aclForm) main(p *page.Page, v *view) {
	p.Put(`<section class="card">
`)
	v.heading(p, "ACL of", e.Path)
	problem(p, e.Problem)
	v.post(p, "tree/acl", "fields")
	hidden(p, "path", e.Path)
	hidden(p, "version", strconv.Itoa(int(e.Version)))
	p.Put(`<div class="scroll"><table class="entries"><thead><tr><th scope="col">Scheme</th><th scope="col">Who</th>
<th scope="col">Create</th><th scope="col">Delete</th><th scope="col">Read</th><th scope="col">Write</th>
<th scope="col">Admin</th></tr></thead><tbody>
`)
	for i := range e.Entries {
		e.Entries[i].write(p, strconv.Itoa(i))
	}
	p.Put(`</tbody></table></div>
<p class="hint">world:anyone is everybody; ip is an address or a network; digest is name:hash — choose “digest of
name:password” to have it hashed here; sasl and x509 are names. An entry without a permission is dropped.</p>
<p><button class="primary">Save</button></p>
</form>
</section>
`)
}

// write writes the row of an entry.
func (e *aclEntry) write(p *page.Page, number string) {
	p.Put(`<tr><td><select name="scheme" aria-label="Scheme of entry {}">`, number)
	if e.Scheme == "" {
		p.Put(`<option value="" selected>— none —</option>`)
	} else {
		p.Put(`<option value="">— remove —</option><option value="{}" selected>{}</option>`, e.Scheme, plain(e.Scheme))
	}
	for _, s := range schemes {
		p.PutIf(s.scheme != e.Scheme, `<option value="{}">{}</option>`, s.scheme, s.words)
	}
	p.Put(`</select></td>
<td><input name="id" aria-label="Who, of entry {}" value="{}" size="34" spellcheck="false" autocapitalize="none"
autocomplete="off"></td>
`, number, e.ID)
	for _, perm := range perms {
		p.Put(`<td><input type="checkbox" name="perms{}" value="{}" aria-label="Entry {} may {}"`, number, perm.letter,
			number, perm.word)
		p.PutIf(e.Perms&perm.perm != 0, ` checked`)
		p.Put(`></td>`)
	}
	p.Put(`</tr>
`)
}

// main implements body.
func (e deleteForm) main(p *page.Page, v *view) {
	version := strconv.Itoa(int(e.Version))
	p.Put(`<section class="card narrow">
`)
	v.heading(p, "Delete", e.Path)
	v.post(p, "tree/delete", "fields")
	hidden(p, "path", e.Path)
	hidden(p, "version", version)
	if e.Stat.NumChildren > 0 {
		hidden(p, "all", "true")
		p.Put(`<p class="notice bad" id="count"><span>`)
		if e.BelowKnown {
			p.Put(`<strong>{}</strong> below it would be deleted, too.`, plural(e.Below, "znode", "znodes"))
		} else {
			p.Put(`What is below it would be deleted, too; the server does not say how much that is.`)
		}
		p.Put(` It can be stopped on its way, and nothing brings back what is deleted.</span></p>
<label for="typed">Type its path to go on</label><input id="typed" name="typed" autocomplete="off" spellcheck="false"
autocapitalize="none" required autofocus>
<p><button class="primary danger">Delete all of it</button></p>
`)
	} else {
		p.Put(`<p>It has no children. It is deleted if its version is still {}.</p>
<p><button class="primary danger" autofocus>Delete</button></p>
`, version)
	}
	p.Put(`</form>
</section>
`)
}
