package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/console/session"
)

// Bounds of visits: guesses.
const (
	visitIdle  = 30 * time.Minute // without a request by a person
	visitMost  = 12 * time.Hour
	visitsMax  = 1000
	cookieName = "zkd_console"
)

// identity is who somebody has proven to be to an ensemble.
type identity struct {
	credential session.Credential
	// certificate is what he has proven to be it by, nil for a password: each request has to show it again.
	certificate *x509.Certificate

	Name  string // as pages show it
	Super bool
}

// visit is of somebody who has signed in.
type visit struct {
	token string // of forms
	began time.Time

	mu         sync.Mutex
	seen       time.Time
	identities map[string]*identity // by ensemble
	readOnly   bool
	flash      string
}

func (v *visit) isReadOnly() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.readOnly
}

// takeFlash returns what the last action has said, once.
func (v *visit) takeFlash() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	said := v.flash
	v.flash = ""
	return said
}

// visits are those of a console, by the hash of their cookie.
type visits struct {
	clock  clock.Clock
	random io.Reader

	mu  sync.Mutex
	all map[[sha256.Size]byte]*visit
}

func newVisits(c clock.Clock, random io.Reader) *visits {
	return &visits{clock: c, random: random, all: map[[sha256.Size]byte]*visit{}}
}

// draw returns a secret.
func (v *visits) draw() (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(v.random, b[:]); err != nil {
		return "", fmt.Errorf("draw a secret: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// begin begins a visit, and returns its cookie.
func (v *visits) begin() (*visit, string, error) {
	cookie, err := v.draw()
	if err != nil {
		return nil, "", err
	}
	token, err := v.draw()
	if err != nil {
		return nil, "", err
	}
	now := v.clock.Now()
	fresh := &visit{token: token, began: now, seen: now, identities: map[string]*identity{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, old := range v.all { // any order: all of them
		if v.overLocked(old) {
			delete(v.all, key)
		}
	}
	for key := range v.all { // any order: whoever it is signs in again
		if len(v.all) < visitsMax {
			break
		}
		delete(v.all, key)
	}
	v.all[sha256.Sum256([]byte(cookie))] = fresh
	return fresh, cookie, nil
}

// overLocked reports whether a visit is over.
func (v *visits) overLocked(of *visit) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	now := v.clock.Now()
	return now.Sub(of.seen) > visitIdle || now.Sub(of.began) > visitMost
}

// find returns the visit of a request, nil if it has none. What a script asks for by itself keeps no visit alive.
func (v *visits) find(r *http.Request) *visit {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	key := sha256.Sum256([]byte(cookie.Value))
	found := v.all[key]
	if found == nil {
		return nil
	}
	if v.overLocked(found) {
		delete(v.all, key)
		return nil
	}
	if !isFragment(r) {
		found.mu.Lock()
		found.seen = v.clock.Now()
		found.mu.Unlock()
	}
	return found
}

// end ends the visit of a request.
func (v *visits) end(r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.all, sha256.Sum256([]byte(cookie.Value)))
	}
}

// setCookie gives a visit's cookie to the browser; "" takes it away.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	//nolint:gosec // Secure where there is TLS: on this machine there need be none
	cookie := &http.Cookie{Name: cookieName, Value: value, Path: Path, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// visitor is who has sent a request.
type visitor struct {
	remote   netip.AddrPort
	here     bool      // on this machine, and knows it
	visit    *visit    // nil: he has not signed in anywhere
	identity *identity // nil: not to this ensemble
	operator bool
	closed   bool // the ensemble serves nobody without a credential
}

// visitor says who has sent a request about an ensemble; nil is none.
func (c *Console) visitor(r *http.Request, e *ensemble) *visitor {
	v := &visitor{here: fromHere(r), visit: c.visits.find(r)}
	v.remote, _ = netip.ParseAddrPort(r.RemoteAddr) // the zero address is nobody's
	v.operator = v.here
	if e == nil {
		return v
	}
	if v.visit != nil {
		v.visit.mu.Lock()
		v.identity = v.visit.identities[e.Name]
		v.visit.mu.Unlock()
		if v.identity != nil && v.identity.certificate != nil && !v.identity.certificate.Equal(certificateOf(r, e)) {
			v.identity = nil // a cookie alone is no certificate
		}
	}
	if v.identity != nil && v.identity.Super {
		v.operator = true
	}
	if e.Here != nil {
		v.closed = e.Here.Closed
		if e.Here.Operators != nil && e.Here.Operators(r) {
			v.operator = true
		}
	}
	return v
}

// certificateOf is what a request has proven by TLS; nil for none. What a proxy hands on has the proxy's.
func certificateOf(r *http.Request, e *ensemble) *x509.Certificate {
	if e.Here == nil || e.Here.Certificate == nil || isHandedOn(r) {
		return nil
	}
	return e.Here.Certificate(r)
}

// isHandedOn reports whether a proxy says that it hands a request on.
func isHandedOn(r *http.Request) bool {
	return r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
}

// mayLook reports whether he may see anything at all.
func (v *visitor) mayLook() bool { return v.here || v.identity != nil }

// mayRead reports whether he may look at znodes.
func (v *visitor) mayRead() bool { return v.identity != nil || v.here && !v.closed }

// SignedIn reports whether he has a name.
func (v *visitor) SignedIn() bool { return v.identity != nil }

// Name is whom he has proven to be.
func (v *visitor) Name() string {
	if v.identity == nil {
		return ""
	}
	return v.identity.Name
}

// Super reports whether he is the superuser.
func (v *visitor) Super() bool { return v.identity != nil && v.identity.Super }

// Operator reports whether he may know of clients.
func (v *visitor) Operator() bool { return v.operator }

// Token is that of his forms.
func (v *visitor) Token() string {
	if v.visit == nil {
		return ""
	}
	return v.visit.token
}

// ReadOnly says that he has asked to change nothing.
func (v *visitor) ReadOnly() bool { return v.visit != nil && v.visit.isReadOnly() }

// tokenFits reports whether a form is one of his.
func (v *visitor) tokenFits(r *http.Request) bool { return v.isToken(r.PostFormValue("token")) }

// isToken reports whether text is the token of his forms.
func (v *visitor) isToken(text string) bool {
	return v.visit != nil && subtle.ConstantTimeCompare([]byte(text), []byte(v.visit.token)) == 1
}

// fromHere reports whether a request comes from this machine, by a name of it. Another name is a site of a stranger
// whose DNS leads here, and what a proxy hands on comes from elsewhere.
func fromHere(r *http.Request) bool {
	if isHandedOn(r) {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		host = name
	}
	host = strings.Trim(strings.ToLower(host), "[]")
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// identityOf is what a server has said of who somebody is.
func identityOf(c session.Credential, who []jute.ClientInfo) *identity {
	i := &identity{credential: c, Name: c.Scheme + ":" + c.User}
	for _, w := range who {
		if c.Scheme == session.SchemeX509 && w.AuthScheme == session.SchemeX509 {
			i.Name = c.Scheme + ":" + w.User
		}
	}
	i.Super = slices.ContainsFunc(who, func(w jute.ClientInfo) bool { return w.AuthScheme == "super" })
	return i
}

// say keeps what an action has done for the next page.
func (v *visit) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.flash = fmt.Sprintf(format, args...)
}
