package keystore

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"zkd/conf"
)

// store is a key or trust store of the configuration.
type store struct {
	conf.Store
	prefix   string // of its keys, such as `ssl.quorum.keyStore.`
	readFile func(string) ([]byte, error)
}

// formats by the end of the file's name: KeyStoreFileType in ZooKeeper.
var formats = map[string]string{".jks": "JKS", ".p12": "PKCS12", ".pem": "PEM", ".bcfks": "BCFKS"}

// contents are the bytes of a store and its password, as they are in the files.
type contents struct {
	file     []byte
	password string
}

// keyPair is a private key with the certificates that prove it, the one for the key first.
type keyPair struct {
	key   crypto.Signer
	chain []*x509.Certificate
}

// read reads the file and its password.
func (s *store) read() (contents, error) {
	c := contents{password: s.Password}
	var err error
	if c.file, err = s.readFile(s.Location); err != nil {
		return c, fmt.Errorf("%slocation=%s: %w", s.prefix, s.Location, err)
	}
	if s.PasswordPath == "" {
		return c, nil
	}
	password, err := s.readFile(s.PasswordPath)
	if err != nil {
		return c, fmt.Errorf("%spasswordPath=%s: %w", s.prefix, s.PasswordPath, err)
	}
	// One line end at the end is none of the password: SecretUtils.readSecret.
	c.password = strings.TrimSuffix(strings.TrimSuffix(string(password), "\n"), "\r")
	return c, nil
}

// format returns the format that the configuration says the file has.
func (s *store) format() (string, error) {
	format := strings.ToUpper(s.Type)
	if format == "" {
		format = formats[filepath.Ext(s.Location)]
	}
	switch format {
	case "JKS", "PKCS12", "PEM":
		return format, nil
	case "BCFKS":
		return "", s.problem("the format of Bouncy Castle cannot be read", "convert the file to PKCS12 with keytool "+
			"-importkeystore")
	}
	return "", s.problem("its name does not say which format it has", "set "+s.prefix+"type to JKS, PKCS12 or PEM")
}

// The formats by what a file begins with.
var (
	magicJKS   = []byte{0xfe, 0xed, 0xfe, 0xed}
	magicJCEKS = []byte{0xce, 0xce, 0xce, 0xce}
	magicDER   = []byte{0x30}
	magicPEM   = []byte("-----BEGIN ")
)

// sniff returns the format that the file has by its content. Of JKS and PKCS12 either is taken for the other, as Java
// does since version 9, whose keytool writes PKCS12 whatever the name of the file.
func (s *store) sniff(file []byte) (string, error) {
	said, err := s.format()
	if err != nil {
		return "", err
	}
	found := ""
	switch {
	case bytes.HasPrefix(file, magicJKS):
		found = "JKS"
	case bytes.HasPrefix(file, magicJCEKS):
		return "", s.problem("it is in the format JCEKS, which cannot be read", "convert it to PKCS12 with keytool "+
			"-importkeystore")
	case bytes.Contains(file, magicPEM):
		found = "PEM"
	case bytes.HasPrefix(file, magicDER):
		found = "PKCS12"
	case len(file) == 0:
		return "", s.problem("it is empty", "write it anew")
	}
	switch {
	case found == "":
		return "", s.problem("it is not in the format "+said+", nor in another that is known",
			"name the right file, or write it anew")
	case (found == "PEM") != (said == "PEM"):
		return "", s.problem("it is in the format "+found+", not "+said, "set "+s.prefix+"type="+found)
	}
	return found, nil
}

// problem says what is wrong with the file and what to do.
func (s *store) problem(what, remedy string) error {
	return fmt.Errorf("%slocation=%s: %s; %s", s.prefix, s.Location, what, remedy)
}

// explain turns the error of a decoder into one that names the file and what to do.
func (s *store) explain(err error) error {
	switch {
	case errors.Is(err, errPassword):
		from := s.prefix + "password"
		if s.PasswordPath != "" {
			from = "the file that " + s.prefix + "passwordPath names (" + s.PasswordPath + ")"
		}
		return s.problem("the password is wrong, or the file is damaged", "correct "+from)
	case errors.Is(err, errKeyPassword):
		return s.problem("its key has another password than the file", "give both the same one with keytool -keypasswd")
	case errors.Is(err, errNoKey):
		return s.problem(err.Error(), "name the file with the key and certificate of this server")
	case errors.Is(err, errNoTrust):
		return s.problem(err.Error(), "import the certificate of the authority with keytool -importcert")
	}
	return fmt.Errorf("%slocation=%s: %w", s.prefix, s.Location, err)
}

// Errors of the decoders that explain words.
var (
	errPassword    = errors.New("wrong password")
	errKeyPassword = errors.New("wrong password of a key")
	errNoKey       = errors.New("there is no private key in it")
	errNoTrust     = errors.New("there is no trusted certificate in it")
)

// decoders read what is wanted of a file, with a password, by its format; what they cannot read they leave out.
type decoders[T any] map[string]func(file []byte, password string, left *leftOut) ([]T, error)

// decode returns what is wanted of the file, some of it, and what of the file is left out. If there is nothing it fails
// with none, or for what was left out.
func decode[T any](s *store, c contents, by decoders[T], none error) (found []T, left leftOut, err error) {
	format, err := s.sniff(c.file)
	if err != nil {
		return nil, nil, err
	}
	found, err = by[format](c.file, c.password, &left)
	switch {
	case err != nil:
	case len(found) > 0:
		return found, left, nil
	case len(left) > 0:
		err = left[0]
	default:
		err = none
	}
	return nil, nil, s.explain(err)
}

// keys returns the keys in the file, with their certificates, and what of the file is left out, as warnings.
func (s *store) keys(c contents) (pairs []keyPair, warnings []string, err error) {
	pairs, left, err := decode(s, c, decoders[keyPair]{"JKS": jksKeys, "PKCS12": pkcs12Keys, "PEM": pemKeys}, errNoKey)
	if err != nil {
		return nil, nil, err
	}
	for i := range pairs {
		if pairs[i].chain, err = orderChain(pairs[i].key, pairs[i].chain); err != nil {
			return nil, nil, s.explain(left.why(err))
		}
	}
	return pairs, s.warnings(left), nil
}

// trusted returns the certificates in the file, and what of it is left out, as warnings.
func (s *store) trusted(c contents) (found []*x509.Certificate, warnings []string, err error) {
	found, left, err := decode(s, c, decoders[*x509.Certificate]{
		"JKS": jksTrusted, "PKCS12": pkcs12Trusted, "PEM": pemTrusted,
	}, errNoTrust)
	if err != nil {
		return nil, nil, err
	}
	return found, s.warnings(left), nil
}

// warnings says what of the file is left out, for the log.
func (s *store) warnings(left leftOut) []string {
	var found []string
	for _, err := range left {
		found = append(found, fmt.Sprintf("%slocation=%s: left out: %v", s.prefix, s.Location, err))
	}
	return found
}

// orderChain returns certs with the one for key first, and behind it the one that signed it, and so on; what has no
// place in that row is left out.
func orderChain(key crypto.Signer, certs []*x509.Certificate) ([]*x509.Certificate, error) {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, unusableKey(fmt.Sprintf("%T", key))
	}
	var chain []*x509.Certificate
	for _, c := range certs {
		if public.Equal(c.PublicKey) {
			chain = append(chain, c)
			break
		}
	}
	if len(chain) == 0 {
		return nil, errors.New("there is no certificate for the private key; import the one that the authority issued")
	}
	for len(chain) < len(certs) {
		last := chain[len(chain)-1]
		next := issuer(last, certs)
		if next == nil || bytes.Equal(last.RawIssuer, last.RawSubject) {
			break
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// issuer returns the certificate among certs that signed c, or nil.
func issuer(c *x509.Certificate, certs []*x509.Certificate) *x509.Certificate {
	for _, candidate := range certs {
		if bytes.Equal(candidate.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(candidate) == nil {
			return candidate
		}
	}
	return nil
}
