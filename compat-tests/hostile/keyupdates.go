package hostile

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net"

	"golang.org/x/crypto/chacha20poly1305"
)

// Of the record layer of TLS 1.3 (RFC 8446, sections 4.6.3 and 5).
const (
	contentHandshake   = 22
	contentApplication = 23
	messageKeyUpdate   = 24
	recordMax          = 1 << 14
	ivBytes            = 12
)

// Updater is a client of TLS 1.3 that updates its keys whenever it likes, and asks the other side to do the same:
// crypto/tls answers that, and never does it. The handshake and what is read are crypto/tls's, what is written is made
// here. One goroutine at a time may write.
type Updater struct {
	*tls.Conn // reads, and deadlines
	below     net.Conn
	suite     suite
	secret    []byte // of the present keys
	aead      cipher.AEAD
	iv        []byte
	seq       uint64
}

// suite is what a cipher suite has.
type suite struct {
	hash     func() hash.Hash
	keyBytes int
	aead     func(key []byte) (cipher.AEAD, error)
}

var suites = map[uint16]suite{
	tls.TLS_AES_128_GCM_SHA256:       {sha256.New, 16, gcm},
	tls.TLS_AES_256_GCM_SHA384:       {sha512.New384, 32, gcm},
	tls.TLS_CHACHA20_POLY1305_SHA256: {sha256.New, chacha20poly1305.KeySize, chacha20poly1305.New},
}

// gcm is AES in Galois/Counter Mode.
func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// NewUpdater does the handshake on a connection, which is its own from then on.
func NewUpdater(nc net.Conn, config *tls.Config) (*Updater, error) {
	var secrets bytes.Buffer
	config = config.Clone()
	config.MinVersion, config.KeyLogWriter = tls.VersionTLS13, &secrets
	u := &Updater{Conn: tls.Client(nc, config), below: nc}
	if err := u.Handshake(); err != nil {
		return nil, err
	}
	id, known := u.ConnectionState().CipherSuite, false
	if u.suite, known = suites[id]; !known {
		return nil, fmt.Errorf("cipher suite %s is not known", tls.CipherSuiteName(id))
	}
	for line := range bytes.Lines(secrets.Bytes()) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.AppendDecode(nil, f[2])
			if err != nil {
				return nil, err
			}
			return u, u.take(secret)
		}
	}
	return nil, errors.New("the handshake has told no secret")
}

// take has what follows be under the keys of a secret.
func (u *Updater) take(secret []byte) error {
	key, err := u.expand(secret, "key", u.suite.keyBytes)
	if err != nil {
		return err
	}
	u.secret, u.seq = secret, 0
	if u.iv, err = u.expand(secret, "iv", ivBytes); err != nil {
		return err
	}
	u.aead, err = u.suite.aead(key)
	return err
}

// expand is HKDF-Expand-Label without a context (RFC 8446, section 7.1).
func (u *Updater) expand(secret []byte, label string, length int) ([]byte, error) {
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label...)
	return hkdf.Expand(u.suite.hash, secret, string(append(info, 0)), length)
}

// record appends a record with such content.
func (u *Updater) record(b []byte, kind byte, content []byte) []byte {
	head := len(b)
	b = append(b, contentApplication, 3, 3)
	b = binary.BigEndian.AppendUint16(b, uint16(len(content)+1+u.aead.Overhead()))
	nonce := bytes.Clone(u.iv)
	binary.BigEndian.PutUint64(nonce[ivBytes-8:], binary.BigEndian.Uint64(nonce[ivBytes-8:])^u.seq)
	u.seq++
	return u.aead.Seal(b, nonce, append(bytes.Clone(content), kind), b[head:])
}

// Write sends data.
func (u *Updater) Write(data []byte) (int, error) {
	var b []byte
	for rest := data; len(rest) > 0; {
		n := min(len(rest), recordMax)
		b = u.record(b, contentApplication, rest[:n])
		rest = rest[n:]
	}
	if _, err := u.below.Write(b); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Update updates the keys of what follows, and asks the other side to do that, too.
func (u *Updater) Update() error {
	const asked = 1
	b := u.record(nil, contentHandshake, []byte{messageKeyUpdate, 0, 0, 1, asked})
	next, err := u.expand(u.secret, "traffic upd", u.suite.hash().Size())
	if err != nil {
		return err
	}
	if err := u.take(next); err != nil {
		return err
	}
	_, err = u.below.Write(b)
	return err
}

// Garble sends a record that cannot be decrypted.
func (u *Updater) Garble() error {
	b := u.record(nil, contentApplication, []byte("garbled"))
	b[len(b)-1] ^= 1
	_, err := u.below.Write(b)
	return err
}

// Close ends the connection without a word, for crypto/tls does not know the keys.
func (u *Updater) Close() error { return u.below.Close() }
