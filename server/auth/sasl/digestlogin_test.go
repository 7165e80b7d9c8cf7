package sasl

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

// TestDigestLogin has each end of DIGEST-MD5 meet the other one.
func TestDigestLogin(t *testing.T) {
	const user, password = `with "quotes" and \ and ü`, "päss"
	server := NewDigestMD5(DigestOptions{Users: map[string]string{user: password}, Service: QuorumService,
		Realm: QuorumRealm, Random: rand.Reader})
	right := DigestLogin{User: user, Password: password, Service: QuorumService, Realm: QuorumRealm,
		Random: rand.Reader}
	for name, c := range map[string]struct { // order: each for itself
		change func(*DigestLogin)
		proof  func([]byte) []byte // what becomes of the server's
		client error
		server error
	}{
		"right":          {},
		"wrong password": {change: func(l *DigestLogin) { l.Password = "pass" }, server: errPassword},
		"unknown user":   {change: func(l *DigestLogin) { l.User = "bob" }, server: errUnknownUser},
		"of clients":     {change: func(l *DigestLogin) { l.Realm = digestRealm }, client: errChallenge},
		"for clients":    {change: func(l *DigestLogin) { l.Service = digestService }, server: errURI},
		"a server without the password": {client: errServerProof,
			proof: func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1) }},
		"a server that says nothing": {proof: func([]byte) []byte { return []byte{} }, client: errServerProof},
	} {
		t.Run(name, func(t *testing.T) {
			login := right
			if c.change != nil {
				c.change(&login)
			}
			e, d := server.Begin(), login.Begin()
			who, clientErr, serverErr := meet(e, d, c.proof)
			if !errors.Is(clientErr, c.client) || !errors.Is(serverErr, c.server) {
				t.Errorf("got %v and %v, want %v and %v", clientErr, serverErr, c.client, c.server)
			}
			if c.client == nil && c.server == nil && who != user {
				t.Errorf("%q has logged in", who)
			}
		})
	}
}

// meet has a client log in, and returns as whom.
func meet(e Exchange, d *DigestDialogue, proof func([]byte) []byte) (who string, client, server error) {
	challenge := []byte(nil)
	for {
		token, done, err := d.Next(challenge)
		if done || err != nil {
			return who, err, nil
		}
		if challenge, who, err = e.Respond(token); err != nil {
			return "", nil, err
		}
		if who != "" && proof != nil {
			challenge = proof(challenge)
		}
	}
}

// FuzzDigestLogin has a client take what somebody says who is no server.
func FuzzDigestLogin(f *testing.F) {
	f.Add([]byte(`realm="zk-quorum-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`), []byte("rspauth=1"))
	f.Fuzz(func(t *testing.T, challenge, proof []byte) {
		d := DigestLogin{User: "bob", Password: "secret", Service: QuorumService, Realm: QuorumRealm,
			Random: strings.NewReader(strings.Repeat("x", digestNonceBytes))}.Begin()
		if challenge == nil || proof == nil {
			return
		}
		token, done, err := d.Next(challenge)
		if done || err == nil && len(token) == 0 {
			t.Fatalf("%q, %v: believed at once", token, done)
		}
		if err != nil {
			return
		}
		if _, done, err := d.Next(proof); done || err == nil {
			t.Fatal("believed without the password")
		}
	})
}
