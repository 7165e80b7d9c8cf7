package console

import (
	"crypto/sha1" //nolint:gosec // the hash of the scheme digest
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zkd/jute"
	client "zkd/jute/client/session"
	"zkd/server/console/session"
	"zkd/server/console/values"
)

// edit is what the pages that change one znode show.
type edit struct {
	Path    string
	Text    string // of the value, as it is filled in
	IsText  bool   // it can be filled in
	Version jute.Version
	Problem string
	// Of a value that somebody else has changed meanwhile.
	Conflict      bool
	Theirs        *values.View
	TheirsVersion jute.Version

	Name, Kind, TTL string // of a znode to be created
	Stat            jute.Stat
	Below           int // how many a delete takes besides
	BelowKnown      bool
	Entries         []aclEntry
}

// aclEntry is a row of the editor of ACLs.
type aclEntry struct {
	Scheme, ID string
	Perms      jute.Perms
}

// emptyEntries is how many entries can be added to an ACL at once.
const emptyEntries = 2

// editTextMax is up to how long a value can be filled in.
const editTextMax = 512 << 10

// formPath is the path that a form is about.
func formPath(r *http.Request) (string, error) {
	path := r.PostFormValue("path")
	if !strings.HasPrefix(path, "/") {
		return "", &formError{"A path begins with /."}
	}
	return path, nil
}

// formTarget returns the session of who sends a form, and the path that the form is about.
func (r *request) formTarget() (*session.Session, string, error) {
	s, err := r.session()
	if err != nil {
		return nil, "", err
	}
	path, err := formPath(r.Request)
	return s, path, err
}

// showForm shows a page that changes something.
func (c *Console) showForm(w http.ResponseWriter, r *request, title, problem string, b body) {
	status := http.StatusOK
	if problem != "" {
		status = http.StatusConflict
	}
	show(w, status, &view{Title: title, Active: "tree", Console: c, visitor: r.visitor, Ensemble: r.ensemble,
		Body: b})
}

// toZnode leads to the page of a znode, which says what was done.
func toZnode(w http.ResponseWriter, r *request, path, said string) {
	r.visit.say("%s", said)
	to := Path + r.ensemble.Name + "/tree?path=" + url.QueryEscape(path)
	http.Redirect(w, r.Request, to, http.StatusSeeOther) //nolint:gosec // a page of the console
}

// editPage shows the form for a value.
func editPage(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	e := &edit{Path: cleanPath(r.Request)}
	data, stat, err := s.Data(r.ctx, e.Path)
	if err != nil {
		return err
	}
	e.Version, e.Stat = stat.Version, stat
	e.Text, e.IsText = editable(data)
	c.showForm(w, r, "Edit "+plain(e.Path), e.Problem, editForm{e})
	return nil
}

// editable is a value as a form has it, if a form can have it.
func editable(data []byte) (text string, ok bool) {
	if len(data) > editTextMax {
		return "", false
	}
	switch values.Of(data).Kind {
	case values.Text, values.JSON, values.Empty, values.Null:
		// A field of a form has one kind of line ends.
		alone := strings.Count(string(data), "\n") - strings.Count(string(data), "\r\n")
		mixed := strings.Contains(string(data), "\r") && (alone > 0 ||
			strings.Count(string(data), "\r") != strings.Count(string(data), "\r\n"))
		return string(data), !mixed
	case values.Binary, values.Gzip, values.Snappy, values.Java:
	}
	return "", false
}

// formValue is the value that a form sends: a file if there is one, else the field. crlf says that its lines end as
// those of files of Windows.
func formValue(r *http.Request, crlf bool) ([]byte, error) {
	file, _, err := r.FormFile("file")
	if err == nil {
		defer file.Close() //nolint:errcheck // read only
		data, err := io.ReadAll(file)
		if err != nil {
			return nil, &formError{"The file cannot be read, or is too long."}
		}
		return data, nil
	}
	if !errors.Is(err, http.ErrMissingFile) && !errors.Is(err, http.ErrNotMultipart) {
		return nil, &formError{"The form cannot be read, or is too long."}
	}
	text := r.PostFormValue("value") // browsers send CR LF
	if !crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if !utf8.ValidString(text) {
		return nil, &formError{"The text is no UTF-8."}
	}
	return []byte(text), nil
}

// formVersion is the version that a form was made of.
func formVersion(r *http.Request) (jute.Version, error) {
	n, err := strconv.ParseInt(r.PostFormValue("version"), 10, 32)
	if err != nil || n < 0 {
		return 0, &formError{"The form does not say which version it changes."}
	}
	return jute.Version(n), nil
}

// editValue takes the form for a value. If somebody else was quicker, both values are shown.
func editValue(c *Console, w http.ResponseWriter, r *request) error {
	s, path, err := r.formTarget()
	if err != nil {
		return err
	}
	version, err := formVersion(r.Request)
	if err != nil {
		return err
	}
	data, err := formValue(r.Request, r.PostFormValue("crlf") == "true")
	if err != nil {
		return err
	}
	_, err = s.Set(r.ctx, path, data, version)
	if session.CodeOf(err) != jute.BadVersion {
		if err != nil {
			return err
		}
		toZnode(w, r, path, "Saved: "+plain(path))
		return nil
	}
	theirs, stat, err := s.Data(r.ctx, path)
	if err != nil {
		return err
	}
	e := &edit{Path: path, Version: version, Conflict: true, Theirs: values.Of(theirs), TheirsVersion: stat.Version,
		Stat: stat, Problem: explanations[jute.BadVersion]}
	e.Text, e.IsText = editable(data)
	c.showForm(w, r, "Edit "+plain(path), e.Problem, editForm{e})
	return nil
}

// CRLF reports whether the lines of the value end as those of files of Windows.
func (e *edit) CRLF() bool { return strings.Contains(e.Text, "\r\n") }

// createPage shows the form for a new child.
func createPage(c *Console, w http.ResponseWriter, r *request) error {
	c.showForm(w, r, "New znode", "", createForm{&edit{Path: cleanPath(r.Request), Kind: "persistent", IsText: true}})
	return nil
}

// kinds are those of znodes that can be created, by their names in the form. Ephemerals would go with the console's
// session.
var kinds = map[string]jute.CreateMode{
	"persistent": jute.ModePersistent, "sequential": jute.ModePersistentSequential, "container": jute.ModeContainer,
	"ttl": jute.ModePersistentTTL,
}

// createZnode takes the form for a new child.
func createZnode(c *Console, w http.ResponseWriter, r *request) error {
	s, parent, err := r.formTarget()
	if err != nil {
		return err
	}
	data, err := formValue(r.Request, false)
	if err != nil {
		return err
	}
	e := &edit{Path: parent, Name: r.PostFormValue("name"), Kind: r.PostFormValue("kind"), TTL: r.PostFormValue("ttl"),
		Text: string(data), IsText: true}
	mode, known := kinds[e.Kind]
	n := client.NewNode{Data: data, Mode: mode,
		ACL: client.World()}
	if r.PostFormValue("acl") == "parent" {
		if n.ACL, _, err = s.ACL(r.ctx, parent); err != nil {
			return err
		}
	}
	switch {
	case !known:
		return &formError{"Choose a kind of znode."}
	case e.Name == "" && mode != jute.ModePersistentSequential:
		e.Problem = "Give it a name."
	case mode.TTL():
		seconds, err := strconv.ParseInt(e.TTL, 10, 40)
		if err != nil || seconds <= 0 {
			e.Problem = "Give the time to live in seconds, more than 0."
		}
		n.TTL = time.Duration(seconds) * time.Second
	}
	if e.Problem == "" {
		created, err := s.Create(r.ctx, jute.ChildPath(parent, e.Name), n)
		if err == nil {
			toZnode(w, r, created, "Created: "+plain(created))
			return nil
		}
		if session.CodeOf(err) == jute.OK {
			return err
		}
		_, e.Problem = explain(err)
	}
	c.showForm(w, r, "New znode", e.Problem, createForm{e})
	return nil
}

// aclPage shows the editor of an ACL.
func aclPage(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	e := &edit{Path: cleanPath(r.Request)}
	if err := e.readACL(r, s); err != nil {
		return err
	}
	c.showForm(w, r, "ACL of "+plain(e.Path), e.Problem, aclForm{e})
	return nil
}

// readACL reads the entries as they are.
func (e *edit) readACL(r *request, s *session.Session) error {
	acl, stat, err := s.ACL(r.ctx, e.Path)
	if err != nil {
		return err
	}
	e.Version = stat.Aversion
	e.Entries = nil
	for i := range acl {
		e.Entries = append(e.Entries, aclEntry{acl[i].ID.Scheme, acl[i].ID.ID, acl[i].Perms})
	}
	for range emptyEntries {
		e.Entries = append(e.Entries, aclEntry{})
	}
	return nil
}

// schemePassword is the scheme of the form by which a name and a password become a digest.
const schemePassword = "password"

// formACL is the ACL that a form has. Entries without a scheme are none.
func formACL(r *http.Request) ([]jute.ACL, error) {
	var acl []jute.ACL
	for i := range len(r.PostForm["scheme"]) {
		scheme := r.PostForm["scheme"][i]
		if scheme == "" {
			continue
		}
		if i >= len(r.PostForm["id"]) {
			return nil, &formError{"The form is not whole."}
		}
		entry := jute.ACL{ID: jute.ID{Scheme: scheme, ID: strings.TrimSpace(r.PostForm["id"][i])}}
		for _, letter := range r.PostForm["perms"+strconv.Itoa(i)] {
			for _, p := range perms {
				if p.letter == letter {
					entry.Perms |= p.perm
				}
			}
		}
		if entry.Perms == 0 {
			continue // whoever may nothing needs no entry
		}
		if scheme == schemePassword {
			user, _, ok := strings.Cut(entry.ID.ID, ":")
			if !ok {
				return nil, &formError{"For a name with a password fill in name:password."}
			}
			sum := sha1.Sum([]byte(entry.ID.ID)) //nolint:gosec // as ZooKeeper has it
			entry.ID = jute.ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
		}
		acl = append(acl, entry)
	}
	if len(acl) == 0 {
		return nil, &formError{"An ACL has one entry at least. To keep out all but the superuser, name a user " +
			"that nobody is."}
	}
	return acl, nil
}

// setACL takes the editor's form.
func setACL(c *Console, w http.ResponseWriter, r *request) error {
	s, path, err := r.formTarget()
	if err != nil {
		return err
	}
	version, err := formVersion(r.Request)
	if err != nil {
		return err
	}
	acl, err := formACL(r.Request)
	if err != nil {
		return err
	}
	_, err = s.SetACL(r.ctx, path, acl, version)
	if session.CodeOf(err) == jute.BadVersion {
		e := &edit{Path: path, Problem: "Somebody else has changed the ACL meanwhile. It is shown as it is now."}
		if err := e.readACL(r, s); err != nil {
			return err
		}
		c.showForm(w, r, "ACL of "+plain(path), e.Problem, aclForm{e})
		return nil
	}
	if err != nil {
		return err
	}
	toZnode(w, r, path, "The ACL is changed: "+plain(path))
	return nil
}

// deletePage says what a delete would take.
func deletePage(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	e := &edit{Path: cleanPath(r.Request)}
	if e.Stat, err = s.Stat(r.ctx, e.Path); err != nil {
		return err
	}
	e.Version = e.Stat.Version
	if e.Stat.NumChildren > 0 {
		n, err := s.Descendants(r.ctx, e.Path)
		if err != nil && session.CodeOf(err) == jute.OK {
			return err
		}
		e.Below, e.BelowKnown = n, err == nil
	}
	c.showForm(w, r, "Delete "+plain(e.Path), e.Problem, deleteForm{e})
	return nil
}

// deleteZnode takes the form: one znode of that version, or with all below it, by a job that can be stopped.
func deleteZnode(c *Console, w http.ResponseWriter, r *request) error {
	s, path, err := r.formTarget()
	if err != nil {
		return err
	}
	if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") && r.PostFormValue("all") != "" {
		return &formError{"What is below /zookeeper is the server's own."}
	}
	if r.PostFormValue("all") != "" {
		if r.PostFormValue("typed") != path {
			return &formError{"Type the whole path to delete it with all that is below."}
		}
		j := c.startJob(r, "Delete "+plain(path), path, &remover{path: path})
		http.Redirect(w, r.Request, Path+r.ensemble.Name+"/job?id="+j.id, http.StatusSeeOther)
		return nil
	}
	version, err := formVersion(r.Request)
	if err != nil {
		return err
	}
	if err := s.Delete(r.ctx, path, version); err != nil {
		return err
	}
	toZnode(w, r, jute.ParentPath(path), "Deleted: "+plain(path))
	return nil
}

// jobWithin bounds a job; a guess. What it has not done by then is left.
const jobWithin = time.Hour
