package zkcli_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "zkcli")) }

// stepWithin bounds one command. A guess: the first one waits for the JVM to start.
const stepWithin = 2 * time.Minute

// marker is a command that asks no server and prints markerLine: it shows that the command before is done.
const (
	marker     = "printwatches"
	markerLine = "printwatches is "

	notConnected = "Not connected" // printed by every command without a connection, the marker included

	whoamiHeading = "Auth scheme: User"
)

// step is one command and what must have been printed before the next one is sent.
type step struct {
	command string
	await   []string
}

func TestTranscript(t *testing.T) {
	for _, line := range []struct{ name, version string }{
		{"3.9", target.ServerVersion}, {"3.8", target.ServerVersion38},
	} {
		t.Run(line.name, func(t *testing.T) {
			target.Require(t, target.Java, target.Maven)
			server := target.Start(t, target.Options{})
			cli := startCLI(t, server.Addr, line.version)
			var transcript strings.Builder
			defer func() {
				if t.Failed() {
					t.Logf("transcript so far:\n%s", transcript.String())
				}
			}()
			for _, s := range script(t, server.Addr) {
				transcript.WriteString(cli.do(s))
			}
			cli.awaitExit()
			target.Golden(t, "zkcli-"+line.name, mask(transcript.String(), server.Port()), *update)
		})
	}
}

// TestScriptIsComplete keeps the script honest: every command that help lists occurs in it.
func TestScriptIsComplete(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "zkcli-3.9.golden"))
	if err != nil {
		t.Fatal(err)
	}
	help, _, _ := strings.Cut(string(golden), "> version")
	listed := regexp.MustCompile(`(?m)^\t(\w+)`).FindAllStringSubmatch(help, -1)
	if len(listed) < 25 {
		t.Fatalf("help lists %d commands, expected 25 or more:\n%s", len(listed), help)
	}
	steps := script(t, "")
	for _, name := range listed {
		if !slices.ContainsFunc(steps, func(s step) bool { return strings.Fields(s.command)[0] == name[1] }) {
			t.Errorf("script.txt lacks the command %s", name[1])
		}
	}
}

// script reads script.txt, with the server's address put in.
func script(t *testing.T, addr string) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "script.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	for line := range strings.Lines(strings.ReplaceAll(string(text), "{addr}", addr)) {
		line = strings.TrimSpace(line)
		if await, ok := strings.CutPrefix(line, "# await "); ok {
			steps[len(steps)-1].await = append(steps[len(steps)-1].await, await)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			steps = append(steps, step{command: line})
		}
	}
	return steps
}

// cli is a running zkCli. Its methods are for the test's goroutine.
type cli struct {
	t     *testing.T
	stdin io.Writer
	lines chan string // what it prints, closed at its end; the test reads all of it, so the reader never waits for long
}

func startCLI(t *testing.T, addr, version string) *cli {
	t.Helper()
	target.Uses(t, "java")
	classpath := target.Classpath(t, target.ServerPOM, "zookeeper.version="+version)
	args := append(target.JVMOptions(t), "-Dcompat.loglevel=OFF", "-cp", classpath,
		"org.apache.zookeeper.ZooKeeperMain", "-timeout", "30000", "-server", addr)
	cmd := exec.CommandContext(t.Context(), "java", args...) //nolint:gosec // ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()                                                // the child has its own
	c := &cli{t: t, stdin: stdin, lines: make(chan string, 1024)} // more than any command prints
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
		close(c.lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has mostly ended by itself
		_ = cmd.Wait()
		for range c.lines { // let the reader end
		}
		<-done
		_ = out.Close()
	})
	// A session of its own for each run: the first command comes after it is there, for the events it prints to be
	// the same.
	c.until("banner", []string{"state:SyncConnected"}, 0)
	return c
}

// do runs one command and returns its part of the transcript: what it printed, then the events that arrived.
func (c *cli) do(s step) string {
	c.t.Helper()
	markers := 1
	if s.command == marker {
		markers = 2
	}
	input := s.command + "\n" + marker + "\n"
	if s.command == "quit" {
		input, markers = s.command+"\n", 0
	}
	if _, err := io.WriteString(c.stdin, input); err != nil {
		c.t.Fatalf("%s: %v", s.command, err)
	}
	return fmt.Sprintf("> %s\n%s", s.command, c.until(s.command, s.await, markers))
}

// until reads until as many markers and every awaited text have come.
func (c *cli) until(command string, await []string, markers int) string {
	c.t.Helper()
	timer := time.NewTimer(stepWithin)
	defer timer.Stop()
	await = slices.Clone(await)
	var printed, events []string
	for markers > 0 || len(await) > 0 {
		select {
		case line, open := <-c.lines:
			if !open {
				c.t.Fatalf("%s: zkCli ended after printing %q", command, printed)
			}
			await = slices.DeleteFunc(await, func(text string) bool { return strings.Contains(line+" ", text+" ") })
			switch {
			case strings.HasPrefix(line, markerLine):
				if markers--; markers > 0 {
					printed = append(printed, line)
				}
			case strings.HasPrefix(line, "WatchedEvent "):
				events = append(events, line)
			case line == notConnected && (onlyMarkerPrints(command) || slices.Contains(printed, line)):
				// the marker's own, before or after its line
			case strings.HasPrefix(command, "getEphemerals") && strings.HasPrefix(line, "["):
				printed = append(printed, sortedList(line)) // the server keeps them in a hash set
			case strings.TrimSpace(line) != "" && line != "WATCHER::":
				printed = append(printed, line)
			}
		case <-timer.C:
			c.t.Fatalf("%s: waited for %d markers and %q, printed %q, events %q",
				command, markers, await, printed, events)
		}
	}
	if heading := slices.Index(printed, whoamiHeading); heading >= 0 {
		slices.Sort(printed[heading+1:]) // the identities, which the server keeps in a hash set
	}
	return strings.Join(append(printed, events...), "\n") + "\n"
}

func (c *cli) awaitExit() {
	c.t.Helper()
	timer := time.NewTimer(stepWithin)
	defer timer.Stop()
	for {
		select {
		case _, open := <-c.lines:
			if !open {
				return
			}
		case <-timer.C:
			c.t.Fatal("zkCli did not end after quit")
		}
	}
}

// onlyMarkerPrints tells whether only the marker can have printed that there is no connection. addauth does not wait
// for the answer, and a refusal ends the connection.
func onlyMarkerPrints(command string) bool {
	return command == "close" || strings.HasPrefix(command, "connect ") || strings.HasPrefix(command, "addauth ")
}

func sortedList(line string) string {
	names := strings.Split(strings.Trim(line, "[]"), ", ")
	slices.Sort(names)
	return "[" + strings.Join(names, ", ") + "]"
}

// masks are what differs between runs: times, zxids, session ids.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`([cm]time = ).*`), "${1}<time>"},
	{regexp.MustCompile(`([cmp]Zxid = 0x)[0-9a-f]+`), "${1}<zxid>"},
	{regexp.MustCompile(`(zxid: )\d+`), "${1}<zxid>"},
	{regexp.MustCompile(`(ephemeralOwner = 0x)[0-9a-f]{9,}`), "${1}<session>"},
}

func mask(text, port string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return strings.ReplaceAll(text, ":"+port, ":<port>")
}
