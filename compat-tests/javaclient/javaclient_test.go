package javaclient_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "javaclient")) }

// TestTranscript runs the program with the Java client of the current line and of the one before, which differ in
// what they make of the same events: 3.8 tells a recursive watch of changed children if the path has another
// persistent watch.
func TestTranscript(t *testing.T) {
	for _, line := range []struct{ name, version string }{
		{"3.9", target.ServerVersion}, {"3.8", target.ServerVersion38},
	} {
		t.Run(line.name, func(t *testing.T) {
			target.Require(t, target.Java, target.Maven)
			t.Parallel() // the program mostly waits for reconnects and expiries
			server := target.Start(t, target.Options{JVMFlags: []string{"-Dznode.container.checkIntervalMs=500"}})
			proxy, doomed := target.StartProxy(t, server.Addr), target.StartProxy(t, server.Addr)
			client := target.Classpath(t, target.ServerPOM, "zookeeper.version="+line.version)
			classpath := target.JavaClasses(t, "src", client)
			argv := append([]string{"java"}, target.JVMOptions(t)...)
			out, err := target.Client{
				Argv: append(argv, "-cp", classpath, "-Dcompat.loglevel=ERROR",
					"compat.Main", server.Addr, proxy.Addr, proxy.CutServer(t),
					doomed.Addr, doomed.CloseServer(t)),
				Within: 6 * time.Minute,
			}.Run(t)
			if err != nil {
				t.Fatalf("the program failed: %v", err)
			}
			target.Golden(t, "transcript-"+line.name, out, *update)
		})
	}
}
