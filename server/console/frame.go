package console

import (
	"io"
	"net/http"

	"zkd/server/console/page"
)

// body is what a page shows.
type body interface {
	// main writes what is between the head of a page and its foot.
	main(p *page.Page, v *view)
}

// moving is a body that is shown anew, by itself or in parts.
type moving interface {
	body
	// live writes the part that is.
	live(p *page.Page, v *view)
}

// show answers with a page.
func show(w http.ResponseWriter, status int, v *view) {
	if v.visitor != nil && v.visit != nil {
		v.Flash = v.visit.takeFlash()
	}
	var p page.Page
	v.frame(&p)
	write(w, status, &p)
}

// showLive answers with the part of a page that moves.
func showLive(w http.ResponseWriter, v *view, b moving) {
	var p page.Page
	b.live(&p, v)
	write(w, http.StatusOK, &p)
}

// write answers with what was written.
func write(w http.ResponseWriter, status int, p *page.Page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, p.String()) // who has left needs nothing
}

// frame writes a whole page.
func (v *view) frame(p *page.Page) {
	p.Put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}`, v.Title)
	if v.Ensemble != nil {
		p.Put(` · {}`, v.Ensemble.Name)
	}
	p.Put(` · zkd console</title>
<link rel="icon" href="/console/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/console/static/console.css">
<script src="/console/static/console.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<div class="brand"><a href="/console/"><img src="/console/static/icon.svg" alt="" width="22" height="22">
<span>zkd console</span></a></div>
`)
	if v.Ensemble != nil {
		v.navigation(p)
		v.who(p)
	}
	p.Put(`</header>
<main id="main" tabindex="-1">
`)
	p.PutIf(v.Flash != "", `<p class="notice good" role="status">{}</p>`, plain(v.Flash))
	v.Body.main(p, v)
	p.Put(`</main>
<footer><span>{}</span><span class="muted" id="beat" role="status" aria-live="polite"></span></footer>
</body>
</html>
`, buildText(v.Console.opts.Version))
}

// navigation writes the links to the pages.
func (v *view) navigation(p *page.Page) {
	p.Put(`<nav aria-label="Pages"><ul>
`)
	for _, to := range []struct {
		page, path, title string
		operators         bool
	}{
		{"overview", "", "Overview", false}, {"tree", "tree", "Tree", false},
		{"sessions", "sessions", "Sessions", true}, {"top", "top", "Top", true},
		{"members", "members", "Ensemble", true},
		{"quotas", "quotas", "Watches and quotas", false},
	} {
		if to.operators && !v.operator {
			continue
		}
		p.Put(`<li><a href="{}/{}"`, v.Base(), to.path)
		p.PutIf(to.page == v.Active, ` aria-current="page"`)
		p.Put(`>{}</a></li>
`, to.title)
	}
	p.Put(`</ul></nav>
`)
}

// who writes as whom the visitor is here, and what he can do about it.
func (v *view) who(p *page.Page) {
	p.Put(`<div class="who">
`)
	p.PutIf(len(v.Console.opts.Ensembles) > 1, `<a class="chip" href="/console/" title="All ensembles">{}</a>
`, v.Ensemble.Name)
	if v.identity == nil {
		p.Put(`<span class="muted">not signed in</span> <a class="button" href="{}/signin">Sign in</a>
</div>
`, v.Base())
		return
	}
	if v.Console.opts.ReadOnly {
		p.Put(`<span class="chip">read-only</span>
`)
	} else {
		v.post(p, "readonly", "")
		hidden(p, "to", v.Base()+"/")
		if v.visit.isReadOnly() {
			p.Put(`<button class="chip" name="on" value="false" title="Allow changes again">read-only</button></form>
`)
		} else {
			p.Put(`<button class="chip on" name="on" value="true" title="Switch to read-only">can change</button></form>
`)
		}
	}
	p.Put(`<span class="name" title="{}"><bdi>{}</bdi>`, plain(v.Name()), plain(v.Name()))
	p.PutIf(v.Super(), ` <span class="badge leader">super</span>`)
	p.Put(`</span>
`)
	v.post(p, "signout", "")
	p.Put(`<button class="quiet">Sign out</button></form>
</div>
`)
}

// post begins a form of the visit, which goes to that page of the ensemble.
func (v *view) post(p *page.Page, to, class string) {
	p.Put(`<form method="post" action="{}/{}"`, v.Base(), to)
	p.PutIf(class != "", ` class="{}"`, class)
	p.Put(`>`)
	hidden(p, "token", v.Token())
}

// ask begins a form that asks once more before it is sent.
func (v *view) ask(p *page.Page, to, question string) {
	p.Put(`<form method="post" action="{}/{}" data-ask="{}">`, v.Base(), to, question)
	hidden(p, "token", v.Token())
}

// upload begins a form that may send a file.
func (v *view) upload(p *page.Page, to string) {
	p.Put(`<form method="post" action="{}/{}" enctype="multipart/form-data" class="fields">`, v.Base(), to)
	hidden(p, "token", v.Token())
}

// hidden writes a field that nobody sees.
func hidden(p *page.Page, name, value string) {
	p.Put(`<input type="hidden" name="{}" value="{}">`, name, value)
}

// linkToZnode writes a link to the page of a znode.
func (v *view) linkToZnode(p *page.Page, path, shown string) {
	p.Put(`<a href="{}/tree?path={}"><bdi>{}</bdi></a>`, v.Base(), query(path), plain(shown))
}

// heading writes the title of a page about a znode, with a way back.
func (v *view) heading(p *page.Page, doing, path string) {
	p.Put(`<div class="row"><h1>{} <bdi class="znode">{}</bdi></h1>
<a class="button" href="{}/tree?path={}">Cancel</a></div>
`, doing, plain(path), v.Base(), query(path))
}

// problem writes what is wrong with a form.
func problem(p *page.Page, why string) {
	p.PutIf(why != "", `<p class="notice warning" role="alert">{}</p>
`, plain(why))
}

// warning writes what cannot be shown.
func warning(p *page.Page, why string) {
	p.PutIf(why != "", `<p class="notice warning">{}</p>
`, plain(why))
}

// message is a page that says one thing.
type message string

func (m message) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow"><h1>{}</h1><p>{}</p>
<p><a class="button" href="{}/">Overview</a>`, v.Title, plain(string(m)), v.Base())
	p.PutIf(v.identity == nil, ` <a class="button" href="{}/signin">Sign in</a>`, v.Base())
	p.Put(`</p></section>
`)
}

// ensembles is the page that lists them.
type ensembles struct{}

func (ensembles) main(p *page.Page, v *view) {
	p.Put(`<h1>Ensembles</h1>
<ul class="cards">
`)
	for i := range v.Console.opts.Ensembles {
		name := v.Console.opts.Ensembles[i].Name
		p.Put(`<li class="card"><h2><a href="/console/{}/">{}</a></h2></li>
`, name, name)
	}
	p.Put(`</ul>
`)
}
