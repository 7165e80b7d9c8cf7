package console

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client/subtree"
	"zkd/server/console/page"
)

// Bounds of a search: guesses. A page ends at the first of them, and leads to the next one, so nothing goes on when
// nobody waits for it any more.
const (
	searchLooked = 20_000 // znodes
	searchShown  = 100
	searchWithin = 5 * time.Second
)

// search is what the page of a search shows.
type search struct {
	Path, Name, Value, Owner, Size string // as they were filled in
	Asked                          bool
	Problem                        string
	Found                          []hit
	Looked, Denied                 int
	Next                           string // where the next page begins; "" at the end of the subtree
}

// hit is a znode that was found.
type hit struct {
	Path string
	Stat jute.Stat
}

// errEnough ends a page.
var errEnough = errors.New("enough for one page")

// searchPage shows the form, and what was found.
func searchPage(c *Console, w http.ResponseWriter, r *request) error {
	q := r.URL.Query()
	s := &search{Path: cleanPath(r.Request), Name: q.Get("name"), Value: q.Get("value"), Owner: q.Get("owner"),
		Size: q.Get("size")}
	if s.Asked = q.Has("name"); s.Asked {
		if err := s.run(r, q.Get("after")); err != nil {
			return err
		}
	}
	show(w, http.StatusOK, &view{Title: "Search", Active: "tree", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: s})
	return nil
}

// run looks for what was asked for, from behind a path on.
func (s *search) run(r *request, after string) error {
	fits, err := s.tests()
	if err != nil {
		_, s.Problem = explain(err)
		return nil //nolint:nilerr // the page says it
	}
	own, err := r.session()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, searchWithin)
	defer cancel()
	walk := subtree.Walker{Session: own.Session, Data: s.Value != "", Depth: -1, After: after}
	at := ""
	err = walk.Walk(ctx, s.Path, func(n *subtree.Node) error {
		at = n.Path
		s.Looked++
		if n.Denied {
			s.Denied++
		}
		if fits(n) {
			s.Found = append(s.Found, hit{n.Path, n.Stat})
		}
		if len(s.Found) >= searchShown || s.Looked >= searchLooked {
			return errEnough
		}
		return nil
	})
	switch {
	case err == nil:
	case errors.Is(err, errEnough), errors.Is(err, context.DeadlineExceeded) && at != "" && r.ctx.Err() == nil:
		s.Next = at
	default:
		_, s.Problem = explain(err)
	}
	return nil
}

// tests is what znodes that are looked for have: each field that was filled in counts.
func (s *search) tests() (func(*subtree.Node) bool, error) {
	var value *regexp.Regexp
	var err error
	if s.Value != "" {
		if value, err = regexp.Compile(s.Value); err != nil {
			return nil, &formError{"The value is no regular expression: " + err.Error() + "."}
		}
	}
	least, owner := int64(0), uint64(0)
	if s.Size != "" {
		if least, err = strconv.ParseInt(s.Size, 10, 64); err != nil {
			return nil, &formError{"The size is a number of bytes."}
		}
	}
	if s.Owner != "" {
		if owner, err = strconv.ParseUint(strings.TrimPrefix(s.Owner, "0x"), 16, 64); err != nil {
			return nil, &formError{"The owner is a session, in hexadecimal."}
		}
	}
	name := strings.ToLower(s.Name)
	return func(n *subtree.Node) bool {
		return strings.Contains(strings.ToLower(n.Name()), name) && int64(n.Stat.DataLength) >= least &&
			(s.Owner == "" || uint64(n.Stat.EphemeralOwner) == owner) &&
			(value == nil || !n.Denied && value.Match(n.Data))
	}, nil
}

// main implements body.
func (s *search) main(p *page.Page, v *view) {
	p.Put(`<section class="card" aria-labelledby="h-search">
<div class="row"><h1 id="h-search">Search below <bdi class="znode">{}</bdi></h1>
<a class="button" href="{}/tree?path={}">Back</a></div>
`, plain(s.Path), v.Base(), query(s.Path))
	problem(p, s.Problem)
	p.Put(`<form method="get" action="{}/search" class="grid" role="search">
<label>Below <input name="path" value="{}" spellcheck="false" autocapitalize="none"></label>
<label>Name has <input name="name" value="{}" spellcheck="false" autocapitalize="none" autofocus></label>
<label>Value matches <input name="value" value="{}" placeholder="regular expression" spellcheck="false"
autocapitalize="none"></label>
<label>Bytes, at least <input name="size" inputmode="numeric" value="{}"></label>
<label>Owner <input name="owner" value="{}" placeholder="session, 0x…" spellcheck="false" autocapitalize="none"></label>
<button class="primary">Search</button></form>
`, v.Base(), s.Path, s.Name, s.Value, s.Size, s.Owner)
	if s.Asked && s.Problem == "" {
		s.results(p, v)
	}
	p.Put(`</section>
`)
}

// results writes what was found, and how to go on.
func (s *search) results(p *page.Page, v *view) {
	if len(s.Found) > 0 {
		p.Put(`<div class="scroll" tabindex="0" role="region" aria-labelledby="h-search"><table>
<thead><tr><th scope="col">Path</th><th scope="col" class="n">Children</th><th scope="col" class="n">Size</th>
<th scope="col">Owner</th><th scope="col">Changed</th></tr></thead><tbody>
`)
		for i := range s.Found {
			f := &s.Found[i]
			owner := ""
			if f.Stat.EphemeralOwner != 0 {
				owner = hexText(f.Stat.EphemeralOwner)
			}
			p.Put(`<tr><th scope="row" class="path">`)
			v.linkToZnode(p, f.Path, f.Path)
			p.Put(`</th><td class="n">{}</td><td class="n">{}</td><td><code>{}</code></td><td class="t">{}</td></tr>
`, countText(f.Stat.NumChildren), bytesText(f.Stat.DataLength), owner, whenText(f.Stat.Mtime))
		}
		p.Put(`</tbody></table></div>
`)
	}
	p.Put(`<p class="pager"><span id="looked">{} found among {}</span>`, countText(len(s.Found)),
		plural(s.Looked, "znode", "znodes"))
	p.PutIf(s.Denied > 0, ` <span>{} may not be read</span>`, countText(s.Denied))
	p.PutIf(s.Next != "", ` <span>up to <code>{}</code></span> <a class="button" rel="next"
href="{}/search?path={}&amp;name={}&amp;value={}&amp;size={}&amp;owner={}&amp;after={}">Search on</a>`,
		plain(s.Next), v.Base(), query(s.Path), query(s.Name), query(s.Value), query(s.Size),
		query(s.Owner), query(s.Next))
	p.Put(`</p>
`)
}
