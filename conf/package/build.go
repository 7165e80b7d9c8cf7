package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// allTargets are the systems that a release is made for.
var allTargets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// target is a system to build for, in Go's words.
type target struct{ os, arch string }

// parseTargets reads targets with commas between them.
func parseTargets(list string) ([]target, error) {
	var targets []target
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(allTargets, name) {
			return nil, fmt.Errorf("target %q: want some of %s", name, strings.Join(allTargets, ","))
		}
		system, arch, _ := strings.Cut(name, "/")
		targets = append(targets, target{system, arch})
	}
	return targets, nil
}

// stamp is what a release says of itself.
type stamp struct {
	version string    // as 1.2.3 or 1.2.3-rc.1
	commit  string    // with -dirty behind it if files were changed
	time    time.Time // when the commit was made
}

// devVersion is the version of what is built without VERSION.
const devVersion = "0.0.0-dev"

// readStamp takes the stamp from VERSION, REVISION and SOURCE_DATE_EPOCH, and what they do not say from git.
func readStamp(ctx context.Context, root string) (stamp, error) {
	s := stamp{version: os.Getenv("VERSION"), commit: os.Getenv("REVISION")}
	if s.version == "" {
		s.version = devVersion
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	const remedy = "outside of a git checkout set REVISION and SOURCE_DATE_EPOCH"
	if s.commit == "" {
		var err error
		if s.commit, err = output(ctx, root, nil, "git", "rev-parse", "HEAD"); err != nil {
			return s, fmt.Errorf("which commit is this? %s: %w", remedy, err)
		}
		changed, err := output(ctx, root, nil, "git", "status", "--porcelain")
		if err != nil {
			return s, err
		}
		if changed != "" {
			s.commit += "-dirty"
		}
	}
	if seconds == "" {
		var err error
		if seconds, err = output(ctx, root, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return s, fmt.Errorf("when was this commit made? %s: %w", remedy, err)
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", seconds)
	}
	s.time = time.Unix(n, 0).UTC()
	return s, nil
}

// buildEnviron is the environment that the binaries are built in: what would change them is set, whatever the caller's
// says.
func buildEnviron(t target) []string {
	return []string{
		"GOOS=" + t.os, "GOARCH=" + t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0",
	}
}

// buildArgs are the arguments of go for the binary file.
func buildArgs(s stamp, file string) []string {
	stamped := map[string]string{
		"releaseName": s.version, "releaseCommit": s.commit, "releaseTime": strconv.FormatInt(s.time.Unix(), 10),
	}
	flags := "-s -w -buildid= " + alignFlag
	for _, name := range []string{"releaseName", "releaseCommit", "releaseTime"} {
		flags += " -X main." + name + "=" + stamped[name]
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly"}, sizeArgs()...)
	return append(args, "-ldflags", flags, "-o", file, "./cmd/zkd")
}

// build makes the binary of a system and returns its file.
func build(ctx context.Context, root, dir string, s stamp, t target) (string, error) {
	file := filepath.Join(dir, "zkd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := output(ctx, root, buildEnviron(t), "go", buildArgs(s, file)...); err != nil {
		return "", fmt.Errorf("build for %s/%s: %w", t.os, t.arch, err)
	}
	return file, nil
}
