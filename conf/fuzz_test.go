package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// FuzzLoad checks that any zoo.cfg and environment give a configuration that holds what Config promises or errors that
// name keys, twice the same, and that no message holds a secret.
func FuzzLoad(f *testing.F) {
	f.Add("dataDir=/d\nclientPort=2181\n", "")
	f.Add(sampleFile(), "ZKD_CLIENT_PORT=1\nJVMFLAGS=-Dzookeeper.skipACL=yes")
	f.Add(ensembleFile(), "ZOO_MY_ID=1\nZOO_SERVERS=server.1=a:1:2;3 server.2=[::1]:1:2:observer")
	f.Add("dataDir=/d\nserver.1=a:1:2|b:1:2;[::1]:2181\nmultiAddress.enabled=true\ngroup.1=1\nweight.1=1", "")
	f.Add("dynamicConfigFile=/dyn\ndataDir=/d\nclientPort=1", "ZKD_SSL_KEY_STORE_PASSWORD=x")
	f.Add("", "ZOO_CFG_EXTRA=a=b jute.maxbuffer=0x10")
	f.Fuzz(func(t *testing.T, text, environ string) {
		const secret = "s3cr3t-w0rd"
		environ += "\nZKD_SSL_TRUST_STORE_PASSWORD=" + secret
		sources := Sources{
			Environ: strings.Split(environ, "\n"),
			ReadFile: func(name string) ([]byte, error) {
				if name == "/dyn" {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			},
		}
		if text != "" {
			sources.Text = []byte(text)
		}
		config, err := Load(sources)
		again, errAgain := Load(sources)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("two errors for the same sources:\n%v\n%v", err, errAgain)
		}
		if err != nil {
			checkErrors(t, err, secret)
			return
		}
		if fmt.Sprint(config.Notices, config.Unsupported()) != fmt.Sprint(again.Notices, again.Unsupported()) {
			t.Fatalf("two outcomes for the same sources:\n%v\n%v", config.Notices, again.Notices)
		}
		checkConfig(t, config, secret)
	})
}

func checkErrors(t *testing.T, err error, secret string) {
	t.Helper()
	var problems Errors
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("got error %v, want Errors", err)
	}
	for _, p := range problems {
		if p.Allowed == "" || strings.Contains(p.String(), "\n") || strings.Contains(p.String(), secret) {
			t.Fatalf("bad problem %q", p)
		}
	}
}

func checkConfig(t *testing.T, c *Config, secret string) {
	t.Helper()
	if c.TLS.Client.TrustStore.Password == "" {
		t.Fatal("the secret is not in its field")
	}
	if c.Storage.DataDir == "" || c.Storage.DataLogDir == "" {
		t.Fatalf("no data folder: %+v", c.Storage)
	}
	if s := c.Session; s.TickTime <= 0 || s.MinTimeout < 0 || s.MinTimeout > s.MaxTimeout {
		t.Fatalf("sessions: %+v", s)
	}
	if c.Client.MaxFrameBytes <= 0 || c.Client.MaxPerIP < 0 || c.Client.MaxTotal < 0 || c.Limits.Outstanding <= 0 {
		t.Fatalf("limits: %+v", c.Client)
	}
	if c.Client.Addr == "" && c.Client.SecureAddr == "" && !c.Ensemble.Distributed {
		t.Fatal("a standalone server without a port")
	}
	checkEnsemble(t, &c.Ensemble)
	for _, n := range c.Notices {
		if n.Kind == "" || n.Message == "" || strings.Contains(n.Message, secret) {
			t.Fatalf("bad notice %+v", n)
		}
	}
	for _, p := range c.Unsupported() {
		if p.Key == "" || p.Allowed == "" || strings.Contains(p.String(), secret) {
			t.Fatalf("bad problem %+v", p)
		}
	}
}

// checkEnsemble checks what Ensemble promises, and that its server lines read as the members they were written from.
func checkEnsemble(t *testing.T, e *Ensemble) {
	t.Helper()
	if len(e.Members) > 1 && !e.Distributed {
		t.Fatal("several members of a standalone server")
	}
	own, ok := e.Own()
	if e.Distributed && (!ok || own.ID < 1 || len(e.Listen) == 0 || e.InitTimeout <= 0 || e.SyncTimeout <= 0) {
		t.Fatalf("own member %v, ensemble %+v", own, e)
	}
	for i, line := range e.Lines() {
		_, val, _ := strings.Cut(line, "=")
		again, err := parseMember(e.Members[i].ID, val, true)
		if err != nil || again.Line() != line || again.Observer != e.Members[i].Observer {
			t.Fatalf("member %+v, line %s, read again %+v, %v", e.Members[i], line, again, err)
		}
	}
}
