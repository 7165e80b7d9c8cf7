package target

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a file in a folder of its own, which ends with the test, and returns its path.
func WriteFile(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
