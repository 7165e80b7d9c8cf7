package auth

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"regexp"

	"zkd/jute"
)

// Certifier is a Provider whose identities are proven by the certificate of a TLS handshake
// (org.apache.zookeeper.server.auth.X509AuthenticationProvider). An auth packet of its scheme proves nothing new: it is
// answered OK on a connection that has an identity of the scheme, else AuthFailed.
type Certifier interface {
	Provider
	// Certify returns who a certificate says its holder is. That it can be trusted was found out before. An error means
	// that the certificate is nobody's: the connection must end.
	Certify(cert *x509.Certificate) ([]jute.ID, error)
}

// X509Options sets up the scheme x509.
type X509Options struct {
	// SuperUser is the identity that is super, too (X509AuthenticationProvider.superUser); "" is nobody.
	SuperUser string
	// AlternativeName takes the identity from the subject alternative names; nil takes the subject.
	AlternativeName *AlternativeName
}

// AlternativeName says which alternative name of a certificate is the identity, and which part of it. One name must
// match, else the subject is the identity. The keys are those of
// org.apache.zookeeper.server.auth.X509AuthenticationConfig, which is not part of 3.9.5.
type AlternativeName struct {
	// Type is a number of the GeneralName of RFC 5280 (X509AuthenticationProvider.clientCertIdSanMatchType):
	// 1 e-mail address, 2 DNS name, 4 directory name, 6 URI, 7 IP address, 8 object identifier.
	Type int
	// Match must be found in the name (clientCertIdSanMatchRegex), Extract gives the part of it
	// (clientCertIdSanExtractRegex), in its group of that number (clientCertIdSanExtractMatcherGroupIndex; 0 is all).
	Match, Extract string
	Group          int
}

// x509Provider is the scheme x509.
type x509Provider struct {
	super          string
	typ            int // of the alternative name; 0 for the subject
	match, extract *regexp.Regexp
	group          int
}

// NewX509 returns the scheme x509, a Certifier. It fails for alternative names that cannot be looked for, and names the
// key.
func NewX509(o X509Options) (Provider, error) {
	p := &x509Provider{super: o.SuperUser}
	n := o.AlternativeName
	if n == nil {
		return p, nil
	}
	const prefix = "X509AuthenticationProvider.clientCertIdSan"
	switch n.Type {
	case nameEmail, nameDNS, nameDirectory, nameURI, nameIP, nameOID:
		p.typ = n.Type
	default:
		return nil, fmt.Errorf("%sMatchType=%d: must be 1 (e-mail address), 2 (DNS name), 4 (directory name), 6 "+
			"(URI), 7 (IP address) or 8 (object identifier)", prefix, n.Type)
	}
	var err error
	const form = "%s%s=%s: it is no regular expression that Go knows; without look-around and back references: %w"
	if p.match, err = regexp.Compile(n.Match); err != nil {
		return nil, fmt.Errorf(form, prefix, "MatchRegex", n.Match, err)
	}
	if p.extract, err = regexp.Compile(n.Extract); err != nil {
		return nil, fmt.Errorf(form, prefix, "ExtractRegex", n.Extract, err)
	}
	if p.group = n.Group; p.group < 0 || p.group > p.extract.NumSubexp() {
		return nil, fmt.Errorf("%sExtractMatcherGroupIndex=%d: %sExtractRegex has %d groups", prefix, p.group, prefix,
			p.extract.NumSubexp())
	}
	return p, nil
}

// Scheme returns "x509".
func (p *x509Provider) Scheme() string { return SchemeX509 }

// Authenticate proves nothing: a packet has no certificate.
func (p *x509Provider) Authenticate(netip.Addr, []byte) ([]jute.ID, bool) { return nil, false }

// User returns the identity.
func (p *x509Provider) User(id string) string { return id }

// Certify implements Certifier. Of the superuser, the identity super comes first.
func (p *x509Provider) Certify(cert *x509.Certificate) ([]jute.ID, error) {
	id, found := "", false
	if p.typ != 0 {
		id, found = p.fromAlternativeNames(cert)
	}
	if !found {
		var err error
		if id, err = javaName(cert.RawSubject); err != nil {
			return nil, fmt.Errorf("read the subject of a certificate: %w", err)
		}
	}
	var ids []jute.ID
	if p.super != "" && id == p.super {
		ids = append(ids, jute.ID{Scheme: SchemeSuper, ID: id})
	}
	return append(ids, jute.ID{Scheme: SchemeX509, ID: id}), nil
}

// fromAlternativeNames returns the part of the one alternative name that is the identity.
func (p *x509Provider) fromAlternativeNames(cert *x509.Certificate) (string, bool) {
	chosen, count := "", 0
	for _, name := range alternativeNames(cert, p.typ) {
		if p.match.MatchString(name) {
			chosen = name
			count++
		}
	}
	if count != 1 {
		return "", false
	}
	groups := p.extract.FindStringSubmatchIndex(chosen)
	if groups == nil || groups[2*p.group] < 0 {
		return "", false
	}
	return chosen[groups[2*p.group]:groups[2*p.group+1]], true
}
