package console

import (
	"zkd/server/console/page"
	"zkd/server/console/session"
)

// main implements body.
func (f *signInForm) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow"><h1>Sign in</h1>
`)
	p.PutIf(f.Error != "", `<p class="notice bad" role="alert" id="why">{}</p>
`, plain(f.Error))
	p.PutIf(f.Plain, `<p class="notice warning">This connection is not encrypted: whoever is between here and there can
read the password. Use TLS at the admin server (<code>admin.portUnification</code>) or a tunnel.</p>
`)
	f.certificate(p, v)
	p.Put(`<form method="post" action="{}/signin" class="fields">`, v.Base())
	hidden(p, "to", f.To)
	p.Put(`<fieldset><legend>As</legend>
<label><input type="radio" name="scheme" value="digest"`)
	p.PutIf(f.Scheme != session.SchemeSASL, ` checked`)
	p.Put(`> digest: the superuser`)
	p.PutIf(!f.Elsewhere, `, or a name of ACLs`)
	p.Put(`</label>
<label><input type="radio" name="scheme" value="sasl"`)
	p.PutIf(f.Scheme == session.SchemeSASL, ` checked`)
	p.Put(`> SASL: a user of the servers (DIGEST-MD5)</label></fieldset>
<label for="user">Name</label>
<input id="user" name="user" value="{}" autocomplete="username" autocapitalize="none" spellcheck="false" required
autofocus>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password"`, f.User)
	p.PutIf(f.Error != "", ` aria-describedby="why"`)
	p.Put(`>
<p><button class="primary">Sign in</button></p>
</form>
<p class="muted">What you do runs in a session of your own with the server, so ACLs hold as for every client.`)
	p.PutIf(!f.Elsewhere, ` A name and a password of the scheme <em>digest</em> are what ACLs name; the servers keep no
list of them.`)
	p.Put(`</p>
</section>
`)
}

// certificate writes the form of who has shown a certificate.
func (f *signInForm) certificate(p *page.Page, v *view) {
	if f.Subject == "" {
		return
	}
	p.Put(`<form method="post" action="{}/signin" class="fields">`, v.Base())
	hidden(p, "to", f.To)
	hidden(p, "scheme", session.SchemeX509)
	p.Put(`<p>Your browser has shown the certificate of <strong>{}</strong>.</p>
<p><button class="primary" id="certificate">Sign in with the certificate</button></p></form>
<h2>Or with a password</h2>
`, plain(f.Subject))
}
