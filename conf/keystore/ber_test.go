package keystore

import (
	"bytes"
	"encoding/asn1"
	"slices"
	"testing"

	"zkd/conf"
)

// loosened is a record of DER as Bouncy Castle writes it: no length in front of what is constructed, and strings of
// octets in pieces.
func loosened(t *testing.T, der []byte) []byte {
	t.Helper()
	var ber []byte
	for rest := der; len(rest) > 0; {
		var raw asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &raw); err != nil {
			t.Fatal(err)
		}
		tag := byte(raw.Class<<6 | raw.Tag)
		switch {
		case raw.IsCompound:
			ber = append(ber, tag|tagConstructed, lengthLong)
			ber = append(ber, loosened(t, raw.Bytes)...)
		case tag == tagOctets, tag == 0x80: // what is encrypted has the latter
			ber = append(ber, tag|tagConstructed, lengthLong)
			for piece := range slices.Chunk(raw.Bytes, 100) {
				ber = append(ber, tagOctets, byte(len(piece)))
				ber = append(ber, piece...)
			}
		default:
			ber = append(ber, raw.FullBytes...)
			continue
		}
		ber = append(ber, 0, 0)
	}
	return ber
}

// TestPKCS12OfBouncyCastle: a store in BER is read as one in DER, its password is checked, and half of one is refused.
func TestPKCS12OfBouncyCastle(t *testing.T) {
	ca := authority(t, "ca")
	own := ca.server(t)
	key := loosened(t, pkcs12Store(t, own.key, own.cert))
	f := newFiles()
	f.put("server.p12", key)
	f.put("trust.p12", loosened(t, pkcs12Trust(t, ca.cert)))
	o := f.options()
	o.End.KeyStore = conf.Store{Location: "server.p12", Password: password}
	o.End.TrustStore = conf.Store{Location: "trust.p12", Password: password}
	set := open(t, o)
	wantShakes(t, "the store", set)
	for n := range len(key) - 1 {
		f.put("server.p12", key[:n+1])
		_, err := Open(o)
		expect(t, "half", err, "server.p12: it is damaged; write it anew")
	}
	f.put("server.p12", key)
	o.End.KeyStore.Password = "wr0ng"
	_, err := Open(o)
	expect(t, "password", err, "the password is wrong, or the file is damaged")
}

// TestDefinite: what is read as DER stays as it is; what is neither stays so, too.
func TestDefinite(t *testing.T) {
	ca := authority(t, "ca")
	der := append(bytes.Clone(ca.cert.Raw), "behind"...)
	if got := definite(der); !bytes.Equal(got, der) {
		t.Errorf("DER becomes %x", got)
	}
	deep := bytes.Repeat([]byte{0x30, 0x80}, 1<<16)
	for _, b := range [][]byte{
		nil, {0x30}, {0x30, 0x80}, {4, 0x80, 0, 0}, {0x30, 0x85, 0, 0, 0, 0, 0}, {0x1f, 1, 1}, deep,
		{0x24, 3, 2, 1, 1}, {0x30, 3, 4, 2, 1},
	} {
		if got := definite(b); !bytes.Equal(got, b) {
			t.Errorf("%x becomes %x", b, got)
		}
	}
}

// FuzzDefinite checks that what is definite stays as it is.
func FuzzDefinite(f *testing.F) {
	f.Add([]byte{0x30, 0x80, 0x24, 0x80, 4, 1, 7, 4, 1, 8, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, content []byte) {
		once := definite(content)
		if twice := definite(once); !bytes.Equal(twice, once) {
			t.Fatalf("%x becomes %x", once, twice)
		}
	})
}
