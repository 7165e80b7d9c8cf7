package simulation

import (
	"strings"
	"testing"
)

// TestRenamed: the version before imports its own packages, but for those that both versions share.
func TestRenamed(t *testing.T) {
	text, err := renamed("some.go", `package some

import (
	"fmt"

	"zkd/quorum"
	older "zkd/quorum/clock"
)

const name = "zkd/quorum"
`)
	if err != nil || strings.Count(text, `"zkd/before/quorum"`) != 1 || !strings.Contains(text, `"zkd/quorum/clock"`) ||
		!strings.Contains(text, `name = "zkd/quorum"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestUpgrades: a server goes back to the version before only while another one is of it, and in the end none is.
func TestUpgrades(t *testing.T) {
	r, seen := need(t), 0
	if err := r.Lacks(); err != nil {
		t.Skip(err)
	}
	for seed := uint64(1); seen < 2; seed++ {
		p := Draw(seed)
		if !p.Before {
			continue
		}
		if seen++; seen == 2 { // one is away, and has to be upgraded all the same
			p.Stays = &Deed{What: Absent, Whom: 1}
		}
		out, err := r.Play(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		older, begun := map[string]bool{}, false
		for line := range strings.Lines(out.Story) {
			fields := strings.Fields(line)
			begun = begun || strings.Contains(line, "-- start 1")
			switch {
			case !strings.Contains(line, "-- gets the version before: "):
			case fields[len(fields)-1] == "false":
				delete(older, fields[1])
			case begun && len(older) == 0:
				t.Errorf("seed %d: all servers were of the present version, and one goes back: %s", seed, line)
			default:
				older[fields[1]] = true
			}
		}
		if len(older) > 0 || out.Deeds[Upgrade] == 0 || len(out.Violations) > 0 {
			t.Errorf("seed %d: %d servers are of the version before, %d were upgraded; %v", seed, len(older),
				out.Deeds[Upgrade], out.Violations)
		}
	}
}
