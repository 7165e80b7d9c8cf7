package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"zkd/compat-tests/target"
	"zkd/conf"
	"zkd/server/instance"
)

// pemStores writes a key store and a trust store in PEM, and returns what a client needs to know of them.
func pemStores(t *testing.T) (end conf.TLSEnd, own tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	end.KeyStore.Location, end.TrustStore.Location = target.SelfSigned(t, "test")
	own, roots = target.LoadSelfSigned(t, end.KeyStore.Location, end.TrustStore.Location)
	end.Protocol, end.HostnameVerification = "TLSv1.3", true
	return end, own, roots
}

// TestCheckKnowsTheHost checks a server that has its number from its host's name, as serve would take it.
func TestCheckKnowsTheHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil || name == "" {
		t.Skipf("this host has no name: %v", err)
	}
	out, _ := zkd(t, "check", "--data-dir", t.TempDir(), "--set", "zkd.myidFromHostname=1",
		"--set", "server.1=127.0.0.1:1:1") // whether the name ends with a number is the host's affair
	if strings.Contains(out, `this host is called ""`) || !strings.Contains(out, name) &&
		strings.Contains(out, "this host is called") {
		t.Errorf("this host is called %q:\n%s", name, out)
	}
}

// TestCheckOpensStoresAsTheServerDoes: also where connections look for revoked certificates.
func TestCheckOpensStoresAsTheServerDoes(t *testing.T) {
	end, _, _ := pemStores(t)
	end.Protocol, end.CRL = "TLSv1.3", true
	var r checkReport
	r.certificate(&instance.Stores{Prefix: "ssl.", End: end, Needed: true})
	if r.Errors != 0 || len(r.Findings) == 0 {
		t.Errorf("%+v", r.Findings)
	}
}
