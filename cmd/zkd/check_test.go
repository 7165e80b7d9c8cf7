package main

import (
	"os"
	"strings"
	"testing"
)

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
	r.certificate("ssl.", end)
	if r.Errors != 0 || len(r.Findings) == 0 {
		t.Errorf("%+v", r.Findings)
	}
}
