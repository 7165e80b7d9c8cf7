package keystore

import (
	"bytes"
	"encoding/asn1"
	"strings"
	"testing"
)

// TestPEMFormsOfJava: a file in PEM may have any form that PemReader finds keys and certificates in.
func TestPEMFormsOfJava(t *testing.T) {
	ca := authority(t, "ca")
	own := ca.server(t)
	plain, encrypted := own.keyPEM(t), own.encryptedPEM(t)
	replaced := func(text []byte, old, with string) []byte {
		return bytes.ReplaceAll(text, []byte(old), []byte(with))
	}
	// What openssl x509 -trustout writes behind the certificate.
	aux, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 1}})
	if err != nil {
		t.Fatal(err)
	}
	marked := func(text []byte) []byte { return append([]byte("\xef\xbb\xbf"), text...) }
	for name, forms := range map[string][2][]byte{ // any order
		"carriage returns":        {replaced(plain, "\n", "\r"), replaced(ca.certPEM(), "\n", "\r")},
		"both line ends":          {replaced(plain, "\n", "\r\n"), replaced(ca.certPEM(), "\n", "\r\n")},
		"a byte order mark":       {marked(plain), marked(ca.certPEM())},
		"no line end":             {replaced(plain, "-----\n-----", "----------"), bytes.TrimSpace(ca.certPEM())},
		"X509 CERTIFICATE":        {replaced(plain, " CERT", " X509 CERT"), pemBlock("X509 CERTIFICATE", ca.cert.Raw)},
		"TRUSTED CERTIFICATE":     {plain, pemBlock("TRUSTED CERTIFICATE", append(bytes.Clone(ca.cert.Raw), aux...))},
		"encrypted, but not said": {replaced(encrypted, "ENCRYPTED ", ""), ca.certPEM()},
	} {
		f := newFiles()
		f.put("server.pem", forms[0])
		f.put("trust.pem", forms[1])
		o := f.options()
		if strings.HasPrefix(name, "encrypted") {
			_, err := Open(o)
			expect(t, name, err, "the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password")
			o.End.KeyStore.Password = password
		}
		set, err := Open(o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantShakes(t, name, set)
	}
}

// curved is a certificate, or a key, with a curve that Go does not know in place of its own.
func curved(der []byte) []byte {
	p256 := []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7}
	other := bytes.Clone(p256)
	other[9] = 1
	return bytes.ReplaceAll(der, p256, other)
}

// TestWhatGoCannotReadIsLeftOut: of the certificates of a store those that Go does not know how to read are left out,
// with a warning each. Alone they are refused, as is what is damaged.
func TestWhatGoCannotReadIsLeftOut(t *testing.T) {
	ca := authority(t, "ca")
	own := ca.server(t)
	const says = `the certificate of "CN=ca" cannot be used (x509: unsupported elliptic curve); issue it anew`
	odd := pemBlock("CERTIFICATE", curved(ca.cert.Raw))
	f := newFiles()
	f.put("server.pem", append(own.keyPEM(t), odd...))
	f.put("trust.pem", append(bytes.Clone(odd), ca.certPEM()...))
	set := open(t, f.options())
	wantShakes(t, "the store", set)
	got := set.Warnings()
	if len(got) != 2 || got[0] != "ssl.quorum.keyStore.location=server.pem: left out: "+says ||
		got[1] != "ssl.quorum.trustStore.location=trust.pem: left out: "+says {
		t.Errorf("warnings %q", got)
	}

	f.put("trust.pem", odd)
	_, err := Open(f.options())
	expect(t, "alone", err, "trust.pem: "+says)
	f.put("trust.pem", append(pemBlock("CERTIFICATE", ca.cert.Raw[:len(ca.cert.Raw)-1]), ca.certPEM()...))
	_, err = Open(f.options())
	expect(t, "damaged", err, "trust.pem: a certificate in it cannot be read; issue it anew")

	f.put("trust.pem", ca.certPEM())
	key := pemBlock("PRIVATE KEY", own.keyDER(t))
	f.put("server.pem", append(key, pemBlock("CERTIFICATE", curved(own.cert.Raw))...))
	_, err = Open(f.options())
	expect(t, "own", err, "there is no certificate for the private key")
	expect(t, "own", err, `left out: the certificate of "CN=server" cannot be used`)
	f.put("server.pem", append(pemBlock("PRIVATE KEY", curved(own.keyDER(t))), own.certPEM()...))
	_, err = Open(f.options())
	expect(t, "key", err, "server.pem: a key of the kind EC with a curve of its own cannot be used with TLS here")
	f.put("server.pem", append(pemBlock("DSA PRIVATE KEY", []byte{0x30, 0}), own.certPEM()...))
	_, err = Open(f.options())
	expect(t, "old key", err, "server.pem: a key of the kind DSA cannot be used with TLS here")
}
