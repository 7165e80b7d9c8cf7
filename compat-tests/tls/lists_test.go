package tls_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/authority"
)

// lists publishes a list of revoked certificates.
type lists struct {
	t    testing.TB
	ca   *authority.Authority
	url  string
	mu   sync.Mutex
	gone []x509.RevocationListEntry // guarded by mu
}

func newLists(t testing.TB, ca *authority.Authority) *lists {
	l := &lists{t: t, ca: ca}
	other := authority.New(t, "ca")
	elsewhere := &lists{t: t, ca: other}
	mux := http.NewServeMux()
	serve := func(content func() []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content()) // who asks sees a cut answer
		}
	}
	mux.HandleFunc("/list", serve(func() []byte { return l.list(time.Now().Add(time.Hour)) }))
	mux.HandleFunc("/list/old", serve(func() []byte { return l.list(time.Now().Add(-time.Hour)) }))
	mux.HandleFunc("/list/other", serve(func() []byte { return elsewhere.list(time.Now().Add(time.Hour)) }))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	l.url = server.URL + "/list"
	return l
}

// revoke takes a certificate back.
func (l *lists) revoke(i *authority.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = append(l.gone, x509.RevocationListEntry{SerialNumber: i.Cert.SerialNumber, RevocationTime: time.Now()})
}

// list is the list that holds until then.
func (l *lists) list(until time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: until.Add(-2 * time.Hour), NextUpdate: until,
		RevokedCertificateEntries: l.gone, Issuer: pkix.Name{CommonName: "ca"},
	}, l.ca.Cert, l.ca.Key)
	if err != nil {
		l.t.Error(err)
	}
	return der
}
