package peers

import (
	cryptorand "crypto/rand"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zkd/conf"
	"zkd/quorum/transport"
)

// diskFiles are the files of this machine.
type diskFiles struct{ conf.DiskFiles }

func (diskFiles) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func TestSecretFile(t *testing.T) {
	const text = "0123456789abcdef\n"
	for name, c := range map[string]struct { // order: each for itself
		mode     os.FileMode
		text     string
		refusal  string
		required bool
	}{
		"for the owner alone":   {mode: 0o400, text: text, required: true},
		"for the group":         {mode: 0o440, text: text, required: true},
		"not required":          {mode: 0o600, text: text},
		"others may read it":    {mode: 0o604, text: text, refusal: "chmod o-rwx"},
		"others may write it":   {mode: 0o602, text: text, refusal: "chmod o-rwx"},
		"short":                 {mode: 0o600, text: "secret", refusal: "line 1 has 6 bytes"},
		"there is no such file": {refusal: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, c.mode); err != nil { // whatever the umask
					t.Fatal(err)
				}
			}
			var log strings.Builder
			p := &Peers{config: &conf.Config{}, logger: slog.New(slog.NewTextHandler(&log, nil)),
				opts: Options{Files: diskFiles{}, Random: cryptorand.Reader}}
			p.config.Ensemble.SecretFile, p.config.Ensemble.SecretRequired = file, c.required
			var streams transport.Options
			err := p.prove(&streams)
			switch {
			case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
				t.Errorf("got %v, want one with %q", err, c.refusal)
			case c.refusal == "" && err != nil:
				t.Error(err)
			case c.refusal == "" && (Guarded(p.config) != c.required || streams.Gate.Demands() != c.required):
				t.Errorf("guarded: %v, it demands: %v", Guarded(p.config), streams.Gate.Demands())
			case c.refusal == "" && strings.Contains(log.String(), "not required yet") == c.required:
				t.Errorf("log: %s", &log)
			}
		})
	}
}

// TestGuarded: what keeps strangers out, and what does not.
func TestGuarded(t *testing.T) {
	for name, c := range map[string]struct { // order: each for itself
		set  func(*conf.Ensemble, *conf.TLS, *conf.Auth)
		want bool
	}{
		"nothing": {set: func(*conf.Ensemble, *conf.TLS, *conf.Auth) {}},
		"the secret": {set: func(e *conf.Ensemble, _ *conf.TLS, _ *conf.Auth) { e.SecretFile = "/secret" },
			want: true},
		"a secret offered": {set: func(e *conf.Ensemble, _ *conf.TLS, _ *conf.Auth) {
			e.SecretFile, e.SecretRequired = "/secret", false
		}},
		"SASL demanded": {set: func(_ *conf.Ensemble, _ *conf.TLS, a *conf.Auth) {
			a.QuorumServerRequireSASL = true
		}, want: true},
		"SASL offered": {set: func(_ *conf.Ensemble, _ *conf.TLS, a *conf.Auth) { a.QuorumSASL = true }},
		"TLS":          {set: func(_ *conf.Ensemble, c *conf.TLS, _ *conf.Auth) { c.QuorumEnabled = true }, want: true},
		"TLS or not": {set: func(_ *conf.Ensemble, c *conf.TLS, _ *conf.Auth) {
			c.QuorumEnabled, c.QuorumPortUnification = true, true
		}},
		"TLS without a certificate": {set: func(_ *conf.Ensemble, c *conf.TLS, _ *conf.Auth) {
			c.QuorumEnabled, c.Quorum.ClientAuth = true, "want"
		}},
	} {
		config := &conf.Config{}
		config.Ensemble.SecretRequired, config.TLS.Quorum.ClientAuth = true, "need"
		c.set(&config.Ensemble, &config.TLS, &config.Auth)
		if got := Guarded(config); got != c.want {
			t.Errorf("%s: guarded %v", name, got)
		}
	}
}

// TestAnOpenPortIsTold: of a port that strangers reach the log tells, unless they have to prove something.
func TestAnOpenPortIsTold(t *testing.T) {
	for address, told := range map[string]bool{ // order: each for itself
		"127.0.0.1:1001": false, "[::1]:1001": false, "10.0.0.1:1001": true, ":1001": true, "0.0.0.0:1001": true,
	} {
		for _, guarded := range []bool{false, true} {
			b := newPortsBench(t)
			b.guarded = guarded
			if err := b.begin(t.Context(), at(address), nil); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(b.log.String(), "peer port open to strangers"); got != (told && !guarded) {
				t.Errorf("%s, guarded %v: told %v", address, guarded, got)
			}
		}
	}
}
