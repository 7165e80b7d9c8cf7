package gssapi

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"zkd/quorum/clock"
	"zkd/server/auth/sasl"
)

// What the tests are about.
const (
	realm   = "ZKD.TEST"
	service = "zookeeper/localhost"
	skew    = 5 * time.Minute
)

// fixed is a clock that a test sets; its timers are not used.
type fixed struct {
	clock.Clock
	now time.Time
}

// Now implements clock.Clock.
func (f *fixed) Now() time.Time { return f.now }

// world is a server, its keytab, and the means to make tickets for it.
type world struct {
	t      testing.TB
	table  *keytab.Keytab
	reads  int
	clock  *fixed
	server *Kerberos
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: &fixed{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, table: keytab.New()}
	if err := w.table.Unmarshal(firstKeys()); err != nil {
		t.Fatal(err)
	}
	var err error
	w.server, err = NewKerberos(KerberosOptions{
		Principal: service + "@" + realm, ClockSkew: skew, Clock: w.clock, Random: rand.Reader,
		Keytab: func() ([]byte, error) { w.reads++; return w.table.Marshal() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// firstKeys is the keytab that a world begins with. To make keys of passwords takes long.
var firstKeys = sync.OnceValue(func() []byte {
	table := keytab.New()
	for _, kind := range append([]int32{etypeID.RC4_HMAC}, etypes...) {
		for _, name := range []string{service, "ldap/localhost"} {
			if err := table.AddEntry(name, realm, "secret", time.Unix(1, 0), 1, kind); err != nil {
				panic(err)
			}
		}
	}
	text, err := table.Marshal()
	if err != nil {
		panic(err)
	}
	return text
})

// add gives a principal keys.
func (w *world) add(principal string, version uint8, kinds ...int32) {
	w.t.Helper()
	for _, kind := range kinds {
		if err := w.table.AddEntry(principal, realm, "secret", w.clock.now, version, kind); err != nil {
			w.t.Fatal(err)
		}
	}
}

// login is a client's first token, and what a test changes about it.
type login struct {
	client, clientRealm string
	service, realm      string
	kind                int32 // of the key of the ticket and, unless changed, the session
	version             int
	start, end          time.Duration // from now on
	skew                time.Duration // of the client's clock
	mutual              bool
	subkey              bool
	other               func(*types.Authenticator)
	cut                 func([]byte) []byte

	session types.EncryptionKey
	auth    types.Authenticator
}

// usual is a login of bob.
func usual() *login {
	return &login{client: "bob", clientRealm: realm, service: service, realm: realm, version: 1,
		kind: etypeID.AES256_CTS_HMAC_SHA1_96, start: -time.Hour, end: time.Hour}
}

// token makes the token.
func (w *world) token(l *login) []byte {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	at, name := w.clock.now, types.NewPrincipalName(1, l.client)
	ticket, session, err := messages.NewTicket(name, l.clientRealm, types.NewPrincipalName(2, l.service), l.realm,
		types.NewKrbFlags(), w.table, l.kind, l.version, at.Add(l.start), at.Add(l.start), at.Add(l.end), at.Add(l.end))
	must(err)
	made := at.Add(l.skew)
	sum := make([]byte, checksumBytesMin)
	binary.LittleEndian.PutUint32(sum, checksumBindings)
	if l.mutual {
		binary.LittleEndian.PutUint32(sum[checksumFlagsAt:], contextFlagMutual)
	}
	l.auth = types.Authenticator{
		AVNO: 5, CRealm: l.clientRealm, CName: name, CTime: made.Truncate(time.Second),
		Cusec: made.Nanosecond() / 1000, SeqNumber: 7,
		Cksum: types.Checksum{CksumType: checksumGSSAPI, Checksum: sum},
	}
	if l.subkey {
		etype, err := crypto.GetEtype(l.kind)
		must(err)
		l.auth.SubKey, err = types.GenerateEncryptionKey(etype)
		must(err)
	}
	if l.other != nil {
		l.other(&l.auth)
	}
	req, err := messages.NewAPReq(ticket, session, l.auth)
	must(err)
	b, err := req.Marshal()
	must(err)
	l.session = session
	token := framedLong(kindRequest, b)
	if l.cut != nil {
		token = l.cut(token)
	}
	return token
}

// framedLong is framed for tokens of any length.
func framedLong(kind, body []byte) []byte {
	inner := append(append(append([]byte{}, oidKerberos...), kind...), body...)
	return append([]byte{0x60, 0x82, byte(len(inner) >> 8), byte(len(inner))}, inner...)
}

// initiator is the client's end of a context.
type initiator struct {
	t        testing.TB
	key      types.EncryptionKey
	flags    byte
	sequence uint64
}

// wrap is a token of the client.
func (i *initiator) wrap(message []byte) []byte {
	header := wrapHeader(i.flags, i.sequence)
	sum, err := checksum(i.key, usageInitiatorSeal, message, header)
	if err != nil {
		i.t.Fatal(err)
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(sum)))
	return append(append(header, message...), sum...)
}

// unwrap reads a token of the server.
func (i *initiator) unwrap(token []byte) []byte {
	i.t.Helper()
	extra := int(binary.BigEndian.Uint16(token[4:]))
	message, sum := token[wrapHeaderBytes:len(token)-extra], token[len(token)-extra:]
	want, err := checksum(i.key, usageAcceptorSeal, message, wrapHeader(i.flags|flagFromAcceptor,
		binary.BigEndian.Uint64(token[8:])))
	if err != nil || !bytes.Equal(sum, want) || token[2] != i.flags|flagFromAcceptor {
		i.t.Fatalf("the server's token % x has the wrong checksum or flags: %v", token, err)
	}
	return message
}

// TestLogin goes through whole exchanges.
func TestLogin(t *testing.T) {
	for _, kind := range etypes {
		if kind == etypeID.AES256_CTS_HMAC_SHA384_192 {
			continue // gokrb5 makes session keys of a wrong length for it; a KDC does not
		}
		for _, c := range []struct{ mutual, subkey bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
			t.Run(fmt.Sprintf("%d mutual %v subkey %v", kind, c.mutual, c.subkey), func(t *testing.T) {
				w := newWorld(t)
				l := usual()
				l.kind, l.mutual, l.subkey = kind, c.mutual, c.subkey
				token := w.token(l)
				e := New(w.server).Begin()
				answer, name, err := e.Respond(token)
				if err != nil || name != "" {
					t.Fatalf("the first token: %q, %v", name, err)
				}
				i := &initiator{t: t, key: l.session, sequence: 7}
				if c.subkey {
					i.key = l.auth.SubKey
				}
				if c.mutual {
					i.mutual(l, answer)
					if answer, name, err = e.Respond(nil); err != nil || name != "" {
						t.Fatalf("the empty token: %q, %v", name, err)
					}
				} else if got := binary.BigEndian.Uint64(answer[8:]); got != 7 {
					t.Errorf("the server counts from %d, not from the client's 7", got)
				}
				if offer := i.unwrap(answer); !bytes.Equal(offer, []byte{1, 1, 0, 0}) {
					t.Errorf("the offer is % x", offer)
				}
				answer, name, err = e.Respond(i.wrap([]byte("\x01\x00\x00\x00super")))
				if err != nil || name != "bob@ZKD.TEST" || answer != nil {
					t.Errorf("the end: %q, %q, %v", answer, name, err)
				}
			})
		}
	}
}

// mutual takes the server's answer.
func (i *initiator) mutual(l *login, answer []byte) {
	i.t.Helper()
	body, err := unframe(answer, kindReply)
	if err != nil {
		i.t.Fatal(err)
	}
	var reply messages.APRep
	if err := reply.Unmarshal(body); err != nil {
		i.t.Fatal(err)
	}
	plain, err := crypto.DecryptEncPart(reply.EncPart, l.session, keyusage.AP_REP_ENCPART)
	if err != nil {
		i.t.Fatal(err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		i.t.Fatal(err)
	}
	if !part.CTime.Equal(l.auth.CTime) || part.Cusec != l.auth.Cusec || part.Subkey.KeyType != l.kind {
		i.t.Fatalf("the answer is %+v", part)
	}
	i.key, i.flags = part.Subkey, flagAcceptorSubkey
}

// TestRefused: which first tokens are refused, and why.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*login)
		want   error
	}{
		{"as it should be", func(*login) {}, nil},
		{"a name of two parts", func(l *login) { l.client = "alice/host.example" }, nil},
		{"a client of another realm", func(l *login) { l.clientRealm = "OTHER" }, nil},
		{"a clock that is a little off", func(l *login) { l.skew = skew - time.Second }, nil},
		{"another service", func(l *login) { l.service = "ldap/localhost" }, errServer},
		{"expired", func(l *login) { l.end = -skew - time.Second }, errExpired},
		{"expired, within the skew", func(l *login) { l.end = -skew + time.Second }, nil},
		{"not valid yet", func(l *login) { l.start = skew + time.Second; l.end = time.Hour }, errInvalid},
		{"a clock of the future", func(l *login) { l.skew = skew + time.Second }, errSkew},
		{"a clock of the past", func(l *login) { l.skew = -skew - time.Second }, errSkew},
		{"RC4", func(l *login) { l.kind = etypeID.RC4_HMAC }, errKeyType},
		{"no checksum", func(l *login) {
			l.other = func(a *types.Authenticator) { a.Cksum = types.Checksum{} }
		}, errChecksum},
		{"a short checksum", func(l *login) {
			l.other = func(a *types.Authenticator) { a.Cksum.Checksum = a.Cksum.Checksum[:20] }
		}, errChecksum},
		{"another client's authenticator", func(l *login) {
			l.other = func(a *types.Authenticator) { a.CName = types.NewPrincipalName(1, "super") }
		}, errClient},
		{"another realm's authenticator", func(l *login) {
			l.other = func(a *types.Authenticator) { a.CRealm = "X" }
		}, errClient},
		{"a name with an at sign", func(l *login) { l.client = "super@ZKD.TEST" }, errName},
		{"no name", func(l *login) { l.client = "" }, errName},
		{"a subkey of RC4", func(l *login) {
			l.other = func(a *types.Authenticator) {
				a.SubKey = types.EncryptionKey{KeyType: etypeID.RC4_HMAC, KeyValue: make([]byte, 16)}
			}
		}, errKeyType},
		{"cut", func(l *login) { l.cut = func(b []byte) []byte { return b[:len(b)-1] } }, errFrame},
		{"longer", func(l *login) { l.cut = func(b []byte) []byte { return append(b, 0) } }, errFrame},
		{"empty", func(l *login) { l.cut = func([]byte) []byte { return nil } }, errFrame},
		{"an answer", func(l *login) { l.cut = func(b []byte) []byte { b[15] = 2; return b } }, errFrame},
		{"SPNEGO", func(l *login) { l.cut = func(b []byte) []byte { b[7]++; return b } }, errFrame},
		{"a spoilt ticket", func(l *login) { l.cut = func(b []byte) []byte { b[len(b)/2] ^= 1; return b } }, errTicket},
		{"a spoilt authenticator", func(l *login) {
			l.cut = func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
		}, errAuth},
	} {
		w := newWorld(t)
		l := usual()
		c.change(l)
		_, _, err := w.server.Accept(w.token(l))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	token := w.token(usual())
	if _, _, err := w.server.Accept(token); err != nil {
		t.Fatal(err)
	}
	w.clock.now = w.clock.now.Add(skew)
	if _, _, err := w.server.Accept(token); !errors.Is(err, errReplayed) {
		t.Errorf("the same token again: %v", err)
	}
	w.clock.now = w.clock.now.Add(2 * skew)
	if _, _, err := w.server.Accept(token); !errors.Is(err, errSkew) {
		t.Errorf("the same token much later: %v", err)
	}
	if _, _, err := w.server.Accept(w.token(usual())); err != nil {
		t.Errorf("another token: %v", err)
	}
	if n := len(w.server.seen.seen); n != 1 {
		t.Errorf("%d authenticators are remembered, want the last", n)
	}
}

// TestReplayBounds: one principal does not fill the memory for all.
func TestReplayBounds(t *testing.T) {
	var r replays
	now := time.Unix(0, 0)
	for i := range replaysPrincipalMax {
		if err := r.add(binary.BigEndian.AppendUint32(nil, uint32(i)), "bob", now, skew); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.add([]byte("one more"), "bob", now, skew); !errors.Is(err, errTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := r.add([]byte("one more"), "alice", now, skew); err != nil {
		t.Errorf("another principal: %v", err)
	}
	err := r.add([]byte("later"), "bob", now.Add(2*skew+1), skew)
	if err != nil || len(r.seen) != 1 || len(r.perName) != 1 {
		t.Errorf("later: %v, %d and %d entries", err, len(r.seen), len(r.perName))
	}
}

// TestKeytabAgain: a new key is found without a restart, and odd tickets do not have the file read all the time.
func TestKeytabAgain(t *testing.T) {
	w := newWorld(t)
	l := usual()
	l.version = 2
	w.add(service, 2, l.kind)
	if _, _, err := w.server.Accept(w.token(l)); err != nil || w.reads != 2 {
		t.Errorf("a ticket of the new key: %v, %d reads", err, w.reads)
	}
	w.add(service, 3, l.kind)
	l.version = 3
	token := w.token(l)
	if _, _, err := w.server.Accept(token); !errors.Is(err, errNoKey) || w.reads != 2 {
		t.Errorf("at once after that: %v, %d reads", err, w.reads)
	}
	w.clock.now = w.clock.now.Add(keytabRereadAfter)
	if _, _, err := w.server.Accept(token); err != nil || w.reads != 3 {
		t.Errorf("later: %v, %d reads", err, w.reads)
	}
}

func TestNewKerberos(t *testing.T) {
	w := newWorld(t)
	good := func() ([]byte, error) { return w.table.Marshal() }
	broken := errors.New("broken")
	for _, c := range []struct {
		principal string
		keytab    func() ([]byte, error)
		want      string
	}{
		{"zookeeper@ZKD.TEST", good, "principal must be service/host@REALM"},
		{"zookeeper/localhost", good, "principal must be"},
		{"zookeeper/localhost@", good, "principal must be"},
		{"zookeeper/*@ZKD.TEST", good, "principal must be"},
		{"zookeeper/other@ZKD.TEST", good, "keytab has no key of AES for zookeeper/other@ZKD.TEST"},
		{service + "@OTHER", good, "keytab has no key"},
		{service + "@ZKD.TEST", func() ([]byte, error) { return nil, broken }, "read the keytab: broken"},
		{service + "@ZKD.TEST", func() ([]byte, error) { return []byte{5, 2, 0}, nil }, "keytab is malformed"},
		{service + "@ZKD.TEST", func() ([]byte, error) { return nil, nil }, "keytab is malformed"},
	} {
		_, err := NewKerberos(KerberosOptions{Principal: c.principal, Keytab: c.keytab})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.principal, err, c.want)
		}
	}
}

// plain is a context without any protection, for the layer above.
type plain struct{}

// Accept implements Acceptor: the client's token is the name, and a name that begins with m is answered.
func (plain) Accept(token []byte) (Context, []byte, error) {
	if len(token) == 0 {
		return nil, nil, errFrame
	}
	if token[0] == 'm' {
		return plainContext(token), []byte("mutual"), nil
	}
	return plainContext(token), nil, nil
}

// plainContext is a client's name.
type plainContext string

func (p plainContext) Peer() string { return string(p) }
func (p plainContext) Wrap(message []byte) ([]byte, error) {
	return append([]byte("w"), message...), nil
}
func (p plainContext) Unwrap(token []byte) ([]byte, error) {
	if len(token) == 0 || token[0] != 'w' {
		return nil, errWrapHeader
	}
	return token[1:], nil
}

func TestLayers(t *testing.T) {
	for _, c := range []struct {
		name    string
		tokens  []string
		answers string
		peer    string
		want    error
	}{
		{"without an answer", []string{"bob", "w\x01\x00\x00\x00"}, "w\x01\x01\x00\x00,", "bob", nil},
		{"with an answer", []string{"mary", "", "w\x01\x00\x00\x00"}, "mutual,w\x01\x01\x00\x00,", "mary", nil},
		{"with an authorization id", []string{"bob", "w\x01\x00\x00\x00super"}, "w\x01\x01\x00\x00,", "bob", nil},
		{"several layers, ours among them", []string{"bob", "w\x07\x00\x00\x00"}, "w\x01\x01\x00\x00,", "bob", nil},
		{"integrity", []string{"bob", "w\x02\x00\x10\x00"}, "w\x01\x01\x00\x00,", "", errLayer},
		{"privacy", []string{"bob", "w\x04\x00\x10\x00"}, "w\x01\x01\x00\x00,", "", errLayer},
		{"nothing", []string{"bob", "w\x00\x00\x00\x00"}, "w\x01\x01\x00\x00,", "", errLayer},
		{"a short choice", []string{"bob", "w\x01\x00\x00"}, "w\x01\x01\x00\x00,", "", sasl.ErrBroken},
		{"an unprotected choice", []string{"bob", "x\x01\x00\x00\x00"}, "w\x01\x01\x00\x00,", "", errWrapHeader},
		{"no context", []string{""}, "", "", errFrame},
		{"not empty", []string{"mary", "x"}, "mutual,", "", errEmpty},
		{"long", []string{strings.Repeat("b", tokenBytesMax+1)}, "", "", errLong},
	} {
		e := New(plain{}).Begin()
		var answers, peer string
		var err error
		for _, token := range c.tokens {
			var answer []byte
			if answer, peer, err = e.Respond([]byte(token)); err != nil {
				break
			}
			answers += string(answer) + ","
		}
		if peer != "" {
			answers = strings.TrimSuffix(answers, ",")
		}
		if !errors.Is(err, c.want) || peer != c.peer || answers != c.answers {
			t.Errorf("%s: peer %q, answers %q, %v; want %q, %q, %v",
				c.name, peer, answers, err, c.peer, c.answers, c.want)
		}
	}
}

// TestUnwrap: what is no wrap token of the client.
func TestUnwrap(t *testing.T) {
	key := types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: make([]byte, 32)}
	i := &initiator{t: t, key: key, sequence: 1 << 40}
	right := i.wrap([]byte("message"))
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(right)) }
	rotated := change(func(b []byte) []byte {
		body := b[wrapHeaderBytes:]
		b[7] = 5
		copy(body, append(bytes.Clone(body[len(body)-5:]), body[:len(body)-5]...))
		return b
	})
	for name, c := range map[string]struct {
		token []byte
		want  error
	}{
		"right":           {right, nil},
		"rotated":         {rotated, nil},
		"rotated by more": {change(func(b []byte) []byte { b[7] = byte(len(b) - wrapHeaderBytes); return b }), nil},
		"short":           {right[:15], errWrapHeader},
		"header alone":    {right[:16], errWrapHeader},
		"another kind":    {change(func(b []byte) []byte { b[0] = 4; return b }), errWrapHeader},
		"of the acceptor": {change(func(b []byte) []byte { b[2] = flagFromAcceptor; return b }), errWrapHeader},
		"sealed":          {change(func(b []byte) []byte { b[2] = flagSealed; return b }), errWrapSealed},
		"another key":     {change(func(b []byte) []byte { b[2] = flagAcceptorSubkey; return b }), errWrapHeader},
		"message":         {change(func(b []byte) []byte { b[16]++; return b }), errWrapSum},
		"number":          {change(func(b []byte) []byte { b[15]++; return b }), errWrapSum},
		"no checksum":     {change(func(b []byte) []byte { b[5] = 0; return b }), errWrapSum},
		"long checksum":   {change(func(b []byte) []byte { b[4] = 9; return b }), errWrapHeader},
	} {
		message, err := unwrap(key, 0, c.token)
		if !errors.Is(err, c.want) || err == nil && string(message) != "message" {
			t.Errorf("%s: %q, %v, want %v", name, message, err, c.want)
		}
	}
}

// FuzzAccept: no first token is taken but the right one, and none makes the server panic.
func FuzzAccept(f *testing.F) {
	w := newWorld(f)
	g := Guard(w.server, GuardOptions{Clock: clock.Real(), AtOnce: 1})
	right := w.token(usual())
	f.Add(right[:len(right)-1])
	f.Add(framedLong(kindRequest, []byte{0x6e, 0x03, 0x30, 0x01, 0x00}))
	f.Add(append([]byte{0x60, 0x84, 0xff, 0xff, 0xff, 0xff}, right[4:]...))
	f.Fuzz(func(t *testing.T, token []byte) {
		c, answer, err := g.Accept(token)
		if errors.Is(err, errSlow) {
			t.Fatalf("%x takes too long", token)
		}
		if err == nil && !bytes.Equal(token, right) || err != nil && (c != nil || answer != nil) {
			t.Fatalf("%v, %x, %v", c, answer, err)
		}
	})
}

// FuzzUnwrap: no bytes are a message without the key.
func FuzzUnwrap(f *testing.F) {
	key := types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: make([]byte, 16)}
	other := types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: bytes.Repeat([]byte{1}, 16)}
	f.Add((&initiator{t: f, key: other}).wrap([]byte{1, 0, 0, 0}))
	f.Add([]byte("\x05\x04\x00\xff\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, token []byte) {
		if message, err := unwrap(key, 0, token); err == nil {
			t.Fatalf("%x is a message: %x", token, message)
		}
	})
}

// FuzzKeytab: any file is a keytab or an error.
func FuzzKeytab(f *testing.F) {
	w := newWorld(f)
	text, err := w.table.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = parseKeytab(text) // either will do
	})
}
