package admin

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"zkd/jute"
)

// TestWhoMayHaveTheState: the refusals of 3.9.5 in their order, and that nobody but a superuser comes through.
func TestWhoMayHaveTheState(t *testing.T) {
	o := options(t, standalone())
	o.Certificate = func(c *x509.Certificate) []jute.ID { return []jute.ID{{Scheme: string(c.Raw), ID: "CN=me"}} }
	s := New(o)
	const (
		missing, unknown, forbidden = http.StatusUnauthorized, http.StatusUnauthorized, http.StatusForbidden
		allowed                     = http.StatusServiceUnavailable // the commands are disabled
	)
	for _, tc := range []struct {
		header string
		want   int
	}{
		{"", missing},
		{"x", unknown},
		{"digest", unknown},
		{"digest a:b c", unknown},
		{"sasl token", unknown},
		{"world anyone", unknown},
		{"digest a:b", forbidden},
		{"digest super:wrong", forbidden},
		{"digest super:admin", allowed},
		{"digest super:admin ", allowed},
		{"ip", forbidden},
		{"ip anything", forbidden},
		{"x509", unknown}, // without TLS
	} {
		for _, c := range []struct{ method, path string }{{"GET", "/commands/snap"}, {"POST", "/commands/rest"}} {
			var header []string
			if tc.header != "" {
				header = []string{"Authorization", tc.header}
			}
			if got, body := ask(t, s, c.method, c.path, header...); got != tc.want {
				t.Errorf("%s with %q: %d, want %d: %s", c.path, tc.header, got, tc.want, body)
			}
		}
	}
	_, body := ask(t, s, "GET", "/commands/snap")
	if want := `{"command" : "snap","error" : "Auth info is missing for the command"}`; oneLine(body) != want {
		t.Errorf("without authentication: %s", body)
	}
	for scheme, want := range map[string]int{"super": allowed, "x509": forbidden} {
		r := httptest.NewRequest("GET", "/commands/snapshot", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(scheme)}}}
		r.Header.Set("Authorization", "x509")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != want {
			t.Errorf("by certificate, %s: %d %s", scheme, w.Code, w.Body)
		}
	}
}

// TestForwardedFor: what a proxy on this machine hands on comes from elsewhere, and a superuser may come through it if
// the address that the header names may be believed, or the other one is there.
func TestForwardedFor(t *testing.T) {
	o := options(t, standalone())
	for _, trusted := range []bool{false, true} {
		o.ForwardedFor = trusted
		s := New(o)
		for header, valid := range map[string]bool{" 198.51.100.9 , 203.0.113.1": true, "nobody": false} {
			want := http.StatusServiceUnavailable
			if trusted && !valid {
				want = http.StatusUnauthorized
			}
			got, body := ask(t, s, "GET", "/commands/snapshot", "Authorization", "digest super:admin",
				"X-Forwarded-For", header)
			if got != want {
				t.Errorf("trusted %v, from %q: %d, want %d: %s", trusted, header, got, want, body)
			}
		}
	}
}

// openCommands are those that any client may have, from anywhere.
var openCommands = map[string]bool{"get_trace_mask": true, "hash": true, "is_read_only": true, "last_snapshot": true,
	"leader": true, "monitor": true, "observers": true, "ruok": true, "server_stats": true, "voting_view": true,
	"watch_summary": true, "zabstate": true}

// TestCommandsForOperators: what changes something, or tells of clients, paths, the machine or the configuration, is
// for this machine and for who proves something, unless the configuration says where operators are.
func TestCommandsForOperators(t *testing.T) {
	o := options(t, standalone())
	o.Profiles, o.Anywhere = true, false
	certificate := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for _, tc := range []struct {
		name, from, header, value string
		anywhere, demands         bool
		tls                       *tls.ConnectionState
		operator                  bool
	}{
		{name: "a stranger", from: "192.0.2.7:9"},
		{name: "a stranger with a name", from: "192.0.2.7:9", header: "Authorization", value: "digest a:b"},
		{name: "a stranger by address", from: "192.0.2.7:9", header: "Authorization", value: "ip"},
		{name: "this machine", from: "127.0.0.1:9", operator: true},
		{name: "this machine, IPv6", from: "[::1]:9", operator: true},
		{name: "this machine, IPv4 in IPv6", from: "[::ffff:127.0.0.1]:9", operator: true},
		{name: "a proxy", from: "127.0.0.1:9", header: "X-Forwarded-For", value: "127.0.0.1"},
		{name: "another proxy", from: "127.0.0.1:9", header: "Forwarded", value: "for=127.0.0.1"},
		{name: "no address", from: "@"},
		{name: "a superuser", from: "192.0.2.7:9", header: "Authorization", value: "digest super:admin",
			operator: true},
		{name: "a certificate", from: "192.0.2.7:9", tls: certificate, demands: true, operator: true},
		{name: "a certificate that nobody asked for", from: "192.0.2.7:9", tls: certificate},
		{name: "TLS without", from: "192.0.2.7:9", tls: &tls.ConnectionState{}, demands: true},
		{name: "plain text where TLS demands one", from: "192.0.2.7:9", demands: true},
		{name: "as configured", from: "192.0.2.7:9", anywhere: true, operator: true},
	} {
		o.Anywhere, o.NeedCertificate = tc.anywhere, tc.demands
		s := New(o)
		paths := map[string]bool{"/health/live": true, "/debug/pprof/cmdline": tc.operator}
		for _, c := range commands {
			if c.access != superusers {
				for _, name := range c.names {
					paths["/commands/"+name] = openCommands[c.names[0]] || tc.operator
				}
			}
		}
		for path, answered := range paths {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.TLS = tc.from, tc.tls
			if tc.header != "" {
				r.Header.Set(tc.header, tc.value)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[answered]; w.Code != want {
				t.Errorf("%s, %s: %d %.80s", tc.name, path, w.Code, w.Body)
			}
		}
	}
}
