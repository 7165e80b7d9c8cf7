package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	"zkd/jute"
	client "zkd/jute/client/session"
	"zkd/jute/client/subtree"
	"zkd/server/console/page"
	"zkd/server/console/session"
)

// exportSubtree answers with a subtree as lines, as zkd cli export writes it, without ephemerals. What breaks off says
// so in its last line, which no import takes.
func exportSubtree(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	defer s.Hold()()
	root := cleanPath(r.Request)
	if _, err := s.Stat(r.ctx, root); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request.Context(), jobWithin)
	defer cancel()
	name := strings.TrimSuffix(fileName(root), ".value") + ".jsonl"
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	walk := subtree.Walker{Session: s.Session, Data: true, ACL: true, Depth: -1}
	err = subtree.WriteLine(w, subtree.Header{Version: subtree.Version, Root: root})
	if err == nil {
		err = walk.Walk(ctx, root, func(n *subtree.Node) error {
			switch {
			case n.Denied:
				return &client.Error{Code: jute.NoAuth, Path: n.Path}
			case n.Ephemeral():
				return nil
			}
			return subtree.WriteLine(w, subtree.NewEntry(n, root))
		})
	}
	if err != nil {
		_, _ = fmt.Fprintf(w, "broken off: %v\n", err) // who has left needs nothing
	}
	return nil
}

// importMax bounds an import: it is checked whole before anything is made.
const importMax = 32 << 20

// isImport reports whether a request may send more than a form.
func isImport(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/tree/import") }

// importForm is the page from which a subtree is imported.
type importForm struct{ Path string }

// importPage shows the form.
func importPage(c *Console, w http.ResponseWriter, r *request) error {
	c.showForm(w, r, "Import", "", importForm{cleanPath(r.Request)})
	return nil
}

// importSubtree takes the form, and has a job make the znodes.
func importSubtree(c *Console, w http.ResponseWriter, r *request) error {
	root, err := formPath(r.Request)
	if err != nil {
		return err
	}
	if !jute.ValidPath(root) {
		return &formError{"That is no path for a znode."}
	}
	file, _, err := r.FormFile("file")
	if err != nil {
		return &formError{"Choose a file of an export. It may have 32 MiB; zkd cli imports longer ones."}
	}
	defer file.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(file)
	if err != nil {
		return &formError{"The file cannot be read, or is too long."}
	}
	entries, err := readExport(text)
	if err != nil {
		return err
	}
	j := c.startJob(r, "Import "+plain(root), root, &importWork{entries: entries, root: root,
		overwrite: r.PostFormValue("overwrite") == "true"})
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/job?id="+j.id, http.StatusSeeOther)
	return nil
}

// readExport reads a whole export, so that one that is damaged makes nothing.
func readExport(text []byte) (entries []*subtree.Entry, err error) {
	reader, _, err := subtree.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, &formError{"The file " + err.Error() + "."}
	}
	for {
		e, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return entries, nil
		case err == nil:
			_, err = e.NewNode()
		}
		if err != nil {
			return nil, &formError{fmt.Sprintf("The file breaks off, or is damaged, behind %d znodes: %v.",
				len(entries), err)}
		}
		entries = append(entries, e)
	}
}

// importWork makes the znodes of an export.
type importWork struct {
	entries   []*subtree.Entry
	root      string
	overwrite bool
}

// run implements work.
func (i *importWork) run(ctx context.Context, s *session.Session, done *atomic.Int64) (string, error) {
	into := subtree.Importer{Root: i.root, Overwrite: i.overwrite}
	into.Session = s.Session
	var err error
	for _, e := range i.entries {
		if err = into.Make(ctx, e); err != nil {
			break
		}
		done.Store(int64(into.Done()))
	}
	if err == nil {
		err = into.Flush(ctx)
	}
	said := plural(into.Done(), "znode was made.", "znodes were made.")
	if into.Kept > 0 {
		said += " " + plural(into.Kept, "ephemeral was", "ephemerals were") + " left out."
	}
	return said, err
}

// main implements body.
func (i importForm) main(p *page.Page, v *view) {
	p.Put(`<section class="card narrow">
`)
	v.heading(p, "Import below", i.Path)
	v.upload(p, "tree/import")
	p.Put(`<label for="path">What was the root of the export becomes</label>
<input id="path" name="path" value="{}" spellcheck="false" autocapitalize="none" required>
<label for="file">File of an export</label><input id="file" name="file" type="file" required>
<fieldset><legend>A znode that is there</legend>
<label><input type="radio" name="overwrite" value="false" checked> ends the import</label>
<label><input type="radio" name="overwrite" value="true"> gets the value and the ACL of the export</label></fieldset>
<p class="hint">As zkd cli export writes it, and Export beside a znode. The file is checked whole first; what was made
before an import ends stays.</p>
<p><button class="primary">Import</button></p></form>
</section>
`, i.Path)
}
