package kazoo_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// TestShellLocks has Kazoo's Lock and Election stand in line with zkd cli's lock and elect: never are two in.
func TestShellLocks(t *testing.T) {
	target.Require(t, target.Python)
	python := filepath.Join(environment(t), "bin", "python")
	server := target.Start(t, target.Options{})
	out, err := target.Client{
		Argv: []string{python, filepath.Join("testdata", "shell", "lock.py"), server.Addr, target.ZkdBinary(t),
			t.TempDir()},
		Within: 4 * time.Minute,
	}.Run(t)
	if turns := strings.Count(out, "ok "); err != nil || turns != 8 {
		t.Errorf("%d of 8 had their turns: %v", turns, err)
	}
}
