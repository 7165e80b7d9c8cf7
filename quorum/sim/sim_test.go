package sim

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"

	"zkd/compat-tests/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// runSeed runs one seed with raft's randomness drawn from it, too.
func runSeed(t *testing.T, cfg Config) (Report, error) {
	t.Helper()
	var report Report
	var err error
	t.Run(strconv.FormatUint(cfg.Seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, cfg.Seed)
		report, err = Run(cfg)
	})
	return report, err
}

// number reads a number from the environment of a long run.
func number(name string, otherwise uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return otherwise
}

// failuresMax is after how many failing seeds a test ends.
const failuresMax = 5

// small says that all runs are of small groups, which a fifth of them is in any case.
func small() bool { return os.Getenv("ZKD_SIM_SMALL") == "1" }

// TestSeeds runs a fixed set of seeds. ZKD_SIM_SEEDS is for more of them, ZKD_SIM_FIRST_SEED for others.
func TestSeeds(t *testing.T) {
	otherwise := uint64(150)
	if testing.Short() {
		otherwise = 20
	}
	first, count := number("ZKD_SIM_FIRST_SEED", 1), number("ZKD_SIM_SEEDS", otherwise)
	failures := 0
	var sum Report
	for seed := first; seed < first+count; seed++ {
		report, err := runSeed(t, Config{Seed: seed, Small: small()})
		if err != nil {
			t.Errorf("%v", err)
			if failures++; failures >= failuresMax {
				return
			}
		}
		sum.add(&report)
	}
	drawnOnes := sum.Drawn
	sum.Drawn = tally{}
	t.Logf("%d seeds: %+v\n%v", count, sum, drawnOnes)
	if sum.Ops == 0 || sum.Crashes == 0 || sum.Snapshots == 0 || sum.Watches == 0 || sum.Expired == 0 {
		t.Error("the runs do not do what they are for")
	}
	for d, n := range drawnOnes {
		if n == 0 && count >= otherwise && !testing.Short() && !small() {
			t.Errorf("no run has drawn: %v", drawn(d))
		}
	}
}

// regressions are seeds that have failed once. What a seed does changes with the simulator: they are kept for being
// cheap.
var regressions = []uint64{
	30318, 30672, 10774, 9, 10, 27, 30, 67, 71, 87, 94, 105, 115, 116, 136, 164, 216, 228, 246, 1243, 1291, 20182,
	20353, 5201976,
}

// smallRegressions are such seeds of small groups.
var smallRegressions = []uint64{
	3000012, 3000026, 3000033, 3000039, 3000103, 3000115, 3000177, 3000194, 3000305, 3000344, 3000403, 3000429, 3000802,
	3500011, 3500090, 3500245, 3500290, 3500378, 3500590, 5054, 5108, 5122,
}

func TestRegressions(t *testing.T) {
	for _, seed := range regressions {
		if _, err := runSeed(t, Config{Seed: seed}); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, seed := range smallRegressions {
		if _, err := runSeed(t, Config{Seed: seed, Small: true}); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestReplay runs the one seed that ZKD_SIM_SEED names; with ZKD_SIM_TRACE=1 it writes out all that happens.
// ZKD_SIM_SMALL=1 is for one of a small group.
func TestReplay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("ZKD_SIM_SEED"), 10, 64)
	if err != nil {
		t.Skip("ZKD_SIM_SEED names no seed")
	}
	cfg := Config{Seed: seed, Small: small()}
	if os.Getenv("ZKD_SIM_TRACE") == "1" {
		cfg.Trace = os.Stdout
	}
	report, err := runSeed(t, cfg)
	t.Logf("%+v", report)
	if err != nil {
		t.Error(err)
	}
}

// TestSameSeedSameRun runs seeds twice, without torn writes.
func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(100); seed < 105; seed++ {
		first, err := runSeed(t, Config{Seed: seed, Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		second, err := runSeed(t, Config{Seed: seed, Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		if first != second {
			t.Errorf("seed %d: %+v, then %+v", seed, first, second)
		}
	}
}

// TestPlantsAreFound checks that each planted bug is found within some seeds.
func TestPlantsAreFound(t *testing.T) {
	for plant := PlantLyingDisk; plant < plantEnd; plant++ {
		t.Run(strconv.Itoa(int(plant)), func(t *testing.T) {
			for seed := uint64(1); seed <= 40; seed++ {
				if _, err := runSeed(t, Config{Seed: seed, Plant: plant}); err != nil {
					t.Logf("seed %d: %.300v", seed, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestStatesAreCompared: a state that differs where nobody looks stops its member while the ensemble runs.
func TestStatesAreCompared(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		_, err := runSeed(t, Config{Seed: seed, Plant: PlantOtherACL})
		if err != nil && strings.Contains(err.Error(), "the state of this server is not the ensemble's") {
			return
		}
	}
	t.Error("no comparison has found it")
}

// add adds the counts of another report.
func (r *Report) add(o *Report) {
	r.Hash ^= o.Hash
	r.Members += o.Members
	r.Ops += o.Ops
	r.Unknown += o.Unknown
	r.Entries += o.Entries
	r.Events += o.Events
	r.Crashes += o.Crashes
	r.Elections += o.Elections
	r.Snapshots += o.Snapshots
	r.Changes += o.Changes
	r.Watches += o.Watches
	r.Expired += o.Expired
	r.Simulated += o.Simulated
	for d, n := range o.Drawn {
		r.Drawn[d] += n
	}
}
