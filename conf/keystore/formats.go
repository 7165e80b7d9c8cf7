package keystore

import (
	"bytes"
	"crypto"
	"crypto/sha1" //nolint:gosec // the format has no other
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
)

// openJKS reads a store of Java's own format and checks it with its password.
//
// The check is ours and comes first: the module reads counts and lengths before it looks at the digest, and takes as
// much memory as a damaged one says.
func openJKS(file []byte, password string) (jks.KeyStore, []byte, error) {
	store := jks.New(jks.WithOrderedAliases(), jks.WithCaseExactAliases())
	secret, err := latin1(password)
	if err != nil {
		return store, nil, err
	}
	end := len(file) - sha1.Size
	if end < 0 || jksDigest(file[:end], secret) != [sha1.Size]byte(file[end:]) {
		return store, nil, errPassword
	}
	if err := store.Load(bytes.NewReader(file), secret); err != nil {
		return store, nil, fmt.Errorf("it cannot be read; write it anew: %w", err)
	}
	return store, secret, nil
}

// jksDigest is what a JKS file ends with: SHA-1 over the password, two bytes a character, a phrase, and the content
// (sun.security.provider.JavaKeyStore.getPreKeyedHash).
func jksDigest(content, secret []byte) [sha1.Size]byte {
	hash := sha1.New() //nolint:gosec // the format has no other
	for _, c := range secret {
		hash.Write([]byte{0, c})
	}
	hash.Write([]byte("Mighty Aphrodite"))
	hash.Write(content)
	return [sha1.Size]byte(hash.Sum(nil))
}

// latin1 writes a password as the bytes that the module makes Java's characters of, one of each.
func latin1(password string) ([]byte, error) {
	secret := make([]byte, 0, len(password))
	for _, r := range password {
		if r > 0xff {
			return nil, errors.New("its password has characters beyond ISO-8859-1, which cannot be used with JKS; " +
				"change it, or convert the file to PKCS12")
		}
		secret = append(secret, byte(r))
	}
	return secret, nil
}

// jksKeys returns the keys of a JKS file in the order of their aliases. As in ZooKeeper their password is the file's.
func jksKeys(file []byte, password string) ([]keyPair, error) {
	store, secret, err := openJKS(file, password)
	if err != nil {
		return nil, err
	}
	var pairs []keyPair
	for _, alias := range store.Aliases() {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := store.GetPrivateKeyEntry(alias, secret)
		if err != nil {
			return nil, fmt.Errorf("%w (alias %s)", errKeyPassword, alias)
		}
		pair := keyPair{}
		if pair.key, err = parseKey(entry.PrivateKey); err != nil {
			return nil, err
		}
		for _, c := range entry.CertificateChain {
			cert, err := x509.ParseCertificate(c.Content)
			if err != nil {
				return nil, fmt.Errorf("a certificate of %s cannot be read; issue it anew: %w", alias, err)
			}
			pair.chain = append(pair.chain, cert)
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// jksTrusted returns the trusted certificates of a JKS file. Those of keys are not trusted, as in Java.
func jksTrusted(file []byte, password string) ([]*x509.Certificate, error) {
	store, _, err := openJKS(file, password)
	if err != nil {
		return nil, err
	}
	var found []*x509.Certificate
	for _, alias := range store.Aliases() {
		if !store.IsTrustedCertificateEntry(alias) {
			continue
		}
		entry, err := store.GetTrustedCertificateEntry(alias)
		if err != nil {
			return nil, err
		}
		cert, err := x509.ParseCertificate(entry.Certificate.Content)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s cannot be read; take it out: %w", alias, err)
		}
		found = append(found, cert)
	}
	return found, nil
}

// pemKeys returns the first key of a PEM file, with all certificates of the file: PemReader.loadKeyStore. Unlike there,
// the older formats of openssl and a password for a key that needs none are taken.
func pemKeys(file []byte, password string) ([]keyPair, error) {
	pair := keyPair{}
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		var err error
		switch {
		case block.Type == "CERTIFICATE":
			cert, err := parsePEMCertificate(block)
			if err != nil {
				return nil, err
			}
			pair.chain = append(pair.chain, cert)
		case !strings.HasSuffix(block.Type, "PRIVATE KEY") || pair.key != nil:
		default:
			pair.key, err = pemKey(block, password)
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

// parseKey reads a key of PKCS8 or one of openssl's older formats.
func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
			return key, nil
		}
		if key, err := x509.ParseECPrivateKey(der); err == nil {
			return key, nil
		}
		return nil, fmt.Errorf("its private key cannot be read; make one with RSA or EC: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of the kind %T cannot be used with TLS; make one with RSA or EC", key)
	}
	return signer, nil
}

// pemTrusted returns all certificates of a PEM file: PemReader.loadTrustStore. The password has no use.
func pemTrusted(file []byte, _ string) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := parsePEMCertificate(block)
		if err != nil {
			return nil, err
		}
		found = append(found, cert)
	}
	return found, nil
}

// parsePEMCertificate reads one certificate.
func parsePEMCertificate(block *pem.Block) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("a certificate in it cannot be read; issue it anew: %w", err)
	}
	return cert, nil
}
