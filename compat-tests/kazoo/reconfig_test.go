package kazoo_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the goldens anew, from ZKD_COMPAT_TARGET=zookeeper")

// TestReconfig runs Kazoo's reconfig on three servers, with a fourth that is down.
func TestReconfig(t *testing.T) {
	target.Require(t, target.Python)
	python := filepath.Join(environment(t), "bin", "python")
	e := ensemble.Prepare(t, ensemble.Options{Servers: 4, Dynamic: true, Calm: true})
	e.Found(3)
	script := []string{
		python, filepath.Join("testdata", "ensemble", "reconfig.py"), e.Servers[0].Addr,
		target.SuperUser + ":" + target.SuperPassword,
	}
	script = append(script, e.Lines("participant", e.Servers[2])...)
	script = append(script, e.Lines("observer", e.Servers[3])...)
	out, err := target.Client{Argv: script, Within: 6 * time.Minute}.Run(t)
	if err != nil {
		t.Errorf("reconfig.py: %v", err)
	}
	mask := ensemble.Mask{Ensemble: e}
	target.Golden(t, "reconfig", strings.TrimSpace(mask.Text(out)), *update)
}
