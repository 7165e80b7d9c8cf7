package javaclient_test

import (
	"regexp"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// configLength is how long a configuration is, which depends on the ports.
var configLength = regexp.MustCompile(`len=[1-9]\d*`)

// TestReconfigTranscript runs every call of ZooKeeperAdmin on three servers: an observer that is down comes and goes,
// whole configurations replace another, and what cannot be is refused.
func TestReconfigTranscript(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	t.Parallel()
	alone := target.Start(t, target.Options{})
	e := ensemble.Prepare(t, ensemble.Options{Servers: 4, Dynamic: true, Calm: true})
	e.Found(3)
	argv := append([]string{"java"}, target.JVMOptions(t)...)
	argv = append(argv, "-cp", target.JavaClasses(t, "src", target.Classpath(t, target.ServerPOM,
		"zookeeper.version="+target.ServerVersion)), "-Dcompat.loglevel=ERROR", "compat.Reconfigs",
		e.Servers[0].Addr, target.SuperUser+":"+target.SuperPassword, alone.Addr)
	argv = append(argv, e.Lines("observer", e.Servers[3])...)
	argv = append(argv, e.Lines("participant", e.Servers[:3]...)...)
	out, err := target.Client{Argv: argv, Within: 6 * time.Minute}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	masked := ensemble.Mask{Ensemble: e}
	target.Golden(t, "reconfig", configLength.ReplaceAllString(masked.Text(out), "len=<length>"), *update)
}
