package proof

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// secret returns a gate with secrets.
func secret(t testing.TB, demand bool, lines ...string) *Gate {
	t.Helper()
	s, err := ParseSecrets([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	made, err := NewSecret(SecretOptions{Lines: s, Demand: demand, Random: cryptorand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return &Gate{Secret: made}
}

const (
	oldSecret = "the secret of yesterday"
	newSecret = "the secret of tomorrow"
)

// met is what came of two gates that met.
type met struct {
	dialed      net.Conn
	dialErr     error
	accepted    *Accepted
	acceptedErr error
}

// meet has one gate dial the other one over a pipe, and the dialing side say what it says then.
func meet(t testing.TB, from, to *Gate, c Call, between func(net.Conn) net.Conn) met {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	var m met
	dialed := make(chan struct{})
	go func() {
		defer close(dialed)
		if m.dialed, m.dialErr = from.Dial(context.Background(), between(here), c, "peer"); m.dialErr != nil {
			_ = here.Close()
			return
		}
		if _, m.dialErr = m.dialed.Write([]byte(said)); m.dialErr != nil {
			_ = here.Close()
		}
	}()
	m.accepted, m.acceptedErr = to.Accept(there)
	if m.acceptedErr == nil {
		b := make([]byte, len(said))
		if _, err := io.ReadFull(m.accepted.Conn, b); err != nil || string(b) != said {
			m.acceptedErr = fmt.Errorf("read %q: %w", b, err)
		}
	}
	if m.acceptedErr != nil {
		_ = there.Close()
	}
	<-dialed
	return m
}

// said is what follows the proof.
const said = "\xF5zkdpeer and what is not for everybody"

// straight is a connection that nobody is in between of.
func straight(c net.Conn) net.Conn { return c }

func TestSecrets(t *testing.T) {
	none := &Gate{}
	call := Call{From: 1, To: 2, Purpose: 3}
	for _, c := range []struct {
		name           string
		from, to       *Gate
		dials, accepts error // nil: it passes
		proven         bool
	}{
		{name: "none", from: none, to: none},
		{name: "the same", from: secret(t, true, newSecret), to: secret(t, true, newSecret), proven: true},
		{name: "another", from: secret(t, true, oldSecret), to: secret(t, true, newSecret), dials: errOtherSecret,
			accepts: errOtherSecret},
		{name: "another, not demanded", from: secret(t, false, oldSecret), to: secret(t, false, newSecret),
			dials: errOtherSecret, accepts: errOtherSecret},
		{name: "the second of the accepting side", from: secret(t, true, oldSecret),
			to: secret(t, true, newSecret, oldSecret), proven: true},
		{name: "the second of the dialing side", from: secret(t, true, newSecret, oldSecret),
			to: secret(t, true, oldSecret), dials: errOtherSecret, accepts: errOtherSecret},
		{name: "demanded of one without", from: none, to: secret(t, true, newSecret), dials: io.ErrClosedPipe,
			accepts: ErrUnproven},
		{name: "not demanded of one without", from: none, to: secret(t, false, newSecret)},
		{name: "demanded by the dialing side", from: secret(t, true, newSecret), to: none, dials: errNoSecret,
			accepts: io.EOF},
		{name: "not demanded by the dialing side", from: secret(t, false, newSecret), to: none},
		{name: "offered to one that demands", from: secret(t, false, newSecret), to: secret(t, true, newSecret),
			proven: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := meet(t, c.from, c.to, call, straight)
			if !errors.Is(m.dialErr, c.dials) || !errors.Is(m.acceptedErr, c.accepts) {
				t.Fatalf("got %v and %v, want %v and %v", m.dialErr, m.acceptedErr, c.dials, c.accepts)
			}
			if c.accepts == nil && (m.accepted.Call != nil) != c.proven {
				t.Fatalf("proven: %v", m.accepted.Call)
			}
			if c.proven && *m.accepted.Call != call {
				t.Errorf("proven: %v", *m.accepted.Call)
			}
		})
	}
}

// tapped is a connection that somebody listens to, and changes what is on it.
type tapped struct {
	net.Conn
	heard  bytes.Buffer
	change func(n int, b []byte) [][]byte // of the write with that number
	writes int
}

func (c *tapped) Write(b []byte) (int, error) {
	c.heard.Write(b)
	parts := [][]byte{b}
	if c.change != nil {
		parts = c.change(c.writes, bytes.Clone(b))
	}
	c.writes++
	for _, part := range parts {
		if _, err := c.Conn.Write(part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func TestWhatFollowsIsSealed(t *testing.T) {
	g := secret(t, true, newSecret)
	var wire *tapped
	m := meet(t, g, g, Call{From: 1, To: 2, Purpose: 1}, func(c net.Conn) net.Conn {
		wire = &tapped{Conn: c}
		return wire
	})
	if m.dialErr != nil || m.acceptedErr != nil {
		t.Fatal(m.dialErr, m.acceptedErr)
	}
	if heard := wire.heard.String(); strings.Contains(heard, said[9:]) || strings.Contains(heard, newSecret) {
		t.Errorf("on the wire: %q", heard)
	}
	// The other direction, in records of every size.
	for _, size := range []int{1, recordBytesMax, recordBytesMax + 1, 5 * recordBytesMax} {
		want := bytes.Repeat([]byte{byte(size), 1, 2}, size)[:size]
		wrote := make(chan error, 1)
		go func() {
			_, err := m.accepted.Conn.Write(want)
			wrote <- err
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(m.dialed, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
}

// lengths are where each write has its length: one that is too long is waited for, as long as the owner of the
// connection likes.
var lengths = [...][]int{{10, 11}, {1, 2}, {0, 1, 2, 3}}

// TestSomebodyInBetween changes each byte of each write of the dialing side in turn, leaves out a record, and doubles
// one: nothing of it is handed on.
func TestSomebodyInBetween(t *testing.T) {
	g := secret(t, true, newSecret)
	const opening, proof, record = 0, 1, 2
	for write, size := range map[int]int{ // order: each alone
		opening: openingHeadBytes + secretOpeningBytes, proof: turnHeadBytes + keyBytes,
		record: recordHeadBytes + len(said) + sealBytes,
	} {
		for at := range size {
			if slices.Contains(lengths[write], at) {
				continue
			}
			m := meet(t, g, g, Call{From: 1, To: 2, Purpose: 1}, func(c net.Conn) net.Conn {
				return &tapped{Conn: c, change: func(n int, b []byte) [][]byte {
					if n == write {
						b[at] ^= 1
					}
					return [][]byte{b}
				}}
			})
			if m.acceptedErr == nil {
				t.Errorf("byte %d of write %d is changed, and it is taken", at, write)
			}
		}
	}
	for name, change := range map[string]func([]byte) [][]byte{ // order: each alone
		"left out": func([]byte) [][]byte { return nil },
		"doubled":  func(b []byte) [][]byte { return [][]byte{b, b} },
	} {
		here, there := net.Pipe()
		done := make(chan error, 1)
		go func() {
			a, err := g.Accept(there)
			if err == nil {
				_, err = io.ReadFull(a.Conn, make([]byte, 2*len(said)))
			}
			_ = there.Close()
			done <- err
		}()
		wire := &tapped{Conn: here, change: func(n int, b []byte) [][]byte {
			if n != record {
				return [][]byte{b}
			}
			return change(b)
		}}
		conn, err := g.Dial(context.Background(), wire, Call{From: 1, To: 2, Purpose: 1}, "")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, _ = conn.Write([]byte(said)) // the other side may have ended it
		}
		if err := <-done; !errors.Is(err, errRecord) {
			t.Errorf("%s: %v", name, err)
		}
		_ = here.Close()
	}
}

// TestAnEchoProvesNothing sends back to the dialing side what it has said.
func TestAnEchoProvesNothing(t *testing.T) {
	g := secret(t, true, newSecret)
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		defer there.Close()
		opening := make([]byte, openingHeadBytes+secretOpeningBytes)
		proof := make([]byte, turnHeadBytes+keyBytes)
		if _, err := io.ReadFull(there, opening); err != nil {
			return
		}
		_ = writeTurn(there, turnOn, opening[len(opening)-keyBytes:])
		if _, err := io.ReadFull(there, proof); err != nil {
			return
		}
		_ = writeTurn(there, turnDone, proof[turnHeadBytes:])
	}()
	if _, err := g.Dial(context.Background(), here, Call{From: 1, To: 2}, ""); !errors.Is(err, errOtherSecret) {
		t.Errorf("got %v", err)
	}
}

func TestParseSecrets(t *testing.T) {
	for text, want := range map[string]string{ // order: each alone
		"0123456789abcdef":                   "",
		"0123456789abcdef\r\n\n" + newSecret: "",
		"":                                   "holds no secret",
		"\n\n":                               "holds no secret",
		"short":                              "line 1 has 5 bytes",
		newSecret + "\n" + "short":           "line 2 has 5 bytes",
		strings.Repeat("x", lineBytesMax+1):  "line 1 has",
		strings.Repeat(newSecret+"\n", 1+linesMax): "line 9 is one too many",
	} {
		lines, err := ParseSecrets([]byte(text))
		switch {
		case want == "" && (err != nil || len(lines) == 0 || string(lines[0]) != "0123456789abcdef"):
			t.Errorf("%q: %q, %v", text, lines, err)
		case want == "":
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short"):
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzAccept has a gate that demands all there is take what strangers send.
func FuzzAccept(f *testing.F) {
	g := secret(f, true, newSecret)
	g.Login = &Login{Mechanism: "PLAIN", Demand: true, Begin: func() Acceptor { return deaf{} }}
	f.Add([]byte(said))
	f.Add(openingOf(methodSecret, make([]byte, secretOpeningBytes)))
	f.Add(append(openingOf(methodLogin, []byte("PLAIN")), turnOn, 0, 1, 'x'))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := g.Accept(&heard{Reader: bytes.NewReader(b)}); err == nil {
			t.Fatalf("a stranger is let in: %v", a.Call)
		}
	})
}

// deaf is a mechanism by which nobody logs in.
type deaf struct{}

func (deaf) Respond([]byte) (answer []byte, name string, err error) { return []byte("what"), "", nil }

// heard is a connection on which all was said already.
type heard struct {
	net.Conn
	io.Reader
}

func (h *heard) Read(b []byte) (int, error) { return h.Reader.Read(b) }

func (*heard) Write(b []byte) (int, error) { return len(b), nil }
