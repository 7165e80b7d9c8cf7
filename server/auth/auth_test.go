package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// superDigest is of super:superpw.
const superDigest = "super:g9oN2HttPfn8MMWJZ2r45Np/LIA="

var home = netip.MustParseAddr("127.0.0.1")

func newRegistry(t testing.TB, o Options) *Registry {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func started() *Identities {
	var c Identities
	c.Start(home, Bounds{})
	return &c
}

// sorted sorts what whoAmI answers: TestOrder is the test of its order.
func sorted(infos []jute.ClientInfo) []jute.ClientInfo {
	slices.SortFunc(infos, func(a, b jute.ClientInfo) int {
		return strings.Compare(a.AuthScheme+" "+a.User, b.AuthScheme+" "+b.User)
	})
	return infos
}

// TestAdd has what 3.9.5 answers to auth packets, and whom whoAmI then names (measured).
func TestAdd(t *testing.T) {
	replacement := "\uFFFD"
	cases := []struct {
		name   string
		scheme string
		data   []byte
		code   jute.Code
		user   string // of the digest identity; "-" if there is none
	}{
		{"user and password", "digest", []byte("u:p"), jute.OK, "u"},
		{"no colon", "digest", []byte("user"), jute.OK, "user"},
		{"empty", "digest", []byte{}, jute.OK, ""},
		{"only a colon", "digest", []byte(":"), jute.OK, ""},
		{"several colons", "digest", []byte("a:b:c"), jute.OK, "a"},
		{"no user", "digest", []byte(":p"), jute.OK, ""},
		{"null", "digest", nil, jute.AuthFailed, "-"},
		{"stray bytes", "digest", []byte("\xff\xfe:p"), jute.OK, replacement + replacement},
		{"cut character", "digest", []byte("\xe2\x82:p"), jute.OK, replacement},
		{"cut character of four bytes", "digest", []byte("\xf0\x9f\x98:p"), jute.OK, replacement},
		{"cut character, ASCII in between", "digest", []byte("\xf0\x9f(:p"), jute.OK, replacement + "("},
		{"wrong third byte", "digest", []byte("\xe2\x28\xa1:p"), jute.OK, replacement + "(" + replacement},
		{"surrogate", "digest", []byte("\xed\xa0\x80:p"), jute.OK, replacement},
		{"too long a form of two bytes", "digest", []byte("\xc0\xaf:p"), jute.OK, replacement + replacement},
		{"too long a form of three bytes", "digest", []byte("\xe0\x80\x80:p"), jute.OK, strings.Repeat(replacement, 3)},
		{"too long a form of four bytes", "digest", []byte("\xf0\x80\x80\x80:p"), jute.OK,
			strings.Repeat(replacement, 4)},
		{"beyond Unicode", "digest", []byte("\xf4\x90\x80\x80:p"), jute.OK, strings.Repeat(replacement, 4)},
		{"no first byte", "digest", []byte("\xf5\x80\x80\x80:p"), jute.OK, strings.Repeat(replacement, 4)},
		{"ip", "ip", []byte("1.2.3.4"), jute.OK, "-"},
		{"ip, null", "ip", nil, jute.OK, "-"},
		{"world", "world", []byte("anyone"), jute.AuthFailed, "-"},
		{"auth", "auth", []byte("u:p"), jute.AuthFailed, "-"},
		{"super", "super", []byte("super:superpw"), jute.AuthFailed, "-"},
		{"sasl without a provider", "sasl", []byte("x"), jute.AuthFailed, "-"},
		{"x509 without a provider", "x509", []byte("x"), jute.AuthFailed, "-"},
		{"other case", "Digest", []byte("u:p"), jute.AuthFailed, "-"},
		{"no scheme", "", []byte("u:p"), jute.AuthFailed, "-"},
	}
	r := newRegistry(t, Options{})
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := started()
			if got := c.Add(r, home, tc.scheme, tc.data); got != tc.code {
				t.Errorf("code %v, want %v", got, tc.code)
			}
			want := []jute.ClientInfo{{AuthScheme: "ip", User: "127.0.0.1"}}
			if tc.user != "-" {
				want = append([]jute.ClientInfo{{AuthScheme: "digest", User: tc.user}}, want...)
			}
			if diff := cmp.Diff(want, sorted(r.WhoAmI(nil, c.Snapshot()))); diff != "" {
				t.Errorf("whoAmI (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDigests: each algorithm's identity of user:password.
func TestDigests(t *testing.T) {
	cases := map[string]string{ // from sha1sum and its like
		"":        "super:g9oN2HttPfn8MMWJZ2r45Np/LIA=",
		"sha-1":   "super:g9oN2HttPfn8MMWJZ2r45Np/LIA=",
		"SHA-256": "super:NhrDsglBUaCwNy464nxjg/Ig/dwhOCotNQxX54rqg50=",
		"MD5":     "super:Rl9hUgQoaOqJhhKxoihhhQ==",
	}
	for algorithm, want := range cases {
		c := started()
		r := newRegistry(t, Options{DigestAlgorithm: algorithm, SuperDigest: want})
		c.Add(r, home, "digest", []byte("super:superpw"))
		ids := []jute.ID{{Scheme: "digest", ID: want}, {Scheme: "ip", ID: "127.0.0.1"}, {Scheme: "super"}}
		got := slices.SortedFunc(slices.Values(c.Snapshot()), func(a, b jute.ID) int {
			return strings.Compare(a.Scheme, b.Scheme)
		})
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", algorithm, diff)
		}
		if got := sorted(r.WhoAmI(nil, got))[2]; got != (jute.ClientInfo{AuthScheme: "super"}) {
			t.Errorf("whoAmI of super is %+v", got)
		}
	}
}

// TestDigestsAreSums: every algorithm is a sum of its own, of the length its name says.
func TestDigestsAreSums(t *testing.T) {
	seen := map[string]string{}
	for name, sum := range digestAlgorithms {
		got := string(sum([]byte("x")))
		if other, ok := seen[got]; ok && !strings.HasPrefix(name, "SHA") {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[got] = name
	}
	if len(seen) != len(digestAlgorithms)-2 { // SHA, SHA1 and SHA-1 are one
		t.Errorf("%d different sums of %d names", len(seen), len(digestAlgorithms))
	}
}

func TestNotSuper(t *testing.T) {
	for _, o := range []Options{{}, {SuperDigest: superDigest}} {
		c := started()
		c.Add(newRegistry(t, o), home, "digest", []byte("super:wrong"))
		for _, id := range c.Snapshot() {
			if id.Scheme == SchemeSuper {
				t.Errorf("super with the superDigest %q", o.SuperDigest)
			}
		}
	}
}

func TestDigestDisabled(t *testing.T) {
	r := newRegistry(t, Options{DigestDisabled: true, DigestAlgorithm: "never looked at"})
	if got := started().Add(r, home, "digest", []byte("u:p")); got != jute.AuthFailed {
		t.Errorf("code %v, want %v", got, jute.AuthFailed)
	}
	if diff := cmp.Diff([]string{"ip"}, r.Schemes()); diff != "" {
		t.Errorf("schemes (-want +got):\n%s", diff)
	}
}

// TestAccumulate: identities add up, each once, in the order of the hash set that ZooKeeper keeps them in; a snapshot
// taken before stays as it was; nothing is a view of the packet.
func TestAccumulate(t *testing.T) {
	r, c := newRegistry(t, Options{}), started()
	first := c.Snapshot()
	data := []byte("u:p")
	c.Add(r, home, "digest", data)
	second := c.Snapshot()
	c.Add(r, home, "digest", []byte("u:p"))
	if &second[0] != &c.Snapshot()[0] {
		t.Error("a repeated identity made a new list")
	}
	c.Add(r, home, "digest", []byte("v:p"))
	c.Grant(jute.ID{Scheme: SchemeX509, ID: "CN=x"})
	frame := jute.AppendString(nil, "CN=y")
	d := jute.NewDecoder(frame)
	var nulls jute.Nulls
	c.Grant(jute.ID{Scheme: SchemeX509, ID: d.Ustring(&nulls, 0)})
	clear(frame)
	clear(data)
	ip := jute.ID{Scheme: "ip", ID: "127.0.0.1"}
	u := jute.ID{Scheme: "digest", ID: "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="}
	v := jute.ID{Scheme: "digest", ID: "v:RylFHZNG40p+EX2Hf0QUdmqEStY="}
	want := []jute.ID{{Scheme: "x509", ID: "CN=y"}, {Scheme: "x509", ID: "CN=x"}, ip, v, u}
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]jute.ID{ip}, first); diff != "" {
		t.Errorf("first snapshot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]jute.ID{ip, u}, second); diff != "" {
		t.Errorf("second snapshot (-want +got):\n%s", diff)
	}
}

// TestConcurrentSnapshots is for the race detector: one goroutine adds, others read.
func TestConcurrentSnapshots(t *testing.T) {
	r, c := newRegistry(t, Options{}), started()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := 0; n < 50; n = len(c.Snapshot()) {
				if n > 0 && !slices.ContainsFunc(c.Snapshot(), isAddress) {
					t.Error("the first identity is gone")
				}
			}
		})
	}
	for i := range 60 {
		c.Add(r, home, "digest", []byte(strings.Repeat("u", i)+":"))
	}
	wg.Wait()
}

func isAddress(id jute.ID) bool { return id.Scheme == SchemeIP }

func TestSnapshotDoesNotAllocate(t *testing.T) {
	c := started()
	var n int
	if got := testing.AllocsPerRun(100, func() { n += len(c.Snapshot()) }); got != 0 || n == 0 {
		t.Errorf("%v allocations", got)
	}
	if got := new(Identities).Snapshot(); got != nil {
		t.Errorf("before Start: %v", got)
	}
}

func TestEnforce(t *testing.T) {
	open, digest := newRegistry(t, Options{}), newRegistry(t, Options{EnforcedSchemes: []string{"digest"}})
	c := started()
	if open.Enforces() || !open.Admits(nil) {
		t.Error("enforced without a scheme")
	}
	if !digest.Enforces() || digest.Admits(c.Snapshot()) {
		t.Error("the address alone was enough")
	}
	c.Add(digest, home, "digest", []byte("u:p"))
	if !digest.Admits(c.Snapshot()) {
		t.Error("digest was not enough")
	}
}

// tokens is a scheme that takes one token, as one that is added later.
type tokens struct{}

func (tokens) Scheme() string { return "sasl" }
func (tokens) Authenticate(remote netip.Addr, data []byte) ([]jute.ID, bool) {
	if string(data) != "token" {
		return nil, false
	}
	return []jute.ID{{Scheme: "sasl", ID: "bob@" + remote.String()}}, true
}
func (tokens) User(id string) string { return strings.ToUpper(id) }

func TestExtraProvider(t *testing.T) {
	r := newRegistry(t, Options{Extra: []Provider{tokens{}}, EnforcedSchemes: []string{"sasl"}})
	c := started()
	if got := c.Add(r, home, "sasl", []byte("no")); got != jute.AuthFailed {
		t.Errorf("code %v, want %v", got, jute.AuthFailed)
	}
	if got := c.Add(r, home, "sasl", []byte("token")); got != jute.OK {
		t.Errorf("code %v", got)
	}
	want := []jute.ClientInfo{{AuthScheme: "ip", User: "127.0.0.1"}, {AuthScheme: "sasl", User: "BOB@127.0.0.1"}}
	if diff := cmp.Diff(want, sorted(r.WhoAmI(nil, c.Snapshot()))); diff != "" {
		t.Errorf("whoAmI (-want +got):\n%s", diff)
	}
	if !r.Admits(c.Snapshot()) {
		t.Error("not admitted")
	}
}

func TestBadOptions(t *testing.T) {
	cases := map[string]Options{
		`digestAlg "SHA256" is unknown`:  {DigestAlgorithm: "SHA256"},
		`scheme "sasl" is not available`: {EnforcedSchemes: []string{"digest", "sasl"}},
	}
	for want, o := range cases {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestHostAddress(t *testing.T) {
	cases := map[string]string{
		"10.1.2.3":        "10.1.2.3",
		"::ffff:10.1.2.3": "10.1.2.3",
		"::1":             "0:0:0:0:0:0:0:1",
		"2001:db8::a:0:1": "2001:db8:0:0:0:a:0:1",
		"fe80::1%eth0":    "fe80:0:0:0:0:0:0:1%eth0",
	}
	for in, want := range cases {
		a := netip.MustParseAddr(in)
		got := HostAddress(a)
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		if back, err := netip.ParseAddr(got); err != nil || back != a.Unmap() {
			t.Errorf("%s does not parse back: %v, %v", got, back, err)
		}
	}
}

// TestDerivedPassword has sessions and passwords of a real server.
func TestDerivedPassword(t *testing.T) {
	cases := map[jute.SessionID]string{
		0x100002c29320000: "\xfc\x1b\x45\x90\xd9\x83\x76\xa5\x3a\xe5\xf7\x4f\x4a\xfe\x98\xf7",
		0x100002c29320001: "\x0f\x3d\x3f\x90\x79\xcf\x55\xea\x2f\x28\x5f\x7b\x1e\x87\xad\xc4",
		0x100002c29320002: "\xd6\xd9\x50\x90\x99\xec\xb7\x1b\x50\x5f\x29\xf9\xa3\xec\x6f\x5d",
		0x100002ad4c10000: "\x45\x05\xf1\xd2\xee\x6d\x8c\xd9\x2b\x6e\xf7\x2e\xe7\xd2\x9a\xbb",
	}
	for id, want := range cases {
		if got := DerivedPassword(id); string(got[:]) != want {
			t.Errorf("session %#x: %x, want %x", int64(id), got, want)
		}
	}
}

func TestNewPassword(t *testing.T) {
	a, errA := NewPassword(rand.Reader)
	b, errB := NewPassword(rand.Reader)
	if errA != nil || errB != nil || a == b {
		t.Errorf("%x, %v; %x, %v", a, errA, b, errB)
	}
	zeros := io.MultiReader(bytes.NewReader(make([]byte, PasswordBytes)), strings.NewReader("0123456789abcdef"))
	if p, err := NewPassword(zeros); err != nil || string(p[:]) != "0123456789abcdef" {
		t.Errorf("after zeros: %x, %v", p, err)
	}
	if _, err := NewPassword(strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestPasswordMatches(t *testing.T) {
	p := DerivedPassword(1)
	long := append(bytes.Clone(p[:]), 0)
	wrong := bytes.Clone(p[:])
	wrong[15]++
	for _, sent := range [][]byte{nil, {}, p[:15], long, wrong, make([]byte, PasswordBytes)} {
		if p.Matches(sent) {
			t.Errorf("%x matches", sent)
		}
	}
	if !p.Matches(bytes.Clone(p[:])) {
		t.Error("the password itself does not match")
	}
}

// FuzzAdd: no data makes a digest identity that is not valid text, or two of one packet.
func FuzzAdd(f *testing.F) {
	f.Add([]byte("u:p"))
	f.Add([]byte("\xed\xa0\x80\xf0\x9f"))
	r, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := started()
		if data == nil {
			data = []byte{}
		}
		switch code := c.Add(r, home, "digest", data); {
		case code == jute.AuthFailed && c.Full() && 4*len(data) > defaultIdentityBytes:
			return // a name that is too long
		case code != jute.OK:
			t.Fatalf("code %v", code)
		}
		ids := slices.DeleteFunc(slices.Clone(c.Snapshot()), isAddress)
		if len(ids) != 1 || strings.ToValidUTF8(ids[0].ID, "") != ids[0].ID || len(javaText(data)) > 3*len(data) {
			t.Fatalf("identities %q", ids)
		}
	})
}

// TestTooMany shows that what a connection has proven stays small: each of its writes carries it.
func TestTooMany(t *testing.T) {
	r := newRegistry(t, Options{})
	remote := netip.MustParseAddr("127.0.0.1")
	var many, long Identities
	many.Start(remote, Bounds{})
	for i := 1; i < defaultIdentities; i++ {
		if code := many.Add(r, remote, SchemeDigest, fmt.Appendf(nil, "u%d:p", i)); code != jute.OK {
			t.Fatalf("identity %d: %v", i, code)
		}
	}
	if code := many.Add(r, remote, SchemeDigest, []byte("u1:p")); code != jute.OK {
		t.Errorf("one that is there already: %v, want OK", code)
	}
	if code := many.Add(r, remote, SchemeDigest, []byte("more:p")); code != jute.AuthFailed {
		t.Errorf("one more than %d: %v, want AuthFailed", defaultIdentities, code)
	}
	if !many.Full() || long.Full() {
		t.Errorf("full: %t and %t, want the first alone", many.Full(), long.Full())
	}
	long.Start(remote, Bounds{})
	name := strings.Repeat("n", defaultIdentityBytes/2)
	if code := long.Add(r, remote, SchemeDigest, []byte(name+"a:p")); code != jute.OK {
		t.Errorf("a long one: %v, want OK", code)
	}
	if code := long.Add(r, remote, SchemeDigest, []byte(name+"b:p")); code != jute.AuthFailed {
		t.Errorf("a second long one: %v, want AuthFailed", code)
	}
	if n := len(long.Snapshot()); n != 2 {
		t.Errorf("%d identities are left, want 2", n)
	}
	var few Identities
	few.Start(remote, Bounds{Identities: 2, Bytes: 1000})
	if code := few.Add(r, remote, SchemeDigest, []byte("u1:p")); code != jute.OK {
		t.Errorf("the second of two: %v, want OK", code)
	}
	if code := few.Add(r, remote, SchemeDigest, []byte("u2:p")); code != jute.AuthFailed {
		t.Errorf("the third of two: %v, want AuthFailed", code)
	}
}
