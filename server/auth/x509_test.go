package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// TestJavaNames has how Java writes names (testdata/X500Text.java).
func TestJavaNames(t *testing.T) {
	text, err := os.ReadFile("testdata/x500text.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		in, out, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		der, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(out)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := javaName(der); err != nil || got != string(want) {
			t.Errorf("%s: %q, %v, want %q", in, got, err, want)
		}
		count++
	}
	if count < 400 {
		t.Errorf("%d names", count)
	}
	for _, damaged := range []string{"", "30", "3000ff", "300231", "30023000", "300431023000", "0403616263"} {
		der, err := hex.DecodeString(damaged)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := javaName(der); err == nil {
			t.Errorf("%s: %q", damaged, got)
		}
	}
}

// FuzzJavaName: no bytes make it panic, and what is written is text.
func FuzzJavaName(f *testing.F) {
	der, err := hex.DecodeString("300c310a3008060355040313" + "0161")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		if name, err := javaName(der); !utf8.ValidString(name) || err != nil && name != "" {
			t.Errorf("%q, %v", name, err)
		}
	})
}

// certified makes a certificate with names.
func certified(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client", Organization: []string{"Acme"}},
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"a.example", "b.example"}, EmailAddresses: []string{"a@example"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("::1")},
		URIs:        []*url.URL{{Scheme: "urn", Opaque: "acme:service(billing;prod)"}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestCertify shows which name of a certificate is the identity.
func TestCertify(t *testing.T) {
	cert := certified(t)
	const subject = "CN=client,O=Acme"
	for _, c := range []struct {
		name string
		san  *AlternativeName
		want string
	}{
		{"subject", nil, subject},
		{"uri", &AlternativeName{Type: 6, Match: ".*", Extract: `\((.+);(.+)\)$`, Group: 1}, "billing"},
		{"all of what matches", &AlternativeName{Type: 6, Match: ".*", Extract: `service`}, "service"},
		{"one of two", &AlternativeName{Type: 2, Match: "^b", Extract: ".*"}, "b.example"},
		{"two match", &AlternativeName{Type: 2, Match: ".*", Extract: ".*"}, subject},
		{"none matches", &AlternativeName{Type: 2, Match: "^c", Extract: ".*"}, subject},
		{"nothing to extract", &AlternativeName{Type: 2, Match: "^a", Extract: "^b"}, subject},
		{"a group without a part", &AlternativeName{Type: 2, Match: "^a", Extract: "a(x)?", Group: 1}, subject},
		{"email", &AlternativeName{Type: 1, Match: ".*", Extract: ".*"}, "a@example"},
		{"address", &AlternativeName{Type: 7, Match: ":", Extract: ".*"}, "0:0:0:0:0:0:0:1"},
		{"no such kind", &AlternativeName{Type: 4, Match: ".*", Extract: ".*"}, subject},
	} {
		p, err := NewX509(X509Options{AlternativeName: c.san, SuperUser: "a@example"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.(Certifier).Certify(cert)
		want := []jute.ID{{Scheme: "x509", ID: c.want}}
		if c.want == "a@example" {
			want = append([]jute.ID{{Scheme: "super", ID: c.want}}, want...)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
	if _, err := new(x509Provider).Certify(&x509.Certificate{RawSubject: []byte{1}}); err == nil {
		t.Error("a certificate without a readable subject is somebody's")
	}
}

// TestAlternativeNameKinds reads kinds that crypto/x509 does not write.
func TestAlternativeNameKinds(t *testing.T) {
	der, err := hex.DecodeString("3018" + "88032a0304" + "a40e" + "300c310a3008060355040313" + "0161" + "8701ff")
	if err != nil {
		t.Fatal(err)
	}
	der[1] = byte(len(der) - 2)
	cert := &x509.Certificate{Extensions: []pkix.Extension{{Id: oidAlternativeName, Value: der}}}
	for typ, want := range map[int][]string{nameOID: {"1.2.3.4"}, nameDirectory: {"CN=a"}, nameIP: nil, nameDNS: nil} {
		if diff := cmp.Diff(want, alternativeNames(cert, typ)); diff != "" { // order: each by itself
			t.Errorf("%d (-want +got):\n%s", typ, diff)
		}
	}
	cert.Extensions[0].Value = der[:5]
	if got := alternativeNames(cert, nameOID); got != nil {
		t.Errorf("of a damaged extension: %v", got)
	}
}

// TestBadX509Options: what cannot be looked for is refused, with the key.
func TestBadX509Options(t *testing.T) {
	for want, san := range map[string]AlternativeName{ // order: each by itself
		"clientCertIdSanMatchType=-1":               {Type: -1, Match: ".*", Extract: ".*"},
		"clientCertIdSanMatchType=3":                {Type: 3, Match: ".*", Extract: ".*"},
		"clientCertIdSanMatchRegex=(?=a)":           {Type: 1, Match: "(?=a)", Extract: ".*"},
		"clientCertIdSanExtractRegex=(":             {Type: 1, Match: ".*", Extract: "("},
		"clientCertIdSanExtractMatcherGroupIndex=2": {Type: 1, Match: ".*", Extract: "(.*)", Group: 2},
	} {
		if _, err := NewX509(X509Options{AlternativeName: &san}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestCertifierPackets: an auth packet proves no certificate, and is welcome beside one.
func TestCertifierPackets(t *testing.T) {
	p, err := NewX509(X509Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, c := newRegistry(t, Options{Extra: []Provider{p}, EnforcedSchemes: []string{SchemeX509}}), started()
	if code := c.Add(r, home, SchemeX509, []byte("CN=a")); code != jute.AuthFailed || r.Admits(c.Snapshot()) {
		t.Errorf("without a certificate: %v", code)
	}
	c.Grant(jute.ID{Scheme: SchemeX509, ID: "CN=a"})
	if code := c.Add(r, home, SchemeX509, []byte("CN=b")); code != jute.OK || !r.Admits(c.Snapshot()) {
		t.Errorf("with one: %v", code)
	}
	if n := len(c.Snapshot()); n != 2 {
		t.Errorf("%d identities, want 2", n)
	}
}
