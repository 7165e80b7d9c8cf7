package keystore

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Bounds of what is fetched about revoked certificates. Guesses: the largest public lists have some MiB; a new list is
// seen as soon as Java sees it (sun.security.provider.certpath.URICertStore looks again after 30 s).
const (
	listBytesMax     = 32 << 20
	responseBytesMax = 64 << 10
	listsMax         = 64
	listFor          = 30 * time.Second
	clockSkew        = 15 * time.Minute // sun.security.provider.certpath: PKIX.MAX_CLOCK_SKEW and its likes
)

// Errors about one certificate. That it is revoked is final; that it cannot be found out counts as revoked in the end.
var (
	errRevoked = errors.New("it is revoked")
	errUnknown = errors.New("whether it is revoked cannot be found out")
)

// revocation finds out whether certificates are revoked, as Java's PKIX does with the options that ZooKeeper sets
// (X509Util.createTrustManager): every certificate of a chain but the trusted one, by OCSP first with ocsp, by the
// lists that it names otherwise; who cannot be asked about is refused.
type revocation struct {
	options *Options

	mu    sync.Mutex
	lists map[string]*list // by address; guarded by mu
}

// list is the revocation list of one address. Handshakes that need it wait for one to fetch it.
type list struct {
	mu   sync.Mutex
	crl  *x509.RevocationList // guarded by mu; nil before the first
	read time.Time            // likewise
}

// newRevocation returns nil if nothing is to be found out.
func newRevocation(o *Options) *revocation {
	if !o.End.CRL && !o.End.OCSP {
		return nil
	}
	return &revocation{options: o, lists: map[string]*list{}}
}

// check returns nil if no certificate of one of the chains is revoked. The last of each is trusted.
func (r *revocation) check(chains [][]*x509.Certificate) error {
	var first error
	for _, chain := range chains {
		err := r.checkChain(chain)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (r *revocation) checkChain(chain []*x509.Certificate) error {
	for i := 0; i+1 < len(chain); i++ {
		if err := r.checkOne(chain[i], chain[i+1]); err != nil {
			return fmt.Errorf("%q: %w", chain[i].Subject, err)
		}
	}
	return nil
}

func (r *revocation) checkOne(cert, issuer *x509.Certificate) error {
	var errAsked error
	if r.options.End.OCSP {
		errAsked = r.ask(cert, issuer)
		if errAsked == nil || errors.Is(errAsked, errRevoked) {
			return errAsked
		}
	}
	err := r.lookUp(cert, issuer)
	if err != nil && errAsked != nil && !errors.Is(err, errRevoked) {
		return errors.Join(errAsked, err)
	}
	return err
}

// lookUp looks for a certificate in the lists that it names.
func (r *revocation) lookUp(cert, issuer *x509.Certificate) error {
	if len(cert.CRLDistributionPoints) == 0 {
		return fmt.Errorf("%w: it names no CRL distribution point; issue it with one, or set %scrl and %socsp to false",
			errUnknown, r.options.Prefix, r.options.Prefix)
	}
	var errs []error
	for _, address := range cert.CRLDistributionPoints {
		crl, err := r.list(address, issuer)
		if err == nil {
			err = covers(crl, cert, address)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", address, err))
			continue
		}
		for i := range crl.RevokedCertificateEntries {
			entry := &crl.RevokedCertificateEntries[i]
			if entry.SerialNumber.Cmp(cert.SerialNumber) == 0 {
				return fmt.Errorf("%w since %s, says %s", errRevoked, day(entry.RevocationTime), address)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: %w", errUnknown, errors.Join(errs...))
}

// list returns the list at an address, which the issuer has signed and which holds now.
func (r *revocation) list(address string, issuer *x509.Certificate) (*x509.RevocationList, error) {
	r.mu.Lock()
	l := r.lists[address]
	if l == nil {
		if len(r.lists) >= listsMax {
			clear(r.lists)
		}
		l = &list{}
		r.lists[address] = l
	}
	r.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := r.options.Now()
	if l.crl == nil || now.Sub(l.read) >= listFor || now.Before(l.read) {
		crl, err := r.fetchList(address)
		switch {
		case err == nil:
			l.crl, l.read = crl, now
		case l.crl == nil:
			return nil, err
		} // else the one before holds as long as it says itself
	}
	if err := trustworthy(l.crl, issuer, now); err != nil {
		return nil, err
	}
	return l.crl, nil
}

// trustworthy checks who signed a list, and when it holds.
func trustworthy(crl *x509.RevocationList, issuer *x509.Certificate, now time.Time) error {
	if !bytes.Equal(crl.RawIssuer, issuer.RawSubject) {
		return fmt.Errorf("its list is of %q, not of %q", crl.Issuer, issuer.Subject)
	}
	if err := crl.CheckSignatureFrom(issuer); err != nil {
		return fmt.Errorf("its list is not signed by %q: %w", issuer.Subject, err)
	}
	if !holds(crl.ThisUpdate, crl.NextUpdate, now) {
		return fmt.Errorf("its list does not hold now: it does from %s to %s; publish a new one",
			day(crl.ThisUpdate), day(crl.NextUpdate))
	}
	return nil
}

// holds tells whether now is between two times, of which the second may be missing; the clocks may differ a little.
func holds(from, to, now time.Time) bool {
	return !now.Add(clockSkew).Before(from) && (to.IsZero() || !now.Add(-clockSkew).After(to))
}

// fetchList reads the list at an address.
func (r *revocation) fetchList(address string) (*x509.RevocationList, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var content []byte
	switch u.Scheme {
	case "file":
		content, err = r.options.ReadFile(u.Path)
	case "http", "https":
		var request *http.Request
		request, err = http.NewRequest(http.MethodGet, address, http.NoBody) //nolint:noctx // Do has a time limit
		if err == nil {
			content, err = r.do(request, listBytesMax)
		}
	default:
		err = errors.New("only http, https and file can be read: issue the certificate with such an address")
	}
	if err != nil {
		return nil, err
	}
	if block := decodePEM(content, "X509 CRL"); block != nil {
		content = block
	}
	return x509.ParseRevocationList(content)
}

// do sends a request and returns the body of the answer.
func (r *revocation) do(request *http.Request, most int64) ([]byte, error) {
	answer, err := r.options.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("it is longer than %d bytes", most)
	}
	return content, nil
}

// covers tells whether a list speaks of a certificate.
func covers(crl *x509.RevocationList, cert *x509.Certificate, address string) error {
	for _, e := range crl.Extensions {
		switch {
		case e.Id.Equal(oidIssuingPoint):
			if err := issuingPointCovers(e.Value, cert, address); err != nil {
				return err
			}
		case e.Critical:
			return fmt.Errorf("its list has the extension %s, which is not known; publish a plain one", e.Id)
		}
	}
	return nil
}

// explainRevoked says what is wrong, and what to do.
func (v *verifier) explainRevoked(err error, whose string) error {
	keys := v.options.Prefix + "crl=true"
	if v.options.End.OCSP {
		keys = v.options.Prefix + "ocsp=true"
	}
	remedy := "make its list reachable"
	if errors.Is(err, errRevoked) {
		remedy = "issue another"
	}
	return fmt.Errorf("the certificate that %s shows is refused (%s), %s: %w", whose, keys, remedy,
		errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
}
