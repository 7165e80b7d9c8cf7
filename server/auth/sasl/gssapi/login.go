package gssapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"zkd/quorum/clock"
)

// LoginOptions says who logs in. All fields are needed.
type LoginOptions struct {
	Principal string                 // name[/host]@REALM
	Keytab    func() ([]byte, error) // reads its keytab, for each ticket
	Config    string                 // krb5.conf: where the KDC is
	Clock     clock.Clock
}

// Login logs in at servers with the tickets of a KDC, which it keeps as long as they hold and servers take them. Its
// methods may be called by any goroutine.
type Login struct {
	options     LoginOptions
	name, realm string
	config      *config.Config

	mu      sync.Mutex
	tickets map[string]ticket // guarded by mu; by the principal of the server
}

// ticket is one for a server.
type ticket struct {
	messages.Ticket
	key types.EncryptionKey
	end time.Time
}

// ticketLeft is how long a kept ticket must hold at least. A guess: longer than a login takes.
const ticketLeft = time.Minute

// errLoginPrincipal means a principal that nobody can log in as.
var errLoginPrincipal = errors.New("principal must be name@REALM or name/host@REALM")

// NewLogin returns a login. It asks no KDC yet.
func NewLogin(o LoginOptions) (*Login, error) {
	name, realm, found := strings.Cut(o.Principal, "@")
	if !found || name == "" || realm == "" {
		return nil, fmt.Errorf("%q: %w", o.Principal, errLoginPrincipal)
	}
	read, err := config.NewFromString(o.Config)
	if unsupported := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("krb5.conf: %w", err)
	}
	text, err := o.Keytab()
	if err != nil {
		return nil, fmt.Errorf("read the keytab: %w", err)
	}
	if _, err := parseKeytab(text); err != nil {
		return nil, err
	}
	return &Login{options: o, name: name, realm: realm, config: read, tickets: map[string]ticket{}}, nil
}

// Begin starts a dialogue with a server, service/host or service/host@REALM.
func (l *Login) Begin(server string) (*LoginDialogue, error) {
	name, _, _ := strings.Cut(server, "@")
	held, err := l.take(name)
	if err != nil {
		return nil, fmt.Errorf("ticket for %s: %w", server, err)
	}
	return &LoginDialogue{login: l, server: name, ticket: held}, nil
}

// take returns a ticket, which is not kept any more until a server has taken it.
func (l *Login) take(server string) (ticket, error) {
	l.mu.Lock()
	held, ok := l.tickets[server]
	delete(l.tickets, server)
	l.mu.Unlock()
	if ok && held.end.Sub(l.options.Clock.Now()) > ticketLeft {
		return held, nil
	}
	return l.ask(server)
}

// keep keeps a ticket for the next login.
func (l *Login) keep(server string, t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickets[server] = t
}

// ask asks the KDC for a ticket, with the key of the keytab.
func (l *Login) ask(server string) (_ ticket, err error) {
	defer func() {
		if recover() != nil { // what was found may hold parts of the answer
			err = errPanic
		}
	}()
	text, err := l.options.Keytab()
	if err != nil {
		return ticket{}, fmt.Errorf("read the keytab: %w", err)
	}
	table, err := parseKeytab(text)
	if err != nil {
		return ticket{}, err
	}
	who := client.NewWithKeytab(l.name, l.realm, table, l.config, client.DisablePAFXFAST(true))
	service := types.NewPrincipalName(nametype.KRB_NT_SRV_HST, server)
	request, err := messages.NewASReq(l.realm, l.config, who.Credentials.CName(), service)
	if err != nil {
		return ticket{}, err
	}
	reply, err := who.ASExchange(l.realm, request, 0)
	if err != nil {
		return ticket{}, fmt.Errorf("the KDC of %s: %w", l.realm, err)
	}
	part := &reply.DecryptedEncPart
	if !slices.Contains(etypes, part.Key.KeyType) {
		return ticket{}, errKeyType
	}
	return ticket{Ticket: reply.Ticket, key: part.Key, end: part.EndTime}, nil
}

// LoginDialogue is the initiator's side of GSSAPI. It is for one goroutine.
type LoginDialogue struct {
	login  *Login
	server string
	ticket ticket
	auth   types.Authenticator
	key    types.EncryptionKey
	flags  byte // of the acceptor's tokens and ours: flagAcceptorSubkey or none
	step   int
}

// Why a server is not believed.
var (
	errReply = errors.New("server has not proven that it has the key of the ticket")
	errOffer = errors.New("server offers no login without a security layer")
	errSteps = errors.New("server goes on after the end of the login")
)

// Next returns the token that follows a challenge, nil for the first one. done says that the server has proven itself,
// and has nothing more to say.
func (d *LoginDialogue) Next(challenge []byte) (token []byte, done bool, err error) {
	defer func() {
		if recover() != nil {
			token, done, err = nil, false, errPanic
		}
	}()
	if len(challenge) > tokenBytesMax {
		return nil, false, errLong
	}
	d.step++
	switch d.step {
	case 1:
		token, err = d.request()
		return token, false, err
	case 2:
		return []byte{}, false, d.believe(challenge)
	case 3:
		token, err = d.choose(challenge)
		if err == nil {
			d.login.keep(d.server, d.ticket)
		}
		return token, err == nil, err
	default:
		return nil, false, errSteps
	}
}

// request makes the first token: an AP-REQ that wants an answer.
func (d *LoginDialogue) request() ([]byte, error) {
	auth, err := types.NewAuthenticator(d.login.realm, types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, d.login.name))
	if err != nil {
		return nil, err
	}
	now := d.login.options.Clock.Now().UTC()
	auth.CTime, auth.Cusec = now.Truncate(time.Second), now.Nanosecond()/int(time.Microsecond)
	if err := auth.GenerateSeqNumberAndSubKey(d.ticket.key.KeyType, len(d.ticket.key.KeyValue)); err != nil {
		return nil, err
	}
	sum := make([]byte, checksumBytesMin)
	binary.LittleEndian.PutUint32(sum, checksumBindings)
	binary.LittleEndian.PutUint32(sum[checksumFlagsAt:], contextFlagMutual)
	auth.Cksum = types.Checksum{CksumType: checksumGSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(d.ticket.Ticket, d.ticket.key, auth)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	body, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	d.auth, d.key = auth, auth.SubKey
	return framed(kindRequest, body), nil
}

// believe takes the AP-REP: it has the time of the request, and is encrypted with the key that only who could open the
// ticket has.
func (d *LoginDialogue) believe(challenge []byte) error {
	body, err := unframe(challenge, kindReply)
	if err != nil {
		return err
	}
	var reply messages.APRep
	if reply.Unmarshal(body) != nil || reply.EncPart.EType != d.ticket.key.KeyType {
		return errReply
	}
	plain, err := crypto.DecryptEncPart(reply.EncPart, d.ticket.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return errReply
	}
	var part messages.EncAPRepPart
	if part.Unmarshal(plain) != nil || !part.CTime.Equal(d.auth.CTime) || part.Cusec != d.auth.Cusec {
		return errReply
	}
	if len(part.Subkey.KeyValue) > 0 {
		if !slices.Contains(etypes, part.Subkey.KeyType) {
			return errKeyType
		}
		d.key, d.flags = part.Subkey, flagAcceptorSubkey
	}
	return nil
}

// choose takes the offer of layers, and chooses none.
func (d *LoginDialogue) choose(challenge []byte) ([]byte, error) {
	offer, err := unwrapFor(d.key, usageAcceptorSeal, d.flags|flagFromAcceptor, challenge)
	if err != nil {
		return nil, err
	}
	if len(offer) < 4 || offer[0]&layerNone == 0 {
		return nil, errOffer
	}
	sequence := uint64(uint32(d.auth.SeqNumber)) //nolint:gosec // it has 32 bits
	return wrapFor(d.key, usageInitiatorSeal, d.flags, sequence, []byte{layerNone, 0, 0, 0})
}
