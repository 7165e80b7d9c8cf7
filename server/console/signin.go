package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/server/console/session"
)

// Bounds of attempts to sign in from one address: guesses.
const (
	failuresMax   = 5
	failuresPause = 30 * time.Second
	failuresKept  = 1000 // addresses
)

// failures are the attempts that have failed, by address.
type failures struct {
	mu  sync.Mutex
	all map[netip.Addr]failed
}

// failed are those of one address.
type failed struct {
	count int
	last  time.Time
}

// wait reports whether an address has to wait.
func (f *failures) wait(a netip.Addr, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.all[a]
	return was.count >= failuresMax && now.Sub(was.last) < failuresPause
}

// note notes how an attempt has ended.
func (f *failures) note(a netip.Addr, ok bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ok {
		delete(f.all, a)
		return
	}
	if f.all == nil || len(f.all) >= failuresKept {
		f.all = map[netip.Addr]failed{}
	}
	was := f.all[a]
	if now.Sub(was.last) >= failuresPause {
		was.count = 0
	}
	f.all[a] = failed{was.count + 1, now}
}

// signInForm is what the page for signing in shows.
type signInForm struct {
	Error, Scheme, User, To string
	Plain                   bool   // whoever is between sees the password
	Elsewhere               bool   // only what proves something lets in
	Subject                 string // of the certificate that he has shown; "" for none
}

// signInPage shows the form.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	c.showSignIn(w, r, http.StatusOK, signInForm{Scheme: session.SchemeDigest, To: r.URL.Query().Get("to")})
}

// showSignIn shows the form with what is wrong with it.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request, status int, form signInForm) {
	e := c.ensembles[r.PathValue("ensemble")]
	if e == nil {
		http.NotFound(w, r)
		return
	}
	v := c.visitor(r, e)
	form.Elsewhere = !v.here
	form.Plain = r.TLS == nil && !v.here
	if cert := certificateOf(r, e); cert != nil {
		form.Subject = cert.Subject.String()
	}
	show(w, status, &view{Title: "Sign in", Console: c, visitor: v, Ensemble: e, Body: &form})
}

// signIn takes the form.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	e := c.ensembles[r.PathValue("ensemble")]
	if e == nil {
		http.NotFound(w, r)
		return
	}
	form := signInForm{Scheme: r.PostFormValue("scheme"), User: r.PostFormValue("user"), To: r.PostFormValue("to")}
	v := c.visitor(r, e)
	now := c.opts.Clock.Now()
	if c.failures.wait(v.remote.Addr(), now) {
		form.Error = "Too many attempts have failed. Wait half a minute."
		c.showSignIn(w, r, http.StatusTooManyRequests, form)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	credential := session.Credential{Scheme: form.Scheme, User: form.User, Password: r.PostFormValue("password")}
	asked := &identity{credential: credential}
	if credential.Scheme == session.SchemeX509 {
		asked = &identity{credential: session.Credential{Scheme: session.SchemeX509}, certificate: certificateOf(r, e)}
	}
	found, err := identify(ctx, v, e, asked)
	if err != nil {
		wrong := errors.Is(err, errNoCredential) || errors.Is(err, session.ErrWrongPassword)
		c.failures.note(v.remote.Addr(), !wrong, now)
		c.opts.Logger.Warn("console sign-in failed", slog.String("peer", r.RemoteAddr),
			slog.String("scheme", shown(form.Scheme)), slog.Any("err", err))
		_, form.Error = explain(err)
		c.showSignIn(w, r, http.StatusForbidden, form)
		return
	}
	c.failures.note(v.remote.Addr(), true, now)
	if v.visit == nil { // a new cookie, which nobody can have planted
		fresh, cookie, err := c.visits.begin()
		if err != nil {
			c.fail(w, r, v, e, err)
			return
		}
		v.visit = fresh
		setCookie(w, r, cookie)
	}
	v.visit.mu.Lock()
	before := v.visit.identities[e.Name]
	v.visit.identities[e.Name] = found
	v.visit.mu.Unlock()
	if before != nil {
		e.sessions.close(before)
	}
	c.opts.Logger.Info("console sign-in", slog.String("peer", r.RemoteAddr), slog.String("user", shown(found.Name)))
	http.Redirect(w, r, localTarget(form.To, e), http.StatusSeeOther)
}

// errNoCredential means that what was given proves nothing.
var errNoCredential = errors.New("this proves nothing")

// Why somebody is not let in.
var (
	errWrongSuper = errors.Join(errNoCredential, errors.New("wrong password of the superuser"))
	errMadeUp     = errors.Join(errNoCredential, errors.New("a digest user who is not the superuser, from elsewhere"))
)

// identify asks a server who somebody is. The session stays for his pages.
func identify(ctx context.Context, v *visitor, e *ensemble, as *identity) (*identity, error) {
	given := as.credential
	if !given.IsWhole() && as.certificate == nil {
		return nil, errNoCredential
	}
	asked := *v
	asked.identity = as
	opened, err := e.sessions.get(ctx, &asked)
	if err != nil {
		return nil, err
	}
	found := identityOf(given, opened.Who())
	found.certificate = as.certificate
	e.sessions.close(asked.identity)
	switch {
	case given.Scheme == session.SchemeX509 && !proves(opened.Who(), "x509"):
		return nil, errNoCredential
	case given.Scheme == session.SchemeSASL && !proves(opened.Who(), "sasl"):
		// A server without SASL takes whatever comes, and the person is nobody.
		return nil, session.ErrWrongPassword
	case given.Scheme == session.SchemeDigest && given.User == superName && !found.Super:
		return nil, errWrongSuper
	case given.Scheme == session.SchemeDigest && (!v.here || v.closed) && !found.Super:
		return nil, errMadeUp
	}
	return found, nil
}

// superName is whom superDigest names, as ZooKeeper's guides have it. Whoever signs in by this name means it.
const superName = "super"

// signOut ends a visit.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	e := c.ensembles[r.PathValue("ensemble")]
	if e == nil {
		http.NotFound(w, r)
		return
	}
	v := c.visitor(r, e)
	if !v.tokenFits(r) {
		c.refuse(w, r, v, e, http.StatusForbidden, staleForm)
		return
	}
	c.visits.end(r)
	setCookie(w, r, "")
	v.visit.mu.Lock()
	identities := v.visit.identities
	v.visit.identities = map[string]*identity{}
	v.visit.mu.Unlock()
	for name, i := range identities { // any order: all of them
		c.stopJobs(i)
		c.ensembles[name].sessions.close(i)
	}
	http.Redirect(w, r, Path+e.Name+"/signin", http.StatusSeeOther)
}

// switchReadOnly has a visit change nothing, or lets it again.
func (c *Console) switchReadOnly(w http.ResponseWriter, r *http.Request) {
	e := c.ensembles[r.PathValue("ensemble")]
	if e == nil {
		http.NotFound(w, r)
		return
	}
	v := c.visitor(r, e)
	if !v.tokenFits(r) {
		c.refuse(w, r, v, e, http.StatusForbidden, staleForm)
		return
	}
	v.visit.mu.Lock()
	v.visit.readOnly = r.PostFormValue("on") == "true"
	v.visit.mu.Unlock()
	to := localTarget(r.PostFormValue("to"), e)
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // localTarget has looked at it
}

// localTarget is where a form leads: a page of the console, whatever it says.
func localTarget(to string, e *ensemble) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.EscapedPath(), Path) ||
		strings.ContainsAny(to, "\\\r\n") || strings.HasPrefix(to, "//") {
		return Path + e.Name + "/"
	}
	return to
}

// proves reports whether a server has an identity of a scheme for somebody.
func proves(who []jute.ClientInfo, scheme string) bool {
	return slices.ContainsFunc(who, func(w jute.ClientInfo) bool {
		return w.AuthScheme == scheme || w.AuthScheme == "super"
	})
}
