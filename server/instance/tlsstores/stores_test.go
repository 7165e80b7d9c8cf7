package tlsstores

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"zkd/conf"
	"zkd/conf/keystore"
)

// TestReloadTellsWhatIsLeftOut: what of a store is left out is told when the store is read, and not again with the next
// change.
func TestReloadTellsWhatIsLeftOut(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.AddDate(1, 0, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	good := block("CERTIFICATE", cert)
	p256, p192 := []byte{0x3d, 3, 1, 7}, []byte{0x3d, 3, 1, 1} // the ends of the object identifiers
	odd := block("CERTIFICATE", bytes.ReplaceAll(cert, p256, p192))
	files := map[string][]byte{"key.pem": append(block("PRIVATE KEY", keyDER), good...), "trust.pem": good}
	set, err := keystore.Open(keystore.Options{
		Prefix: "ssl.quorum.", Now: func() time.Time { return begin.Add(time.Hour) },
		ReadFile: func(name string) ([]byte, error) { return files[name], nil },
		End: conf.TLSEnd{ClientAuth: "need", KeyStore: conf.Store{Location: "key.pem"},
			TrustStore: conf.Store{Location: "trust.pem"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := NewReloader(set, "servers", nil, slog.New(slog.NewTextHandler(&log, nil)))
	for i, trust := range [][]byte{good, append(odd, good...), append(odd, good...), append(good, odd...)} {
		files["trust.pem"] = trust
		log.Reset()
		r.Look()
		want := 0
		if i == 1 {
			want = 1
		}
		if got := strings.Count(log.String(), `msg="TLS configuration partly ignored" with=servers`); got != want {
			t.Errorf("look %d: %d warnings, want %d:\n%s", i, got, want, &log)
		}
	}
}
