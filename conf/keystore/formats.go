package keystore

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the format has no other
	"crypto/x509"
	"errors"
	"fmt"

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
func jksKeys(file []byte, password string, left *leftOut) ([]keyPair, error) {
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
			if err = left.add(err); err != nil {
				return nil, err
			}
			continue
		}
		for _, c := range entry.CertificateChain {
			if pair.chain, err = left.addCertificate(pair.chain, c.Content); err != nil {
				return nil, err
			}
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// jksTrusted returns the trusted certificates of a JKS file. Those of keys are not trusted, as in Java.
func jksTrusted(file []byte, password string, left *leftOut) ([]*x509.Certificate, error) {
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
		if found, err = left.addCertificate(found, entry.Certificate.Content); err != nil {
			return nil, err
		}
	}
	return found, nil
}
