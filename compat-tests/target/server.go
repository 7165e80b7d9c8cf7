package target

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the digest scheme of ZooKeeper is SHA-1
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Kind names a server implementation.
type Kind string

// The servers that can be driven.
const (
	Zkd       Kind = "zkd"
	Zookeeper Kind = "zookeeper"
)

// Bounds of the waits on a server. Guesses: ZooKeeper starts in 1 to 2 s on two idle cores, ten times that when they
// are busy.
const (
	startWithin  = 3 * time.Minute
	stopWithin   = time.Minute
	pollEvery    = 20 * time.Millisecond
	dialWithin   = 10 * time.Second // while the server starts
	answerWithin = time.Minute      // when it serves
)

// SuperUser and SuperPassword are the credentials of the digest scheme's superuser in the standard settings.
const (
	SuperUser     = "super"
	SuperPassword = "superpw"
)

// Options say which server to start and how. The zero value starts the server that ZKD_COMPAT_TARGET names with the
// standard settings.
type Options struct {
	Kind     Kind              // default: Selected
	Config   map[string]string // zoo.cfg keys that replace standard ones; an empty value removes the key
	JVMFlags []string          // -Dname=value properties that zoo.cfg cannot hold; zkd gets them as SERVER_JVMFLAGS
	Addr     string            // host:port of the client port; default: a free port of the loopback address
	Wrap     []string          // a command that becomes the one after it, such as "ip netns exec NAME"
	Version  string            // of Apache ZooKeeper; default: ServerVersion
}

// Server is a running server process. Its methods are for the test's own goroutine.
type Server struct {
	Addr string // host:port of the plain client port
	Dir  string // holds zoo.cfg, data and the log; removed after a passed test
	// Kind and Version say what the next start starts: another server may take over the directory.
	Kind    Kind
	Version string // of Apache ZooKeeper

	tb     testing.TB
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has been waited for; nil before the first start and after the end
	flags  []string
	wrap   []string
}

// Selected returns the kind that ZKD_COMPAT_TARGET names, zkd when it is not set. An unknown value fails the test.
func Selected(tb testing.TB) Kind {
	tb.Helper()
	switch kind := Kind(os.Getenv("ZKD_COMPAT_TARGET")); kind {
	case "", Zkd:
		return Zkd
	case Zookeeper:
		return Zookeeper
	default:
		tb.Fatalf("ZKD_COMPAT_TARGET is %q: use zkd or zookeeper", kind)
		return ""
	}
}

// Start starts a server on an empty data directory and returns once it answers. The server is stopped when the test
// ends; the end of its log is printed if the test failed. Skips the test (see Require) where the server's tools are
// missing.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := New(tb, o)
	s.Restart()
	return s
}

// New prepares what Start starts: the directory with its zoo.cfg. Restart or Launch start it.
func New(tb testing.TB, o Options) *Server {
	tb.Helper()
	if o.Kind == "" {
		o.Kind = Selected(tb)
	}
	Require(tb, ToolsOf(o.Kind)...)
	if o.Addr == "" {
		o.Addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(FreePort(tb)))
	}
	s := &Server{Addr: o.Addr, Dir: tb.TempDir(), Kind: o.Kind, tb: tb, flags: o.JVMFlags, wrap: o.Wrap,
		Version: cmp.Or(o.Version, ServerVersion)}
	if err := os.WriteFile(s.ConfigPath(), zooCfg(s, o.Config), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Stop()
		if tb.Failed() {
			tb.Logf("end of the log of %s:\n%s", s.Kind, s.LogTail(60))
		}
	})
	return s
}

// Port returns the client port alone.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr) // Addr was made by JoinHostPort
	return port
}

// Restart starts the server again on the data it has, after Stop or Kill9, and returns once it answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Launch()
	s.awaitAnswer()
}

// Launch starts the server on the data it has and returns at once: a server of several answers only when enough of
// the others are there. It does nothing when the server is running.
func (s *Server) Launch() {
	s.tb.Helper()
	if s.Running() {
		return
	}
	argv, env := command(s.tb, s.Kind, s.Version, s.ConfigPath(), s.flags)
	argv = append(slices.Clone(s.wrap), argv...)
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec // the command is ours
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Dir, log, log
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = s.cmd.Start()
	_ = log.Close() // the child has its own descriptor
	if err != nil {
		s.tb.Fatalf("start %s: %v", s.Kind, err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // a killed server has an error here
		close(exited)
	}(s.cmd, s.exited)
}

// Running reports whether the process is there, paused or not.
func (s *Server) Running() bool {
	if s.exited == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// PID is the number of the running process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Pause stops the process where it is (SIGSTOP); its connections stay open. Resume lets it go on.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) } // it may have ended

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) } // it may have ended

// Stop ends the server with SIGTERM, and with SIGKILL if it does not go in time. It does nothing when the server is
// not running.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill9 ends the server at once, as a power cut of the process would, and waits until it is gone.
func (s *Server) Kill9() { s.end(syscall.SIGKILL) }

// LogTail returns the last lines of what the server has printed.
func (s *Server) LogTail(lines int) string {
	text, err := os.ReadFile(s.LogPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// FourLetterWord sends word and returns all of the answer.
func (s *Server) FourLetterWord(word string) (string, error) { return FourLetterWord(s.Addr, word) }

// FourLetterWord sends word to a client port and returns all of the answer.
func FourLetterWord(addr, word string) (string, error) { return ask(addr, word, answerWithin) }

// Mode returns what srvr says after "Mode: ", "" if it says nothing in ten seconds. Any goroutine may call it.
func (s *Server) Mode() string {
	answer, err := ask(s.Addr, "srvr", dialWithin)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(answer, "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}

// ask sends word to a client port and returns all of the answer.
func ask(addr, word string, within time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // read only
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// LogPath is where the server's output goes, over all of its starts.
func (s *Server) LogPath() string { return filepath.Join(s.Dir, "server.log") }

// ConfigPath is the server's zoo.cfg.
func (s *Server) ConfigPath() string { return filepath.Join(s.Dir, "zoo.cfg") }

func (s *Server) awaitAnswer() {
	s.tb.Helper()
	deadline := time.NewTimer(startWithin)
	defer deadline.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		// srvr says "not currently serving" until the server takes requests; ruok says imok before that.
		if s.Mode() != "" {
			return
		}
		select {
		case <-poll.C:
		case <-s.exited:
			s.tb.Fatalf("%s ended while starting: %v", s.Kind, s.cmd.ProcessState)
		case <-deadline.C:
			s.tb.Fatalf("%s does not answer on %s after %v", s.Kind, s.Addr, startWithin)
		}
	}
}

func (s *Server) end(signal syscall.Signal) {
	if s.exited == nil {
		return
	}
	if signal == syscall.SIGTERM {
		s.Resume() // a paused process takes no SIGTERM
	}
	_ = s.cmd.Process.Signal(signal) // it may have ended by itself
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case <-s.exited:
	case <-timer.C:
		s.tb.Errorf("%s did not stop within %v of %v", s.Kind, stopWithin, signal)
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.exited = nil
}

// Command returns the command line and the additional environment that run a server of kind on a zoo.cfg in the
// foreground.
func Command(tb testing.TB, kind Kind, configPath string, jvmFlags []string) (argv, env []string) {
	tb.Helper()
	return command(tb, kind, ServerVersion, configPath, jvmFlags)
}

// command is Command for a version of Apache ZooKeeper.
func command(tb testing.TB, kind Kind, version, configPath string, jvmFlags []string) (argv, env []string) {
	tb.Helper()
	if kind == Zkd {
		return []string{ZkdBinary(tb), "serve", configPath}, []string{"SERVER_JVMFLAGS=" + strings.Join(jvmFlags, " ")}
	}
	argv = append([]string{"java"}, JVMOptions(tb)...)
	argv = append(argv, "-Dzookeeper.admin.enableServer=false")
	argv = append(argv, jvmFlags...)
	return append(argv, "-cp", Classpath(tb, ServerPOM, "zookeeper.version="+version),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", configPath), nil
}

// ToolsOf returns the tools without which a server of kind cannot be run.
func ToolsOf(kind Kind) []Tool {
	if kind == Zookeeper {
		return []Tool{Java, Maven}
	}
	return nil
}

// FreePort returns one port as FreePorts does.
func FreePort(tb testing.TB) int {
	tb.Helper()
	return FreePorts(tb, 1)[0]
}

// The ports that FreePorts chooses from: below those that the kernel gives to outgoing connections (32768 on Linux), so
// that none of them takes the port of a server that is down for a moment.
const (
	freePortsFrom = 17_000
	freePortsTo   = 32_000
	freePortsTry  = 100
)

// FreePorts returns n ports in a row of which each was free a moment ago, and which neither an outgoing connection gets
// nor, until the end of the test, another caller in any process.
func FreePorts(tb testing.TB, n int) []int {
	tb.Helper()
	for range freePortsTry {
		first := freePortsFrom + rand.IntN(freePortsTo-freePortsFrom-n) //nolint:gosec // any will do
		if ports := freeFrom(tb, first, n); ports != nil {
			return ports
		}
	}
	tb.Fatalf("no %d free ports in a row between %d and %d", n, freePortsFrom, freePortsTo)
	return nil
}

// freeFrom returns the n ports from first on, nil if one is taken. For those who come after, the UDP ports of the same
// numbers, which no server uses, say that they are.
func freeFrom(tb testing.TB, first, n int) []int {
	ports, guards := make([]int, n), make([]net.PacketConn, 0, n)
	for i := range ports {
		ports[i] = first + i
		address := net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[i]))
		guard, err := net.ListenPacket("udp", address)
		if err == nil {
			guards = append(guards, guard)
			var l net.Listener
			if l, err = net.Listen("tcp", address); err == nil {
				defer l.Close() //nolint:errcheck // nothing was accepted
			}
		}
		if err != nil {
			closeAll(guards)
			return nil
		}
	}
	tb.Cleanup(func() { closeAll(guards) })
	return ports
}

// closeAll closes sockets on which nothing has come.
func closeAll(guards []net.PacketConn) {
	for _, g := range guards {
		_ = g.Close()
	}
}

// DigestOf returns what the digest scheme stores for user:password, as DigestAuthenticationProvider.generateDigest
// does.
func DigestOf(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password)) //nolint:gosec // see the import
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// zooCfg renders the standard settings with the overrides, keys sorted.
func zooCfg(s *Server, overrides map[string]string) []byte {
	keys := map[string]string{
		"tickTime":               "2000",
		"dataDir":                filepath.Join(s.Dir, "data"),
		"clientPort":             s.Port(),
		"clientPortAddress":      "127.0.0.1",
		"maxClientCnxns":         "0",
		"extendedTypesEnabled":   "true",
		"enforceQuota":           "true",
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
		"DigestAuthenticationProvider.superDigest": DigestOf(SuperUser, SuperPassword),
	}
	maps.Copy(keys, overrides)
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] != "" {
			fmt.Fprintf(&b, "%s=%s\n", key, keys[key])
		}
	}
	return b.Bytes()
}

// ZkdBinary returns ZKD_BIN, or builds cmd/zkd into the cache. Test processes of several packages share the file, so
// the build goes to a name of its own and is renamed into place; the go tool's cache makes all but the first one
// quick. Each checkout has a file of its own: a server that is started again must not become another checkout's.
func ZkdBinary(tb testing.TB) string {
	tb.Helper()
	if bin := os.Getenv("ZKD_BIN"); bin != "" {
		return bin
	}
	root := readSources(tb)
	zkdOnce.Do(func() {
		dir := CacheDir(tb)
		unlock := lock(tb, filepath.Join(dir, "zkd.lock"))
		defer unlock()
		fresh := filepath.Join(dir, fmt.Sprintf("zkd-%d", os.Getpid()))
		ctx, cancel := context.WithTimeout(context.Background(), fetchWithin)
		defer cancel()
		build := exec.CommandContext(ctx, "go", "build", "-o", fresh, "zkd/cmd/zkd") //nolint:gosec // see above
		if out, err := build.CombinedOutput(); err != nil {
			zkdErr = fmt.Errorf("build cmd/zkd: %w\n%s", err, out)
			return
		}
		checkout := sha256.Sum256([]byte(root))
		zkdBin = filepath.Join(dir, fmt.Sprintf("zkd-%x", checkout[:8]))
		zkdErr = os.Rename(fresh, zkdBin)
	})
	if zkdErr != nil {
		tb.Fatal(zkdErr)
	}
	if zkdBin == "" { // the test that built it ended half-way
		tb.Fatal("cmd/zkd was not built; the first test that tried says why")
	}
	return zkdBin
}

// readSources looks at every folder of the module, so that go test, which knows only what a test binary imports and
// opens, does not take the result of an earlier zkd for this one's. It returns the module's folder.
func readSources(tb testing.TB) (root string) {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		tb.Fatalf("find the module: %v", err)
	}
	root = strings.TrimSpace(string(out))
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file that another process had for a moment
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return root
}
