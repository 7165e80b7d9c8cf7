package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// verifier checks the certificate of the other side.
type verifier struct {
	options *Options
	roots   func() *x509.CertPool
	usage   x509.ExtKeyUsage // what the certificate must be good for
	whose   string           // who shows it, for messages
	// hosts gives the names and addresses of which one must be in the certificate; nil asks for none. The key is the
	// one that asks.
	hosts   func() []string
	hostKey string
	revoked *revocation       // nil: not looked for
	await   func(wait func()) // calls what may wait for others; nil just does
}

// verify checks the certificate of a connection and explains what is wrong with it.
func (v *verifier) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: v.roots(), Intermediates: intermediates, CurrentTime: v.options.Now(),
		KeyUsages: []x509.ExtKeyUsage{v.usage},
	})
	if err != nil {
		return v.explain(err, leaf)
	}
	if err := v.checkRevoked(chains); err != nil || v.hosts == nil {
		return err
	}
	var hosts []string
	v.waiting(func() { hosts = v.hosts() })
	if slices.ContainsFunc(hosts, func(host string) bool { return isFor(leaf, host) }) {
		return nil
	}
	return fmt.Errorf("the certificate that %s shows is for %s, not for %s (%s%s=true): issue it with that name, "+
		"or set the key to false", v.whose, names(leaf), strings.Join(hosts, " or "), v.options.Prefix, v.hostKey)
}

// checkRevoked refuses chains with a revoked certificate.
func (v *verifier) checkRevoked(chains [][]*x509.Certificate) error {
	if v.revoked == nil {
		return nil
	}
	var err error
	v.waiting(func() { err = v.revoked.check(chains) })
	if err != nil {
		return v.explainRevoked(err, v.whose)
	}
	return nil
}

// waiting calls f, which may wait for others.
func (v *verifier) waiting(f func()) {
	if v.await == nil {
		f()
		return
	}
	v.await(f)
}

// explain says what is wrong with a certificate, and where to put it right.
func (v *verifier) explain(err error, leaf *x509.Certificate) error {
	trust := fmt.Sprintf("%strustStore.location (%s)", v.options.Prefix, v.options.End.TrustStore.Location)
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	const form = "the certificate of %q that %s shows "
	what := fmt.Sprintf(form, leaf.Subject, v.whose)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%sis signed by %q, which is not in %s: import the certificate of that authority there: %w",
			what, leaf.Issuer, trust, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%s, or the one of its authority, does not hold now (it does from %s to %s): renew it in "+
			"the key store there, or set the clocks right: %w", strings.TrimSuffix(what, " "),
			day(leaf.NotBefore), day(leaf.NotAfter), err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%sis not made for it: issue it with the extended key usages serverAuth and clientAuth: %w",
			what, err)
	}
	return fmt.Errorf("%scannot be trusted; issue it anew, or correct %s: %w", what, trust, err)
}

// day writes a time for messages.
func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// isFor tells whether a certificate is for a host name or IP address. Of one without alternative names the common name
// counts, as in ZKHostnameVerifier.
func isFor(c *x509.Certificate, host string) bool {
	if host == "" {
		return false
	}
	if ip := net.ParseIP(host); ip != nil {
		host = "[" + ip.String() + "]"
	}
	if c.VerifyHostname(host) == nil {
		return true
	}
	common := c.Subject.CommonName
	return !hasNames(c) && common != "" && strings.EqualFold(common, strings.Trim(host, "[]"))
}

// hasNames tells whether a certificate has alternative names.
func hasNames(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0
}

// names are the hosts that a certificate is for.
func names(c *x509.Certificate) string {
	found := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		found = append(found, ip.String())
	}
	if len(found) == 0 {
		found = append(found, c.Subject.CommonName)
	}
	return strings.Join(found, ", ")
}

// hostsOf returns the address that a connection comes from and, with allowReverseDnsLookup, the names it resolves to.
func (o *Options) hostsOf(ctx context.Context, remote net.Addr) []string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return nil
	}
	host, _, _ = strings.Cut(host, "%") // the zone of an IPv6 address
	hosts := []string{host}
	if o.End.AllowReverseDNS && o.LookupAddr != nil {
		found, err := o.LookupAddr(ctx, host)
		if err == nil { // without a name the address alone counts
			for _, name := range found {
				hosts = append(hosts, strings.TrimSuffix(name, "."))
			}
		}
	}
	return hosts
}
