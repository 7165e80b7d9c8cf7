package sasl

import (
	"cmp"
	"crypto/md5" //nolint:gosec // the mechanism that ZooKeeper's clients speak is made of it
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What both ends of ZooKeeper's DIGEST-MD5 know without saying it (ZooKeeperSaslServer.createSaslServer).
const (
	digestService = "zookeeper"
	digestRealm   = "zk-sasl-md5"
)

// What servers of an ensemble know in the same way (org.apache.zookeeper.server.quorum.auth.QuorumAuth).
const (
	QuorumService = "zookeeper-quorum"
	QuorumRealm   = "zk-quorum-sasl-md5"
)

// Sizes of com.sun.security.sasl.digest.DigestMD5Base.
const (
	digestResponseMax = 4096 // longer tokens are refused
	digestNonceBytes  = 30
)

// superName is the user whose password superPassword replaces.
const superName = "super"

// DigestOptions sets up DIGEST-MD5.
type DigestOptions struct {
	// Users are the passwords by user. They are kept, for the digest depends on both nonces.
	Users map[string]string
	// SuperPassword is zookeeper.SASLAuthenticationProvider.superPassword: the password of the user super in place of
	// the one in Users, where that user must be all the same; "" is none.
	SuperPassword string
	// Service and Realm are what both ends know without saying it; those between clients and servers if they are empty.
	Service, Realm string
	// Random gives the nonces: crypto/rand.Reader outside tests.
	Random io.Reader
}

// digestMD5 is the mechanism DIGEST-MD5 (RFC 2831) as Java's server does it with the settings of ZooKeeper: one realm,
// no security layer, initial authentication alone.
type digestMD5 struct {
	users      map[string]string
	realm, uri string
	random     io.Reader
}

// NewDigestMD5 returns the mechanism DIGEST-MD5.
func NewDigestMD5(o DigestOptions) Mechanism {
	users := maps.Clone(o.Users)
	delete(users, "") // an identity without a name would be none
	if _, ok := users[superName]; ok && o.SuperPassword != "" {
		users[superName] = o.SuperPassword
	}
	realm := cmp.Or(o.Realm, digestRealm)
	return &digestMD5{users: users, realm: realm, uri: cmp.Or(o.Service, digestService) + "/" + realm, random: o.Random}
}

// Name returns "DIGEST-MD5".
func (m *digestMD5) Name() string { return "DIGEST-MD5" }

// Begin starts an exchange.
func (m *digestMD5) Begin() Exchange { return &digestExchange{mechanism: m} }

// digestExchange is a challenge and what the client made of it.
type digestExchange struct {
	mechanism *digestMD5
	nonce     string // "" before the challenge
}

// Respond answers the first token, whatever it is, with a challenge (there is no subsequent authentication, so an
// initial response does not count), and the second one with the proof that this end knows the password, too.
func (e *digestExchange) Respond(token []byte) (answer []byte, name string, err error) {
	if len(token) > digestResponseMax {
		return nil, "", fmt.Errorf("response has %d bytes, at most %d are taken", len(token), digestResponseMax)
	}
	if e.nonce == "" {
		answer, err = e.challenge()
		return answer, "", err
	}
	found, err := parseDirectives(token)
	if err != nil {
		return nil, "", err
	}
	return e.check(found)
}

// challenge draws the nonce.
func (e *digestExchange) challenge() ([]byte, error) {
	var err error
	if e.nonce, err = drawNonce(e.mechanism.random); err != nil {
		return nil, err
	}
	return []byte(`realm="` + e.mechanism.realm + `",nonce="` + e.nonce + `",charset=utf-8,algorithm=md5-sess`), nil
}

// drawNonce returns one that nobody can foresee.
func drawNonce(random io.Reader) (string, error) {
	var raw [digestNonceBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("draw a nonce: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw[:]), nil
}

// Why a response is refused. The client is not told.
var (
	errCharset     = errors.New("charset is not utf-8")
	errNoUser      = errors.New("no username")
	errRealm       = errors.New("realm is not")
	errNonce       = errors.New("nonce is not the one of the challenge")
	errNoCnonce    = errors.New("no cnonce")
	errCount       = errors.New("nonce count is not 1")
	errQOP         = errors.New("quality of protection is not auth, the only one that was offered")
	errURI         = errors.New("digest-uri is not")
	errNoResponse  = errors.New("no response")
	errUnknownUser = errors.New("unknown user")
	errPassword    = errors.New("wrong password")
)

// check compares a response with what it must be, in the order of DigestMD5Server.validateClientResponse.
func (e *digestExchange) check(d directives) (answer []byte, name string, err error) {
	if charset, ok := d["charset"]; ok && string(charset) != "utf-8" {
		return nil, "", errCharset
	}
	if !isJavaInt(d, "maxbuf", 10) {
		return nil, "", fmt.Errorf("%w: maxbuf is no number", ErrBroken)
	}
	if err := e.checkSession(d); err != nil {
		return nil, "", err
	}
	user := string(d["username"])
	if user == "" {
		return nil, "", fmt.Errorf("%w: the username is empty", ErrBroken)
	}
	password, ok := e.mechanism.users[user]
	secret := digestSecret(user, e.mechanism.realm, password)
	expected := digest(secret, e.nonce, d, digestClient)
	right := subtle.ConstantTimeCompare(d["response"], []byte(expected)) == 1
	switch {
	case !ok || !utf8.ValidString(user):
		return nil, "", errUnknownUser
	case !right:
		return nil, "", fmt.Errorf("%w for user %q", errPassword, user)
	}
	return []byte("rspauth=" + digest(secret, e.nonce, d, digestServer)), user, nil
}

// checkSession checks that the response is one to this challenge.
func (e *digestExchange) checkSession(d directives) error {
	if _, ok := d["username"]; !ok {
		return errNoUser
	}
	if string(d["realm"]) != e.mechanism.realm {
		return fmt.Errorf("%w %s", errRealm, e.mechanism.realm)
	}
	if string(d["nonce"]) != e.nonce {
		return errNonce
	}
	if _, ok := d["cnonce"]; !ok {
		return errNoCnonce
	}
	if !isJavaInt(d, "nonce-count", 16) {
		return fmt.Errorf("%w: nonce count is no number", ErrBroken)
	}
	if count, ok := d["nonce-count"]; ok {
		if n, _ := strconv.ParseInt(string(count), 16, 32); n != 1 { // isJavaInt has parsed it
			return errCount
		}
	}
	if qop, ok := d["qop"]; ok && string(qop) != "auth" {
		return errQOP
	}
	if !strings.EqualFold(string(d["digest-uri"]), e.mechanism.uri) {
		return fmt.Errorf("%w %s", errURI, e.mechanism.uri)
	}
	if _, ok := d["response"]; !ok {
		return errNoResponse
	}
	return nil
}

// isJavaInt tells whether a directive is missing or what Java's Integer.parseInt reads.
func isJavaInt(d directives, key string, base int) bool {
	text, ok := d[key]
	if !ok {
		return true
	}
	_, err := strconv.ParseInt(string(text), base, 32)
	return err == nil
}

// digestSecret is the first hash of A1: of who, where and the password.
func digestSecret(user, realm, password string) [md5.Size]byte {
	var text []byte
	text = append(append(text, latin1(user)...), ':')
	text = append(append(text, realm...), ':')
	return md5.Sum(append(text, latin1(password)...)) //nolint:gosec // see the import
}

// latin1 encodes a text as ISO 8859-1, if it can be, else as UTF-8 (RFC 2831, section 2.1.2.1).
func latin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		b = append(b, byte(r))
	}
	return b
}

// Whose proof a digest is.
const (
	digestClient = "AUTHENTICATE:"
	digestServer = ":"
)

// digest is response-value of RFC 2831, of which method says whose it is.
func digest(secret [md5.Size]byte, nonce string, d directives, method string) string {
	a1 := append(secret[:], ":"+nonce+":"...)
	a1 = append(a1, d["cnonce"]...)
	if authzid, ok := d["authzid"]; ok {
		a1 = append(append(a1, ':'), authzid...)
	}
	a2 := hexMD5(append([]byte(method), d["digest-uri"]...))
	text := []byte(hexMD5(a1) + ":" + nonce + ":00000001:")
	text = append(text, d["cnonce"]...)
	return hexMD5(append(text, ":auth:"+a2...))
}

// hexMD5 is the MD5 of b in small hexadecimal digits.
func hexMD5(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}
