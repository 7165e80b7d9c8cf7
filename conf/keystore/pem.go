package keystore

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"regexp"
	"strings"
)

// glued is the end of a block with the beginning of the next one right behind it.
var glued = regexp.MustCompile(`(-----END [^-\n]+-----)[ \t]*(-----BEGIN )`)

// pemBlocks returns the blocks of a file. As for PemReader the file may begin with a byte order mark, its lines may end
// with a carriage return, and blocks need no line end between them.
func pemBlocks(file []byte) []*pem.Block {
	text := bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	text = glued.ReplaceAll(text, []byte("$1\n$2"))
	var found []*pem.Block
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		found = append(found, block)
	}
	return found
}

// addPEM adds the certificate of a block, if it is one. It may be called X509 or TRUSTED CERTIFICATE: behind the latter
// openssl writes what it is trusted for, which PemReader does not look at either.
func (l *leftOut) addPEM(certs []*x509.Certificate, block *pem.Block) ([]*x509.Certificate, error) {
	switch block.Type {
	case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
	default:
		return certs, nil
	}
	der := block.Bytes
	var first asn1.RawValue
	if _, err := asn1.Unmarshal(der, &first); err == nil {
		der = first.FullBytes
	}
	return l.addCertificate(certs, der)
}

// pemKeys returns the first key of a PEM file, with all certificates of the file: PemReader.loadKeyStore. Unlike there,
// the older formats of openssl and a password for a key that needs none are taken.
func pemKeys(file []byte, password string, left *leftOut) ([]keyPair, error) {
	pair := keyPair{}
	for _, block := range pemBlocks(file) {
		var err error
		if strings.HasSuffix(block.Type, "PRIVATE KEY") && pair.key == nil {
			pair.key, err = pemKey(block, password)
		} else {
			pair.chain, err = left.addPEM(pair.chain, block)
		}
		if err != nil {
			return nil, err
		}
	}
	if pair.key == nil {
		return nil, nil
	}
	return []keyPair{pair}, nil
}

// pemKey reads a private key.
func pemKey(block *pem.Block, password string) (crypto.Signer, error) {
	der := block.Bytes
	encrypted := block.Type == "ENCRYPTED PRIVATE KEY"
	older := block.Headers["DEK-Info"] != ""
	var err error
	switch {
	case (encrypted || older) && password == "":
		return nil, errPassword
	case encrypted:
		der, err = decryptKey(der, password)
	case older:
		der, err = x509.DecryptPEMBlock(block, []byte(password)) //nolint:staticcheck // the file is as it is
		if errors.Is(err, x509.IncorrectPasswordError) {
			err = errPassword
		}
	case block.Type == "DSA PRIVATE KEY":
		return nil, unusableKey("DSA")
	case isEncryptedKey(der): // whatever its header says: PemReader goes by the password alone
		if password == "" {
			return nil, errPassword
		}
		der, err = decryptKey(der, password)
	}
	if err != nil {
		return nil, err
	}
	key, err := parseKey(der)
	if older && err != nil { // its padding was whole by chance
		err = errPassword
	}
	return key, err
}

// pemTrusted returns all certificates of a PEM file: PemReader.loadTrustStore. The password has no use.
func pemTrusted(file []byte, _ string, left *leftOut) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for _, block := range pemBlocks(file) {
		var err error
		if found, err = left.addPEM(found, block); err != nil {
			return nil, err
		}
	}
	return found, nil
}
