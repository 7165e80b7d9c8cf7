package sasl_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
)

// requirements are Kazoo and what it speaks SASL with.
const requirements = "kazoo==2.11.0\npure-sasl==0.6.2\nsix==1.17.0\n"

// kazooWithin bounds a run of the Python program.
const kazooWithin = 6 * time.Minute

// python returns the interpreter of an environment with Kazoo.
func python(t *testing.T) string {
	t.Helper()
	dir := target.Cached(t, "python-sasl", []string{requirements}, func(ctx context.Context, dir string) error {
		file := filepath.Join(dir, "requirements.txt")
		if err := os.WriteFile(file, []byte(requirements), 0o600); err != nil {
			return err
		}
		return target.PythonEnvironment(ctx, dir, "-r", file)
	})
	return filepath.Join(dir, "bin", "python")
}

// TestKazoo logs in with Kazoo by DIGEST-MD5.
func TestKazoo(t *testing.T) {
	target.Require(t, target.Python)
	t.Parallel() // the program mostly waits
	open, enforced := pair(t)
	out, err := target.Client{
		Argv:   []string{python(t), filepath.Join("testdata", "login.py"), "DIGEST-MD5", open, enforced},
		Within: kazooWithin,
	}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	target.Golden(t, "kazoo", out, *update)
}

// gssapiTool is the module by which pure-sasl speaks GSSAPI. PyPI has it as sources alone, which need the headers of
// Kerberos.
var gssapiTool = target.Tool{
	Name: "Python's module kerberos", Programs: []string{"sh", "python3"},
	Probe:   []string{"sh", "-c", "PYTHONPATH=" + debianPackages + " python3 -c 'import kerberos'"},
	Install: "python3-kerberos",
}

// debianPackages is where Debian has Python's modules.
const debianPackages = "/usr/lib/python3/dist-packages"

// gssapiKazoo logs in by GSSAPI with a ticket of a principal.
func gssapiKazoo(t *testing.T, k *kdc.KDC, principal, addr string) string {
	t.Helper()
	cache := k.Ticket(t, principal)
	modules, err := filepath.Glob(filepath.Join(debianPackages, "kerberos*.so"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no module kerberos in %s: %v", debianPackages, err)
	}
	dir := t.TempDir() // the module alone: Debian's others shall not stand before those of the environment
	for _, module := range modules {
		if err := os.Symlink(module, filepath.Join(dir, filepath.Base(module))); err != nil {
			t.Fatal(err)
		}
	}
	out, err := target.Client{
		Argv: []string{python(t), filepath.Join("testdata", "login.py"), "GSSAPI", addr}, Within: kazooWithin,
		Env: append(k.Env(), "KRB5CCNAME="+cache, "PYTHONPATH="+dir),
	}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v\n%s", err, strings.TrimSpace(out))
	}
	return out
}
