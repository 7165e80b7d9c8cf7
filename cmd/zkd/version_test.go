package main

import (
	"strings"
	"testing"
)

// TestVersion: the flag says what the command says; without it there is help.
func TestVersion(t *testing.T) {
	want := versionText() + "\n"
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}} {
		if got, err := zkd(t, args...); err != nil || got != want {
			t.Errorf("zkd %s: %q, %v; want %q", strings.Join(args, " "), got, err, want)
		}
	}
	if got, err := zkd(t); err != nil || !strings.Contains(got, "Available Commands:") {
		t.Errorf("zkd alone: %q, %v; want help", got, err)
	}
	if _, err := zkd(t, "nosuch"); err == nil {
		t.Error("zkd nosuch: no error")
	}
}
