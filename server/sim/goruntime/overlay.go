package goruntime

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tag is the build tag of a program that is built with the overlay.
const Tag = "zkd_repeat"

// GroupsMax is the largest number of a group of goroutines.
const GroupsMax = 63

// Overlay writes what `go build -overlay` needs into a directory and returns the name of the file that it is to be
// given. root is GOROOT of the toolchain that will build. more are sources, by their absolute names, that are to be in
// the place of others, too.
func Overlay(root, dir string, more map[string]string) (string, error) {
	sources := map[string]string{} // by name below src/runtime
	for _, p := range patches {
		text, ok := sources[p.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, "src", "runtime", p.file))
			if err != nil {
				return "", fmt.Errorf("read the Go runtime: %w", err)
			}
			text = string(data)
		}
		text, err := p.apply(text)
		if err != nil {
			return "", err
		}
		sources[p.file] = text
	}
	replace := map[string]string{}
	write := func(name, as, text string) error {
		replace[name] = filepath.Join(dir, as)
		if err := os.WriteFile(replace[name], []byte(text), 0o600); err != nil {
			return fmt.Errorf("write a changed source: %w", err)
		}
		return nil
	}
	for name, text := range sources { // order: each file for itself
		if err := write(filepath.Join(root, "src", "runtime", name), name, text); err != nil {
			return "", err
		}
	}
	for i, name := range slices.Sorted(maps.Keys(more)) {
		if err := write(name, fmt.Sprintf("more-%d-%s", i, filepath.Base(name)), more[name]); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return name, nil
}

// apply changes one source.
func (p *patch) apply(text string) (string, error) {
	if p.old == "" {
		return text + p.new, nil
	}
	if n := strings.Count(text, p.old); n != 1 {
		return "", fmt.Errorf("this release of Go is not known: %q is %d times in runtime/%s", p.old, n, p.file)
	}
	return strings.Replace(text, p.old, p.new, 1), nil
}
