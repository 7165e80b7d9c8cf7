package acl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// entry is one ACL entry.
func entry(perms jute.Perms, scheme, id string) jute.ACL {
	return jute.ACL{Perms: perms, ID: jute.ID{Scheme: scheme, ID: id}}
}

// TestValidIDs compares with what ZooKeeper 3.9.5 answered to a create with each id (2026-11).
func TestValidIDs(t *testing.T) {
	for _, c := range []struct {
		scheme, id string
		want       jute.Code
	}{
		{"ip", "127.0.0.1", jute.OK},
		{"ip", "127.0.0.1/8", jute.OK},
		{"ip", "127.0.0.1/33", jute.InvalidACL},
		{"ip", "127.0.0.1/+8", jute.OK},
		{"ip", "1.2.3", jute.InvalidACL},
		{"ip", "1.2.3.4.5", jute.InvalidACL},
		{"ip", "1.2.3.", jute.InvalidACL},
		{"ip", "01.2.3.4", jute.OK},
		{"ip", "256.1.1.1", jute.InvalidACL},
		{"ip", "+1.2.3.4", jute.OK},
		{"ip", "-1.2.3.4", jute.InvalidACL},
		{"ip", "::1", jute.OK},
		{"ip", "1::", jute.OK},
		{"ip", "::", jute.OK},
		{"ip", "1::2::3", jute.InvalidACL},
		{"ip", "1:2:3:4:5:6:7:8", jute.OK},
		{"ip", "1:2:3:4:5:6:7", jute.InvalidACL},
		{"ip", "1:2:3:4:5:6:7:8:9", jute.InvalidACL},
		{"ip", "::1/128", jute.OK},
		{"ip", "::1/129", jute.InvalidACL},
		{"ip", "::ffff:1.2.3.4", jute.InvalidACL},
		{"ip", "fe80::-1", jute.OK},
		{"ip", "fe80::12345", jute.InvalidACL},
		{"ip", "fe80::g", jute.InvalidACL},
		{"ip", "1:2:3:4:5:6:7::", jute.OK},
		{"ip", "1:2:3:4:5:6:7::8", jute.InvalidACL},
		{"ip", ":", jute.InvalidACL},
		{"ip", ":::", jute.InvalidACL},
		{"ip", "::1:", jute.InvalidACL},
		{"ip", ":1::2", jute.InvalidACL},
		{"ip", "1:::2", jute.InvalidACL},
		{"ip", "", jute.InvalidACL},
		{"ip", "localhost", jute.InvalidACL},
		{"ip", "1.2.3.4/", jute.InvalidACL},
		{"ip", "1.2.3.4/8/8", jute.InvalidACL},
		{"digest", "a:b", jute.OK},
		{"digest", "a:b:", jute.OK},
		{"digest", ":x", jute.OK},
		{"digest", "u:", jute.InvalidACL},
		{"digest", "a:b:c", jute.InvalidACL},
		{"digest", "", jute.InvalidACL},
		{"digest", "x", jute.InvalidACL},
		{"digest", "::", jute.InvalidACL},
		{"world", "anyone", jute.OK},
		{"world", "any", jute.InvalidACL},
		{"super", "", jute.InvalidACL},
		{"sasl-any", "all", jute.InvalidACL},
		{"foo", "bar", jute.InvalidACL},
		{"", "", jute.InvalidACL},
		{"sasl", "bob", jute.OK},
		{"sasl", "bob/host@REALM", jute.OK},
		{"sasl", "bob@REALM", jute.OK},
		{"sasl", "a/b/c", jute.OK},
		{"sasl", "a/b/c@REALM", jute.InvalidACL},
		{"sasl", "a@b@c", jute.InvalidACL},
		{"sasl", "a@b/c", jute.InvalidACL},
		{"x509", "CN=client,OU=dev,O=Acme", jute.OK},
		{"x509", "", jute.OK},
		{"x509", "cn=a + 1.2.3=b; o=\"x,y\"", jute.OK},
		{"x509", "client", jute.InvalidACL},
		{"x509", "FOO=a", jute.InvalidACL},
		{"x509", "CN=a,", jute.InvalidACL},
		{"x509", `CN="a`, jute.InvalidACL},
		{"x509", `CN=a\`, jute.InvalidACL},
	} {
		_, got := Fix([]jute.ACL{entry(1, c.scheme, c.id)}, nil, Digest|SASL|X509)
		if got != c.want {
			t.Errorf("%s:%s: %v, want %v", c.scheme, c.id, got, c.want)
		}
	}
}

func TestSchemesWithoutProvider(t *testing.T) {
	for _, id := range []jute.ID{
		{Scheme: SchemeSASL, ID: "bob"}, {Scheme: SchemeX509, ID: "CN=a"}, {Scheme: SchemeDigest, ID: "a:b"},
	} {
		if _, got := Fix([]jute.ACL{{Perms: 1, ID: id}}, nil, 0); got != jute.InvalidACL {
			t.Errorf("%s without provider: %v", id.Scheme, got)
		}
	}
	if _, got := Fix([]jute.ACL{entry(1, SchemeIP, "1.2.3.4")}, nil, 0); got != jute.OK {
		t.Errorf("ip always has a provider: %v", got)
	}
}

func TestFixNulls(t *testing.T) {
	null := func(scheme string, nulls jute.Nulls) []jute.ACL {
		return []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: scheme, Nulls: nulls}}}
	}
	for _, c := range []struct {
		name string
		list []jute.ACL
		want jute.Code
	}{
		{"null list", nil, jute.InvalidACL},
		{"empty list", []jute.ACL{}, jute.InvalidACL},
		{"null scheme", null("", 1), jute.InvalidACL},
		{"null id of ip", null(SchemeIP, 2), jute.MarshallingError},
		{"null id of digest", null(SchemeDigest, 2), jute.MarshallingError},
		{"null id of world", null(SchemeWorld, 2), jute.MarshallingError},
		{"null id of an unknown scheme", null("foo", 2), jute.InvalidACL},
	} {
		if _, got := Fix(c.list, nil, Digest); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFix(t *testing.T) {
	ids := []jute.ID{
		{Scheme: "ip", ID: "1.2.3.4"},
		{Scheme: "digest", ID: "u:h"},
		{Scheme: "super"},
		{Scheme: "sasl", ID: "bob"},
		{Scheme: "digest", ID: "v:h"},
	}
	world := entry(31, "world", "anyone")
	for _, c := range []struct {
		name    string
		list    []jute.ACL
		ids     []jute.ID
		schemes Schemes
		want    []jute.ACL
		code    jute.Code
	}{
		{"open", Open, nil, Digest, Open, jute.OK},
		{
			"duplicates go, the order stays",
			[]jute.ACL{entry(1, "ip", "1.1.1.1"), world, entry(1, "ip", "1.1.1.1"), entry(2, "ip", "1.1.1.1"), world},
			nil, 0,
			[]jute.ACL{entry(1, "ip", "1.1.1.1"), world, entry(2, "ip", "1.1.1.1")}, jute.OK,
		},
		{
			"auth is the caller",
			[]jute.ACL{entry(1, "auth", "ignored"), world},
			ids, Digest | SASL,
			[]jute.ACL{entry(1, "digest", "u:h"), entry(1, "sasl", "bob"), entry(1, "digest", "v:h"), world}, jute.OK,
		},
		{"auth without provider for sasl", []jute.ACL{entry(1, "auth", "")}, ids[3:4], Digest, nil, jute.InvalidACL},
		{"auth of any user", []jute.ACL{entry(1, "auth", "")}, []jute.ID{{Scheme: "sasl-any", ID: "all"}}, SASL, nil,
			jute.InvalidACL},
		{"auth of nobody", []jute.ACL{world, entry(1, "auth", "")}, ids[:1], Digest, nil, jute.InvalidACL},
	} {
		got, code := Fix(c.list, c.ids, c.schemes)
		if code != c.code {
			t.Errorf("%s: code %v, want %v", c.name, code, c.code)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestFixSharesNoMemory(t *testing.T) {
	frame := []byte("digestu:h")
	list := []jute.ACL{entry(1, string(frame[:6]), string(frame[6:]))}
	got, _ := Fix(list, nil, Digest)
	list[0] = entry(31, "world", "anyone")
	if got[0] != entry(1, "digest", "u:h") {
		t.Errorf("the result changed with its argument: %v", got)
	}
}

func TestAllowed(t *testing.T) {
	ip := func(s string) []jute.ID { return []jute.ID{{Scheme: "ip", ID: s}} }
	for _, c := range []struct {
		name string
		list []jute.ACL
		perm jute.Perms
		ids  []jute.ID
		want bool
	}{
		{"an empty list allows", nil, 1, nil, true},
		{"anyone", Open, jute.PermAdmin, nil, true},
		{"anyone may only read", ReadOnly, jute.PermWrite, ip("1.2.3.4"), false},
		{"super may", ReadOnly, jute.PermWrite, []jute.ID{{Scheme: "ip", ID: "1.1.1.1"}, {Scheme: "super"}}, true},
		{"one bit suffices", ReadOnly, jute.PermRead | jute.PermAdmin, nil, true},
		{"digest exact", []jute.ACL{entry(2, "digest", "u:h")}, 2, []jute.ID{{Scheme: "digest", ID: "u:h"}}, true},
		{"digest other", []jute.ACL{entry(2, "digest", "u:h")}, 2, []jute.ID{{Scheme: "digest", ID: "u:i"}}, false},
		{"digest without the permission", []jute.ACL{entry(2, "digest", "u:h")}, 1, []jute.ID{{Scheme: "digest",
			ID: "u:h"}}, false},
		{"the scheme counts", []jute.ACL{entry(2, "sasl", "u:h")}, 2, []jute.ID{{Scheme: "digest", ID: "u:h"}}, false},
		{"sasl user super", []jute.ACL{entry(2, "sasl", "bob")}, 2, []jute.ID{{Scheme: "sasl", ID: "super"}}, true},
		{"any sasl user", []jute.ACL{entry(2, "sasl", "all")}, 2, []jute.ID{{Scheme: "sasl-any", ID: "all"}}, true},
		{"any sasl user, another entry", []jute.ACL{entry(2, "sasl", "bob")}, 2, []jute.ID{{Scheme: "sasl-any",
			ID: "all"}}, false},
		{"any sasl user is no digest", []jute.ACL{entry(2, "digest", "all")}, 2, []jute.ID{{Scheme: "sasl-any",
			ID: "all"}}, false},
		{"x509", []jute.ACL{entry(2, "x509", "CN=a")}, 2, []jute.ID{{Scheme: "x509", ID: "CN=a"}}, true},
		{"ip", []jute.ACL{entry(1, "ip", "10.1.2.3")}, 1, ip("10.1.2.3"), true},
		{"ip other", []jute.ACL{entry(1, "ip", "10.1.2.3")}, 1, ip("10.1.2.4"), false},
		{"ip network", []jute.ACL{entry(1, "ip", "10.1.0.0/16")}, 1, ip("10.1.2.4"), true},
		{"ip network whose address has more bits", []jute.ACL{entry(1, "ip", "10.1.9.9/16")}, 1, ip("10.1.2.4"), true},
		{"ip other network", []jute.ACL{entry(1, "ip", "10.1.0.0/16")}, 1, ip("10.2.2.4"), false},
		{"ip odd prefix", []jute.ACL{entry(1, "ip", "10.1.128.0/17")}, 1, ip("10.1.129.4"), true},
		{"ip odd prefix, outside", []jute.ACL{entry(1, "ip", "10.1.128.0/17")}, 1, ip("10.1.127.4"), false},
		{"ip /0", []jute.ACL{entry(1, "ip", "10.1.128.0/0")}, 1, ip("99.1.1.1"), true},
		{"ip /0 of the other family", []jute.ACL{entry(1, "ip", "10.1.128.0/0")}, 1, ip("::1"), false},
		{"ipv6, written otherwise", []jute.ACL{entry(1, "ip", "0:0:0:0:0:0:0:1")}, 1, ip("::1"), true},
		{"ipv6 network", []jute.ACL{entry(1, "ip", "fe80::/10")}, 1, ip("febf:0:0:0:1:2:3:4"), true},
		{"ipv6 outside", []jute.ACL{entry(1, "ip", "fe80::/10")}, 1, ip("fec0:0:0:0:1:2:3:4"), false},
		{"an identity that is no address", []jute.ACL{entry(1, "ip", "10.0.0.0/0")}, 1, ip("pipe"), false},
		{"the second entry", []jute.ACL{entry(1, "ip", "9.9.9.9"), entry(1, "ip", "1.1.1.1")}, 1, ip("1.1.1.1"), true},
	} {
		if got := Allowed(c.list, c.perm, c.ids); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestManyIdentities: looked up, identities satisfy the entries that they do when each is compared with each.
func TestManyIdentities(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	schemes := []string{"digest", "x509", "sasl", SchemeSASLAny, "ip", "super", "world", "zkd", "auth"}
	texts := []string{"a", "b", "super", "anyone", "10.0.0.1", "10.0.0.2", "10.0.0.0/8", "10.0.0.2/31", "11.0.0.1",
		"11.0.0.0/30", "9.0.0.0/6", ""}
	for range 20_000 {
		ids, list := make([]jute.ID, r.IntN(4)), make([]jute.ACL, r.IntN(4))
		for i := range ids {
			ids[i] = jute.ID{Scheme: schemes[r.IntN(len(schemes))], ID: texts[r.IntN(len(texts))]}
		}
		for i := range list {
			list[i] = entry(jute.Perms(r.IntN(4)), schemes[r.IntN(len(schemes))], texts[r.IntN(len(texts))])
		}
		want := slices.ContainsFunc(list, func(a jute.ACL) bool {
			return a.Perms&jute.PermRead != 0 &&
				slices.ContainsFunc(ids, func(id jute.ID) bool { return matches(&id, &a.ID) })
		})
		if got := newExact(ids).allow(list, jute.PermRead); got != want {
			t.Fatalf("%v of %v: %v, want %v", ids, list, got, want)
		}
		if len(list) == 0 {
			continue
		}
		x := newIndex(list)
		want = Allowed(list, jute.PermRead, ids)
		if got := x.allows(jute.PermRead, NewProven(ids)); got != want {
			t.Fatalf("%v of %v: %v by the index, want %v", ids, list, got, want)
		}
	}
	var ids []jute.ID
	for i := range compareMax {
		ids = append(ids, jute.ID{Scheme: "digest", ID: fmt.Sprint(i)})
	}
	list := []jute.ACL{entry(1, "digest", "x"), entry(2, "digest", "7")}
	if Allowed(list, jute.PermRead, ids) || !Allowed(list, jute.PermWrite, ids) {
		t.Error("many identities are not looked up rightly")
	}
}

// hostile returns a list of n entries, which give READ to nobody of these who each have proven m identities.
func hostile(n, m, connections int) (list []jute.ACL, who []*Proven) {
	for i := range n {
		list = append(list, entry(jute.PermRead, "digest", fmt.Sprintf("user%d:%027d=", i, i)))
	}
	for c := range connections {
		ids := []jute.ID{{Scheme: "ip", ID: "10.0.0.1"}}
		for i := range m - 1 {
			ids = append(ids, jute.ID{Scheme: "digest", ID: fmt.Sprintf("nobody%d-%d:%027d=", c, i, i)})
		}
		who = append(who, NewProven(ids))
	}
	return list, who
}

// TestAVerdictIsGivenOnce: however often, and by however many, a long list is asked about, it is read once, and so are
// the identities of each who asks.
func TestAVerdictIsGivenOnce(t *testing.T) {
	const entries, identities, connections = 2000, 900, 50
	list, who := hostile(entries, identities, connections)
	allowed := NewProven(append([]jute.ID{{Scheme: "digest", ID: list[entries-1].ID.ID}}, who[0].ids...))
	var v Verdicts
	for range 700 {
		for _, w := range who {
			if v.Allowed(list, jute.PermRead, w) {
				t.Fatal("allowed to nobody")
			}
		}
		if !v.Allowed(list, jute.PermRead, allowed) || v.Allowed(list, jute.PermWrite, allowed) {
			t.Fatal("not what the list gives")
		}
	}
	if most := entries + (connections+2)*(identities+1); v.Work() > most {
		t.Errorf("looked at %d, want at most %d", v.Work(), most)
	}
	if v.Size() == 0 {
		t.Error("nothing is kept")
	}
	if v.Forget(); v.Size() != 0 || v.Allowed(list, jute.PermRead, who[0]) {
		t.Error("not forgotten, or another answer afterwards")
	}
}

// TestProvenAnswersAsAllowed: with few and many identities.
func TestProvenAnswersAsAllowed(t *testing.T) {
	list, who := hostile(300, 64, 1)
	for _, ids := range [][]jute.ID{nil, who[0].ids, append([]jute.ID{list[299].ID}, who[0].ids...),
		append([]jute.ID{{Scheme: SchemeSuper}}, who[0].ids...)} {
		for _, one := range [][]jute.ACL{nil, list[298:], list, append(slices.Clone(list), Open...)} {
			for _, perm := range []jute.Perms{jute.PermRead, jute.PermAdmin} {
				if got, want := NewProven(ids).Allowed(one, perm), Allowed(one, perm, ids); got != want {
					t.Errorf("%d identities, %d entries, permission %d: %v, want %v", len(ids), len(one), perm, got,
						want)
				}
			}
		}
	}
}

// BenchmarkHostileList asks for 50 connections with 900 identities about a list of 2,000 entries.
func BenchmarkHostileList(b *testing.B) {
	list, who := hostile(2000, 900, 50)
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			for _, w := range who {
				Allowed(list, jute.PermRead, w.ids)
			}
		}
	})
	b.Run("verdicts", func(b *testing.B) {
		var v Verdicts
		for b.Loop() {
			for _, w := range who {
				v.Allowed(list, jute.PermRead, w)
			}
		}
	})
	b.Run("first verdicts", func(b *testing.B) {
		for b.Loop() {
			var v Verdicts
			for _, w := range who {
				v.Allowed(list, jute.PermRead, w)
			}
		}
	})
}

// TestLongListsHaveNoDuplicates: the first of each stays, in their order, beyond the few that are compared.
func TestLongListsHaveNoDuplicates(t *testing.T) {
	var list, want []jute.ACL
	for i := range EntriesMax {
		e := entry(jute.PermAll, "digest", fmt.Sprintf("u:%d", i*i%1000))
		list = append(list, e)
		if !slices.Contains(want, e) {
			want = append(want, e)
		}
	}
	got, code := Fix(list, nil, Digest)
	if code != jute.OK || !slices.Equal(got, want) {
		t.Errorf("%v, %d entries, want %d", code, len(got), len(want))
	}
	if _, code := Fix(append(list, list[0]), nil, Digest); code != jute.InvalidACL {
		t.Errorf("a longer list: %v", code)
	}
}

func TestRedact(t *testing.T) {
	list := []jute.ACL{entry(31, "digest", "u:secret"), entry(1, "ip", "1.2.3.4")}
	want := []jute.ACL{entry(31, "digest", "u:x"), entry(1, "ip", "1.2.3.4")}
	if diff := cmp.Diff(want, Redact(list)); diff != "" {
		t.Error(diff)
	}
	if list[0].ID.ID != "u:secret" {
		t.Error("the list itself was changed")
	}
}

func TestAllocations(t *testing.T) {
	ids := []jute.ID{{Scheme: "ip", ID: "10.1.2.3"}, {Scheme: "digest", ID: "u:h"}}
	list := []jute.ACL{entry(1, "ip", "10.0.0.0/8"), entry(31, "digest", "u:h")}
	open := []jute.ACL{entry(31, "world", "anyone")}
	if n := testing.AllocsPerRun(100, func() {
		if !Allowed(list, jute.PermWrite, ids) || !Allowed(list, jute.PermRead, ids) {
			t.Error("not allowed")
		}
		Fix(open, ids, Digest)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzACL(f *testing.F) {
	f.Add("ip", "10.0.0.0/8", "10.1.1.1")
	f.Add("ip", "fe80::/10", "::1")
	f.Add("digest", "a:b", "a:b")
	f.Add("x509", "CN=a,O=b", "CN=a,O=b")
	f.Fuzz(func(t *testing.T, scheme, id, other string) {
		list, code := Fix([]jute.ACL{entry(31, scheme, id)}, []jute.ID{{Scheme: "digest", ID: "x:y"}}, Digest|SASL|X509)
		if (code == jute.OK) != (len(list) > 0) {
			t.Fatalf("%v with %v", code, list)
		}
		Allowed(list, jute.PermRead, []jute.ID{{Scheme: scheme, ID: other}})
	})
}
