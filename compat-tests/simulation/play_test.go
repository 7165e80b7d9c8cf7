package simulation

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"zkd/compat-tests/target"
	"zkd/server/sim/goruntime"
)

// programDir is where the program is that plays plans, empty until a test needs it.
var programDir string

func TestMain(m *testing.M) {
	code := target.Main(m, "simulation")
	if programDir != "" {
		_ = os.RemoveAll(programDir) // the system removes it else
	}
	os.Exit(code)
}

// memoryMost bounds what one run takes. Most take less than a twentieth; one with six servers that flush after each
// entry has taken 4.5 GiB (seed 11007780).
const memoryMost = 8 << 30

// TestPlay plays the plan that it is told, and ends the process: it is what Runner runs.
func TestPlay(t *testing.T) {
	name := os.Getenv(planVariable)
	if name == "" {
		t.Skip("no plan: run by TestSeeds")
	}
	var p Plan
	read(t, name, &p)
	// What loops without an end, and keeps what it makes, ends here and not the machine: nothing is collected.
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memoryMost, Max: memoryMost}); err != nil {
		t.Fatal(err)
	}
	story, err := os.Create(os.Getenv(storyVariable))
	if err != nil {
		t.Fatal(err)
	}
	profiled := profile(t)
	cryptotest.SetGlobalRandom(t, p.Seed)
	goruntime.Seed(p.Seed + p.Schedule<<32)
	synctest.Test(t, func(t *testing.T) {
		out := Play(&p, story)
		out.Threads = pprof.Lookup("threadcreate").Count()
		data, err := json.Marshal(out)
		if err == nil {
			err = os.WriteFile(os.Getenv(outcomeVariable), data, 0o600)
		}
		if err = errors.Join(err, story.Close()); err != nil {
			t.Error(err)
		}
		profiled()
		// What Pebble leaves running in stores that were killed would keep the bubble for ever.
		os.Exit(0)
	})
}

// profile begins the profiles of a process that is told where they go, which plays another run than without; none is
// taken else, since sampling draws.
func profile(t *testing.T) (end func()) {
	t.Helper()
	name := os.Getenv(profileVariable)
	if name == "" {
		runtime.MemProfileRate = 0
		return func() {}
	}
	cpu, err := os.Create(name + ".cpu")
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		allocs, err := os.Create(name + ".allocs")
		if err == nil {
			err = pprof.Lookup("allocs").WriteTo(allocs, 0)
		}
		if err = errors.Join(err, allocs.Close(), cpu.Close()); err != nil {
			t.Error(err)
		}
	}
}

// read reads JSON.
func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
