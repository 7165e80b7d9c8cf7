package kazoo_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// TestElection runs Kazoo's Election on three servers, which are killed in turn and started again.
func TestElection(t *testing.T) {
	target.Require(t, target.Python)
	python := filepath.Join(environment(t), "bin", "python")
	e := ensemble.Start(t, ensemble.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := target.Client{
			Argv:   []string{python, filepath.Join("testdata", "ensemble", "election.py"), e.Hosts(), "15"},
			Within: 6 * time.Minute,
		}.Run(t)
		if err != nil {
			t.Errorf("election.py: %v", err)
		}
		t.Log(strings.TrimSpace(out))
	}()
	t.Logf("servers were killed %d times", e.KillInTurn(done))
	<-done // had KillInTurn ended early
}
