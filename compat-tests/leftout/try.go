package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"zkd/compat-tests/target"
)

// tryWithin bounds all the tries.
const tryWithin = 10 * time.Minute

// asks matches the sources of tests that decide by what is on the machine whether they are left out, and looks those
// that look for programs themselves: with stand-ins for programs these would really run.
var (
	asks  = regexp.MustCompile(`target\.(Require|LeaveOut)\(`)
	looks = regexp.MustCompile(`exec\.LookPath\(`)
)

// missed matches what a test says that was left out for want of a program.
var missed = regexp.MustCompile(`no (\S+) in the PATH|"([^"\s]+)": executable file not found`)

// part is the test program of a package, which may really run its tests where all programs are there.
type part struct {
	dir, program string
	runs         bool
	only         []string // tests; none: all
}

// trial is what tries need.
type trial struct {
	parts []part
	dir   string // holds all the files
	stub  string // the program that stands for all others
}

// try finds the programs that parts ask for and runs all of the parts without each of them.
func try(ctx context.Context, report io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	dir, err := os.MkdirTemp("", "zkd-leftout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // at worst files are left
	t := trial{dir: dir}
	if t.stub, err = exec.LookPath("true"); err != nil {
		return err
	}
	if t.parts, err = buildParts(ctx, dir); err != nil {
		return err
	}
	var programs []string // that parts ask for, found by giving them one after the other
	for {
		more, err := t.run(ctx, programs)
		if err != nil {
			return fmt.Errorf("with Go, git and %v in the PATH: %w", programs, err)
		}
		if len(more) == 0 {
			break
		}
		programs = append(programs, more...)
	}
	if len(programs) == 0 {
		return errors.New("no part asks for any program: nothing was tried")
	}
	slices.Sort(programs)
	for _, one := range programs {
		without := slices.DeleteFunc(slices.Clone(programs), func(p string) bool { return p == one })
		named, err := t.run(ctx, without)
		if err != nil {
			return fmt.Errorf("without %s in the PATH: %w", one, err)
		}
		if !slices.Equal(named, []string{one}) {
			return fmt.Errorf("without %s in the PATH parts are left out for want of %v", one, named)
		}
	}
	_, err = fmt.Fprintf(report, "%d packages leave out and name what lacks one of: %s\n", len(t.parts),
		strings.Join(programs, " "))
	return err
}

// buildParts compiles the tests of all packages that ask what is on the machine into dir.
func buildParts(ctx context.Context, dir string) ([]part, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f",
		`{{$d := .Dir}}{{$p := .ImportPath}}{{range .TestGoFiles}}{{$p}} {{$d}} {{.}}{{"\n"}}{{end}}`+
			`{{range .XTestGoFiles}}{{$p}} {{$d}} {{.}}{{"\n"}}{{end}}`, "./...")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var parts []part
	packages := []string{"test", "-c", "-o", dir + string(filepath.Separator)}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) != 3 || slices.Contains(packages, words[0]) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(words[1], words[2]))
		if err != nil {
			return nil, err
		}
		if runs := !asks.Match(text); !runs || looks.Match(text) {
			packages = append(packages, words[0])
			parts = append(parts, part{words[1], filepath.Join(dir, filepath.Base(words[0])+".test"), runs,
				testsOf(words[0], text)})
		}
	}
	if err := target.Execute(ctx, "", "go", packages...); err != nil {
		return nil, err
	}
	return parts, nil
}

// testFunction matches the name of a test.
var testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)`)

// testsOf are the tests that are run of a package: of one that has others than those of clients, those of the file that
// asks.
func testsOf(pkg string, text []byte) (only []string) {
	if strings.Contains(pkg, "/compat-tests/") {
		return nil
	}
	for _, match := range testFunction.FindAllSubmatch(text, -1) {
		only = append(only, string(match[1]))
	}
	return only
}

// run runs all parts with Go, git and stand-ins for programs in the PATH, and returns the programs that were missed. A
// part that fails is the error, with what it said.
func (t *trial) run(ctx context.Context, programs []string) (missing []string, err error) {
	path, err := os.MkdirTemp(t.dir, "path-")
	if err != nil {
		return nil, err
	}
	for _, program := range append([]string{"go", "git"}, programs...) {
		stands := t.stub
		if program == "go" || program == "git" {
			if stands, err = exec.LookPath(program); err != nil {
				return nil, err
			}
		}
		if err := os.Symlink(stands, filepath.Join(path, program)); err != nil {
			return nil, err
		}
	}
	environment := append(os.Environ(), "PATH="+path, "CI=", "ZKD_COMPAT_CACHE="+filepath.Join(path, "cache"),
		target.DecideVariable+"=1")
	var mu sync.Mutex
	var failures []error
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU())
	for _, p := range t.parts {
		if p.runs && len(programs) > 0 {
			continue
		}
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			test := exec.CommandContext(ctx, p.program, "-test.v", //nolint:gosec // it was built above
				"-test.run=^("+strings.Join(p.only, "|")+")")
			test.Dir, test.Env = p.dir, environment
			out, err := test.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w\n%s", p.dir, err, out))
			}
			if p.runs {
				return
			}
			for _, match := range missed.FindAllStringSubmatch(string(out), -1) {
				missing = append(missing, match[1]+match[2])
			}
		})
	}
	all.Wait()
	slices.Sort(missing)
	return slices.Compact(missing), errors.Join(failures...)
}
