package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// TestThreeServers: the console of one of three shows all, says when one dies and what to do, and goes on.
func TestThreeServers(t *testing.T) {
	target.Require(t, target.Chromium)
	e, ports := threeServers(t)
	follower := e.Followers()[0]
	b := open(t, consoleOf(follower, ports))
	b.visit("")
	b.calm()
	for _, role := range []string{"leader", "follower"} {
		b.see("#live table", role)
	}
	c := connect(t, follower.Addr)
	if _, err := c.Create("/app", []byte("shared"), 0, everybody); err != nil {
		t.Fatal(err)
	}
	b.shot("three", wide, dark, narrow)
	gone := e.Servers[follower.ID%3]
	gone.Kill9()
	b.see("#live", "cannot be asked")
	b.see("#live", "One more voter that fails stops all writes")
	b.shot("dead", wide, dark)
	b.tree("/app")
	b.see("pre.value", "shared")
	gone.Restart()
	b.visit("")
	b.calm()
}

// consoleOf is the address of the console of a server, at one of those ports.
func consoleOf(s *ensemble.Server, ports []int) string {
	return fmt.Sprintf("http://127.0.0.1:%d/console/ensemble/", ports[s.ID-1])
}

// threeServers starts three servers with consoles, at the ports that it returns. settings are further keys of zoo.cfg,
// each with its value behind it.
func threeServers(t *testing.T, settings ...string) (*ensemble.Ensemble, []int) {
	t.Helper()
	ports, config := target.FreePorts(t, 3), map[string]string{"zkd.diskReserve": "0"}
	for i := 0; i < len(settings); i += 2 {
		config[settings[i]] = settings[i+1]
	}
	e := ensemble.Prepare(t, ensemble.Options{Calm: true, Dynamic: true, Config: config})
	for i, s := range e.Servers {
		f, err := os.OpenFile(filepath.Join(s.Dir, "zoo.cfg"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, "admin.enableServer=true\nadmin.serverPort=%d\n", ports[i])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	e.StartAll()
	return e, ports
}

// TestMembersAreChanged: a change is shown before it is made, a leadership is handed over, a backup is downloaded.
func TestMembersAreChanged(t *testing.T) {
	target.Require(t, target.Chromium)
	e, ports := threeServers(t, "reconfigEnabled", "true")
	follower := e.Followers()[0]
	b := open(t, consoleOf(e.AwaitLeader(), ports))
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.visit("members")
	b.see("table", "leader")
	b.shot("members", wide, narrow)
	b.submit(fmt.Sprintf("tbody tr:nth-child(%d) button", follower.ID))
	b.see("main", fmt.Sprintf("Server %d leaves", follower.ID))
	b.see("main", "Voters: 2 instead of 3")
	b.see("main", "An even number of voters")
	b.shot("preview", wide, dark)
	b.submit("main button.danger")
	b.see("main", "The members are changed")
	var rows int
	b.value(`document.querySelectorAll("tbody tr").length`, &rows)
	if rows != 2 {
		t.Errorf("%d members", rows)
	}
	b.value(`fetch(document.querySelector("a[download]").href).then(r => r.blob()).then(
		b => window.got = b.size), 0`, nil)
	b.waitFor("window.got > 100")
	b.agree()
	b.submit(`form[action$="/members/handover"] button`)
	b.see("main", "Another server leads now")
}

// TestSeveralEnsembles: zkd console shows ensembles elsewhere, side by side; each wants a credential of its own.
func TestSeveralEnsembles(t *testing.T) {
	target.Require(t, target.Chromium)
	one := target.Start(t, target.Options{Config: map[string]string{"zkd.diskReserve": "0"}})
	two := target.Start(t, target.Options{Config: map[string]string{"zkd.diskReserve": "0",
		"4lw.commands.whitelist": "srvr"}})
	for addr, path := range map[string]string{one.Addr: "/first", two.Addr: "/second"} { // any order
		if _, err := connect(t, addr).Create(path, []byte("of "+path), 0, everybody); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, zkdConsole(t, "--connect", "one="+one.Addr, "--connect", "two="+two.Addr))
	b.visit("")
	b.see("main", "one")
	b.visit("one/")
	b.see("#live", "standalone")
	b.calm()
	b.visit("two/")
	b.see("#live", "only srvr is allowed")
	b.visit("one/tree?path=/first")
	b.see("pre.value", "of /first")
	b.visit("two/tree?path=/second")
	b.see("pre.value", "of /second")
	b.visit("one/sessions")
	b.see("table", "127.0.0.1")
	b.visit("one/signin")
	b.fill("#user", target.SuperUser)
	b.fill("#password", target.SuperPassword)
	b.submit("main button.primary")
	b.see(".who", "super")
	b.visit("two/tree?path=/second")
	b.see(".who", "not signed in")
	b.visit("one/tree/edit?path=/first")
	b.fill("#value", "changed")
	b.submit("main button.primary")
	b.see("main", "Saved")
}

// zkdConsole runs zkd console, and returns where its pages are.
func zkdConsole(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"console", "--listen", "127.0.0.1:0", "--admin-port", "0"}, args...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), target.ZkdBinary(t), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("zkd console ends with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
