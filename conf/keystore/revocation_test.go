package keystore

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"zkd/conf"
)

// web answers requests of a test: lists by path, and OCSP by what answer says.
type web struct {
	t       *testing.T
	mu      sync.Mutex
	content map[string][]byte // guarded by mu
	asked   int               // likewise
	answer  func(question *ocsp.Request) []byte
}

func (w *web) put(path string, content []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.content[path] = content
}

func (w *web) do(request *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	content, ok := w.content[request.URL.Path]
	if request.Method == http.MethodPost && w.answer != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		question, err := ocsp.ParseRequest(body)
		if err != nil {
			w.t.Errorf("OCSP: %v", err)
			return nil, err
		}
		content, ok = w.answer(question), true
	}
	answer := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(bytes.NewReader(content))}
	if !ok {
		answer.StatusCode, answer.Status = http.StatusNotFound, "404 Not Found"
	}
	return answer, nil
}

// publisher makes an authority that may sign lists.
func publisher(t *testing.T, name string) *identity {
	t.Helper()
	return issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}, nil)
}

// list makes a list of the revoked.
func (i *identity) list(t *testing.T, extra []pkix.Extension, revoked ...*identity) []byte {
	t.Helper()
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: start, NextUpdate: start.AddDate(0, 1, 0),
		ExtraExtensions: extra}
	for _, r := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: r.cert.SerialNumber, RevocationTime: start,
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, i.cert, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// client makes a certificate of a client that names where to ask.
func (i *identity) client(t *testing.T, list, responder string) *identity {
	t.Helper()
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if list != "" {
		template.CRLDistributionPoints = []string{list}
	}
	if responder != "" {
		template.OCSPServer = []string{responder}
	}
	return issue(t, template, i)
}

// revoking opens a set that looks for revoked certificates, and returns a function that tells what comes of one.
func revoking(t *testing.T, ca *identity, w *web, change func(*Options)) func(*identity) error {
	t.Helper()
	f := newFiles()
	f.put("server.pem", ca.server(t).keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	o := f.options()
	o.Do = w.do
	change(&o)
	set := open(t, o)
	return func(shown *identity) error {
		t.Helper()
		errServer, _ := shake(t, set.Server(), &tls.Config{InsecureSkipVerify: true, //nolint:gosec // not its test
			Certificates: []tls.Certificate{{Certificate: [][]byte{shown.cert.Raw}, PrivateKey: shown.key}}})
		return errServer
	}
}

const address = "http://lists.example/"

func TestLists(t *testing.T) {
	ca, other := publisher(t, "ca"), publisher(t, "ca")
	w := &web{t: t, content: map[string][]byte{}}
	good, bad := ca.client(t, address+"list", ""), ca.client(t, address+"list", "")
	point := func(name string, p issuingPoint) *identity {
		p.Name = asn1.RawValue{}
		der, err := asn1.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		w.put("/"+name, ca.list(t, []pkix.Extension{{Id: oidIssuingPoint, Critical: true, Value: der}}))
		return ca.client(t, address+name, "")
	}
	w.put("/list", ca.list(t, nil, bad))
	w.put("/pem", pemBlock("X509 CRL", ca.list(t, nil)))
	w.put("/other", other.list(t, nil))
	w.put("/damaged", []byte("damaged"))
	unknown := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}
	w.put("/critical", ca.list(t, []pkix.Extension{unknown}))
	try := revoking(t, ca, w, func(o *Options) { o.End.CRL = true })
	for _, c := range []struct {
		name  string
		shown *identity
		says  string
	}{
		{"good", good, ""},
		{"revoked", bad, `is refused (ssl.quorum.crl=true), issue another: "CN=client": it is revoked since ` +
			"2026-03-01T00:00:00Z, says http://lists.example/list"},
		{"PEM", ca.client(t, address+"pem", ""), ""},
		{"no list", ca.client(t, "", ""), "it names no CRL distribution point"},
		{"not there", ca.client(t, address+"none", ""), "make its list reachable"},
		{"of another", ca.client(t, address+"other", ""), `its list is not signed by "CN=ca"`},
		{"damaged", ca.client(t, address+"damaged", ""), "cannot be found out: http://lists.example/damaged"},
		{"of an unknown kind", ca.client(t, address+"critical", ""), "has the extension 1.2.3"},
		{"a directory", ca.client(t, "ldap://lists.example/", ""), "only http, https and file can be read"},
		{"for users", point("users", issuingPoint{OnlyUsers: true}), ""},
		{"for authorities", point("cas", issuingPoint{OnlyCAs: true}), "does not speak of such certificates"},
		{"indirect", point("indirect", issuingPoint{Indirect: true}), "publish a plain one"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "server", try(c.shown), c.says) })
	}
}

// TestListsAreKept: a list is not fetched for each handshake, a new one is seen in half a minute, and one that cannot
// be fetched again holds as long as it says.
func TestListsAreKept(t *testing.T) {
	ca := publisher(t, "ca")
	w := &web{t: t, content: map[string][]byte{}}
	shown := ca.client(t, address+"list", "")
	w.put("/list", ca.list(t, nil))
	var mu sync.Mutex
	now := start.Add(time.Hour)
	try := revoking(t, ca, w, func(o *Options) {
		o.End.CRL = true
		o.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
	})
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	expect(t, "first", try(shown), "")
	w.put("/list", ca.list(t, nil, shown))
	expect(t, "second", try(shown), "")
	if w.asked != 1 {
		t.Errorf("the list was fetched %d times", w.asked)
	}
	w.put("/list", nil)
	pass(listFor)
	expect(t, "a broken list", try(shown), "")
	pass(31 * 24 * time.Hour)
	expect(t, "an old list", try(shown), "does not hold now")
	w.put("/list", ca.list(t, nil, shown))
	expect(t, "an old list that names it", try(shown), "does not hold now")
	pass(-31 * 24 * time.Hour)
	expect(t, "revoked", try(shown), "it is revoked")
}

func TestOCSP(t *testing.T) {
	ca := publisher(t, "ca")
	delegate := issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "responder"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}}, ca)
	pretender := ca.server(t)
	shown, both := ca.client(t, "", address), ca.client(t, address+"list", address)
	list := map[string][]byte{"/list": ca.list(t, nil)}
	answers := func(by *identity, status int, until time.Time) func(*ocsp.Request) []byte {
		return func(question *ocsp.Request) []byte {
			template := ocsp.Response{Status: status, SerialNumber: question.SerialNumber, ThisUpdate: start,
				NextUpdate: until, RevokedAt: start}
			if by != ca {
				template.Certificate = by.cert
			}
			der, err := ocsp.CreateResponse(ca.cert, by.cert, template, by.key)
			if err != nil {
				t.Error(err)
			}
			return der
		}
	}
	later := start.AddDate(0, 1, 0)
	for _, c := range []struct {
		name   string
		shown  *identity
		answer func(*ocsp.Request) []byte
		says   string
	}{
		{"good", shown, answers(ca, ocsp.Good, later), ""},
		{"revoked", shown, answers(ca, ocsp.Revoked, later), "(ssl.quorum.ocsp=true), issue another"},
		{"revoked, a list says otherwise", both, answers(ca, ocsp.Revoked, later), "it is revoked"},
		{"unknown", shown, answers(ca, ocsp.Unknown, later), "it does not know the certificate"},
		{"unknown, but for a list", both, answers(ca, ocsp.Unknown, later), ""},
		{"by a delegate", shown, answers(delegate, ocsp.Good, later), ""},
		{"by who may not", shown, answers(pretender, ocsp.Good, later), `"CN=server" may not answer for "CN=ca"`},
		{"old", shown, answers(ca, ocsp.Good, start.Add(time.Minute)), "its answer does not hold now"},
		{"not there", shown, nil, "404 Not Found"},
		{"no answer", shown, func(*ocsp.Request) []byte { return nil }, "cannot be found out"},
		{"nobody to ask", ca.client(t, "", ""), answers(ca, ocsp.Good, later), "it names no OCSP responder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &web{t: t, content: list, answer: c.answer}
			try := revoking(t, ca, w, func(o *Options) {
				o.End.OCSP = true
				o.Now = func() time.Time { return start.Add(time.Hour) }
			})
			expect(t, "server", try(c.shown), c.says)
		})
	}
}

// TestRevokedServers: who connects looks, too, with each kind of configuration.
func TestRevokedServers(t *testing.T) {
	ca := publisher(t, "ca")
	w := &web{t: t, content: map[string][]byte{}}
	revoked := ca.client(t, address+"list", "")
	w.put("/list", ca.list(t, nil, revoked))
	f := newFiles()
	f.put("server.pem", revoked.keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	server := open(t, f.options())
	o := f.options()
	o.Do, o.End.CRL = w.do, true
	looks := open(t, o)
	_, err := shake(t, server.Server(), looks.Client("127.0.0.1"))
	expect(t, "by host", err, "it is revoked")
	byAny := looks.Client("").Clone()
	byAny.ServerName = "127.0.0.1"
	_, err = shake(t, server.Server(), byAny)
	expect(t, "by any host", err, "it is revoked")
}

// awaiting is a connection that is told what waits.
type awaiting struct {
	net.Conn
	calls int
}

func (a *awaiting) Await(f func()) { a.calls++; f() }

// TestAwait: what a handshake waits for others is told to the connection.
func TestAwait(t *testing.T) {
	ca := publisher(t, "ca")
	w := &web{t: t, content: map[string][]byte{"/list": ca.list(t, nil)}}
	f := newFiles()
	f.put("server.pem", ca.client(t, address+"list", "").keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	o := f.options()
	o.Do, o.End.CRL, o.End.ClientHostnameVerification = w.do, true, true
	set := open(t, o)
	config := set.Server()
	inner := config.GetConfigForClient
	var conn *awaiting
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		conn = &awaiting{Conn: hello.Conn}
		hello.Conn = conn
		return inner(hello)
	}
	errServer, errClient := shake(t, config, set.Client("127.0.0.1"))
	if err := errors.Join(errServer, errClient); err != nil || conn.calls != 2 {
		t.Errorf("%v; it waited %d times, want once for the list and once for names", err, conn.calls)
	}
}

// TestClientsOfClients has what is different when only clients connect.
func TestClientsOfClients(t *testing.T) {
	ca := authority(t, "ca")
	f := newFiles()
	f.put("server.pem", ca.server(t).keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	for _, c := range []struct {
		protocol string
		enabled  []string
		newest   uint16 // that the client knows
		says     string
	}{
		{"TLSv1.3", nil, tls.VersionTLS13, ""}, {"TLSv1.3", nil, tls.VersionTLS12, "unsupported versions"},
		{"", nil, tls.VersionTLS12, "unsupported versions"}, {"TLSv1.2", nil, tls.VersionTLS12, ""},
		{"TLSv1.3", []string{"TLSv1.2", "TLSv1.3"}, tls.VersionTLS12, ""}, {"TLS", nil, tls.VersionTLS12, ""},
	} {
		o := f.options()
		o.Clients, o.End.ClientAuth, o.End.TrustStore = true, "none", conf.Store{}
		o.End.Protocol, o.End.EnabledProtocols = c.protocol, c.enabled
		set := open(t, o)
		errServer, _ := shake(t, set.Server(), &tls.Config{InsecureSkipVerify: true, //nolint:gosec // not its test
			MaxVersion: c.newest})
		expect(t, c.protocol, errServer, c.says)
		if changed, err := set.Reload(); changed || err != nil {
			t.Errorf("reload: %v, %v", changed, err)
		}
	}
	o := f.options()
	o.Clients, o.End.TrustStore = true, conf.Store{}
	_, err := Open(o)
	expect(t, "need without a trust store", err, "trustStore.location must be set")
}
