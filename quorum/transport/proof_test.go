package transport

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"io"
	"net"
	"strings"
	"testing"

	"zkd/quorum/proof"
)

// withSecret has a member prove secrets, and demand one.
func withSecret(t *testing.T, demand bool, lines ...string) func(*Options) {
	t.Helper()
	secrets, err := proof.ParseSecrets([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := proof.NewSecret(proof.SecretOptions{Lines: secrets, Demand: demand, Random: cryptorand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Gate = &proof.Gate{Secret: secret} }
}

const (
	oldSecret = "the secret of yesterday"
	newSecret = "the secret of tomorrow"
)

// TestSecretIsProvenEverywhere: messages, snapshots, and questions pass with the secret, in plain text and within TLS.
func TestSecretIsProvenEverywhere(t *testing.T) {
	ca := newAuthority(t)
	none := func(*Options) {}
	for name, secure := range map[string]func(*Options){"plain": none, "TLS": ca.secured(t)} { // order: alike
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, func(o *Options) {
				withSecret(t, true, newSecret)(o)
				secure(o)
				o.Streams = func(_ uint64, conn net.Conn) { _, _ = io.Copy(conn, conn) }
			})
			swap(t, a, b)
			conn, err := a.OpenStream(context.Background(), 2)
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.Repeat([]byte("a state"), 100_000)
			go func() { _, _ = conn.Write(want) }()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v", err)
			}
			_ = conn.Close()
			if _, err := a.ProbeCluster(context.Background(), 2); err != nil {
				t.Error(err)
			}
			if err := a.Reach(context.Background(), 2, []string{b.address}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWithoutTheSecret: who has none, or another one, is told that a proof is wanted, or nothing, whatever it asks for;
// on a port for both kinds of connections, too.
func TestWithoutTheSecret(t *testing.T) {
	t.Parallel() // it waits for most of its time
	ca := newAuthority(t)
	unified := func(o *Options) {
		ca.secured(t)(o)
		o.PortUnification = true
	}
	for name, port := range map[string]func(*Options){"plain": func(*Options) {}, "unified": unified} { // order: alike
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMember(t, 1, func(o *Options) {
				withSecret(t, true, newSecret)(o)
				port(o)
				o.Founders = func() string { return "secret.example" }
				o.Streams = func(_ uint64, conn net.Conn) { t.Error("a snapshot stream is opened") }
			})
			m.SetPeers(map[uint64]Peer{2: {}}) // that is not there
			m.Start(m.heard)
			for _, from := range []uint64{2, 9} {
				for _, what := range []purpose{forMessages, forSnapshot, forCluster} {
					h := good()
					h.from, h.purpose = from, what
					got, _ := call(t, m, h)
					if got.code != Unproven || got.cluster != [16]byte{} || got.processID != 0 || got.founders != "" ||
						got.id != 0 || got.name != "" {
						t.Errorf("server %d, purpose %d: answered %+v", from, what, got)
					}
				}
			}
			for _, other := range []struct {
				set  func(*Options)
				says string
			}{
				{nil, "the peer refused"},
				{withSecret(t, true, oldSecret), "another secret"},
				{withSecret(t, false, oldSecret, newSecret), "another secret"}, // which proves the first alone
			} {
				stranger := newMember(t, 2, other.set)
				stranger.know(m)
				stranger.Start(stranger.heard)
				stranger.logs("peer unreachable", other.says)
				stranger.Close()
			}
			m.logs("peer connection rejected", "no proof")
			m.logs("peer connection rejected", "another secret")
			if m.heard.losses(2) != 0 || m.heard.count() != 0 {
				t.Error("a stranger was let in")
			}
		})
	}
}

// TestASecretIsRolledOut goes through the steps in which an ensemble is given a secret, and another one later: at each
// two servers that are one step apart are connected.
func TestASecretIsRolledOut(t *testing.T) {
	steps := []func(*Options){
		nil,
		withSecret(t, false, oldSecret),
		withSecret(t, true, oldSecret),
		withSecret(t, true, oldSecret, newSecret),
		withSecret(t, true, newSecret, oldSecret),
		withSecret(t, true, newSecret),
	}
	for i := range len(steps) - 1 {
		a, b := newMember(t, 1, steps[i]), newMember(t, 2, steps[i+1])
		a.know(b)
		b.know(a)
		a.Start(a.heard)
		b.Start(b.heard)
		swap(t, a, b)
		a.Close()
		b.Close()
	}
}

// older is the port of a server of a version that knows of no proofs: it hangs up on what it does not know.
type older struct{ net.Listener }

// Accept implements net.Listener.
func (l older) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(conn, head); err == nil && !bytes.Equal(head, magic[:]) {
		_ = conn.Close() // as it does
	}
	return proof.Unread(conn, head), nil
}

func TestAnOlderServerIsCalledWithoutProof(t *testing.T) {
	t.Parallel() // it waits for most of its time
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old, next := newMemberAt(t, 1, older{l}, nil), newMember(t, 2, withSecret(t, false, newSecret))
	old.know(next)
	next.know(old)
	old.Start(old.heard)
	next.Start(next.heard)
	swap(t, old, next)
	strict := newMember(t, 3, withSecret(t, true, newSecret))
	strict.know(old)
	strict.Start(strict.heard)
	strict.logs("peer unreachable", "older one")
}

// TestTheHandshakeIsWhatWasProven: a proof for one purpose is none for another.
func TestTheHandshakeIsWhatWasProven(t *testing.T) {
	m := newMember(t, 1, withSecret(t, true, newSecret))
	m.SetPeers(map[uint64]Peer{2: {}})
	m.Start(m.heard)
	conn, err := net.Dial("tcp", m.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var o Options
	withSecret(t, true, newSecret)(&o)
	sealed, err := o.Gate.Dial(context.Background(), conn,
		proof.Call{From: 2, To: 1, Purpose: uint8(forCluster)}, "")
	if err != nil {
		t.Fatal(err)
	}
	h := good()
	if _, err := sealed.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	m.logs("peer connection rejected", "the proof from 2 to 1 for 3")
}
