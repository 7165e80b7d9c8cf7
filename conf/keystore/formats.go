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
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"
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

// pkcs12Keys returns the keys of a PKCS12 file.
func pkcs12Keys(file []byte, password string) ([]keyPair, error) {
	key, cert, others, err := pkcs12.DecodeChain(file, password)
	if err != nil && strings.Contains(err.Error(), "exactly one key") {
		return pkcs12ManyKeys(file, password)
	}
	if err != nil {
		return nil, explainPKCS12(err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of the kind %T cannot be used with TLS; make one with RSA or EC", key)
	}
	return []keyPair{{key: signer, chain: append([]*x509.Certificate{cert}, others...)}}, nil
}

// pkcs12ManyKeys returns the keys of a PKCS12 file that has more than one, such as one of RSA and one of EC. Each is
// given all certificates: which are its own is seen by the key.
func pkcs12ManyKeys(file []byte, password string) ([]keyPair, error) {
	//nolint:staticcheck // the module has nothing else for more than one key
	blocks, err := pkcs12.ToPEM(file, password)
	if err != nil {
		return nil, fmt.Errorf("it has more than one key, and something else that cannot be read then; keep one key "+
			"in a file of its own, with keytool -importkeystore -srcalias: %w", err)
	}
	var pairs []keyPair
	var certs []*x509.Certificate
	for _, b := range blocks {
		if b.Type == "CERTIFICATE" {
			cert, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, fmt.Errorf("a certificate in it cannot be read; issue it anew: %w", err)
			}
			certs = append(certs, cert)
			continue
		}
		key, err := parseKey(b.Bytes)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, keyPair{key: key})
	}
	for i := range pairs {
		pairs[i].chain = certs
	}
	return pairs, nil
}

// pkcs12Trusted returns the certificates that Java has marked as trusted in a PKCS12 file.
func pkcs12Trusted(file []byte, password string) ([]*x509.Certificate, error) {
	found, err := pkcs12.DecodeTrustStore(file, password)
	if err == nil || errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return found, explainPKCS12(err)
	}
	return nil, fmt.Errorf("it is no trust store; keep the trusted certificates in a file of their own, "+
		"made with keytool -importcert: %w", err)
}

// explainPKCS12 turns an error of the module into one of ours.
func explainPKCS12(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return errPassword
	case strings.Contains(err.Error(), "private key missing"):
		return errors.New("there is no private key in it; name the file with the key and certificate of this server")
	}
	return fmt.Errorf("it is damaged, or of a kind that cannot be read; write it anew with keytool: %w", err)
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
		case block.Type == "ENCRYPTED PRIVATE KEY":
			pair.key, err = decryptKey(block.Bytes, password)
		case block.Headers["DEK-Info"] != "":
			err = errors.New("its key is encrypted in an old way; encrypt it anew with openssl pkcs8 -topk8")
		default:
			pair.key, err = parseKey(block.Bytes)
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

// decryptKey reads an encrypted PKCS8 key.
func decryptKey(der []byte, password string) (crypto.Signer, error) {
	if password == "" {
		return nil, errPassword
	}
	key, err := pkcs8.ParsePKCS8PrivateKey(der, []byte(password))
	if err != nil {
		if strings.Contains(err.Error(), "incorrect password") {
			return nil, errPassword
		}
		const form = "its key cannot be read; encrypt it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc: %w"
		return nil, fmt.Errorf(form, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of the kind %T cannot be used with TLS; make one with RSA or EC", key)
	}
	return signer, nil
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
