package target

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// previousRevision is the zkd that an ensemble is upgraded from in the tests: the last one of feature level 1, which
// knew no levels.
const previousRevision = "97a167fdf25b459d082db290f2860f2fcf356989"

// PreviousZkd builds the zkd of before feature levels, of the module's own history, into the cache. Where that is not
// there, as in a shallow clone, the test is left out.
func PreviousZkd(tb testing.TB) string {
	tb.Helper()
	root := readSources(tb)
	find := exec.CommandContext(tb.Context(), "git", "-C", root, "cat-file", "-e", previousRevision+"^{commit}")
	if out, err := find.CombinedOutput(); err != nil {
		LeaveOut(tb, fmt.Sprintf("needs revision %s of the history: git fetch --unshallow (%v: %s)", previousRevision,
			err, out))
	}
	dir := Cached(tb, "zkd-previous", []string{previousRevision, runtime.Version(), runtime.GOARCH},
		func(ctx context.Context, dir string) error {
			sources := filepath.Join(dir, "src")
			for _, command := range [][]string{
				{"git", "clone", "-q", "--no-checkout", "--shared", root, sources},
				{"git", "-C", sources, "checkout", "-q", "--detach", previousRevision},
				{"go", "build", "-C", sources, "-buildvcs=false", "-o", filepath.Join(dir, "zkd"), "./cmd/zkd"},
			} {
				if err := Execute(ctx, dir, command[0], command[1:]...); err != nil {
					return err
				}
			}
			return os.RemoveAll(sources)
		})
	return filepath.Join(dir, "zkd")
}
