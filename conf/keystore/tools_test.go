package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/conf"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "keystore")) }

// tools are the packages that have the programs whose stores are read.
var tools = map[string]string{"keytool": "openjdk-17-jdk", "openssl": "openssl"}

// tool runs commands of one program in a folder; each is a line with blanks between its words.
func tool(t *testing.T, program, dir, lines string) {
	t.Helper()
	target.Require(t, target.Tool{Name: program, Programs: []string{program}, Install: tools[program]})
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		command := exec.CommandContext(t.Context(), program, strings.Fields(line)...)
		command.Dir = dir
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", program, line, err, output)
		}
	}
}

// What keytool is told to write as before Java 9, and without a MAC.
const (
	oldKeytool = "-J-Dkeystore.pkcs12.legacy=true"
	noMAC      = "-J-Dkeystore.pkcs12.macAlgorithm=NONE"
)

// TestKeytool reads what Java's keytool makes: an authority, a server with a certificate of it and the chain, in JKS
// and in PKCS12, a trust store of each, and one that both is in.
func TestKeytool(t *testing.T) {
	dir := t.TempDir()
	tool(t, "keytool", dir, `
-genkeypair -alias ca -keyalg RSA -dname CN=ca -ext bc:c -keystore ca.p12 -storepass secret1 -validity 3650
-exportcert -alias ca -keystore ca.p12 -storepass secret1 -file ca.crt -rfc
-genkeypair -alias s -keyalg EC -dname CN=server -keystore server.jks -storetype JKS -storepass secret1 -keypass secret1
-certreq -alias s -keystore server.jks -storepass secret1 -file server.csr
-gencert -alias ca -keystore ca.p12 -storepass secret1 -infile server.csr -outfile server.crt -ext san=ip:127.0.0.1
-importcert -alias ca -keystore server.jks -storepass secret1 -file ca.crt -noprompt
-importcert -alias s -keystore server.jks -storepass secret1 -file server.crt -noprompt
-importkeystore -srckeystore server.jks -srcstorepass secret1 -srcalias s -destkeystore server.p12 -storepass secret1
-importkeystore -srckeystore server.p12 -srcstorepass secret1 -destkeystore named.jks -deststorepass secret1
-importcert -alias ca -keystore trust.jks -storetype JKS -storepass secret2 -file ca.crt -noprompt
-importcert -alias ca -keystore trust.p12 -storepass secret2 -file ca.crt -noprompt
-importkeystore -srckeystore server.jks -srcstorepass secret1 -destkeystore all.p12 -storepass secret1
-importkeystore -srckeystore all.p12 -srcstorepass secret1 -destkeystore old.p12 -storepass secret1 `+oldKeytool+`
-importkeystore -srckeystore all.p12 -srcstorepass secret1 -destkeystore nomac.p12 -storepass secret1 `+noMAC+`
`)
	o := Options{Prefix: "ssl.quorum.", ReadFile: os.ReadFile, Now: time.Now}
	for _, c := range []struct{ key, trust, password string }{
		{"server.jks", "trust.jks", "secret2"}, {"server.p12", "trust.p12", "secret2"},
		{"named.jks", "server.jks", "secret1"}, {"server.p12", "ca.crt", ""},
		{"all.p12", "all.p12", "secret1"}, {"old.p12", "old.p12", "secret1"}, {"nomac.p12", "nomac.p12", "secret1"},
	} {
		o.End = conf.TLSEnd{
			ClientAuth: "need", HostnameVerification: true, ClientHostnameVerification: true,
			KeyStore:   conf.Store{Location: filepath.Join(dir, c.key), Password: "secret1"},
			TrustStore: conf.Store{Location: filepath.Join(dir, c.trust), Password: c.password},
		}
		if c.trust == "ca.crt" {
			o.End.TrustStore.Type = "PEM"
		}
		set := open(t, o)
		wantShakes(t, c.key+", "+c.trust, set)
		if chain := set.loaded.Load().certificates[0].Certificate; len(chain) != 2 {
			t.Errorf("%s: a chain of %d certificates, want 2", c.key, len(chain))
		}
		o.End.KeyStore.Password = "secret3"
		_, err := Open(o)
		expect(t, c.key, err, "the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password")
	}
}

// TestKeytoolManyKeys: of a store with a key of RSA and one of EC, that which the client can do with is used.
func TestKeytoolManyKeys(t *testing.T) {
	dir := t.TempDir()
	tool(t, "keytool", dir, `
-genkeypair -alias rsa -keyalg RSA -dname CN=rsa -ext san=ip:127.0.0.1 -keystore two.p12 -storepass secret1
-genkeypair -alias ec -keyalg EC -dname CN=ec -ext san=ip:127.0.0.1 -keystore two.p12 -storepass secret1
`)
	o := Options{Prefix: "ssl.", Clients: true, ReadFile: os.ReadFile, Now: time.Now}
	o.End = conf.TLSEnd{ClientAuth: "none", Protocol: "TLSv1.2",
		KeyStore: conf.Store{Location: filepath.Join(dir, "two.p12"), Password: "secret1"}}
	set := open(t, o)
	roots := x509.NewCertPool()
	for _, own := range set.loaded.Load().certificates {
		roots.AddCert(own.Leaf)
	}
	for suite, subject := range map[uint16]string{ // any order
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:   "CN=rsa",
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "CN=ec",
	} {
		seen := ""
		client := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", CipherSuites: []uint16{suite},
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
		client.VerifyConnection = func(state tls.ConnectionState) error {
			seen = state.PeerCertificates[0].Subject.String()
			return nil
		}
		errServer, errClient := shake(t, set.Server(), client)
		if errServer != nil || errClient != nil || seen != subject {
			t.Errorf("%q is shown, want %q: server %v, client %v", seen, subject, errServer, errClient)
		}
	}
}

// TestKeytoolKeysWithoutUse: a key that Go's TLS has no use for is left out of a store that has another, and is refused
// with its kind if it is the only one.
func TestKeytoolKeysWithoutUse(t *testing.T) {
	dir := t.TempDir()
	const rest = " -dname CN=s -ext san=ip:127.0.0.1 -storepass secret1 -keypass secret1 -storetype "
	tool(t, "keytool", dir, `
-genkeypair -alias dsa -keyalg DSA -keystore one.p12`+rest+`PKCS12
-genkeypair -alias pss -keyalg RSASSA-PSS -keystore one.jks`+rest+`JKS
-genkeypair -alias dsa -keyalg DSA -keystore two.p12`+rest+`PKCS12
-genkeypair -alias ec -keyalg EC -keystore two.p12`+rest+`PKCS12
-genkeypair -alias ec -keyalg EC -keystore two.jks`+rest+`JKS
-genkeypair -alias pss -keyalg RSASSA-PSS -keystore two.jks`+rest+`JKS
`)
	o := Options{Prefix: "ssl.", Clients: true, ReadFile: os.ReadFile, Now: time.Now}
	for name, kind := range map[string]string{"p12": "DSA", "jks": "RSASSA-PSS"} { // any order
		what := "a key of the kind " + kind + " cannot be used with TLS here; make one with RSA"
		o.End = conf.TLSEnd{ClientAuth: "none",
			KeyStore: conf.Store{Location: filepath.Join(dir, "one."+name), Password: "secret1"}}
		_, err := Open(o)
		expect(t, name, err, "one."+name+": "+what)
		o.End.KeyStore.Location = filepath.Join(dir, "two."+name)
		set := open(t, o)
		if n := len(set.loaded.Load().certificates); n != 1 {
			t.Errorf("%s: %d keys, want 1", name, n)
		}
		if w := set.Warnings(); len(w) != 1 || !strings.Contains(w[0], "two."+name+": left out: "+what) {
			t.Errorf("%s: warnings %q", name, w)
		}
	}
}

// TestOpenSSL reads what openssl makes: keys of each kind, encrypted and not, in PEM and in PKCS12.
func TestOpenSSL(t *testing.T) {
	dir := t.TempDir()
	const older = " -provider legacy -provider default"
	const subject = " -days 30 -addext subjectAltName=IP:127.0.0.1 -subj /CN="
	tool(t, "openssl", dir, `
req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.crt`+subject+`rsa
req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec.key -out ec.crt`+subject+`ec
req -x509 -newkey ed25519 -nodes -keyout ed.key -out ed.crt`+subject+`ed
pkcs8 -topk8 -in rsa.key -out rsa.enc -passout pass:secret1
pkcs8 -topk8 -in ec.key -out ec.enc -v2 aes-128-cbc -passout pass:secret1
rsa -in rsa.key -traditional -out rsa.old
ec -in ec.key -out ec.old
rsa -in rsa.key -traditional -aes128 -out rsa.oldenc -passout pass:secret1
rsa -in rsa.key -traditional -des3 -out rsa.olddes -passout pass:secret1
pkcs8 -topk8 -in rsa.key -out rsa.v1 -v1 PBE-SHA1-3DES -passout pass:secret1
pkcs8 -topk8 -in ec.key -out ec.2des -v1 PBE-SHA1-2DES -passout pass:secret1
pkcs8 -topk8 -in ec.key -out ec.md5 -v1 PBE-MD5-DES -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.des -v1 PBE-SHA1-DES -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.rc2 -v1 PBE-SHA1-RC2-128 -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.rc40 -v1 PBE-SHA1-RC2-40 -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.rc4 -v1 PBE-SHA1-RC4-128 -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.md5rc2 -v1 PBE-MD5-RC2-64 -passout pass:secret1`+older+`
pkcs8 -topk8 -in ec.key -out ec.3des -v2 des3 -passout pass:secret1
pkcs8 -topk8 -in ec.key -out ec.sha512 -v2 aes-192-cbc -v2prf hmacWithSHA512 -passout pass:secret1
pkcs8 -topk8 -in ec.key -out ec.scrypt -scrypt -passout pass:secret1
pkcs12 -export -inkey rsa.key -in rsa.crt -out rsa.p12 -passout pass:secret1
pkcs12 -export -inkey ed.key -in ed.crt -out ed.p12 -passout pass:secret1
pkcs12 -export -inkey rsa.key -in rsa.crt -out old.p12 -passout pass:secret1 -legacy
pkcs12 -export -inkey rsa.key -in rsa.crt -out nomac.p12 -passout pass:secret1 -nomac
pkcs12 -export -inkey rsa.key -in rsa.crt -out short.p12 -passout pass:secret1 -macalg sha512-256
pkcs12 -export -inkey rsa.key -in rsa.crt -out plain.p12 -passout pass:secret1 -keypbe NONE -certpbe NONE
req -x509 -newkey rsa:2048 -nodes -keyout pss.key -out pss.crt -sigopt rsa_padding_mode:pss`+subject+`pss
`)
	o := Options{Prefix: "ssl.quorum.", ReadFile: os.ReadFile, Now: time.Now}
	certs := map[string]string{"old.p12": "rsa.crt", "nomac.p12": "rsa.crt", "plain.p12": "rsa.crt",
		"short.p12": "rsa.crt"}
	for _, name := range strings.Fields(`rsa.key ec.key ed.key rsa.enc ec.enc rsa.old ec.old rsa.p12 ed.p12 rsa.oldenc
rsa.olddes rsa.v1 ec.2des ec.md5 ec.des ec.rc2 ec.rc40 ec.rc4 ec.md5rc2 ec.3des ec.sha512 ec.scrypt old.p12 nomac.p12
plain.p12 short.p12 pss.key`) {
		cert := certs[name]
		if cert == "" {
			cert = strings.TrimSuffix(name, filepath.Ext(name)) + ".crt"
		}
		key := filepath.Join(dir, name)
		if filepath.Ext(key) != ".p12" {
			key = join(t, filepath.Join(dir, "both.pem"), key, filepath.Join(dir, cert))
		}
		o.End = conf.TLSEnd{
			ClientAuth: "need", HostnameVerification: true,
			KeyStore:   conf.Store{Location: key, Password: "secret1"},
			TrustStore: conf.Store{Location: filepath.Join(dir, cert), Type: "PEM"},
		}
		set, err := Open(o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantShakes(t, name, set)
		o.End.KeyStore.Password = "secret3"
		_, err = Open(o)
		switch encrypted := !slices.Contains([]string{".key", ".old"}, filepath.Ext(name)); {
		case name == "plain.p12" || name == "nomac.p12" || encrypted:
			expect(t, name, err, "the password is wrong, or the file is damaged")
		case err != nil:
			t.Errorf("%s needs no password: %v", name, err)
		}
	}
}

// join writes files behind one another into one and returns its name.
func join(t *testing.T, name string, parts ...string) string {
	t.Helper()
	var all []byte
	for _, part := range parts {
		content, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	if err := os.WriteFile(name, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
