package target

import (
	"context"
	"crypto/sha256"
	_ "embed" // the POM files
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ServerVersion is the Apache ZooKeeper that zkd is compared with, ServerVersion38 the client of the line before.
const (
	ServerVersion   = "3.9.5"
	ServerVersion38 = "3.8.6"
)

// Bounds of a fetch of a client, with all of its attempts, or of a build. Guesses: Maven needs 10 s for all of the
// class paths from a near mirror.
const (
	fetchWithin   = 10 * time.Minute
	fetchAttempts = 4
	fetchPause    = 5 * time.Second // after the first attempt; twice as long after each other one
)

// ServerPOM names the Apache ZooKeeper server and Java client of the version in the property zookeeper.version, with
// the libraries that its distribution carries beside it.
//
//go:embed poms/zookeeper.xml
var ServerPOM string

// logback keeps clients quiet and sends what is worth reading to stderr.
const logback = `<configuration>
<appender name="E" class="ch.qos.logback.core.ConsoleAppender"><target>System.err</target>
<encoder><pattern>%d %-5p %c{1} %m%n</pattern></encoder></appender>
<root level="${compat.loglevel:-WARN}"><appender-ref ref="E"/></root></configuration>
`

// The binary that ZkdBinary made in this process.
var (
	zkdOnce sync.Once
	zkdBin  string
	zkdErr  error
)

// CacheDir returns the directory that keeps what was fetched between runs, and makes it.
func CacheDir(tb testing.TB) string {
	tb.Helper()
	dir, err := cacheDir()
	if err != nil {
		tb.Fatalf("no cache directory, set ZKD_COMPAT_CACHE: %v", err)
	}
	return dir
}

func cacheDir() (string, error) {
	dir := os.Getenv("ZKD_COMPAT_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "zkd-compat")
	}
	return dir, os.MkdirAll(dir, 0o750)
}

// Cached returns a directory of the cache that fill has completed, in this or an earlier run. inputs are all that its
// content depends on. Processes that ask for the same one at once wait for the first; a directory whose fill failed
// is filled again.
func Cached(tb testing.TB, name string, inputs []string, fill func(ctx context.Context, dir string) error) string {
	tb.Helper()
	decided(tb)
	sum := sha256.Sum256([]byte(strings.Join(inputs, "\x00")))
	dir := filepath.Join(CacheDir(tb), name+"-"+hex.EncodeToString(sum[:6]))
	unlock := lock(tb, dir+".lock")
	defer unlock()
	done := filepath.Join(dir, ".complete")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchWithin)
	defer cancel()
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o750)
	}
	if err == nil {
		err = fill(ctx, dir)
	}
	if err == nil {
		err = os.WriteFile(done, nil, 0o600)
	}
	if err != nil {
		tb.Fatalf("prepare %s: %v", name, err)
	}
	return dir
}

// Classpath returns the Java class path of all that pom depends on, fetched by Maven. properties are name=value pairs
// for the POM.
func Classpath(tb testing.TB, pom string, properties ...string) string {
	tb.Helper()
	Uses(tb, "mvn")
	dir := Cached(tb, "classpath", append([]string{pom}, properties...), func(ctx context.Context, dir string) error {
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, []byte(pom), 0o600); err != nil {
			return err
		}
		args := []string{
			"-q", "-B", "-f", file, "-Dmdep.outputFile=" + filepath.Join(dir, "classpath"),
			"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath",
		}
		for _, property := range properties {
			args = append(args, "-D"+property)
		}
		return Fetch(ctx, func(ctx context.Context, attempt int) error {
			if attempt > 1 { // Maven remembers for a day what a repository did not have
				args = append(args, "-U")
			}
			return Execute(ctx, dir, "mvn", args...)
		})
	})
	path, err := os.ReadFile(filepath.Join(dir, "classpath"))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(path))
}

// JavaClasses compiles sources, all of the .java files of the folder src, against classpath and returns the class
// path that runs them.
func JavaClasses(tb testing.TB, src, classpath string) string {
	tb.Helper()
	Uses(tb, "javac")
	files, err := filepath.Glob(filepath.Join(src, "*.java"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no Java sources in %s: %v", src, err)
	}
	inputs := []string{classpath}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		inputs = append(inputs, string(text))
	}
	dir := Cached(tb, "classes", inputs, func(ctx context.Context, dir string) error {
		args := append([]string{"--release", "17", "-Xlint:-options", "-nowarn", "-cp", classpath, "-d", dir}, files...)
		return Execute(ctx, "", "javac", args...)
	})
	return dir + string(os.PathListSeparator) + classpath
}

// JVMOptions are the options of every JVM that is started: small, quick to start, quiet.
func JVMOptions(tb testing.TB) []string {
	tb.Helper()
	dir := Cached(tb, "logback", []string{logback}, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "logback.xml"), []byte(logback), 0o600)
	})
	return []string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dfile.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true",
		"-Dlogback.configurationFile=" + filepath.Join(dir, "logback.xml"),
	}
}

// Fetch has try get something from the network, and once more after a pause as long as it fails, a few times: no
// registry answers always. try is told the number of the attempt, from 1. The error is that of the last one.
func Fetch(ctx context.Context, try func(ctx context.Context, attempt int) error) error {
	return fetch(ctx, fetchPause, try)
}

// fetch is Fetch with the length of the first pause.
func fetch(ctx context.Context, pause time.Duration, try func(ctx context.Context, attempt int) error) error {
	for attempt := 1; ; attempt++ {
		one, cancel := context.WithTimeout(ctx, fetchWithin/2) // one that hangs leaves time for another
		err := try(one, attempt)
		cancel()
		if err == nil {
			return nil
		}
		if attempt == fetchAttempts {
			return fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("after %d attempts in %v: %w", attempt, fetchWithin, err)
		}
		pause *= 2
	}
}

// PythonEnvironment makes a virtual environment of Python in dir that holds what pip installs with args.
func PythonEnvironment(ctx context.Context, dir string, args ...string) error {
	if err := Execute(ctx, "", "python3", "-m", "venv", dir); err != nil {
		return err
	}
	return Fetch(ctx, func(ctx context.Context, _ int) error {
		return Execute(ctx, "", filepath.Join(dir, "bin", "pip"), append([]string{"install", "-q"}, args...)...)
	})
}

// Execute runs a command in dir and returns an error that holds all of its output if it fails.
func Execute(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

// lock takes an exclusive lock on a file, which the system gives up if this process dies.
func lock(tb testing.TB, path string) (unlock func()) {
	tb.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX) //nolint:gosec // a descriptor fits an int
	}
	if err != nil {
		tb.Fatalf("lock %s: %v", path, err)
	}
	return func() { _ = file.Close() } // closing gives the lock up
}
