package curator_test

import (
	_ "embed"
	"os"
	"regexp"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "curator")) }

//go:embed pom.xml
var pom string

var outcome = regexp.MustCompile(`(?m)^(PASS|FAIL) ([a-z/-]+)(.*)$`)

// checksMin guards against a program that ends early and quietly.
const checksMin = 33

// TestRecipes runs the program, which connects straight and through a proxy that it can cut.
func TestRecipes(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	server := target.Start(t, target.Options{JVMFlags: []string{"-Dznode.container.checkIntervalMs=500"}})
	proxy := target.StartProxy(t, server.Addr)
	argv := append([]string{"java"}, target.JVMOptions(t)...)
	out, err := target.Client{
		Argv: append(argv, "-cp", target.JavaClasses(t, "src", target.Classpath(t, pom)), "-Dcompat.loglevel=OFF",
			"Main", server.Addr, proxy.Addr, proxy.CutServer(t)),
		Within: 4 * time.Minute,
	}.Run(t)
	checks := outcome.FindAllStringSubmatch(out, -1)
	for _, check := range checks {
		t.Run(check[2], func(t *testing.T) {
			if check[1] == "FAIL" {
				t.Error(check[3])
			}
			t.Log(check[3]) // how long it took
		})
	}
	if err != nil || len(checks) < checksMin {
		t.Errorf("the program ended with %v after %d checks, of at least %d", err, len(checks), checksMin)
	}
}
