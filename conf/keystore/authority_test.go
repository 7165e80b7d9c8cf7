package keystore

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"zkd/conf"
)

// password is that of the stores in tests.
const password = "pässword"

// start is the time at which certificates of tests begin to hold; they do for a year.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// files is a file system in memory.
type files struct {
	mu      sync.Mutex
	content map[string][]byte // guarded by mu
}

func newFiles() *files { return &files{content: map[string][]byte{}} }

func (f *files) put(name string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.content[name] = content
}

func (f *files) read(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.content[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(content), nil
}

// options are those of a set over f: server.pem and trust.pem, at a time when certificates hold.
func (f *files) options() Options {
	return Options{
		Prefix: "ssl.quorum.", ReadFile: f.read, Now: func() time.Time { return start.Add(time.Hour) },
		End: conf.TLSEnd{
			KeyStore: conf.Store{Location: "server.pem"}, TrustStore: conf.Store{Location: "trust.pem"},
			ClientAuth: "need", HostnameVerification: true,
		},
	}
}

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate that parent signs, or itself without one.
func issue(t testing.TB, template x509.Certificate, parent *identity) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = start, start.AddDate(1, 0, 0)
	signer := &identity{cert: &template, key: key}
	if parent != nil {
		signer = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, signer.cert, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{cert: cert, key: key}
}

// authority makes a certificate that signs others.
func authority(t testing.TB, name string) *identity {
	t.Helper()
	return issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// server makes the certificate of a server at the loopback address.
func (i *identity) server(t testing.TB) *identity {
	t.Helper()
	return issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"zk1.example.net"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, i)
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certPEM is the certificate as PEM.
func (i *identity) certPEM() []byte { return pemBlock("CERTIFICATE", i.cert.Raw) }

// keyDER is the key as PKCS8.
func (i *identity) keyDER(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// keyPEM is the key and the certificate as PEM, with the certificates of others behind it.
func (i *identity) keyPEM(t testing.TB, others ...*identity) []byte {
	t.Helper()
	content := append(pemBlock("PRIVATE KEY", i.keyDER(t)), i.certPEM()...)
	for _, other := range others {
		content = append(content, other.certPEM()...)
	}
	return content
}

// encryptedPEM is keyPEM with an encrypted key.
func (i *identity) encryptedPEM(t testing.TB) []byte {
	t.Helper()
	return append(i.certPEM(), pemBlock("ENCRYPTED PRIVATE KEY", encryptKey(t, i.keyDER(t)))...)
}

// encryptKey encrypts a key as OpenSSL does since version 1.1: PBES2 with AES-256 and HMAC of SHA-256.
func encryptKey(t testing.TB, plain []byte) []byte {
	t.Helper()
	raw := func(v any) asn1.RawValue {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: der}
	}
	derivation := pbkdf2Parameters{Salt: []byte("12345678"), Iterations: 2048,
		PRF: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}}}
	key, err := pbkdf2.Key(sha256.New, password, derivation.Salt, derivation.Iterations, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	data := append(slices.Clone(plain), bytes.Repeat([]byte{byte(padding)}, padding)...)
	iv := make([]byte, aes.BlockSize)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, data)
	id := func(last ...int) asn1.ObjectIdentifier {
		return append(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5}, last...)
	}
	return raw(encryptedKey{Data: data, Algorithm: pkix.AlgorithmIdentifier{Algorithm: id(13),
		Parameters: raw(pbes2Parameters{
			Derivation: pkix.AlgorithmIdentifier{Algorithm: id(12), Parameters: raw(derivation)},
			Encryption: pkix.AlgorithmIdentifier{
				Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, Parameters: raw(iv)},
		})}}).FullBytes
}

// oldPEM is keyPEM with a key in the old format of openssl.
func (i *identity) oldPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pemBlock("EC PRIVATE KEY", der), i.certPEM()...)
}

// jksStore is a JKS file with the key, protected by keyPassword, and with trusted certificates.
func jksStore(t testing.TB, key *identity, keyPassword string, trusted ...*identity) []byte {
	t.Helper()
	secret, err := latin1(password)
	if err != nil {
		t.Fatal(err)
	}
	keySecret, err := latin1(keyPassword)
	if err != nil {
		t.Fatal(err)
	}
	store := jks.New()
	if key != nil {
		err = store.SetPrivateKeyEntry("server", jks.PrivateKeyEntry{
			CreationTime: start, PrivateKey: key.keyDER(t),
			CertificateChain: []jks.Certificate{{Type: "X.509", Content: key.cert.Raw}},
		}, keySecret)
	}
	for _, i := range trusted {
		err = errors.Join(err, store.SetTrustedCertificateEntry(i.cert.Subject.CommonName, jks.TrustedCertificateEntry{
			CreationTime: start, Certificate: jks.Certificate{Type: "X.509", Content: i.cert.Raw},
		}))
	}
	var b bytes.Buffer
	if err := errors.Join(err, store.Store(&b, secret)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// signJKS puts the digest behind the content of a JKS file.
func signJKS(t testing.TB, content []byte) []byte {
	t.Helper()
	secret, err := latin1(password)
	if err != nil {
		t.Fatal(err)
	}
	digest := jksDigest(content, secret)
	return append(content, digest[:]...)
}

// pkcs12Store is a PKCS12 file with the key, and its chain in the wrong order.
func pkcs12Store(t testing.TB, key crypto.PrivateKey, chain ...*x509.Certificate) []byte {
	t.Helper()
	content, err := pkcs12.Modern.Encode(key, chain[0], chain[1:], password)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pkcs12Trust is a PKCS12 file with trusted certificates.
func pkcs12Trust(t testing.TB, certs ...*x509.Certificate) []byte {
	t.Helper()
	content, err := pkcs12.Modern.EncodeTrustStore(certs, password)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// open opens a set that must be right.
func open(t testing.TB, o Options) *Set {
	t.Helper()
	set, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// wantShakes checks that the two ends of a set shake hands.
func wantShakes(t testing.TB, what string, set *Set) {
	t.Helper()
	if errServer, errClient := shake(t, set.Server(), set.Client("127.0.0.1")); errServer != nil || errClient != nil {
		t.Errorf("%s: server %v, client %v", what, errServer, errClient)
	}
}

// shake lets two configurations shake hands over the loopback, sends a byte each way, and returns what went wrong on
// either side.
func shake(t testing.TB, server, client *tls.Config) (errServer, errClient error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	deadline := time.Now().Add(time.Minute)
	served := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		err = errors.Join(raw.SetDeadline(deadline), exchange(tls.Server(raw, server)))
		hangUp(raw)
		served <- err
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	errClient = errors.Join(raw.SetDeadline(deadline), exchange(tls.Client(raw, client)))
	hangUp(raw)
	return <-served, errClient
}

// hangUp closes a connection when all is read: a reset, which follows what nobody has read, would be seen in place of
// the alert before it. Whatever is wrong is known by now.
func hangUp(conn net.Conn) {
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// exchange sends a byte and reads one.
func exchange(conn *tls.Conn) error {
	if err := conn.Handshake(); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}
