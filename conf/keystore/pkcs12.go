package keystore

import (
	"crypto"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
)

// The object identifiers of PKCS12 (RFC 7292), of PBMAC1 (RFC 9579), and of the attribute by which Java marks a
// certificate that is trusted.
const (
	oidData          = "1.2.840.113549.1.7.1"
	oidEncryptedData = "1.2.840.113549.1.7.6"
	oidKeyBag        = "1.2.840.113549.1.12.10.1.1"
	oidShroudedKey   = "1.2.840.113549.1.12.10.1.2"
	oidCertBag       = "1.2.840.113549.1.12.10.1.3"
	oidSafeContents  = "1.2.840.113549.1.12.10.1.6"
	oidX509          = "1.2.840.113549.1.9.22.1"
	oidTrusted       = "2.16.840.1.113894.746875.1.1"
	oidPBMAC1        = "1.2.840.113549.1.5.14"
)

// nestedMax is how deep safe contents may be in one another. Nobody is known to nest them at all.
const nestedMax = 4

// The records of a file.
type (
	pfx struct {
		Version  int
		AuthSafe contentInfo
		MAC      macData `asn1:"optional"`
	}
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"tag:0,explicit,optional"`
	}
	macData struct {
		Digest     digestInfo
		Salt       []byte
		Iterations int `asn1:"optional,default:1"`
	}
	digestInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	encryptedData struct {
		Version int
		Info    struct {
			Type      asn1.ObjectIdentifier
			Algorithm pkix.AlgorithmIdentifier
			Content   asn1.RawValue `asn1:"optional"` // tag 0, a string of octets, or pieces of one
		}
	}
	safeBag struct {
		ID         asn1.ObjectIdentifier
		Value      asn1.RawValue  `asn1:"tag:0,explicit"`
		Attributes []bagAttribute `asn1:"set,optional"`
	}
	bagAttribute struct {
		ID    asn1.ObjectIdentifier
		Value asn1.RawValue `asn1:"set"`
	}
	certBag struct {
		ID   asn1.ObjectIdentifier
		Data []byte `asn1:"tag:0,explicit"`
	}
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
)

// pkcs12File is what a file holds: keys, and certificates, of which some are trusted.
type pkcs12File struct {
	password string
	left     *leftOut
	keys     []crypto.Signer
	certs    []*x509.Certificate
	trusted  []*x509.Certificate
}

// readPKCS12 reads a file and checks it with its password, if it has a MAC. One without is read, as Java does.
func readPKCS12(file []byte, password string, left *leftOut) (*pkcs12File, error) {
	var p pfx
	if err := unmarshal(definite(file), &p); err != nil {
		return nil, err
	}
	if p.Version != 3 || p.AuthSafe.Type.String() != oidData {
		return nil, errors.New("it is PKCS12 of another kind than protected by a password; write it anew with keytool")
	}
	var content []byte
	if err := unmarshal(p.AuthSafe.Content.Bytes, &content); err != nil {
		return nil, err
	}
	if err := p.MAC.verify(content, password); err != nil {
		return nil, err
	}
	var safes []contentInfo
	if err := unmarshal(definite(content), &safes); err != nil {
		return nil, err
	}
	f := &pkcs12File{password: password, left: left}
	for _, safe := range safes {
		if err := f.safe(safe); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// verify checks the MAC, if there is one.
func (m *macData) verify(content []byte, password string) error {
	algorithm := m.Digest.Algorithm
	if len(algorithm.Algorithm) == 0 {
		return nil
	}
	var got []byte
	if algorithm.Algorithm.String() == oidPBMAC1 {
		var err error
		if got, err = pbmac1(algorithm.Parameters, content, password); err != nil {
			return err
		}
	} else {
		newHash := hashes[algorithm.Algorithm.String()]
		if newHash == nil {
			return unknownAlgorithm(algorithm.Algorithm)
		}
		if err := checkIterations(m.Iterations); err != nil {
			return err
		}
		secret := bmpString(password)
		key := pkcs12KDF(newHash, secret, m.Salt, m.Iterations, kdfMAC, newHash().Size())
		got = sign(newHash, key, content)
	}
	if subtle.ConstantTimeCompare(got, m.Digest.Digest) != 1 {
		return errPassword
	}
	return nil
}

// pbmac1 is the MAC of RFC 9579.
func pbmac1(parameters asn1.RawValue, content []byte, password string) ([]byte, error) {
	var p struct{ Derivation, Scheme pkix.AlgorithmIdentifier }
	if err := unmarshal(parameters.FullBytes, &p); err != nil {
		return nil, err
	}
	newHash := hashes[p.Scheme.Algorithm.String()]
	if newHash == nil {
		return nil, unknownAlgorithm(p.Scheme.Algorithm)
	}
	key, err := pbes2Key(p.Derivation, password, newHash().Size())
	if err != nil {
		return nil, err
	}
	return sign(newHash, key, content), nil
}

// safe reads one of the parts of a file.
func (f *pkcs12File) safe(c contentInfo) error {
	var content []byte
	switch c.Type.String() {
	case oidData:
		if err := unmarshal(c.Content.Bytes, &content); err != nil {
			return err
		}
	case oidEncryptedData:
		var e encryptedData
		err := unmarshal(c.Content.Bytes, &e)
		encrypted := e.Info.Content.Bytes
		if err == nil && e.Info.Content.IsCompound {
			encrypted, err = octets(encrypted)
		}
		if err == nil {
			content, err = decrypt(e.Info.Algorithm, encrypted, f.password)
		}
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("a part of it cannot be read (%s); write it anew with keytool", c.Type)
	}
	return f.bags(content, 0)
}

// bags reads what is in a part.
func (f *pkcs12File) bags(content []byte, depth int) error {
	var bags []safeBag
	if err := unmarshal(definite(content), &bags); err != nil {
		return err
	}
	for i := range bags {
		var err error
		switch bag := &bags[i]; bag.ID.String() {
		case oidKeyBag:
			err = f.addKey(bag.Value.Bytes)
		case oidShroudedKey:
			var plain []byte
			if plain, err = decryptKey(bag.Value.Bytes, f.password); err == nil {
				err = f.addKey(plain)
			}
		case oidCertBag:
			err = f.addCertificate(bag)
		case oidSafeContents:
			if depth == nestedMax {
				return errors.New("its parts are in one another too deep; write it anew with keytool")
			}
			err = f.bags(bag.Value.Bytes, depth+1)
		default: // revocations and secrets are of no use here
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addKey adds a key of PKCS8.
func (f *pkcs12File) addKey(der []byte) error {
	key, err := parseKey(der)
	if err != nil {
		return f.left.add(err)
	}
	f.keys = append(f.keys, key)
	return nil
}

// addCertificate adds a certificate.
func (f *pkcs12File) addCertificate(bag *safeBag) error {
	var c certBag
	if err := unmarshal(bag.Value.Bytes, &c); err != nil {
		return err
	}
	if c.ID.String() != oidX509 {
		return nil // SDSI, which nobody writes
	}
	cert, err := parseCertificate(c.Data)
	if err != nil {
		return f.left.add(err)
	}
	f.certs = append(f.certs, cert)
	for _, a := range bag.Attributes {
		if a.ID.String() == oidTrusted {
			f.trusted = append(f.trusted, cert)
			break
		}
	}
	return nil
}

// pkcs12Keys returns the keys of a PKCS12 file, such as one of RSA and one of EC. Each is given all certificates: which
// are its own is seen by the key.
func pkcs12Keys(file []byte, password string, left *leftOut) ([]keyPair, error) {
	f, err := readPKCS12(file, password, left)
	if err != nil {
		return nil, err
	}
	pairs := make([]keyPair, len(f.keys))
	for i, key := range f.keys {
		pairs[i] = keyPair{key: key, chain: f.certs}
	}
	return pairs, nil
}

// pkcs12Trusted returns the certificates that Java has marked as trusted in a PKCS12 file. Those of keys are not
// trusted by themselves.
func pkcs12Trusted(file []byte, password string, left *leftOut) ([]*x509.Certificate, error) {
	f, err := readPKCS12(file, password, left)
	if err != nil {
		return nil, err
	}
	return f.trusted, nil
}

// isEncryptedKey tells whether der is what decryptKey reads: unlike a key it begins with an algorithm.
func isEncryptedKey(der []byte) bool { return unmarshal(der, new(encryptedKey)) == nil }

// decryptKey decrypts a key of PKCS8 (RFC 5958).
func decryptKey(der []byte, password string) ([]byte, error) {
	var e encryptedKey
	if err := unmarshal(der, &e); err != nil {
		return nil, err
	}
	return decrypt(e.Algorithm, e.Data, password)
}
