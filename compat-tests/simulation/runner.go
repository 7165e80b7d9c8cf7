package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"zkd/server/sim/goruntime"
)

// Names of what a process is told that plays one plan: the file with the plan, and where its outcome and its story go.
const (
	planVariable    = "ZKD_SIM_PLAN"
	outcomeVariable = "ZKD_SIM_OUTCOME"
	storyVariable   = "ZKD_SIM_STORY"
	profileVariable = "ZKD_SIM_PROFILE" // of what it did: a name without its end; given to the tests, a directory
)

// programName is how long the name of a program is, with its directory: what is built into it asks for its own name,
// and what that takes in memory makes a difference.
const programName = 200

// programIn is the name of a program in a directory.
func programIn(dir string) string {
	return filepath.Join(dir, strings.Repeat("p", max(1, programName-len(dir)-1)))
}

// Runner plays plans, each in a process of its own. Its methods may be called by several goroutines.
type Runner struct {
	dir            string
	plain, planted func() (program string, err error)
	lacks          func() error // errNoBefore where the version before is not
	runs           atomic.Int64
}

// NewRunner makes a directory ready for what plays plans; it is built when it is needed.
func NewRunner(dir string) *Runner {
	r := &Runner{dir: dir}
	r.plain = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "plain"), nil) })
	r.planted = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "plants"), plants()) })
	r.lacks = sync.OnceValue(func() error {
		_, root, err := toolchain(context.Background())
		if err == nil {
			err = findBefore(context.Background(), root)
		}
		return err
	})
	return r
}

// Lacks says why no server can be of the version before; nil if they can. Plans are played without it then.
func (r *Runner) Lacks() error { return r.lacks() }

// toolchain is where Go is, and where the module is.
func toolchain(ctx context.Context) (goroot, root string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMOD").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask for GOROOT: %w", err)
	}
	goroot, module, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return goroot, filepath.Dir(module), nil
}

// build builds a program with plants in a directory of its own.
func build(dir string, all []Plant) (string, error) {
	ctx := context.Background() // whoever waits for the program: others do, too
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for what plays: %w", err)
	}
	goroot, root, err := toolchain(ctx)
	if err != nil {
		return "", err
	}
	sources, err := changedSources(root, all, knobs(), costPatches())
	if err != nil {
		return "", err
	}
	before, err := beforeSources(ctx, root)
	if err != nil && !errors.Is(err, errNoBefore) {
		return "", err
	}
	maps.Copy(sources, before)
	overlay, err := goruntime.Overlay(goroot, dir, sources)
	if err != nil {
		return "", err
	}
	program := programIn(dir)
	// Trimmed of the directory of the checkout: a seed plays the same run wherever it is built.
	//nolint:gosec // our own arguments
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-overlay", overlay, "-tags",
		goruntime.Tag, "-o", program, "zkd/compat-tests/simulation")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build what plays: %w\n%s", err, text)
	}
	return program, nil
}

// processWithin bounds one run in real time: many times what the longest takes on a machine that has other work. What
// takes longer loops; its goroutines are shown then.
const processWithin = 5 * time.Minute

// Play plays a plan. An error that is not about the plan's own outcome is one of this machine.
func (r *Runner) Play(ctx context.Context, p *Plan) (Outcome, error) {
	var out Outcome
	find := r.plain
	if p.Plant != "" {
		find = r.planted
	}
	program, err := find()
	if err != nil {
		return out, err
	}
	if p.Before && r.lacks() != nil {
		without := *p
		without.Before = false
		p = &without
	}
	dir := filepath.Join(r.dir, fmt.Sprintf("run-%08d", r.runs.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return out, fmt.Errorf("make a directory for a run: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in a temporary directory
	data, err := json.Marshal(p)
	if err != nil {
		return out, err
	}
	const plan, outcome, story = "plan", "outcome", "story" // relative: what names take in memory makes a difference
	if err := os.WriteFile(filepath.Join(dir, plan), data, 0o600); err != nil {
		return out, fmt.Errorf("write a plan: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, processWithin)
	defer cancel()
	run := exec.CommandContext(ctx, program, "-test.run=^TestPlay$", "-test.timeout=0") //nolint:gosec // our own
	run.Args[0], run.Dir = "play", dir
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGQUIT) }
	run.WaitDelay = 5 * time.Second
	// Nothing of the environment is handed on: its size would move what is on the stack.
	run.Env = []string{"GOMAXPROCS=1", "GOGC=off", planVariable + "=" + plan, outcomeVariable + "=" + outcome,
		storyVariable + "=" + story, knobVariable + "=" + knobsText(p.Knobs)}
	if profiles := os.Getenv(profileVariable); profiles != "" {
		run.Env = append(run.Env, profileVariable+"="+filepath.Join(profiles, fmt.Sprint(p.Seed)))
	}
	if p.Plant != "" {
		run.Env = append(run.Env, plantVariable+"="+p.Plant)
	}
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	err = run.Run()
	if state := run.ProcessState; state != nil {
		out.CPU = state.UserTime() + state.SystemTime()
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return out, ctx.Err()
		}
		out.Violations = []string{fmt.Sprintf("the process ended: %v", err)}
		if ctx.Err() != nil {
			out.Violations = []string{fmt.Sprintf("the process has not ended after %v of real time: it loops, or "+
				"searches; its goroutines are in its story", processWithin)}
		}
		told, _ := os.ReadFile(filepath.Join(dir, story)) // as far as it has come, if it has
		out.Story = string(told) + said.String()
		return out, nil
	}
	data, err = os.ReadFile(filepath.Join(dir, outcome))
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return out, fmt.Errorf("read an outcome: %w\n%s", err, said.Bytes())
	}
	data, err = os.ReadFile(filepath.Join(dir, story))
	out.Story = string(data)
	return out, err
}
