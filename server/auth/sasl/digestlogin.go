package sasl

import (
	"crypto/subtle"
	"errors"
	"io"
	"strings"
)

// DigestLogin is who logs in by DIGEST-MD5. All fields are needed.
type DigestLogin struct {
	User, Password string
	Service, Realm string // what both ends know without saying it
	Random         io.Reader
}

// Begin starts a dialogue.
func (l DigestLogin) Begin() *DigestDialogue { return &DigestDialogue{login: l} }

// DigestDialogue is the client's side of DIGEST-MD5: it proves that it knows the password, and has the server prove the
// same. It is for one goroutine.
type DigestDialogue struct {
	login    DigestLogin
	expected string // the server's proof; "" before the response
}

// Why a server is not believed.
var (
	errChallenge   = errors.New("challenge is none of this service")
	errServerProof = errors.New("server has not proven that it knows the password")
)

// Next returns the token that follows a challenge, nil for the first one. done says that the server has proven itself.
func (d *DigestDialogue) Next(challenge []byte) (token []byte, done bool, err error) {
	if challenge == nil {
		return []byte{}, false, nil // the server begins
	}
	if len(challenge) > digestResponseMax {
		return nil, false, errChallenge
	}
	if d.expected != "" {
		if subtle.ConstantTimeCompare(challenge, []byte("rspauth="+d.expected)) != 1 {
			return nil, false, errServerProof
		}
		return nil, true, nil
	}
	found, err := parseDirectives(challenge)
	if err != nil {
		return nil, false, err
	}
	token, err = d.respond(found)
	return token, false, err
}

// respond proves that this end knows the password.
func (d *DigestDialogue) respond(found directives) ([]byte, error) {
	nonce := string(found["nonce"])
	if string(found["realm"]) != d.login.Realm || nonce == "" || strings.ContainsAny(nonce, `"\`) {
		return nil, errChallenge
	}
	cnonce, err := drawNonce(d.login.Random)
	if err != nil {
		return nil, err
	}
	uri := d.login.Service + "/" + d.login.Realm
	said := directives{"cnonce": []byte(cnonce), "digest-uri": []byte(uri)}
	secret := digestSecret(d.login.User, d.login.Realm, d.login.Password)
	d.expected = digest(secret, nonce, said, digestServer)
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(d.login.User)
	return []byte(`charset=utf-8,username="` + quoted + `",realm="` + d.login.Realm + `",nonce="` + nonce +
		`",nc=00000001,cnonce="` + cnonce + `",digest-uri="` + uri + `",qop=auth,response=` +
		digest(secret, nonce, said, digestClient)), nil
}
