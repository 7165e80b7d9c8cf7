package simulation

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"zkd/compat-tests/target"
)

// TestPlantSources: each plant can be planted in the sources as they are, and what comes of it is Go.
func TestPlantSources(t *testing.T) {
	all := plants()
	if _, err := changedSources("../..", all, nil, nil); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range all {
		p := &all[i]
		if names[p.Name] || p.Bug == "" || len(p.Patches) == 0 {
			t.Errorf("%s: two have the name, or it says nothing, or changes nothing", p.Name)
		}
		names[p.Name] = true
		for _, patch := range p.Patches {
			if !strings.Contains(patch.New, fmt.Sprintf("(%q", p.Name)) {
				t.Errorf("%s: its patch of %s does not ask for it", p.Name, patch.File)
			}
		}
	}
}

// TestPlantPatches: a source that reads otherwise is named with the plant, and so are plants in one place.
func TestPlantPatches(t *testing.T) {
	_, err := changedSources("../..", []Plant{{Name: "some", Patches: []Patch{{"quorum/loop.go", "no such text", ""}}}},
		nil, nil)
	if err == nil || !strings.Contains(err.Error(), "some") || !strings.Contains(err.Error(), "quorum/loop.go") {
		t.Errorf("a patch without a place: %v", err)
	}
	if _, err := patched("abc", []place{{1, 3, "one", ""}, {0, 2, "other", ""}}); err == nil {
		t.Error("two plants are in one place")
	}
	if text, err := patched("abc", []place{{2, 3, "one", "z"}, {0, 1, "other", "x"}}); text != "xbz" || err != nil {
		t.Errorf("patched: %q, %v", text, err)
	}
}

// TestPlantsWithin: what a plant has to be found within follows from how often it was found, and the chance that CI
// misses one of those that it looks for is below one in a thousand.
func TestPlantsWithin(t *testing.T) {
	all := plants()
	chance := 0.0
	for i := range all {
		p := &all[i]
		if p.Found == 0 || p.Found > p.Of {
			t.Errorf("%s was found by %d of %d seeds", p.Name, p.Found, p.Of)
		}
		if !p.seldom() {
			chance += missChance
		}
	}
	if chance == 0 || chance > 1.0/1000 {
		t.Errorf("CI misses a plant with the chance %v", chance)
	}
	for _, c := range []struct{ found, of, want uint64 }{
		{40, 40, withinLeast}, {20, 40, 21}, {10, 40, 60}, {2, 12, 430}, {5, 100, 213}, {1, 96, 2956},
	} {
		if got := (&Plant{Found: c.found, Of: c.of}).within(); got != c.want {
			t.Errorf("what %d of %d seeds find has to be found within %d, want %d", c.found, c.of, got, c.want)
		}
	}
}

// TestPlantsAreTold: the decision tells of all plants, and of no others, how often each was found, and within how many
// seeds it is to be.
func TestPlantsAreTold(t *testing.T) {
	text, err := os.ReadFile("../../docs/decisions/0032-the-world.md")
	if err != nil {
		t.Fatal(err)
	}
	told, want := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == plantCells && strings.HasPrefix(cells[1], " `") {
			told[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[4]) + ", " + strings.TrimSpace(cells[5])
		}
	}
	for _, p := range plants() {
		want[p.Name] = fmt.Sprintf("%d of %d, %d", p.Found, p.Of, p.within())
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if told[name] != want[name] {
			t.Errorf("plant %s: found by, and within: %s; the decision says: %q", name, want[name], told[name])
		}
		delete(told, name)
	}
	if len(told) > 0 {
		t.Errorf("the decision tells of what is not planted: %v", told)
	}
}

// plantCells is how many pieces a row of the table has, with those beside it: plant, where it was a bug, what it does,
// found by, within, how it shows.
const plantCells = 8

// hunt is the search for plants.
type hunt struct {
	t      *testing.T
	runner *Runner
	first  uint64 // seed that is tried
	seeds  uint64 // tried at most; 0: as many as the plant says

	mu    sync.Mutex
	left  []Plant  // guarded by mu, as is the rest
	table []string // of what was found
}

// TestPlants: each planted bug is found within as many seeds as it says. By default those are looked for that are found
// soon; ZKD_SIM_PLANTS=all is for all, and names with commas between them for some. ZKD_SIM_SEEDS counts how many of so
// many seeds find each, from ZKD_SIM_FIRST_SEED on: what Plant.Found and Of are to be.
func TestPlants(t *testing.T) {
	h := hunt{t: t, runner: need(t), first: number("ZKD_SIM_FIRST_SEED", 1), seeds: number("ZKD_SIM_SEEDS", 0),
		left: plants()}
	switch which := os.Getenv("ZKD_SIM_PLANTS"); which {
	case "all":
	case "":
		h.left = slices.DeleteFunc(h.left, func(p Plant) bool { return p.seldom() })
	default:
		names := strings.Split(which, ",")
		h.left = slices.DeleteFunc(h.left, func(p Plant) bool { return !slices.Contains(names, p.Name) })
	}
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(h.work)
	}
	working.Wait()
	slices.Sort(h.table)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, line := range h.table {
		fmt.Fprintln(w, line)
	}
	_ = w.Flush() // a builder takes all
	t.Logf("plant, found by, first, violation:\n%s", b.String())
}

// work looks for plants until there are no more.
func (h *hunt) work() {
	for {
		h.mu.Lock()
		if len(h.left) == 0 || h.t.Context().Err() != nil {
			h.mu.Unlock()
			return
		}
		p := h.left[0]
		h.left = h.left[1:]
		h.mu.Unlock()
		if why := h.runner.Lacks(); p.Before && why != nil {
			target.LeavePartOut(h.t, why.Error())
			continue
		}
		h.find(&p)
	}
}

// find looks for one plant.
func (h *hunt) find(p *Plant) {
	most, all := p.within(), h.seeds > 0
	if all {
		most = h.seeds
	}
	played, found, first, shown := uint64(0), 0, uint64(0), ""
	for ; played < most && (all || found == 0); played++ {
		plan := Draw(h.first + played)
		plan.Plant = p.Name
		plan.Knobs = p.Knobs // how often it is found was counted with no others
		plan.Before = plan.Before && p.Before
		out, err := h.runner.Play(h.t.Context(), plan)
		if err != nil {
			h.t.Error(err)
			return
		}
		if len(out.Violations) == 0 {
			continue
		}
		if found++; found == 1 {
			keep(h.t, fmt.Sprintf("%s-%d", p.Name, plan.Seed), plan, &out)
			first = plan.Seed
			shown, _, _ = strings.Cut(out.Violations[0], "\n")
		}
	}
	if found == 0 {
		h.t.Errorf("%s is not found by %d seeds from %d on: %s", p.Name, most, h.first, p.Bug)
		return
	}
	h.t.Logf("%s is found by %d of %d seeds, the first is %d", p.Name, found, played, first)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = append(h.table, fmt.Sprintf("%s\t%d of %d\t%d\t%s", p.Name, found, played, first,
		shown[:min(len(shown), lineShown)]))
}

// lineShown is how much of a violation the table shows.
const lineShown = 150
