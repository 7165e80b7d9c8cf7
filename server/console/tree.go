package console

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/server/console/session"
	"zkd/server/console/values"
)

// Sizes of a page of children.
const (
	childrenShown = 100
	// liveMax is up to how many children a page is shown anew by itself: the whole list would come each time.
	liveMax = 10_000
)

// tree is what the page of a znode shows.
type tree struct {
	Path    string
	Crumbs  []crumb
	Exists  bool
	Problem string // why there is no znode to show
	Stat    jute.Stat
	Kind    string

	DataProblem string // why the value is not shown
	Value       *values.View
	ACL         []aclRow
	ACLProblem  string

	ListProblem        string
	Children           []child
	Total, Matching    int
	Page, Pages        int
	Filter             string
	First, Last        int
	Seen               uint64
	Live               bool
	As                 string // how the value is shown: "" as what it is, asHex
	PrevPage, NextPage int
	HasPrev, HasNext   bool
	Ephemeral, Home    bool
}

// asHex has a value shown in hexadecimal.
const asHex = "hex"

// crumb is a part of the path.
type crumb struct{ Name, Path string }

// child is a row of the list.
type child struct {
	Name, Path string
	Known      bool
	Stat       jute.Stat
}

// aclRow is an entry of an ACL in words.
type aclRow struct {
	Scheme, ID string
	Perms      string
	Note       string
}

// cleanPath is the path that was asked for, as znodes have it.
func cleanPath(r *http.Request) string {
	p := r.URL.Query().Get("path")
	if p == "" {
		return "/"
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	return p
}

// treePage shows a znode and its children.
func treePage(c *Console, w http.ResponseWriter, r *request) error {
	t, err := readTree(r)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !t.Exists {
		status = http.StatusNotFound
	}
	show(w, status, &view{Title: plain(t.Path), Active: "tree", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: t})
	return nil
}

// treeLive shows it again if something has changed: 204 says that nothing has, 409 that the page is too long to come by
// itself.
func treeLive(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	path := cleanPath(r.Request)
	changes, err := s.Changes(r.ctx, path)
	if err != nil {
		return err
	}
	if strconv.FormatUint(changes, 10) == r.URL.Query().Get("seen") {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if stat, err := s.Stat(r.ctx, path); err == nil && stat.NumChildren > liveMax {
		w.WriteHeader(http.StatusConflict)
		return nil
	}
	t, err := readTree(r)
	if err != nil {
		return err
	}
	showLive(w, &view{Console: c, visitor: r.visitor, Ensemble: r.ensemble}, t)
	return nil
}

// readTree reads what the page shows.
func readTree(r *request) (*tree, error) {
	s, err := r.session()
	if err != nil {
		return nil, err
	}
	t := &tree{Path: cleanPath(r.Request), Filter: r.URL.Query().Get("filter"), As: r.URL.Query().Get("as")}
	t.Home = t.Path == "/"
	t.Crumbs = crumbs(t.Path)
	t.Page, _ = strconv.Atoi(r.URL.Query().Get("page")) // what is no number is the first
	// Before anything is read: a change during that shows as one.
	if t.Seen, err = s.Changes(r.ctx, t.Path); err == nil {
		t.Live = true
	} else if session.CodeOf(err) == jute.OK {
		return nil, err
	}
	names, stat, err := s.Names(r.ctx, t.Path)
	t.Stat = stat
	switch code := session.CodeOf(err); {
	case err == nil:
		t.Exists = true
		if err := t.children(r.ctx, s, names); err != nil {
			return nil, err
		}
	case code == jute.NoAuth, errors.Is(err, client.ErrTooLong): // what Stat has said counts
		t.Exists, t.Total = true, int(stat.NumChildren)
		_, t.ListProblem = explain(err)
	case code == jute.OK:
		return nil, err
	default:
		_, t.Problem = explain(err)
		return t, nil
	}
	t.Kind, t.Ephemeral = kindOf(t.Stat.EphemeralOwner)
	return t, t.readValue(r.ctx, s)
}

// crumbs are the parts of a path.
func crumbs(path string) []crumb {
	found := []crumb{{"/", "/"}}
	if path == "/" {
		return found
	}
	at := ""
	for name := range strings.SplitSeq(path[1:], "/") {
		at += "/" + name
		found = append(found, crumb{name, at})
	}
	return found
}

// children is the page of the list.
func (t *tree) children(ctx context.Context, s *session.Session, names []string) error {
	t.Total = len(names)
	if t.Filter != "" {
		wanted := strings.ToLower(t.Filter)
		var matching []string
		for _, name := range names {
			if strings.Contains(strings.ToLower(name), wanted) {
				matching = append(matching, name)
			}
		}
		names = matching
	}
	t.Matching = len(names)
	t.Pages = max((len(names)+childrenShown-1)/childrenShown, 1)
	t.Page = min(max(t.Page, 1), t.Pages)
	t.First = (t.Page - 1) * childrenShown
	t.Last = min(t.First+childrenShown, len(names))
	t.HasPrev, t.HasNext, t.PrevPage, t.NextPage = t.Page > 1, t.Page < t.Pages, t.Page-1, t.Page+1
	shown := names[t.First:t.Last]
	var paths []string
	for _, name := range shown {
		paths = append(paths, jute.ChildPath(t.Path, name))
	}
	stats, ok, err := s.Stats(ctx, paths)
	if err != nil {
		return err
	}
	for i, name := range shown {
		t.Children = append(t.Children, child{Name: name, Path: paths[i], Known: ok[i], Stat: stats[i]})
	}
	if t.Last > 0 {
		t.First++
	}
	return nil
}

// kindOf says in words what sort of znode has that owner. Of containers and of those with a time to live the servers do
// not tell clients (org.apache.zookeeper.server.DataNode.copyStat).
func kindOf(owner jute.SessionID) (kind string, ephemeral bool) {
	if owner == 0 {
		return "persistent", false
	}
	return "ephemeral: it goes with its session", true
}

// readValue reads the value and the ACL. Each may be forbidden by itself.
func (t *tree) readValue(ctx context.Context, s *session.Session) error {
	data, stat, err := s.Data(ctx, t.Path)
	switch {
	case err == nil:
		t.Stat = stat
		t.Value = values.Of(data)
	case session.CodeOf(err) != jute.OK:
		_, t.DataProblem = explain(err)
	default:
		return err
	}
	acl, _, err := s.ACL(ctx, t.Path)
	switch {
	case err == nil:
		for i := range acl {
			t.ACL = append(t.ACL, aclWords(&acl[i]))
		}
	case session.CodeOf(err) != jute.OK:
		_, t.ACLProblem = explain(err)
	default:
		return err
	}
	return nil
}

// perms are the permissions by their letters and words, in zkCli's order.
var perms = []struct {
	perm         jute.Perms
	letter, word string
}{
	{jute.PermCreate, "c", "create children"}, {jute.PermDelete, "d", "delete children"}, {jute.PermRead, "r", "read"},
	{jute.PermWrite, "w", "write"}, {jute.PermAdmin, "a", "change the ACL"},
}

// aclWords says an entry in words.
func aclWords(a *jute.ACL) aclRow {
	row := aclRow{Scheme: a.ID.Scheme, ID: a.ID.ID}
	var words []string
	for _, p := range perms {
		if a.Perms&p.perm != 0 {
			words = append(words, p.word)
		}
	}
	row.Perms = strings.Join(words, ", ")
	if a.Perms&jute.PermAll == jute.PermAll {
		row.Perms = "everything"
	}
	if len(words) == 0 {
		row.Perms = "nothing"
	}
	switch a.ID.Scheme {
	case "world":
		row.Note = "anyone"
	case "digest":
		row.Note = "a name and the hash of its password"
	case "ip":
		row.Note = "an address or a network"
	case "sasl":
		row.Note = "a user of SASL"
	case "x509":
		row.Note = "the owner of a certificate"
	}
	return row
}

// valueDownload answers with the bytes of a value.
func valueDownload(_ *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	path := cleanPath(r.Request)
	data, _, err := s.Data(r.ctx, path)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(path)}))
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // who has left needs nothing
	return nil
}

// fileName is a name for a file of a znode: of plain characters, whatever the znode is called.
func fileName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || slices.Contains([]rune("-_."), r) {
			return r
		}
		return '_'
	}, strings.TrimLeft(jute.BaseName(path), "."))
	return cut(name, shownMax) + ".value"
}
