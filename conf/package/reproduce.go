package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// reproduce makes everything twice, from copies of the last commit in two folders of different length, and compares the
// checksums. The second one begins with an empty cache of the compiler: what the first has compiled proves nothing.
func reproduce(ctx context.Context, root string, targets []target, packages bool) (err error) {
	dir, err := os.MkdirTemp("", "zkd-reproduce")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := readStamp(ctx, root)
	if err != nil {
		return err
	}
	var sums [2]string
	for i, name := range []string{"one", filepath.Join("another", "and", "longer")} {
		source, out := filepath.Join(dir, name, "source"), filepath.Join(dir, name, "out")
		if err := checkOut(ctx, root, source); err != nil {
			return err
		}
		environ := []string{"REVISION=" + s.commit, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.time.Unix())}
		if i > 0 {
			environ = append(environ, "GOCACHE="+filepath.Join(dir, "cache"))
		}
		if _, err := output(ctx, source, environ, "go", "run", "./conf/package", "dist", "-out", out,
			"-targets", names(targets), fmt.Sprintf("-packages=%t", packages)); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(out, sumsFile))
		if err != nil {
			return err
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("two builds of %s differ:\n%s\n%s", s.commit, sums[0], sums[1])
	}
	fmt.Printf("two builds of %s are equal:\n%s", s.commit, sums[0])
	return nil
}

// checkOut writes the files of the last commit to a folder.
func checkOut(ctx context.Context, root, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(filepath.Dir(dir), "source.tar")
	if _, err := output(ctx, root, nil, "git", "archive", "--output", archive, "HEAD"); err != nil {
		return err
	}
	_, err := output(ctx, dir, nil, "tar", "-xf", archive)
	return err
}

// names writes targets as parseTargets reads them.
func names(targets []target) string {
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.os + "/" + t.arch
	}
	return strings.Join(all, ",")
}
