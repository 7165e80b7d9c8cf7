package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"time"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"
)

// Password is that of all stores.
const Password = "changeit"

// Block is one block of PEM.
func Block(typ string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
}

// Trust writes the authority's certificate as PEM, trust.pem, and returns its path.
func (a *Authority) Trust() string { return a.Write("trust.pem", Block("CERTIFICATE", a.Cert.Raw)) }

// TrustBoth writes the certificates of two authorities as PEM.
func (a *Authority) TrustBoth(name string, other *Authority) string {
	return a.Write(name, append(Block("CERTIFICATE", a.Cert.Raw), Block("CERTIFICATE", other.Cert.Raw)...))
}

// DER is the key as PKCS8.
func (i *Identity) DER() []byte {
	i.By.tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(i.Key)
	if err != nil {
		i.By.tb.Fatal(err)
	}
	return der
}

// Blocks are key and certificate as PEM.
func (i *Identity) Blocks() []byte {
	return append(Block("PRIVATE KEY", i.DER()), Block("CERTIFICATE", i.Cert.Raw)...)
}

// PEM writes key and certificate as PEM, into one file.
func (i *Identity) PEM(name string) string { return i.By.Write(name, i.Blocks()) }

// PKCS12 writes key and certificate as PKCS12.
func (i *Identity) PKCS12(name string) string {
	i.By.tb.Helper()
	content, err := pkcs12.Modern.Encode(i.Key, i.Cert, []*x509.Certificate{i.By.Cert}, Password)
	if err != nil {
		i.By.tb.Fatal(err)
	}
	return i.By.Write(name, content)
}

// JKS writes key and certificate, and the trusted certificate, as JKS.
func (i *Identity) JKS(name string) string {
	i.By.tb.Helper()
	store := jks.New()
	err := store.SetPrivateKeyEntry("own", jks.PrivateKeyEntry{
		CreationTime: time.Now(), PrivateKey: i.DER(),
		CertificateChain: []jks.Certificate{{Type: "X.509", Content: i.Cert.Raw}},
	}, []byte(Password))
	if err == nil {
		err = store.SetTrustedCertificateEntry("ca", jks.TrustedCertificateEntry{
			CreationTime: time.Now(), Certificate: jks.Certificate{Type: "X.509", Content: i.By.Cert.Raw},
		})
	}
	var b bytes.Buffer
	if err == nil {
		err = store.Store(&b, []byte(Password))
	}
	if err != nil {
		i.By.tb.Fatal(err)
	}
	return i.By.Write(name, b.Bytes())
}
