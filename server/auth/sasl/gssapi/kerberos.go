package gssapi

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"zkd/quorum/clock"
)

// KerberosOptions sets up a Kerberos. All fields are needed.
type KerberosOptions struct {
	Principal string                 // of this server: service/host@REALM
	Keytab    func() ([]byte, error) // reads the keytab; called again when it lacks the key of a ticket
	ClockSkew time.Duration          // by which the clocks of clients may differ
	Clock     clock.Clock
	Random    io.Reader // of keys: crypto/rand.Reader
}

// Kerberos accepts contexts by the tickets of Kerberos V5. It asks no KDC.
type Kerberos struct {
	options KerberosOptions
	name    types.PrincipalName
	realm   string
	keys    keys
	seen    replays
}

// errPrincipal means a principal that cannot be a server's.
var errPrincipal = errors.New("principal must be service/host@REALM")

// NewKerberos reads the keytab. It fails if that has no key of AES for the principal.
func NewKerberos(o KerberosOptions) (*Kerberos, error) {
	name, realm, found := strings.Cut(o.Principal, "@")
	service, host, slash := strings.Cut(name, "/")
	if !found || !slash || service == "" || host == "" || realm == "" || strings.ContainsAny(host+realm, "/@*") {
		return nil, fmt.Errorf("%q: %w", o.Principal, errPrincipal)
	}
	k := &Kerberos{options: o, realm: realm, name: types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name)}
	if err := k.keys.read(o.Keytab); err != nil {
		return nil, err
	}
	for _, etype := range etypes {
		if _, err := k.keys.find(k.name, k.realm, anyVersion, etype); err == nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("keytab has no key of AES for %s: add one with ktadd of kadmin", o.Principal)
}

// etypes are the kinds of keys that are taken.
var etypes = []int32{
	etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
	etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128,
}

// errMalformed means a token that is no AP-REQ.
var errMalformed = errors.New("token is malformed")

// Accept takes an AP-REQ, and answers it with an AP-REP if the client asks for mutual authentication. There are tokens
// at which gokrb5 panics: see Guard.
func (k *Kerberos) Accept(token []byte) (c Context, answer []byte, err error) {
	body, err := unframe(token, kindRequest)
	if err != nil {
		return nil, nil, err
	}
	var req messages.APReq
	if req.Unmarshal(body) != nil {
		return nil, nil, errMalformed
	}
	if err := k.openTicket(&req.Ticket); err != nil {
		return nil, nil, err
	}
	if err := k.openAuthenticator(&req); err != nil {
		return nil, nil, err
	}
	peer, err := peerName(&req.Authenticator)
	if err != nil {
		return nil, nil, err
	}
	mutual, err := wantsMutual(&req.Authenticator)
	if err != nil {
		return nil, nil, err
	}
	err = k.seen.add(req.EncryptedAuthenticator.Cipher, peer, k.options.Clock.Now(), k.options.ClockSkew)
	if err != nil {
		return nil, nil, fmt.Errorf("client %s: %w", peer, err)
	}
	s := &secured{peer: peer, key: req.Ticket.DecryptedEncPart.Key}
	if key := req.Authenticator.SubKey; len(key.KeyValue) > 0 {
		s.key = key
	}
	if !slices.Contains(etypes, s.key.KeyType) {
		return nil, nil, errKeyType
	}
	if !mutual {
		// Without an answer that says otherwise, both ends count from the initiator's number (RFC 4121, section 4.1.2).
		s.sequence = uint64(uint32(req.Authenticator.SeqNumber)) //nolint:gosec // it has 32 bits
		return s, nil, nil
	}
	answer, err = k.reply(s, &req)
	return s, answer, err
}

// Why a ticket or an authenticator is refused.
var (
	errKeyType  = errors.New("key is not of AES")
	errServer   = errors.New("ticket is for another server than the principal of this one")
	errTicket   = errors.New("ticket cannot be decrypted with the keytab")
	errInvalid  = errors.New("ticket is not valid yet")
	errExpired  = errors.New("ticket has expired")
	errAuth     = errors.New("authenticator cannot be decrypted")
	errClient   = errors.New("authenticator is of another client than the ticket")
	errSkew     = errors.New("clock of the client differs too much from the one here")
	errChecksum = errors.New("authenticator has no checksum of GSS-API")
	errName     = errors.New("name of the client has characters that would make it look like another")
)

// openTicket decrypts a ticket and checks for whom and when it is.
func (k *Kerberos) openTicket(t *messages.Ticket) error {
	if t.Realm != k.realm || !t.SName.Equal(k.name) {
		return errServer
	}
	if !slices.Contains(etypes, t.EncPart.EType) {
		return errKeyType
	}
	key, err := k.key(t.EncPart.KVNO, t.EncPart.EType)
	if err != nil {
		return err
	}
	if t.Decrypt(key) != nil {
		return errTicket
	}
	part, now, skew := &t.DecryptedEncPart, k.options.Clock.Now(), k.options.ClockSkew
	start := part.StartTime
	if start.IsZero() {
		start = part.AuthTime
	}
	switch {
	case start.Sub(now) > skew, types.IsFlagSet(&part.Flags, flags.Invalid):
		return errInvalid
	case now.Sub(part.EndTime) > skew:
		return errExpired
	case !slices.Contains(etypes, part.Key.KeyType):
		return errKeyType
	}
	return nil
}

// key finds the key of a ticket, in the keytab as it is now if it was not there before.
func (k *Kerberos) key(version int, etype int32) (types.EncryptionKey, error) {
	key, err := k.keys.find(k.name, k.realm, version, etype)
	if err == nil || !k.keys.stale(k.options.Clock.Now()) {
		return key, err
	}
	if err := k.keys.read(k.options.Keytab); err != nil {
		return key, err
	}
	return k.keys.find(k.name, k.realm, version, etype)
}

// openAuthenticator decrypts an authenticator and checks of whom and when it is.
func (k *Kerberos) openAuthenticator(req *messages.APReq) error {
	ticket := &req.Ticket.DecryptedEncPart
	if req.DecryptAuthenticator(ticket.Key) != nil {
		return errAuth
	}
	a := &req.Authenticator
	if !a.CName.Equal(ticket.CName) || a.CRealm != ticket.CRealm {
		return errClient
	}
	made := a.CTime.Add(time.Duration(a.Cusec) * time.Microsecond)
	if k.options.Clock.Now().Sub(made).Abs() > k.options.ClockSkew {
		return errSkew
	}
	return nil
}

// peerName writes the name of a client.
func peerName(a *types.Authenticator) (string, error) {
	odd := func(c rune) bool { return c <= ' ' || c == '/' || c == '@' || c == '\\' || c == 0x7f || c == '\uFFFD' }
	for _, part := range append([]string{a.CRealm}, a.CName.NameString...) {
		if part == "" || strings.ContainsFunc(part, odd) {
			return "", errName
		}
	}
	if len(a.CName.NameString) == 0 {
		return "", errName
	}
	return strings.Join(a.CName.NameString, "/") + "@" + a.CRealm, nil
}

// Checksum of an authenticator (RFC 4121, section 4.1.1).
const (
	checksumGSSAPI    = 0x8003
	checksumBytesMin  = 24
	checksumBindings  = 16 // bytes of the hash of channel bindings, which nobody has here
	checksumFlagsAt   = 20
	contextFlagMutual = 2
)

// wantsMutual reads the flags of the context.
func wantsMutual(a *types.Authenticator) (bool, error) {
	sum := a.Cksum.Checksum
	if a.Cksum.CksumType != checksumGSSAPI || len(sum) < checksumBytesMin ||
		binary.LittleEndian.Uint32(sum) != checksumBindings {
		return false, errChecksum
	}
	return binary.LittleEndian.Uint32(sum[checksumFlagsAt:])&contextFlagMutual != 0, nil
}

// replyPart is EncAPRepPart of RFC 4120, section 5.5.2.
type replyPart struct {
	CTime    time.Time `asn1:"generalized,explicit,tag:0"`
	Cusec    int       `asn1:"explicit,tag:1"`
	Subkey   replyKey  `asn1:"explicit,tag:2"`
	Sequence int64     `asn1:"explicit,tag:3"`
}

// replyKey is EncryptionKey.
type replyKey struct {
	Type  int32  `asn1:"explicit,tag:0"`
	Value []byte `asn1:"explicit,tag:1"`
}

// replyMessage is AP-REP.
type replyMessage struct {
	Version int            `asn1:"explicit,tag:0"`
	Kind    int            `asn1:"explicit,tag:1"`
	Part    replyEncrypted `asn1:"explicit,tag:2"`
}

// replyEncrypted is EncryptedData without the version of its key.
type replyEncrypted struct {
	Type   int32  `asn1:"explicit,tag:0"`
	Cipher []byte `asn1:"explicit,tag:2"`
}

// Numbers of RFC 4120.
const (
	kerberosVersion  = 5
	kindAPReply      = 15
	applicationReply = "application,explicit,tag:15"
	applicationPart  = "application,explicit,tag:27"
)

// reply makes the AP-REP, and a key of its own for what follows: nobody who has listened to another login knows it.
func (k *Kerberos) reply(s *secured, req *messages.APReq) ([]byte, error) {
	value := make([]byte, len(s.key.KeyValue))
	if _, err := io.ReadFull(k.options.Random, value); err != nil {
		return nil, fmt.Errorf("draw a key: %w", err)
	}
	a := &req.Authenticator
	plain, err := asn1.MarshalWithParams(replyPart{
		CTime: a.CTime.UTC(), Cusec: a.Cusec, Subkey: replyKey{Type: s.key.KeyType, Value: value},
	}, applicationPart)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	sealed, err := crypto.GetEncryptedData(plain, req.Ticket.DecryptedEncPart.Key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, errKeyType
	}
	body, err := asn1.MarshalWithParams(replyMessage{
		Version: kerberosVersion, Kind: kindAPReply, Part: replyEncrypted{Type: sealed.EType, Cipher: sealed.Cipher},
	}, applicationReply)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	s.key, s.flags = types.EncryptionKey{KeyType: s.key.KeyType, KeyValue: value}, flagAcceptorSubkey
	return framed(kindReply, body), nil
}

// secured is an established context.
type secured struct {
	peer     string
	key      types.EncryptionKey
	flags    byte   // flagAcceptorSubkey if the key is the acceptor's
	sequence uint64 // of the next token from here
}

// Peer returns the client's name.
func (s *secured) Peer() string { return s.peer }

// Wrap protects a message.
func (s *secured) Wrap(message []byte) ([]byte, error) {
	token, err := wrap(s.key, s.flags, s.sequence, message)
	s.sequence++
	return token, err
}

// Unwrap checks a token.
func (s *secured) Unwrap(token []byte) ([]byte, error) { return unwrap(s.key, s.flags, token) }
