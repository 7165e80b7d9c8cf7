package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// run runs one command of the tool.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want one of the commands dist, reproduce, licences")
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("out", filepath.Join(root, "dist"), "folder for what is made")
	list := flags.String("targets", strings.Join(allTargets, ","), "systems to build for, as linux/amd64,darwin/arm64")
	packages := flags.Bool("packages", true, "make .deb and .rpm packages too")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	targets, err := parseTargets(*list)
	if err != nil {
		return err
	}
	switch args[0] {
	case "dist":
		return dist(ctx, options{root: root, out: *out, targets: targets, packages: *packages,
			report: os.Stdout})
	case "reproduce":
		return reproduce(ctx, root, targets, *packages)
	case "licences":
		return writeLicences(ctx, root)
	}
	return fmt.Errorf("no command %q: want dist, reproduce or licences", args[0])
}

// moduleRoot is the folder of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	file, err := output(ctx, "", nil, "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	return filepath.Dir(file), nil
}

// output runs a program in dir with more environment and returns what it prints, without the last line feed. What the
// program says on stderr goes to this one's.
func output(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), environ...)
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}
