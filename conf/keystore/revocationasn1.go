package keystore

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/crypto/ocsp"
)

// oidIssuingPoint is the extension of a list that says what it covers (RFC 5280, section 5.2.5).
var oidIssuingPoint = asn1.ObjectIdentifier{2, 5, 29, 28}

// issuingPoint is its value.
type issuingPoint struct {
	Name           asn1.RawValue  `asn1:"optional,tag:0"`
	OnlyUsers      bool           `asn1:"optional,tag:1"`
	OnlyCAs        bool           `asn1:"optional,tag:2"`
	Reasons        asn1.BitString `asn1:"optional,tag:3"`
	Indirect       bool           `asn1:"optional,tag:4"`
	OnlyAttributes bool           `asn1:"optional,tag:5"`
}

// issuingPointCovers tells whether a list with that extension speaks of all that may be wrong with a certificate.
func issuingPointCovers(der []byte, cert *x509.Certificate, address string) error {
	var p issuingPoint
	if rest, err := asn1.Unmarshal(der, &p); err != nil || len(rest) > 0 {
		return errors.New("what its list covers cannot be read; publish it anew")
	}
	switch {
	case p.Indirect, p.OnlyAttributes, p.Reasons.BitLength > 0:
		return errors.New("its list is of another issuer, of attributes, or of some reasons alone; publish a plain one")
	case p.OnlyUsers && cert.IsCA, p.OnlyCAs && !cert.IsCA:
		return errors.New("its list does not speak of such certificates")
	case len(p.Name.FullBytes) > 0 && !bytes.Contains(p.Name.FullBytes, []byte(address)):
		return errors.New("its list is meant for another address")
	}
	return nil
}

// decodePEM returns the content of the first block of that type; nil if there is none.
func decodePEM(content []byte, typ string) []byte {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == typ {
			return block.Bytes
		}
	}
	return nil
}

// ask asks the responders that a certificate names whether it is revoked (RFC 6960).
func (r *revocation) ask(cert, issuer *x509.Certificate) error {
	if len(cert.OCSPServer) == 0 {
		return fmt.Errorf("%w: it names no OCSP responder", errUnknown)
	}
	question, err := ocsp.CreateRequest(cert, issuer, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	var errs []error
	for _, address := range cert.OCSPServer {
		err := r.askOne(address, question, cert, issuer)
		if err == nil || errors.Is(err, errRevoked) {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return fmt.Errorf("%w: %w", errUnknown, errors.Join(errs...))
}

// askOne asks one responder.
func (r *revocation) askOne(address string, question []byte, cert, issuer *x509.Certificate) error {
	request, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(question)) //nolint:noctx // Do has one
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/ocsp-request")
	content, err := r.do(request, responseBytesMax)
	if err != nil {
		return err
	}
	answer, err := ocsp.ParseResponseForCert(content, cert, issuer)
	if err != nil {
		return err
	}
	now := r.options.Now()
	// The module looks at who signed the responder's certificate, and not at what it is for.
	if c := answer.Certificate; c != nil && !bytes.Equal(c.Raw, issuer.Raw) && (now.Before(c.NotBefore) ||
		now.After(c.NotAfter) || !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning)) {
		return fmt.Errorf("%q may not answer for %q", c.Subject, issuer.Subject)
	}
	switch {
	case !holds(answer.ThisUpdate, answer.NextUpdate, now):
		return fmt.Errorf("its answer does not hold now: it does from %s to %s", day(answer.ThisUpdate),
			day(answer.NextUpdate))
	case answer.Status == ocsp.Good:
		return nil
	case answer.Status == ocsp.Revoked:
		return fmt.Errorf("%w since %s, says %s", errRevoked, day(answer.RevokedAt), address)
	}
	return errors.New("it does not know the certificate")
}
