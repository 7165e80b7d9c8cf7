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
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/bench/process"
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

// Server is a running server process, whose directory is removed after a passed test. Its methods are for the test's
// own goroutine.
type Server struct {
	process.Process
	Addr string // host:port of the plain client port
	// Kind and Version say what the next start starts: another server may take over the directory.
	Kind    Kind
	Version string // of Apache ZooKeeper
	Binary  string // of zkd; default: ZkdBinary

	tb    testing.TB
	flags []string
	wrap  []string
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
	s := &Server{Addr: o.Addr, Process: process.Process{Dir: tb.TempDir()}, Kind: o.Kind, tb: tb, flags: o.JVMFlags,
		wrap: o.Wrap, Version: cmp.Or(o.Version, ServerVersion)}
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
	if s.Kind == Zkd && s.Binary != "" {
		argv[0] = s.Binary
	}
	s.Command = process.Command{Name: string(s.Kind), Argv: append(slices.Clone(s.wrap), argv...), Env: env}
	if err := s.Process.Launch(); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop ends the server with SIGTERM, and with SIGKILL if it does not go in time. It does nothing when the server is
// not running.
func (s *Server) Stop() {
	if err := s.End(syscall.SIGTERM, stopWithin); err != nil {
		s.tb.Error(err)
	}
}

// Kill9 ends the server at once, as a power cut of the process would, and waits until it is gone.
func (s *Server) Kill9() {
	if err := s.End(syscall.SIGKILL, stopWithin); err != nil {
		s.tb.Error(err)
	}
}

// FourLetterWord sends word and returns all of the answer.
func (s *Server) FourLetterWord(word string) (string, error) { return FourLetterWord(s.Addr, word) }

// FourLetterWord sends word to a client port and returns all of the answer.
func FourLetterWord(addr, word string) (string, error) {
	return process.Ask(context.Background(), addr, word, answerWithin)
}

// Mode returns what srvr says after "Mode: ", "" if it says nothing in ten seconds. Any goroutine may call it.
func (s *Server) Mode() string { return process.Mode(context.Background(), s.Addr, dialWithin) }

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
		case <-s.Exited():
			s.tb.Fatalf("%s ended while starting: %v", s.Kind, s.State())
		case <-deadline.C:
			s.tb.Fatalf("%s does not answer on %s after %v", s.Kind, s.Addr, startWithin)
		}
	}
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
	Uses(tb, "java")
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

// FreePorts returns n ports in a row of which each was free a moment ago, and which neither an outgoing connection gets
// nor, until the end of the test, another caller in any process.
func FreePorts(tb testing.TB, n int) []int {
	tb.Helper()
	ports, release, err := process.FreePorts(n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return ports
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
		"dataDir":                s.DataDir(),
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
	decided(tb)
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
