package process

import (
	"context"
	_ "embed" // the POM
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ZookeeperVersion is the Apache ZooKeeper that zkd is compared with.
const ZookeeperVersion = "3.9.5"

// DefaultHeap is the distribution's default of ZooKeeper's heap (SERVER_JVMFLAGS of zkEnv.sh: ZK_SERVER_HEAP=1000).
const DefaultHeap = "1000m"

// heapForm is how a JVM takes the size of a heap.
var heapForm = regexp.MustCompile(`^[1-9][0-9]*[kmgKMG]$`)

// fetchWithin bounds Maven. A guess: it needs 10 s from a near mirror.
const fetchWithin = 5 * time.Minute

// pom names the server and the libraries that its distribution carries beside it.
//
//go:embed zookeeper.xml
var pom string

// logback keeps the server quiet: its own default logs every session.
const logback = `<configuration><appender name="E" class="ch.qos.logback.core.ConsoleAppender">
<target>System.err</target><encoder><pattern>%d %-5p %c{1} %m%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="E"/></root></configuration>
`

// Zookeeper returns the command that runs Apache ZooKeeper with java from the class path in the file, as
// dependency:build-classpath writes it, with at most that much heap, such as 4g. With an empty name it has Maven fetch
// ZookeeperVersion into cache first, unless an earlier run has.
func Zookeeper(ctx context.Context, classpathFile, cache, heap string) (Command, error) {
	if !heapForm.MatchString(heap) {
		return Command{}, fmt.Errorf("the heap is %q: it must be a number and k, m or g, such as 4g", heap)
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return Command{}, fmt.Errorf("make the cache of Apache ZooKeeper: %w", err)
	}
	if classpathFile == "" {
		classpathFile = filepath.Join(cache, "classpath-"+ZookeeperVersion)
		if err := fetch(ctx, cache, classpathFile); err != nil {
			return Command{}, err
		}
	}
	classpath, err := os.ReadFile(classpathFile) //nolint:gosec // the operator's file
	if err != nil {
		return Command{}, fmt.Errorf("read the class path of Apache ZooKeeper: %w", err)
	}
	logConfig := filepath.Join(cache, "logback.xml")
	if err := os.WriteFile(logConfig, []byte(logback), 0o600); err != nil {
		return Command{}, fmt.Errorf("write ZooKeeper's log settings: %w", err)
	}
	return Command{Name: "zookeeper", Argv: []string{
		"java", "-Xmx" + heap, "-Dzookeeper.admin.enableServer=false", "-Dlogback.configurationFile=" + logConfig,
		"-cp", strings.TrimSpace(string(classpath)),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", ConfigMark,
	}}, nil
}

// fetch has Maven fetch the server and write its class path to file, if it is not there.
func fetch(ctx context.Context, cache, file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	pomFile := filepath.Join(cache, "pom.xml")
	if err := os.WriteFile(pomFile, []byte(pom), 0o600); err != nil {
		return fmt.Errorf("write the POM of Apache ZooKeeper: %w", err)
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pomFile, //nolint:gosec // our own arguments
		"-Dzookeeper.version="+ZookeeperVersion, "-Dmdep.outputFile="+file+".new",
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache ZooKeeper by Maven, or name a class path or command: %w\n%s", err, out)
	}
	return os.Rename(file+".new", file)
}
