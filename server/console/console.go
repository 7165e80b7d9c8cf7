package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/quorum/clock"
	"zkd/server/console/session"
	"zkd/server/console/survey"
	"zkd/server/fourletter"
	"zkd/server/traffic/report"
)

// Path is where the console is.
const Path = "/console/"

//go:embed static
var files embed.FS

// Ensemble is one that the console shows.
type Ensemble struct {
	Name   string                // in addresses of pages: letters, digits, - and _
	Dial   client.DialFunc       // to the servers' ports for clients
	Addrs  []string              // of these, at which sessions are opened, one after the other
	Places func() []survey.Place // the servers that are asked for figures; nil: those at Addrs, and those they name
	Asker  survey.Asker
	Here   *Here // nil: none of its servers is in this process
}

// Here is the server that the console is part of.
type Here struct {
	Name string // as its Place's
	// Connect says how a session with it is connected, for a visitor at remote, who has proven cert if that is not nil.
	Connect func(remote netip.AddrPort, cert *x509.Certificate) client.DialFunc
	// Certificate is what the visitor has proven by TLS, nil for none; it is nil where certificates are no identities.
	Certificate func(r *http.Request) *x509.Certificate
	Info        func() *fourletter.Info
	// WhoAmI names identities, as the operation of that name does.
	WhoAmI func([]jute.ID) []jute.ClientInfo
	// Closed says that clients without a credential are not served at all: then nobody looks without one either.
	Closed bool
	// Operators reports whether a request comes from where operators are: the configuration has said so, or a
	// certificate that the port demands was shown.
	Operators func(r *http.Request) bool
	Journal   *Journal // of its log
	// HandOver has another server lead, if this one does; nil for a server that is alone.
	HandOver func(ctx context.Context) error
	// Backup answers with a backup: only who has proven to be a superuser gets there.
	Backup http.HandlerFunc
	// Uploads takes backups that a superuser wants to have back; nil where nothing is restored.
	Uploads Uploads
	// Top says who has done what in the last seconds.
	Top func(seconds int) (*report.Answer, error)
	// EndSession ends the session of a client.
	EndSession func(ctx context.Context, id jute.SessionID) error
}

// Options says what a Console shows. All but Version is needed.
type Options struct {
	Clock     clock.Clock
	Logger    *slog.Logger
	Random    io.Reader
	Ensembles []Ensemble
	ReadOnly  bool   // nothing can be changed, whoever signs in
	Version   string // of the program: a release or a commit; "" or "unknown" for a build that knows neither
}

// Console answers the requests of browsers below Path.
type Console struct {
	opts      Options
	mux       *http.ServeMux
	origin    *http.CrossOriginProtection
	visits    *visits
	failures  failures
	jobs      jobs
	held      held
	ensembles map[string]*ensemble // immutable
	stop      context.CancelFunc
	stopped   context.Context //nolint:containedctx // ends with Close: what sessions are opened under

	once sync.Once
}

// ensemble is an Ensemble and what looks at it.
type ensemble struct {
	Ensemble
	survey   *survey.Survey
	sessions *sessions
	found    found
	top      *topper
}

// New returns a console. Close ends its sessions.
func New(o Options) (*Console, error) {
	c := &Console{opts: o, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection(),
		visits: newVisits(o.Clock, o.Random), ensembles: map[string]*ensemble{}}
	c.jobs.turns = make(chan struct{}, jobsRunning)
	c.stopped, c.stop = context.WithCancel(context.Background())
	for i := range o.Ensembles {
		e := &ensemble{Ensemble: o.Ensembles[i]}
		if e.Asker.Dial == nil {
			e.Asker.Dial = e.Dial
		}
		if e.Places == nil {
			e.Places = e.found.placesFrom(e.Addrs)
		}
		e.survey = survey.New(survey.Options{Clock: o.Clock, Asker: &e.Asker, Places: e.Places})
		e.sessions = newSessions(c, e)
		e.top = newTopper(o.Clock, e)
		if c.ensembles[e.Name] != nil || !validName(e.Name) {
			return nil, fmt.Errorf("%q is no name for an ensemble: letters, digits, - and _, each name once", e.Name)
		}
		c.ensembles[e.Name] = e
	}
	return c, c.routes()
}

// validName reports whether a name may stand in an address.
func validName(name string) bool {
	return name != "" && name != "static" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Close ends all sessions with servers.
func (c *Console) Close() {
	c.once.Do(func() {
		c.stop()
		c.jobs.running.Wait()
		for _, e := range c.ensembles { // any order
			e.sessions.closeAll()
		}
	})
}

// right is what a page asks of its visitor.
type right int

const (
	looks    right = iota // he may look at the ensemble
	operates              // he may know of clients and paths
	fills                 // he may fill in a form: signed in, not read-only
	changes               // he may change something: as fills, by POST, with the token of his visit
	sends                 // as changes, but the page looks at the token, which stands before more than memory takes
)

// pageFunc answers a request that has been let in.
type pageFunc func(c *Console, w http.ResponseWriter, r *request) error

// routes are the pages of an ensemble, by method and what follows its name.
var routes = []struct {
	pattern string
	right   right
	page    pageFunc
}{
	{"GET /{$}", looks, overviewPage},
	{"GET /overview/live", looks, overviewLive},
	{"GET /tree", looks, treePage},
	{"GET /tree/live", looks, treeLive},
	{"GET /value", looks, valueDownload},
	{"GET /search", looks, searchPage},
	{"GET /export", looks, exportSubtree},
	{"GET /tree/import", fills, importPage},
	{"POST /tree/import", changes, importSubtree},
	{"GET /sessions", operates, sessionsPage},
	{"GET /top", operates, top},
	{"GET /top/live", operates, topLive},
	{"GET /tree/edit", fills, editPage},
	{"POST /tree/edit", changes, editValue},
	{"GET /tree/create", fills, createPage},
	{"POST /tree/create", changes, createZnode},
	{"GET /tree/acl", fills, aclPage},
	{"POST /tree/acl", changes, setACL},
	{"GET /tree/delete", fills, deletePage},
	{"POST /tree/delete", changes, deleteZnode},
	{"GET /quotas", looks, quotasPage},
	{"POST /quotas", changes, setQuota},
	{"POST /quotas/remove", changes, removeQuota},
	{"GET /members", operates, membersPage},
	{"POST /members/preview", changes, previewMembers},
	{"POST /members/change", changes, changeMembers},
	{"POST /members/handover", changes, handOver},
	{"GET /backup", fills, backup},
	{"POST /restore/upload", sends, uploadBackup},
	{"GET /restore", fills, restorePage},
	{"POST /restore/confirm", changes, confirmRestore},
	{"POST /restore/run", changes, runRestore},
	{"POST /restore/drop", changes, dropUpload},
	{"POST /sessions/end", changes, endSession},
	{"GET /job", fills, jobPage},
	{"GET /job/live", fills, jobLive},
	{"POST /job/stop", changes, stopJob},
}

// routes sets the mux up.
func (c *Console) routes() error {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return err
	}
	names, err := fs.Glob(static, "*")
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(static, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		c.mux.HandleFunc("GET "+Path+"static/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache") // asked for each time, and answered 304
			w.Header().Set("ETag", tag)
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
		})
	}
	c.mux.HandleFunc("GET "+Path+"{$}", c.front)
	for _, route := range routes {
		method, rest, _ := strings.Cut(route.pattern, " ")
		c.mux.HandleFunc(method+" "+Path+"{ensemble}"+rest, func(w http.ResponseWriter, r *http.Request) {
			c.page(w, r, route.right, route.page)
		})
	}
	c.mux.HandleFunc("GET "+Path+"{ensemble}/signin", c.signInPage)
	c.mux.HandleFunc("POST "+Path+"{ensemble}/signin", c.signIn)
	c.mux.HandleFunc("POST "+Path+"{ensemble}/signout", c.signOut)
	c.mux.HandleFunc("POST "+Path+"{ensemble}/readonly", c.switchReadOnly)
	return nil
}

// policy is what a browser may do with a page: nothing but show it with this server's own script and style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// bodyMax bounds what a form may hold: a value of the usual bound of a frame, and what surrounds it.
const bodyMax = 4 << 20

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := c.origin.Check(r); err != nil {
		c.opts.Logger.Warn("console request refused: it comes from another site", slog.String("peer", r.RemoteAddr))
		http.Error(w, "this request comes from another site", http.StatusForbidden)
		return
	}
	switch {
	case isUpload(r): // it goes to the disk, and has the bound of that
	case isImport(r):
		r.Body = http.MaxBytesReader(w, r.Body, importMax)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	}
	c.mux.ServeHTTP(w, r)
}

// front lists the ensembles, or shows the only one.
func (c *Console) front(w http.ResponseWriter, r *http.Request) {
	if len(c.opts.Ensembles) == 1 {
		http.Redirect(w, r, Path+c.opts.Ensembles[0].Name+"/", http.StatusFound)
		return
	}
	v := c.visitor(r, nil)
	if !v.here && v.visit == nil {
		http.Redirect(w, r, Path+c.opts.Ensembles[0].Name+"/signin", http.StatusSeeOther)
		return
	}
	show(w, http.StatusOK, &view{Title: "Ensembles", Console: c, visitor: v, Body: ensembles{}})
}

// request is one that was let in.
type request struct {
	*http.Request
	*visitor
	ensemble *ensemble
	ctx      context.Context //nolint:containedctx // of the request, with a deadline
}

// answerWithin bounds what a page waits for servers; a guess.
const answerWithin = 10 * time.Second

// page lets a visitor come to a page that asks for a right.
func (c *Console) page(w http.ResponseWriter, r *http.Request, needs right, f pageFunc) {
	e := c.ensembles[r.PathValue("ensemble")]
	if e == nil {
		http.NotFound(w, r)
		return
	}
	v := c.visitor(r, e)
	if !c.admit(w, r, v, e, needs) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	if err := f(c, w, &request{Request: r, visitor: v, ensemble: e, ctx: ctx}); err != nil {
		c.fail(w, r, v, e, err)
	}
}

// admit reports whether a visitor has a right; else he has been answered.
func (c *Console) admit(w http.ResponseWriter, r *http.Request, v *visitor, e *ensemble, needs right) bool {
	signIn := path.Join(Path, e.Name, "signin")
	switch {
	case !v.mayLook(), needs >= fills && v.identity == nil, needs == operates && !v.operator && v.identity == nil:
		if r.Method == http.MethodGet && !isFragment(r) {
			to := signIn + "?to=" + query(r.URL.RequestURI())
			http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // a page of the console; the rest is its query
			return false
		}
		c.refuse(w, r, v, e, http.StatusUnauthorized, "Sign in first.")
	case needs == operates && !v.operator:
		c.refuse(w, r, v, e, http.StatusForbidden,
			"Who is connected is shown to operators: on this machine, as the superuser, or with a certificate.")
	case needs == changes && !v.tokenFits(r):
		c.refuse(w, r, v, e, http.StatusForbidden, staleForm)
	case needs >= fills && c.readOnly(v):
		c.refuse(w, r, v, e, http.StatusForbidden, "The console is read-only.")
	default:
		return true
	}
	return false
}

// staleForm is said of a form without the token of the visit.
const staleForm = "The form is too old, or not of this console. Load the page again, and try again."

// readOnly reports whether a visitor can change nothing.
func (c *Console) readOnly(v *visitor) bool {
	return c.opts.ReadOnly || v.identity == nil || v.visit.isReadOnly()
}

// isFragment reports whether a script asks for a part of a page.
func isFragment(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/live") }

// refuse answers with a page that says why not.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, v *visitor, e *ensemble, status int, why string) {
	if isFragment(r) {
		http.Error(w, why, status)
		return
	}
	show(w, status, &view{Title: http.StatusText(status), Console: c, visitor: v, Ensemble: e, Body: message(why)})
}

// fail answers with a page that says what has gone wrong.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, v *visitor, e *ensemble, err error) {
	status, why := explain(err)
	c.refuse(w, r, v, e, status, why)
}

// view is what a page is made from.
type view struct {
	*visitor

	Title    string
	Active   string // of the navigation
	Console  *Console
	Ensemble *ensemble // nil on pages of none
	Body     body
	Flash    string // what the last action has done
}

// Base is where the pages of the ensemble are.
func (v *view) Base() string { return Path + v.Ensemble.Name }

// CanChange reports whether the visitor can change something.
func (v *view) CanChange() bool { return !v.Console.readOnly(v.visitor) }

// CanEnd reports whether the visitor can end sessions of clients: that is for superusers, as no ACL says who may.
func (v *view) CanEnd() bool {
	return v.CanChange() && v.Super() && v.Ensemble.Here != nil && v.Ensemble.Here.EndSession != nil
}

// session is the visitor's with a server of the ensemble.
func (r *request) session() (*session.Session, error) {
	return r.ensemble.sessions.get(r.ctx, r.visitor)
}

// errNotFound is of what the console does not have.
var errNotFound = errors.New("there is no such page")
