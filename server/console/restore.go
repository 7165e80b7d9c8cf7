package console

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/server/console/session"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Uploads takes backups that a superuser wants to have back.
type Uploads interface {
	// Present says what a restore would put another state in the place of.
	Present() schema.Summary
	// Take keeps what r has, if all of it is a whole backup. One is kept at a time.
	Take(ctx context.Context, r io.Reader) (Upload, error)
}

// Upload is a backup that was taken, and found to be whole. It is restored once at most, and dropped once.
type Upload interface {
	// Info says what is in it, and how long it is.
	Info() (info schema.Summary, bytes int64)
	// Restore puts it into the place of the state of the whole ensemble. After an error the state is as it was, unless
	// the error says otherwise.
	Restore(ctx context.Context, peer string, progress func(znodes int64)) (jute.Zxid, error)
	Drop() error
}

// Bounds of uploads: guesses.
const (
	heldWithin = 15 * time.Minute // that it waits for being restored
	uploadIdle = 30 * time.Second // that a browser may send nothing of it
	tokenMax   = 1 << 10
)

// held is the backup that was uploaded and is neither restored nor given up.
type held struct {
	mu     sync.Mutex
	id     string
	owner  *identity
	upload Upload
	gone   chan struct{} // closed when it is not held any more
}

// take takes it away for who has uploaded it; nil if there is none of his by this id. "" is any.
func (h *held) take(id string, of *identity) Upload {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.upload == nil || h.owner != of || id != "" && h.id != id {
		return nil
	}
	taken := h.upload
	h.upload = nil
	close(h.gone)
	return taken
}

// look returns it for who has uploaded it, and leaves it.
func (h *held) look(id string, of *identity) Upload {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.upload == nil || h.owner != of || h.id != id {
		return nil
	}
	return h.upload
}

// give gives up what somebody has uploaded.
func (h *held) give(of *identity) {
	if u := h.take("", of); u != nil {
		_ = u.Drop() // what stays goes with the next upload, or the next start
	}
}

// hold keeps an upload for a while; the goroutine of it ends with the upload.
func (h *held) hold(c *Console, u Upload, of *identity) (id string, err error) {
	if id, err = c.visits.draw(); err != nil {
		return "", err
	}
	gone := make(chan struct{})
	h.mu.Lock()
	h.id, h.owner, h.upload, h.gone = id, of, u, gone
	h.mu.Unlock()
	c.jobs.running.Go(func() {
		timer := c.opts.Clock.NewTimer(heldWithin)
		defer timer.Stop()
		select {
		case <-gone:
			return
		case <-timer.C():
		case <-c.stopped.Done():
		}
		if u := h.take(id, of); u != nil {
			_ = u.Drop() // as in give
		}
	})
	return id, nil
}

// isUpload reports whether a request sends a backup.
func isUpload(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/restore/upload") }

// uploads is where the visitor's backups go; an error if he may not have one back.
func (r *request) uploads() (Uploads, error) {
	here := r.ensemble.Here
	if here == nil || here.Uploads == nil {
		return nil, &formError{"Nothing is restored here: it is no server of zkd, or admin.restore.enabled=false."}
	}
	if !r.Super() {
		return nil, &formError{"A backup replaces all data: only the superuser restores one."}
	}
	return here.Uploads, nil
}

// patientUpload reads from a browser that must send something within uploadIdle.
type patientUpload struct {
	io.Reader
	control *http.ResponseController
	console *Console
}

// Read implements io.Reader.
func (p *patientUpload) Read(b []byte) (int, error) {
	// Who cannot have a deadline is a test's recorder, whose body is there.
	_ = p.control.SetReadDeadline(p.console.opts.Clock.Now().Add(uploadIdle))
	return p.Reader.Read(b)
}

// uploadBackup takes a backup, checks all of it, and leads to the page that says what is in it. Nothing of it is in
// memory, and nothing is read before the token was.
func uploadBackup(c *Console, w http.ResponseWriter, r *request) error {
	control := http.NewResponseController(w)
	r.Body = io.NopCloser(&patientUpload{Reader: r.Body, control: control, console: c})
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // as in Read
	parts, err := r.MultipartReader()
	if err != nil {
		return &formError{"The form cannot be read."}
	}
	part, err := parts.NextPart()
	if err != nil || part.FormName() != "token" {
		return &formError{staleForm}
	}
	token, err := io.ReadAll(io.LimitReader(part, tokenMax))
	if err != nil || !r.isToken(string(token)) {
		c.refuse(w, r.Request, r.visitor, r.ensemble, http.StatusForbidden, staleForm)
		return nil //nolint:nilerr // the answer says it
	}
	uploads, err := r.uploads()
	if err != nil {
		return err
	}
	if part, err = parts.NextPart(); err != nil || part.FormName() != "file" || part.FileName() == "" {
		return &formError{"Choose a backup, as it is downloaded here or made by zkd backup."}
	}
	c.held.give(r.identity)
	u, err := uploads.Take(r.Request.Context(), part)
	if err != nil {
		_, _ = io.Copy(io.Discard, part) // a browser that is not read to its end shows no answer
		c.opts.Logger.Warn("console refuses a backup", slog.String("peer", r.RemoteAddr), slog.Any("err", err))
		return &formError{"The backup is not taken, and nothing has changed: " + plain(err.Error()) + "."}
	}
	id, err := c.held.hold(c, u, r.identity)
	if err != nil {
		_ = u.Drop() // as in give
		return err
	}
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/restore?id="+id, http.StatusSeeOther)
	return nil
}

// restoring is what the pages about an uploaded backup show.
type restoring struct {
	ID            string
	Then, Now     schema.Summary
	Bytes         int64
	Into          string // where this server is, as the browser has it: what is to be typed
	Typed         string
	Problem       string
	Sure          bool // it is asked for the last time
	Says, Worries []string
}

// errUploadGone is of an upload that is not there any more.
var errUploadGone = &formError{"The backup is not here any more: it was restored, given up, or waited for too long. " +
	"Upload it again."}

// findRestoring looks at the backup that a request is about.
func findRestoring(c *Console, r *request) (*restoring, error) {
	uploads, err := r.uploads()
	if err != nil {
		return nil, err
	}
	u := c.held.look(r.FormValue("id"), r.identity)
	if u == nil {
		return nil, errUploadGone
	}
	b := &restoring{ID: r.FormValue("id"), Now: uploads.Present(), Into: r.Host, Typed: r.PostFormValue("typed")}
	b.Then, b.Bytes = u.Info()
	b.compare()
	return b, nil
}

// compare says what would be lost.
func (b *restoring) compare() {
	then, now := &b.Then, &b.Now
	same := then.ClusterID == now.ClusterID && now.ClusterID != entry.ClusterID{}
	switch {
	case same && now.Zxid > then.Zxid:
		b.Says = append(b.Says, fmt.Sprintf("It is of this ensemble. What was written since then is lost: up to %s.",
			plural(int64(now.Zxid-then.Zxid), "change", "changes")))
	case same:
		b.Says = append(b.Says, "It is of this ensemble, and nothing was written since then.")
	case now.ClusterID == entry.ClusterID{} && then.ClusterID == now.ClusterID:
		b.Says = append(b.Says, "It is of a server that stood alone, as this one does. All that is here now is lost.")
	default:
		b.Worries = append(b.Worries, "It is of another ensemble. All that is here now is lost.")
	}
	b.Says = append(b.Says,
		fmt.Sprintf("Now there are %s; then there are %s.", plural(now.Znodes, "znode", "znodes"),
			plural(then.Znodes, "znode", "znodes")),
		"Sessions that the backup does not have end, with their ephemeral znodes. All clients are cut off for a "+
			"moment, and all their watches fire.",
		"The members and /zookeeper/config stay as they are, and the zxid goes on. Writes wait until each server "+
			"is ready.")
}

// show answers with the page.
func (b *restoring) show(c *Console, w http.ResponseWriter, r *request) {
	status := http.StatusOK
	if b.Problem != "" {
		status = http.StatusConflict
	}
	show(w, status, &view{Title: "Restore", Active: "members", Console: c, visitor: r.visitor, Ensemble: r.ensemble,
		Body: b})
}

// restorePage says what is in the backup.
func restorePage(c *Console, w http.ResponseWriter, r *request) error {
	b, err := findRestoring(c, r)
	if err == nil {
		b.show(c, w, r)
	}
	return err
}

// confirmRestore takes the first confirmation, and asks for the last one.
func confirmRestore(c *Console, w http.ResponseWriter, r *request) error {
	b, err := findRestoring(c, r)
	if err != nil {
		return err
	}
	if b.Sure = b.Typed == b.Into; !b.Sure {
		b.Problem = "That is not where this server is. Nothing has changed."
	}
	b.show(c, w, r)
	return nil
}

// runRestore takes the last confirmation, and has a job restore the backup.
func runRestore(c *Console, w http.ResponseWriter, r *request) error {
	b, err := findRestoring(c, r)
	if err != nil {
		return err
	}
	if b.Typed != b.Into || r.PostFormValue("sure") != "true" {
		return &formError{"Confirm it twice: type where this server is, then say so once more."}
	}
	u := c.held.take(b.ID, r.identity)
	if u == nil {
		return errUploadGone
	}
	c.opts.Logger.Warn("console restores a backup", slog.String("zxid", hexText(b.Then.Zxid)),
		slog.String("user", shown(r.identity.Name)), slog.String("peer", r.RemoteAddr))
	j := c.startJob(r, "Restore", "", &restoreWork{upload: u, peer: r.RemoteAddr})
	c.jobs.running.Go(func() { // also where the work was never begun
		<-j.over
		_ = u.Drop() // as in give
	})
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/job?id="+j.id, http.StatusSeeOther)
	return nil
}

// dropUpload gives a backup up.
func dropUpload(c *Console, w http.ResponseWriter, r *request) error {
	c.held.give(r.identity)
	r.visit.say("The backup is given up. Nothing has changed.")
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/members", http.StatusSeeOther)
	return nil
}

// restoreWork puts an uploaded backup into the place of the state.
type restoreWork struct {
	upload Upload
	peer   string
}

// run implements work. The session of the visitor ends on the way, if the backup does not have it.
func (w *restoreWork) run(ctx context.Context, _ *session.Session, done *atomic.Int64) (string, error) {
	zxid, err := w.upload.Restore(ctx, w.peer, done.Store)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Canceled
		}
		return "", &formError{plain(err.Error()) + "."}
	}
	info, _ := w.upload.Info()
	return fmt.Sprintf("The state is that of the backup, on all servers: %s. It goes on from zxid %s.",
		plural(info.Znodes, "znode", "znodes"), hexText(zxid)), nil
}

// ofEnsemble names an ensemble.
func ofEnsemble(id entry.ClusterID) string {
	if id == (entry.ClusterID{}) {
		return "none: a server that stood alone"
	}
	return hex.EncodeToString(id[:])
}
