package keystore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/conf"
)

// TestFormats shakes hands with the stores of two servers in each format, both ways.
func TestFormats(t *testing.T) {
	ca := authority(t, "ca")
	middle := issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "middle"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, ca)
	own, far := ca.server(t), middle.server(t)
	f := newFiles()
	for name, content := range map[string][]byte{ // any order: each by itself
		"plain.pem": own.keyPEM(t), "encrypted.pem": own.encryptedPEM(t), "old.pem": own.oldPEM(t),
		"chain.pem": append(middle.certPEM(), far.keyPEM(t, ca)...),
		"own.jks":   jksStore(t, own, password, ca), "really12.jks": pkcs12Store(t, own.key, own.cert),
		"chain.p12":     pkcs12Store(t, far.key, ca.cert, middle.cert, far.cert),
		"reallyjks.p12": jksStore(t, own, password),
		"trust.pem":     append([]byte("# the authority\n"), ca.certPEM()...),
		"trust.jks":     jksStore(t, nil, "", ca), "trust.p12": pkcs12Trust(t, ca.cert),
		"password": []byte(password + "\n"),
	} {
		f.put(name, content)
	}
	keys := []string{
		"plain.pem", "encrypted.pem", "old.pem", "chain.pem", "own.jks", "really12.jks", "chain.p12", "reallyjks.p12",
	}
	trusts := []string{"trust.pem", "trust.jks", "trust.p12", "own.jks"}
	for i, key := range keys {
		o := f.options()
		o.End.KeyStore = conf.Store{Location: key, Password: "not this one", PasswordPath: "password"}
		o.End.TrustStore = conf.Store{Location: trusts[i%len(trusts)], Password: password}
		server := open(t, o)
		o.End.KeyStore.Location = keys[(i+1)%len(keys)]
		client := open(t, o)
		errServer, errClient := shake(t, server.Server(), client.Client("127.0.0.1"))
		if errServer != nil || errClient != nil {
			t.Errorf("%s, %s: server %v, client %v", key, o.End.TrustStore.Location, errServer, errClient)
		}
		if !server.NotAfter().Equal(start.AddDate(1, 0, 0)) {
			t.Errorf("%s: holds until %v", key, server.NotAfter())
		}
	}
}

// TestHandshakes checks who may connect to whom, and that what is wrong is said on the side that sees it.
func TestHandshakes(t *testing.T) {
	ca, stranger := authority(t, "ca"), authority(t, "stranger")
	f := newFiles()
	f.put("server.pem", ca.server(t).keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	f.put("strange.pem", stranger.server(t).keyPEM(t))
	f.put("strange-trust.pem", stranger.certPEM())
	f.put("common-name.pem", issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "ZK9"}}, ca).keyPEM(t))
	f.put("only-server.pem", issue(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "only"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca).keyPEM(t))
	shows := func(name string) func(*Options) { return func(o *Options) { o.End.KeyStore.Location = name } }
	asks := func(auth string) func(*Options) { return func(o *Options) { o.End.ClientAuth = auth } }
	lookup := func(names []string, err error) func(*Options) {
		return func(o *Options) {
			o.End.ClientHostnameVerification, o.End.AllowReverseDNS = true, true
			o.LookupAddr = func(context.Context, string) ([]string, error) { return names, err }
		}
	}
	later := func(o *Options) { o.Now = func() time.Time { return start.AddDate(2, 0, 0) } }
	for _, c := range []struct {
		name           string
		server, client func(o *Options) // changes of the options
		host           string
		bare           bool // the client shows no certificate
		saysServer     string
		saysClient     string
	}{
		{name: "by address"},
		{name: "by name", host: "zk1.example.net"},
		{name: "by name in capitals", host: "ZK1.example.net"},
		{name: "another host", host: "zk2.example.net", saysServer: "bad certificate", saysClient: "the certificate " +
			"that zk2.example.net shows is for zk1.example.net, 127.0.0.1, not for zk2.example.net " +
			"(ssl.quorum.hostnameVerification=true): issue it with that name, or set the key to false"},
		{name: "another host, not looked at", host: "zk2.example.net",
			client: func(o *Options) { o.End.HostnameVerification = false }},
		{name: "a common name beside others does not count", host: "server", saysServer: "bad certificate",
			saysClient: "is for zk1.example.net, 127.0.0.1, not for server"},
		{name: "a common name", host: "zk9", server: shows("common-name.pem")},
		{name: "another common name", server: shows("common-name.pem"),
			saysServer: "bad certificate", saysClient: "is for ZK9, not for 127.0.0.1"},
		{name: "an unknown server", server: shows("strange.pem"),
			saysServer: "bad certificate", saysClient: `the certificate of "CN=server" that 127.0.0.1 shows is ` +
				`signed by "CN=stranger", which is not in ssl.quorum.trustStore.location (trust.pem): import`},
		{name: "an unknown client", client: shows("strange.pem"),
			saysClient: "bad certificate", saysServer: `is signed by "CN=stranger", which is not in ` +
				`ssl.quorum.trustStore.location (trust.pem)`},
		{name: "an expired server", client: later,
			saysServer: "bad certificate", saysClient: "does not hold now (it does from 2026-03-01T00:00:00Z to " +
				"2027-03-01T00:00:00Z): renew it in the key store there, or set the clocks right"},
		{name: "an expired client", server: later,
			saysClient: "bad certificate", saysServer: "does not hold now"},
		{name: "a client without a certificate", bare: true, saysClient: "bad certificate",
			saysServer: "shows no certificate (ssl.quorum.clientAuth=need): name a key store there"},
		{name: "a client that wants none", bare: true, server: asks("want")},
		{name: "an unknown client, wanted", client: shows("strange.pem"),
			server: asks("want"), saysClient: "bad certificate", saysServer: "is signed by"},
		{name: "an unknown client, not asked", client: shows("strange.pem"),
			server: asks("none")},
		{name: "not made for clients", client: shows("only-server.pem"),
			saysClient: "bad certificate",
			saysServer: "is not made for it: issue it with the extended key usages serverAuth and clientAuth"},
		{name: "where the client is", server: func(o *Options) { o.End.ClientHostnameVerification = true }},
		{name: "where the client is not", client: shows("common-name.pem"),
			server: func(o *Options) { o.End.ClientHostnameVerification = true }, saysClient: "bad certificate",
			saysServer: "is for ZK9, not for 127.0.0.1 (ssl.quorum.clientHostnameVerification=true)"},
		{name: "what the client's address is called", client: shows("common-name.pem"),
			server: lookup([]string{"other.", "zk9."}, nil)},
		{name: "no name for the client's address", client: shows("common-name.pem"),
			server: lookup(nil, errors.New("no such host")), saysClient: "bad certificate",
			saysServer: "is for ZK9, not for 127.0.0.1"},
		{name: "no name looked at without the first key", client: shows("common-name.pem"),
			server: func(o *Options) { o.End.ClientHostnameVerification, o.End.HostnameVerification = true, false }},
		{name: "no version in common", server: func(o *Options) { o.End.EnabledProtocols = []string{"TLSv1.2"} },
			client:     func(o *Options) { o.End.EnabledProtocols = []string{"TLSv1.3"} },
			saysServer: "client offered only unsupported versions", saysClient: "protocol version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := [2]Options{f.options(), f.options()}
			sets := [2]*Set{}
			for i, change := range []func(*Options){c.server, c.client} {
				if change != nil {
					change(&options[i])
				}
				now := options[i].Now
				options[i].Now = func() time.Time { return start.Add(time.Hour) }
				sets[i] = open(t, options[i])
				sets[i].options.Now = now
			}
			host := c.host
			if host == "" {
				host = "127.0.0.1"
			}
			client := sets[1].Client(host)
			if c.bare {
				client.GetClientCertificate = nil
			}
			errServer, errClient := shake(t, sets[0].Server(), client)
			expect(t, "server", errServer, c.saysServer)
			expect(t, "client", errClient, c.saysClient)
		})
	}
}

// expect checks an error for a text, or for being none.
func expect(t *testing.T, who string, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("%s: %v", who, err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: got error %v, want one with %q", who, err, text)
	}
}

// TestClientOfAnyHost checks the configuration for callers that set the host themselves.
func TestClientOfAnyHost(t *testing.T) {
	ca := authority(t, "ca")
	f := newFiles()
	f.put("server.pem", ca.server(t).keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	set := open(t, f.options())
	o := f.options()
	o.End.HostnameVerification = false
	lax := open(t, o)
	f.put("trust.pem", authority(t, "other").certPEM())
	strange := open(t, f.options())
	o.End.TrustStore.Location = "trust.pem"
	laxStrange := open(t, o)
	for _, c := range []struct {
		set  *Set
		host string
		says string
	}{
		{set, "127.0.0.1", ""}, {set, "zk1.example.net", ""}, {set, "127.0.0.2", "not 127.0.0.2"},
		{strange, "127.0.0.1", "unknown authority"}, {lax, "127.0.0.2", ""},
		{laxStrange, "127.0.0.2", "that the other server shows is signed by"},
	} {
		config := c.set.Client("").Clone()
		config.ServerName = c.host
		_, err := shake(t, set.Server(), config)
		expect(t, c.host, err, c.says)
	}
}

func TestReload(t *testing.T) {
	first, second := authority(t, "first"), authority(t, "second")
	f := newFiles()
	f.put("server.pem", first.server(t).encryptedPEM(t))
	f.put("trust.pem", first.certPEM())
	f.put("password", []byte(password))
	o := f.options()
	o.End.KeyStore.PasswordPath = "password"
	set := open(t, o)
	server, client := set.Server(), set.Client("127.0.0.1") // made once, before the reload
	if errServer, errClient := shake(t, server, client); errServer != nil || errClient != nil {
		t.Fatalf("before: %v, %v", errServer, errClient)
	}
	reload := func(want bool, says string) {
		t.Helper()
		changed, err := set.Reload()
		if changed != want {
			t.Errorf("changed %t, want %t", changed, want)
		}
		expect(t, "reload", err, says)
	}
	reload(false, "")
	f.put("trust.pem", append(first.certPEM(), second.certPEM()...))
	reload(true, "")
	f.put("server.pem", second.server(t).encryptedPEM(t))
	f.put("password", []byte("another"))
	reload(false, "ssl.quorum.keyStore.location=server.pem: the password is wrong, or the file is damaged; "+
		"correct the file that ssl.quorum.keyStore.passwordPath names (password)")
	f.put("password", []byte(password+"\n"))
	reload(true, "")
	f.put("trust.pem", second.certPEM())
	reload(true, "")
	f.put("trust.pem", nil)
	reload(false, "ssl.quorum.trustStore.location=trust.pem: it is empty; write it anew")
	f.put("trust.pem", second.certPEM())
	reload(false, "")
	if errServer, errClient := shake(t, server, client); errServer != nil || errClient != nil {
		t.Errorf("after: %v, %v", errServer, errClient)
	}
	f.put("trust.pem", first.certPEM())
	f.put("server.pem", first.server(t).keyPEM(t))
	old := open(t, f.options())
	errServer, errClient := shake(t, server, old.Client("127.0.0.1"))
	expect(t, "server", errServer, "bad certificate")
	expect(t, "client", errClient, `is signed by "CN=second"`)
}

// TestWhatIsWrong checks that each mistake names its key, its file and what to do.
func TestWhatIsWrong(t *testing.T) {
	ca := authority(t, "ca")
	own, other := ca.server(t), ca.server(t)
	der := func(block []byte) []byte { return append([]byte{0x30, 0x82}, block...) }
	for _, c := range []struct {
		name   string
		key    []byte // of the file key.<end of the type>
		trust  []byte
		change func(end *conf.TLSEnd)
		says   string
	}{
		{name: "no file", change: func(e *conf.TLSEnd) { e.KeyStore.Location = "none.pem" },
			says: "ssl.quorum.keyStore.location=none.pem: open none.pem: file does not exist"},
		{name: "no password file", change: func(e *conf.TLSEnd) { e.TrustStore.PasswordPath = "none" },
			says: "ssl.quorum.trustStore.passwordPath=none: open none: file does not exist"},
		{name: "no key store", change: func(e *conf.TLSEnd) { e.KeyStore.Location = "" },
			says: "ssl.quorum.keyStore.location must be set: TLS needs a key and a certificate"},
		{name: "no trust store", change: func(e *conf.TLSEnd) { e.TrustStore.Location = "" },
			says: "ssl.quorum.trustStore.location must be set: without it"},
		{name: "no format", change: func(e *conf.TLSEnd) { e.KeyStore.Location = "key" },
			says: "location=key: its name does not say which format it has; set ssl.quorum.keyStore.type to JKS, " +
				"PKCS12 or PEM"},
		{name: "a format", change: func(e *conf.TLSEnd) { e.KeyStore.Location, e.KeyStore.Type = "key", "pem" }},
		{name: "Bouncy Castle", change: func(e *conf.TLSEnd) { e.KeyStore.Type = "BCFKS" },
			says: "keyStore.location=key.pem: the format of Bouncy Castle cannot be read; convert the file to PKCS12"},
		{name: "PEM that is JKS", key: jksStore(t, own, password),
			says: "key.pem: it is in the format JKS, not PEM; set ssl.quorum.keyStore.type=JKS"},
		{name: "JKS that is PEM", trust: ca.certPEM(), change: func(e *conf.TLSEnd) { e.TrustStore.Type = "JKS" },
			says: "trust.pem: it is in the format PEM, not JKS; set ssl.quorum.trustStore.type=PEM"},
		{name: "JCEKS", key: magicJCEKS, says: "it is in the format JCEKS, which cannot be read; convert it to PKCS12"},
		{name: "garbage", key: []byte("garbage"), says: "it is not in the format PEM, nor in another that is known"},
		{name: "wrong password of JKS", key: jksStore(t, own, password),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "JKS", "wr0ng" },
			says:   "key.pem: the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password"},
		{name: "no password of JKS", trust: jksStore(t, nil, "", ca),
			change: func(e *conf.TLSEnd) { e.TrustStore.Type = "JKS" },
			says:   "the password is wrong, or the file is damaged; correct ssl.quorum.trustStore.password"},
		{name: "another password of the key", key: jksStore(t, own, "an0ther"),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "JKS", password },
			says:   "its key has another password than the file; give both the same one with keytool -keypasswd"},
		{name: "a password that JKS has not", key: jksStore(t, own, password),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "JKS", "пароль" },
			says:   "its password has characters beyond ISO-8859-1"},
		{name: "half a JKS", key: jksStore(t, own, password)[:100],
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "JKS", password },
			says:   "the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password"},
		{name: "a JKS with a third kind of entry",
			key:    signJKS(t, append(slices.Clone(magicJKS), 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3)),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "JKS", password },
			says:   "it cannot be read; write it anew"},
		{name: "wrong password of PKCS12", key: pkcs12Store(t, own.key, own.cert),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "PKCS12", "wr0ng" },
			says:   "key.pem: the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password"},
		{name: "wrong password of trusted PKCS12", trust: pkcs12Trust(t, ca.cert),
			change: func(e *conf.TLSEnd) { e.TrustStore.Type, e.TrustStore.Password = "PKCS12", "wr0ng" },
			says:   "trust.pem: the password is wrong, or the file is damaged; correct ssl.quorum.trustStore.password"},
		{name: "half a PKCS12", key: der([]byte("xx")), change: func(e *conf.TLSEnd) { e.KeyStore.Type = "PKCS12" },
			says: "key.pem: it is damaged; write it anew"},
		{name: "trust without a key", key: pkcs12Trust(t, ca.cert),
			change: func(e *conf.TLSEnd) { e.KeyStore.Type, e.KeyStore.Password = "PKCS12", password },
			says:   "there is no private key in it; name the file with the key"},
		{name: "a key without trust", trust: pkcs12Store(t, own.key, own.cert),
			change: func(e *conf.TLSEnd) { e.TrustStore.Type, e.TrustStore.Password = "PKCS12", password },
			says:   "there is no trusted certificate in it; import the certificate of the authority"},
		{name: "a key without trust in JKS", trust: jksStore(t, own, password),
			change: func(e *conf.TLSEnd) { e.TrustStore.Type, e.TrustStore.Password = "JKS", password },
			says:   "there is no trusted certificate in it; import the certificate of the authority"},
		{name: "wrong password of PEM", key: own.encryptedPEM(t),
			change: func(e *conf.TLSEnd) { e.KeyStore.Password = "wr0ng" },
			says:   "the password is wrong, or the file is damaged; correct ssl.quorum.keyStore.password"},
		{name: "no password of PEM", key: own.encryptedPEM(t), says: "correct ssl.quorum.keyStore.password"},
		{name: "PEM without a key", key: own.certPEM(), says: "there is no private key in it; name the file"},
		{name: "PEM without a certificate", key: pemBlock("PRIVATE KEY", own.keyDER(t)),
			says: "there is no certificate for the private key; import the one that the authority issued"},
		{name: "another certificate", key: append(other.certPEM(), pemBlock("PRIVATE KEY", own.keyDER(t))...),
			says: "there is no certificate for the private key"},
		{name: "a key that is none", key: append(own.certPEM(), pemBlock("PRIVATE KEY", []byte{1})...),
			says: "its private key cannot be read; make one with RSA or EC"},
		{name: "an old encryption", key: []byte("-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: DES-EDE3-CBC,0\n\n" +
			"AAAA\n-----END RSA PRIVATE KEY-----\n"), says: "the password is wrong, or the file is damaged"},
		{name: "a key of one's own encryption", key: append(own.certPEM(), pemBlock("ENCRYPTED PRIVATE KEY",
			[]byte{0x30, 10, 0x30, 5, 6, 3, 42, 3, 4, 4, 1, 0})...),
			change: func(e *conf.TLSEnd) { e.KeyStore.Password = password },
			says:   "it is encrypted or signed by an algorithm that cannot be read (1.2.3.4)"},
		{name: "a certificate that is none", trust: pemBlock("CERTIFICATE", []byte{1}),
			says: "ssl.quorum.trustStore.location=trust.pem: a certificate in it cannot be read; issue it anew"},
		{name: "PEM without trust", trust: pemBlock("PRIVATE KEY", own.keyDER(t)),
			says: "there is no trusted certificate in it"},
		{name: "revocation", change: func(e *conf.TLSEnd) { e.CRL = true },
			says: "ssl.quorum.crl and ssl.quorum.ocsp: nothing can be fetched here; set both to false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFiles()
			f.put("key", own.keyPEM(t))
			f.put("key.pem", slices.Concat(c.key))
			if c.key == nil {
				f.put("key.pem", own.keyPEM(t))
			}
			f.put("trust.pem", slices.Concat(c.trust))
			if c.trust == nil {
				f.put("trust.pem", ca.certPEM())
			}
			o := f.options()
			o.End.KeyStore.Location = "key.pem"
			if c.change != nil {
				c.change(&o.End)
			}
			_, err := Open(o)
			expect(t, "open", err, c.says)
			if err != nil && (strings.Contains(err.Error(), "wr0ng") || strings.Contains(err.Error(), password)) {
				t.Errorf("the password is in %v", err)
			}
		})
	}
	f := newFiles()
	f.put("server.pem", own.keyPEM(t))
	f.put("trust.pem", []byte("garbage"))
	o := f.options()
	for _, now := range []time.Time{start.Add(-time.Second), start.AddDate(1, 0, 1)} {
		o.Now = func() time.Time { return now }
		_, err := Open(o)
		expect(t, "open", err, `server.pem: the certificate of "CN=server" does not hold now: it does from `+
			"2026-03-01T00:00:00Z to 2027-03-01T00:00:00Z; renew it, or set the clock right")
		expect(t, "open", err, "ssl.quorum.trustStore.location=trust.pem: it is not in the format PEM")
	}
}

func TestSettings(t *testing.T) {
	const (
		old  = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
		cbc  = "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384" // which Go has not
		new1 = "TLS_AES_256_GCM_SHA384"
		new2 = "TLS_AES_128_GCM_SHA256"
		new3 = "TLS_CHACHA20_POLY1305_SHA256"
	)
	const v10, v12, v13 = tls.VersionTLS10, tls.VersionTLS12, tls.VersionTLS13
	for _, c := range []struct {
		protocol, enabled, suites string
		oldest, newest            uint16
		count                     int // of suites
		warning, says             string
	}{
		{oldest: v12, newest: v13},
		{protocol: "TLSv1.3", oldest: v12, newest: v13},
		{protocol: "TLS", oldest: v12, newest: v13},
		{protocol: "TLSv1.2", oldest: v12, newest: v12},
		{protocol: "SSLv3", says: "ssl.quorum.protocol=SSLv3: must be of TLSv1.3, TLSv1.2, TLSv1.1, TLSv1"},
		{protocol: "TLSv1.2", enabled: "TLSv1.3", oldest: v13, newest: v13},
		{enabled: "TLSv1.2,TLSv1,TLSv1.1", oldest: v10, newest: v12},
		{enabled: "TLSv1.3,TLSv1.1", says: "ssl.quorum.enabledProtocols=TLSv1.3,TLSv1.1: leaves out a version between"},
		{enabled: "TLSv1.3,tlsv1.2", says: "ssl.quorum.enabledProtocols=tlsv1.2: must be of TLSv1.3"},
		{suites: old, oldest: v12, newest: v12, count: 1},
		{suites: old + "," + cbc + ",SSL_RSA_WITH_3DES_EDE_CBC_SHA", oldest: v12, newest: v12, count: 2,
			warning: "ssl.quorum.ciphersuites: " + cbc + " is left out, for Go has no such cipher suite"},
		{suites: cbc, says: "ssl.quorum.ciphersuites: none of " + cbc + " is known; name one such as"},
		{suites: new1 + "," + new2 + "," + new3, oldest: v13, newest: v13},
		{suites: new1, oldest: v13, newest: v13, warning: "all cipher suites of TLSv1.3 are on"},
		{suites: new1 + "," + new2 + "," + new3 + "," + old, oldest: v12, newest: v13, count: 1},
		{suites: old, enabled: "TLSv1.3", says: "ssl.quorum.ciphersuites: none of them belongs to a TLS version of"},
		{suites: new1, enabled: "TLSv1.2", says: "ssl.quorum.ciphersuites: none of them belongs to a TLS version of"},
	} {
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, ",")
		}
		o := Options{Prefix: "ssl.quorum.", End: conf.TLSEnd{
			Protocol: c.protocol, EnabledProtocols: list(c.enabled), CipherSuites: list(c.suites),
		}}
		got, warnings, err := o.parseSettings()
		expect(t, c.protocol+" "+c.enabled+" "+c.suites, err, c.says)
		if err != nil {
			continue
		}
		if got.oldest != c.oldest || got.newest != c.newest || len(got.suites) != c.count {
			t.Errorf("%+v: got %+v", c, got)
		}
		said := strings.Join(warnings, "\n")
		if (c.warning == "") != (said == "") || !strings.Contains(said, c.warning) {
			t.Errorf("%+v: warnings %v", c, warnings)
		}
	}
	f := newFiles()
	ca := authority(t, "ca")
	f.put("server.pem", ca.server(t).keyPEM(t))
	f.put("trust.pem", ca.certPEM())
	o := f.options()
	o.End.CipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", cbc}
	set := open(t, o)
	if len(set.Warnings()) != 1 {
		t.Errorf("warnings %v", set.Warnings())
	}
	wantShakes(t, "TLSv1.2", set)
	o.End.CipherSuites = []string{cbc}
	if _, err := Open(o); err == nil {
		t.Error("opened with no cipher suite")
	}
}

// pkcsPrefix begins the identifiers of all that is derived from a password: 1.2.840.113549.1, encoded.
var pkcsPrefix = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1}

// FuzzPKCS12Parts reads what is in a PKCS12 file once it is decrypted.
func FuzzPKCS12Parts(f *testing.F) {
	ca := authority(f, "ca")
	cert, err := asn1.Marshal(certBag{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}, Data: ca.cert.Raw})
	if err != nil {
		f.Fatal(err)
	}
	for last, value := range map[int][]byte{1: ca.server(f).keyDER(f), 3: cert, 6: {0x30, 0}} {
		bags, err := asn1.Marshal([]safeBag{{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, last},
			Value: asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: value}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bags)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file := pkcs12File{left: new(leftOut)}
		if err := file.bags(content, 0); err == nil && slices.Contains(file.keys, nil) {
			t.Fatal("a key that is none")
		}
	})
}

// FuzzStores checks that no file is read with a panic, and that keys come with their certificates.
func FuzzStores(f *testing.F) {
	ca := authority(f, "ca")
	own := ca.server(f)
	for _, content := range [][]byte{
		own.keyPEM(f, ca), own.oldPEM(f), jksStore(f, own, password, ca), jksStore(f, nil, "", ca), magicJCEKS, nil,
	} {
		f.Add(content, "JKS")
		f.Add(content, "PEM")
	}
	f.Fuzz(func(t *testing.T, content []byte, format string) {
		// The key derivation of an encrypted key takes as long as the file asks for.
		if strings.Contains(string(content), "ENCRYPTED") || bytes.Contains(content, pkcsPrefix) {
			return
		}
		s := &store{Store: conf.Store{Location: "x." + strings.ToLower(format), Type: format}, prefix: "p."}
		pairs, _, err := s.keys(contents{file: content, password: password})
		if err == nil && (len(pairs) == 0 || len(pairs[0].chain) == 0) {
			t.Fatalf("no keys and no error: %v", pairs)
		}
		certs, _, err := s.trusted(contents{file: content, password: password})
		if err == nil && len(certs) == 0 {
			t.Fatal("no certificates and no error")
		}
	})
}
