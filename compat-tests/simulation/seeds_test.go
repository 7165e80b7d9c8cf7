package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
)

// Bounds of what the tests do and print.
const (
	seedsByDefault = 200
	failuresMax    = 5  // then no more seeds are begun
	linesShown     = 40 // of the end of a story
)

// number reads a number from the environment of a long run.
func number(name string, otherwise uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return otherwise
}

// runner plays plans, for all tests.
var runner = sync.OnceValues(func() (*Runner, error) {
	var err error
	if programDir, err = os.MkdirTemp("", "zkd-simulation-"); err != nil {
		return nil, err
	}
	return NewRunner(programDir), nil
})

// need returns the runner, and skips the test where there is no time to build it.
func need(t *testing.T) *Runner {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the whole of zkd, and the standard library, for a runtime that repeats itself")
	}
	r, err := runner()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// campaign is the seeds of one test, and what came of them.
type campaign struct {
	t      *testing.T
	runner *Runner
	end    uint64

	mu       sync.Mutex
	next     uint64  // guarded by mu, as are the rest
	sum      Outcome // of all
	failures int
}

// TestSeeds runs a fixed set of seeds, on all processors. ZKD_SIM_SEEDS is for more of them, ZKD_SIM_FIRST_SEED for
// others, ZKD_SIM_SCHEDULE for the same plans with goroutines in another order; what fails, and what was made smaller
// of it, is kept in the directory ZKD_SIM_KEEP. ZKD_SIM_PROFILE is a directory for a profile of each plan's processor
// time and allocations.
func TestSeeds(t *testing.T) {
	c := campaign{t: t, runner: need(t), next: number("ZKD_SIM_FIRST_SEED", 1), sum: Outcome{Deeds: map[Kind]int{},
		Roles: map[string]int{}, Met: Met{}}}
	first, began := c.next, time.Now()
	c.end = first + number("ZKD_SIM_SEEDS", seedsByDefault)
	var working sync.WaitGroup
	for range runtime.NumCPU() {
		working.Go(c.work)
	}
	working.Wait()
	s := &c.sum
	seeds := c.next - first
	t.Logf("%d seeds in %v, %.2f CPU seconds each: %d requests done, %d refused, %d unknown, %v simulated; %v; %v",
		seeds, time.Since(began).Round(time.Second), s.CPU.Seconds()/float64(max(1, seeds)), s.Done, s.Refused,
		s.Unknown, s.Simulated.Round(time.Second), s.Deeds, s.Roles)
	a := &s.Applied
	t.Logf("%d entries applied; one has read %d znodes, one has stepped over %d keys, one has written %d", a.Entries,
		a.Reads, a.Steps, a.Writes)
	t.Logf("what each kind of deed has met, %d times it was looked at what grows:\n%v", s.Watched, s.Met)
	if seeds < seedsByDefault {
		return
	}
	versions := upgradeKinds
	if why := c.runner.Lacks(); why != nil {
		versions = nil
		target.LeavePartOut(t, why.Error())
	}
	for _, k := range slices.Concat(kinds, faultKinds, memberKinds, adminKinds, []Kind{Restore, ImportData},
		versions) {
		if s.Deeds[k] == 0 {
			t.Errorf("no run has seen: %v", k)
		}
	}
	for _, what := range s.Met.unmet() {
		t.Errorf("no run has met: %s", what)
	}
	if s.Watched == 0 || s.Deeds[Absent] == 0 {
		t.Errorf("what grows was watched in %d runs, and a server was absent from the start in %d", s.Watched,
			s.Deeds[Absent])
	}
	for _, name := range faults.RoleNames() {
		if s.Roles[name] == 0 {
			t.Errorf("no client has done anything: %v", name)
		}
	}
}

// work plays seeds until there are no more.
func (c *campaign) work() {
	for {
		c.mu.Lock()
		seed := c.next
		over := seed >= c.end || c.failures >= failuresMax || c.t.Context().Err() != nil
		if !over {
			c.next++
		}
		c.mu.Unlock()
		if over {
			return
		}
		p := Draw(seed)
		p.Schedule = number("ZKD_SIM_SCHEDULE", 0)
		out, err := c.runner.Play(c.t.Context(), p)
		if err != nil {
			c.t.Error(err)
			return
		}
		c.add(p, &out)
	}
}

// add adds an outcome to the sum, and looks into it if it is a failure.
func (c *campaign) add(p *Plan, out *Outcome) {
	c.mu.Lock()
	s := &c.sum
	s.Done, s.Refused, s.Unknown = s.Done+out.Done, s.Refused+out.Refused, s.Unknown+out.Unknown
	s.Simulated, s.CPU = s.Simulated+out.Simulated, s.CPU+out.CPU
	s.Met.add(out.Met)
	s.Applied.add(&out.Applied)
	s.Watched += out.Watched
	for k, n := range out.Deeds { // order: a sum
		s.Deeds[k] += n
	}
	for name, n := range out.Roles { // order: a sum
		s.Roles[name] += n
	}
	failed := len(out.Violations) > 0
	if failed {
		c.failures++
	}
	c.mu.Unlock()
	if failed {
		c.t.Errorf("seed %d: %s", p.Seed, strings.Join(out.Violations, "\n"))
		keep(c.t, fmt.Sprint(p.Seed), p, out)
		small, smaller := c.runner.Shrink(c.t.Context(), p, *out)
		keep(c.t, fmt.Sprintf("%d-smaller", p.Seed), small, &smaller)
		c.t.Logf("%s\n%s", plain(small), end(smaller.Story, linesShown))
	}
}

// keep writes a plan and its story where they are kept.
func keep(t *testing.T, name string, p *Plan, out *Outcome) {
	dir := os.Getenv("ZKD_SIM_KEEP")
	if dir == "" {
		return
	}
	for suffix, text := range map[string]string{".json": plain(p), ".txt": out.Story} { // order: each for itself
		if err := os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600); err != nil {
			t.Log(err)
		}
	}
}

// plain is a plan to be read.
func plain(p *Plan) string {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// end returns the last lines of a text.
func end(text string, lines int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// TestPlan plays the plan in the file ZKD_SIM_PLAN_FILE, and prints its story.
func TestPlan(t *testing.T) {
	name := os.Getenv("ZKD_SIM_PLAN_FILE")
	if name == "" {
		t.Skip("no plan in ZKD_SIM_PLAN_FILE")
	}
	var p Plan
	read(t, name, &p)
	out, err := need(t).Play(t.Context(), &p)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out.Story)
	for _, v := range out.Violations {
		t.Error(v)
	}
}

// TestRepeats: what runs under a seed runs again in the same way, on a machine that has other work, too, and wherever
// the program is.
func TestRepeats(t *testing.T) {
	r := need(t)
	elsewhere := moved(t, r)
	const seeds, times = 5, 4
	var outcomes [seeds][times]Outcome
	var running sync.WaitGroup
	for seed := range seeds {
		for again := range times {
			runner := r
			if again == 0 {
				runner = elsewhere
			}
			running.Go(func() {
				var err error
				if outcomes[seed][again], err = runner.Play(t.Context(), Draw(uint64(seed))); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	hashes := map[uint64]bool{}
	for seed, all := range outcomes {
		for _, out := range all[1:] {
			if out.Hash != all[0].Hash {
				t.Errorf("seed %d differs when it runs again: %s", seed, difference(all[0].Story, out.Story))
			}
			if out.Threads != all[0].Threads {
				t.Errorf("seed %d has %d threads, and %d when it runs again", seed, all[0].Threads, out.Threads)
			}
		}
		hashes[all[0].Hash] = true
	}
	if len(hashes) != seeds {
		t.Errorf("%d seeds have %d stories", seeds, len(hashes))
	}
}

// moved is a runner in another directory, of the same program, which must not know where it was built.
func moved(t *testing.T, r *Runner) *Runner {
	t.Helper()
	program, err := r.plain()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	_, root, err := toolchain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(root+"/server/sim")) {
		t.Errorf("the program knows where it was built: below %s", root)
	}
	other := NewRunner(filepath.Join(t.TempDir(), strings.Repeat("elsewhere", 5)))
	plain := filepath.Join(other.dir, "plain")
	if err := os.MkdirAll(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // it is run
	if err := os.WriteFile(programIn(plain), text, 0o700); err != nil {
		t.Fatal(err)
	}
	other.plain = func() (string, error) { return programIn(plain), nil }
	return other
}

// difference is where two stories part.
func difference(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, one[i], other[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(one), len(other))
}

// TestDraw: a plan is drawn from its seed alone, and all kinds of deeds come.
func TestDraw(t *testing.T) {
	seen := map[Kind]bool{}
	for seed := range uint64(500) {
		p := Draw(seed)
		if plain(p) != plain(Draw(seed)) {
			t.Fatalf("seed %d is drawn in two ways", seed)
		}
		if len(p.Settings) < settingsAlways || !strings.HasPrefix(p.Settings[settingsAlways-1], "znode.container") {
			t.Fatalf("settingsAlways is not how many lines each plan begins with: %v", p.Settings)
		}
		last := time.Duration(0)
		for _, d := range p.Deeds {
			if d.At < last {
				t.Fatalf("seed %d: deeds are not in the order of their times", seed)
			}
			last, seen[d.What] = d.At, true
		}
		for _, d := range slices.Concat(p.Members, p.Admin) {
			seen[d.What] = true
		}
	}
	for _, k := range slices.Concat(kinds, staying, faultKinds, memberKinds, adminKinds, []Kind{Restore},
		upgradeKinds) {
		if !seen[k] {
			t.Errorf("never drawn: %v; drawn are %v", k, slices.Sorted(maps.Keys(seen)))
		}
	}
}
