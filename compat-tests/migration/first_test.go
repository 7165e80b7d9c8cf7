package migration_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// unhurried has servers without data wait long for one that is late, before they elect a leader: so long that whoever
// is started meanwhile is in time, on any machine. Nothing that a test waits for takes that time when all goes well.
var unhurried = map[string]string{"zkd.electionTimeout": "60000"}

// goldenWalk is the tree of the golden directory, as a server alone has it.
func goldenWalk(t *testing.T) []string {
	t.Helper()
	alone := target.New(t, target.Options{Kind: target.Zkd})
	importInto(t, alone.ConfigPath(), "--from", filepath.Join(goldenDir, "3.9"))
	alone.Restart()
	defer alone.Stop()
	return walk(t, alone.Addr)
}

// TestFirstStartInEveryOrder starts three servers, one of them with imported data, in every order, and all at once: the
// imported tree is served by all, and none ends.
func TestFirstStartInEveryOrder(t *testing.T) {
	want := goldenWalk(t)
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, nil} {
		name := "all at once"
		if order != nil {
			name = fmt.Sprintf("the one with data as number %d, then %v", slices.Index(order, 0)+1, order)
		}
		t.Run(name, func(t *testing.T) {
			e := ensemble.Prepare(t, ensemble.Options{Kind: target.Zkd, Servers: 3, Config: unhurried})
			importInto(t, e.Servers[0].ConfigPath(), "--from", filepath.Join(goldenDir, "3.9"))
			for _, i := range order {
				s := e.Servers[i]
				s.Launch()
				awaitLog(t, s, `msg="server started"`)
			}
			e.StartAll() // what does not run yet
			for _, s := range e.Servers {
				ownConfig(t, want, walk(t, s.Addr))
			}
			awaitVotes(t, e, e.Servers[0])
		})
	}
}

// awaitLog waits until a server has logged one of these.
func awaitLog(t *testing.T, s *ensemble.Server, texts ...string) {
	t.Helper()
	if why := ensemble.Await(waitWithin, func() (bool, string) {
		log := s.Log()
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(log, text) }), log
	}); why != "" {
		t.Fatalf("server %d does not log one of %q, but:\n%s", s.ID, texts, why)
	}
}
