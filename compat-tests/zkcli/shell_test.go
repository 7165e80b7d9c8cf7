package zkcli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zkd/compat-tests/target"
)

// shell is a program with zkCli's commands: zkCli.sh itself, or zkd cli.
type shell struct {
	name string
	argv []string
}

// shells are both.
func shells(t *testing.T) []shell {
	t.Helper()
	pom, err := os.ReadFile(filepath.Join("testdata", "jline.xml"))
	if err != nil {
		t.Fatal(err)
	}
	classpath := target.Classpath(t, target.ServerPOM, "zookeeper.version="+target.ServerVersion) +
		string(os.PathListSeparator) + target.Classpath(t, string(pom))
	java := append([]string{"java"}, target.JVMOptions(t)...)
	java = append(java, "-Dcompat.loglevel=OFF", "-cp", classpath, "org.apache.zookeeper.ZooKeeperMain")
	return []shell{{"zkCli", java}, {"zkd cli", []string{target.ZkdBinary(t), "cli"}}}
}

// run runs a shell to its end and returns what it printed and its status, as lines.
func (s shell) run(t *testing.T, input string, args ...string) string {
	t.Helper()
	target.Uses(t, s.argv[0])
	ctx, cancel := context.WithTimeout(t.Context(), stepWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.argv[0], append(s.argv[1:len(s.argv):len(s.argv)], args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "ZKD_CLI_RC=", "CLIENT_JVMFLAGS=", "JVMFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	status := 0
	if err := cmd.Run(); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			t.Fatalf("%s %q: %v", s.name, args, err)
		}
		status = exit.ExitCode()
	}
	printed, prompts, events := apart(stdout.String())
	return fmt.Sprintf("stdout:\n%sprompts:%s\nevents:\n%sstderr:\n%sstatus: %d\n", printed, prompts, events,
		aboutTerminals.ReplaceAllString(stderr.String(), ""), status)
}

// What is not compared as it stands: prompts and events come from threads of their own, each in one piece; JLine says
// on stderr that it has no terminal.
var (
	prompt         = regexp.MustCompile(`\[zk: [^\]]*\((\w+)\) (\d+)\] `)
	watcher        = regexp.MustCompile(`\nWATCHER::\n`)
	event          = regexp.MustCompile(`\n(WatchedEvent .*)\n`)
	aboutTerminals = regexp.MustCompile(`(?m)^.*(org\.jline\.utils\.Log|Unable to create a system terminal).*\n`)
	itsVersion     = regexp.MustCompile(`(ZooKeeper CLI version: ).*`)
)

// apart takes what was printed, the prompts, without the address, which differs, and the events apart.
func apart(stdout string) (printed, prompts, events string) {
	for _, match := range prompt.FindAllStringSubmatch(stdout, -1) {
		prompts += " " + match[1] + " " + match[2]
	}
	printed = watcher.ReplaceAllString(prompt.ReplaceAllString(stdout, ""), "")
	for _, match := range event.FindAllStringSubmatch(printed, -1) {
		events += match[1] + "\n"
	}
	return event.ReplaceAllString(printed, ""), prompts, events
}

// Events of a connection, and of the end of a session.
const (
	connected = "WatchedEvent state:SyncConnected type:None path:null zxid: -1\n"
	closed    = "WatchedEvent state:Closed type:None path:null zxid: -1\n"
)

// quitTries is how often zkCli.sh is told to quit at most, until it prints that it has closed its session: it ends
// without waiting for the thread that prints events.
const quitTries = 5

// TestShell runs the same sessions and commands through zkCli.sh and through zkd cli: both print what zkCli.sh has
// printed on the real server.
func TestShell(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	session, err := os.ReadFile(filepath.Join("testdata", "shell.txt"))
	if err != nil {
		t.Fatal(err)
	}
	commands := []string{"-r -timeout 5000 -waitforconnection get -s /zookeeper", "stat /missing", "nonsense", "quit"}
	for _, s := range shells(t) {
		t.Run(s.name, func(t *testing.T) {
			server := target.Start(t, target.Options{})
			talk := func(input, address string) string { // whether the first prompt is before the connection is chance
				return s.run(t, input, "-server", address, "-waitforconnection")
			}
			var transcript strings.Builder
			transcript.WriteString("> a session\n" + talk(string(session), server.Addr))
			transcript.WriteString("> its end\n" + talk("stat /missing\n", server.Addr))
			transcript.WriteString("> a chroot\n" + talk("ls /\nget /x\nconfig\n", server.Addr+"/zookeeper"))
			for _, command := range commands {
				args := append([]string{"-server", server.Addr}, strings.Fields(command)...)
				printed := s.run(t, "", args...)
				chance := command == "quit" && s.name == "zkCli"
				for n := 1; chance && n < quitTries && !strings.Contains(printed, closed); n++ {
					printed = s.run(t, "", args...)
				}
				if !strings.Contains(command, "-waitforconnection") { // whether it hears of it before the end is chance
					printed = strings.Replace(printed, connected, "", 1)
				}
				transcript.WriteString("> " + command + "\n" + printed)
			}
			text := strings.ReplaceAll(transcript.String(), server.Addr, "<server>")
			text = itsVersion.ReplaceAllString(text, "${1}<version>")
			target.Golden(t, "shell", mask(text, server.Port()), *update && s.name == "zkCli")
		})
	}
}
