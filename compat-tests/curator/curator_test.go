package curator_test

import (
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "curator")) }

//go:embed pom.xml
var pom string

var outcome = regexp.MustCompile(`(?m)^(PASS|FAIL) ([a-z/-]+)(.*)$`)

// ensembleSeconds is how long each recipe runs while servers are killed, ensembleChecks the number of them.
const (
	ensembleSeconds = 10
	ensembleChecks  = 3
)

// checksMin guards against a program that ends early and quietly.
const checksMin = 35

// TestRecipes runs the program, which connects straight and through a proxy that it can cut.
func TestRecipes(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	server := target.Start(t, target.Options{JVMFlags: []string{"-Dznode.container.checkIntervalMs=500"}})
	proxy := target.StartProxy(t, server.Addr)
	t.Setenv("ZKD_SHELL", target.ZkdBinary(t))
	run(t, checksMin, program(t, server.Addr, proxy.Addr, proxy.CutServer(t)))
}

// TestEnsemble runs recipes on three servers, which are killed in turn and started again.
func TestEnsemble(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	e := ensemble.Start(t, ensemble.Options{})
	client := program(t, e.Hosts(), strconv.Itoa(ensembleSeconds))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(t, ensembleChecks, client)
	}()
	t.Logf("servers were killed %d times", e.KillInTurn(done))
	<-done // had KillInTurn ended early
}

// rollingChecks is the number of checks while servers are restarted.
const rollingChecks = 4

// readyWithin is how long the program has until all of its clients work. A guess, for a busy machine.
const readyWithin = 2 * time.Minute

// calm is the time between two restarts.
const calm = time.Second

// TestRollingRestart stops each of three servers cleanly and starts it again, the leader first and then the leader
// last, while clients and recipes go on: no session is lost, and no request fails that Curator does not try again.
func TestRollingRestart(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	e := ensemble.Start(t, ensemble.Options{})
	ready, stop := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "stop")
	client := program(t, "rolling", e.Hosts(), ready, stop)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(t, rollingChecks, client)
	}()
	defer func() {
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Error(err)
		}
		<-done
	}()
	if why := ensemble.Await(readyWithin, func() (bool, string) {
		select {
		case <-done:
			return true, ""
		default:
			_, err := os.Stat(ready)
			return err == nil, "the clients are not ready"
		}
	}); why != "" {
		t.Error(why)
		return
	}
	restart := func(s *ensemble.Server) {
		s.Stop()
		s.Launch()
		e.AwaitServing(e.Servers...)
		<-time.NewTimer(calm).C // let all clients find their new servers
	}
	restart(e.AwaitLeader())
	for _, s := range e.Servers {
		if s != e.AwaitLeader() {
			restart(s)
		}
	}
	restart(e.AwaitLeader())
}

// program is the client program with its arguments.
func program(t *testing.T, args ...string) target.Client {
	t.Helper()
	argv := append([]string{"java"}, target.JVMOptions(t)...)
	argv = append(argv, "-cp", target.JavaClasses(t, "src", target.Classpath(t, pom)), "-Dcompat.loglevel=OFF", "Main")
	return target.Client{Argv: append(argv, args...), Within: 8 * time.Minute}
}

// run runs a client program and makes each of its checks a subtest; there must be as many as the least.
func run(t *testing.T, least int, client target.Client) {
	t.Helper()
	out, err := client.Run(t)
	checks := outcome.FindAllStringSubmatch(out, -1)
	for _, check := range checks {
		t.Run(check[2], func(t *testing.T) {
			if check[1] == "FAIL" {
				t.Error(check[3])
			}
			t.Log(check[3]) // how long it took
		})
	}
	if err != nil || len(checks) < least {
		t.Errorf("the program ended with %v after %d checks, of at least %d", err, len(checks), least)
	}
}
