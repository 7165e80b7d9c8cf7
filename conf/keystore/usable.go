package keystore

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// unusableError is about a key or a certificate that is whole, and that Go has no use for. The others of its file
// count.
type unusableError struct{ what, remedy string }

func (e *unusableError) Error() string { return e.what + "; " + e.remedy }

// leftOut are the keys and certificates of a file that Go has no use for.
type leftOut []error

// add adds what err says that Go has no use for. It returns any other error.
func (l *leftOut) add(err error) error {
	if unusable := (*unusableError)(nil); !errors.As(err, &unusable) {
		return err
	}
	*l = append(*l, err)
	return nil
}

// addCertificate adds a certificate to certs, or to what is left out.
func (l *leftOut) addCertificate(certs []*x509.Certificate, der []byte) ([]*x509.Certificate, error) {
	cert, err := parseCertificate(der)
	if err != nil {
		return certs, l.add(err)
	}
	return append(certs, cert), nil
}

// why returns err with what was left out, if anything was: it may be what is missed.
func (l leftOut) why(err error) error {
	if len(l) == 0 {
		return err
	}
	return fmt.Errorf("%w; left out: %w", err, errors.Join(l...))
}

// parseCertificate reads a certificate. Java reads some that Go does not: with a curve or a number of its own.
func parseCertificate(der []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err == nil {
		return cert, nil
	}
	var outline struct {
		TBS struct {
			Version   int `asn1:"optional,explicit,default:0,tag:0"`
			Number    *big.Int
			Algorithm pkix.AlgorithmIdentifier
			Issuer    asn1.RawValue
			Validity  asn1.RawValue
			Subject   pkix.RDNSequence
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if unmarshal(der, &outline) != nil {
		return nil, fmt.Errorf("a certificate in it cannot be read; issue it anew: %w", err)
	}
	return nil, &unusableError{what: fmt.Sprintf("the certificate of %q cannot be used (%v)", outline.TBS.Subject, err),
		remedy: "issue it anew"}
}

// keyKinds are names of the kinds of keys that Go's TLS has no use for, by their object identifiers. A key of
// RSASSA-PSS is not one of RSA with such a signature, which is usable.
var keyKinds = map[string]string{
	"1.2.840.10040.4.1": "DSA", "1.2.840.113549.1.1.10": "RSASSA-PSS", "1.3.101.113": "Ed448",
	"1.3.101.110": "X25519", "1.3.101.111": "X448", "1.2.840.113549.1.3.1": "DH",
	"1.2.840.10045.2.1": "EC with a curve of its own",
}

// unusableKey says that Go has no use for a kind of key.
func unusableKey(kind string) error {
	return &unusableError{what: "a key of the kind " + kind + " cannot be used with TLS here",
		remedy: "make one with RSA, or with EC and P-256, P-384 or P-521"}
}

// parseKey reads a key of PKCS8 or one of openssl's older formats.
func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err == nil {
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, unusableKey(fmt.Sprintf("%T", key))
		}
		return signer, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	var info struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	if unmarshal(der, &info) == nil && keyKinds[info.Algorithm.Algorithm.String()] != "" {
		return nil, unusableKey(keyKinds[info.Algorithm.Algorithm.String()])
	}
	return nil, fmt.Errorf("its private key cannot be read; make one with RSA or EC: %w", err)
}
