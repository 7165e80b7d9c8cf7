package gssapi

import (
	"errors"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// loginOf returns a login of bob that holds a ticket for the world's server, and asks no KDC.
func (w *world) loginOf(t *testing.T, holds time.Duration) *Login {
	t.Helper()
	l, err := NewLogin(LoginOptions{Principal: "bob@" + realm, Clock: w.clock,
		Keytab: func() ([]byte, error) { return firstKeys(), nil }, Config: "[libdefaults]\n default_realm = " + realm})
	if err != nil {
		t.Fatal(err)
	}
	now := w.clock.now
	made, key, err := messages.NewTicket(types.NewPrincipalName(1, "bob"), realm, types.NewPrincipalName(2, service),
		realm, types.NewKrbFlags(), w.table, etypeID.AES256_CTS_HMAC_SHA1_96, 1, now, now, now.Add(holds), now)
	if err != nil {
		t.Fatal(err)
	}
	l.keep(service, ticket{Ticket: made, key: key, end: now.Add(holds)})
	return l
}

// TestLoginAndAcceptor has each end of GSSAPI meet the other one, and changes what the server says.
func TestLoginAndAcceptor(t *testing.T) {
	change := func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1) }
	for name, c := range map[string]struct { // order: each for itself
		answer int // which of the server's is changed; 0: none
		want   error
	}{
		"right":                     {},
		"a reply of somebody else":  {answer: 1, want: errReply},
		"an offer of somebody else": {answer: 2, want: errWrapSum},
		"more after the end":        {answer: 3, want: errSteps},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := w.loginOf(t, time.Hour)
			d, err := l.Begin(service + "@" + realm)
			if err != nil {
				t.Fatal(err)
			}
			if len(l.tickets) != 0 {
				t.Error("a ticket is kept that no server has taken yet")
			}
			e := New(w.server).Begin()
			challenge, who := []byte(nil), ""
			for n := 1; who == "" && err == nil; n++ {
				var token []byte
				if token, _, err = d.Next(challenge); err != nil {
					break
				}
				if challenge, who, err = e.Respond(token); err != nil {
					t.Fatal(err)
				}
				if n == c.answer && len(challenge) > 0 {
					challenge = change(challenge)
				}
			}
			if c.answer == 3 {
				_, _, err = d.Next(challenge)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want == nil && who != "bob@"+realm {
				t.Errorf("%q has logged in", who)
			}
			if kept := len(l.tickets) == 1; kept != (c.answer == 0 || c.answer == 3) {
				t.Errorf("the ticket is kept: %v", kept)
			}
		})
	}
}

// TestAnOldTicketIsNotUsed: the KDC is asked for another one, and there is none here.
func TestAnOldTicketIsNotUsed(t *testing.T) {
	w := newWorld(t)
	if _, err := w.loginOf(t, ticketLeft/2).Begin(service); err == nil {
		t.Error("a ticket that ends at once is used")
	}
}

// TestWrongLogins are refused when they are made.
func TestWrongLogins(t *testing.T) {
	keytab := func() ([]byte, error) { return firstKeys(), nil }
	missing := errors.New("no such file")
	for name, o := range map[string]LoginOptions{ // order: each for itself
		"no realm":      {Principal: "bob", Keytab: keytab},
		"no keytab":     {Principal: "bob@" + realm, Keytab: func() ([]byte, error) { return nil, missing }},
		"broken keytab": {Principal: "bob@" + realm, Keytab: func() ([]byte, error) { return []byte("x"), nil }},
		"broken config": {Principal: "bob@" + realm, Keytab: keytab, Config: "[libdefaults]\n clockskew = soon"},
	} {
		if _, err := NewLogin(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
