package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ownedBy is whom a file belongs to.
func ownedBy(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Skip("this system does not say whom files belong to")
	}
	return fmt.Sprintf("%d:%d", is.Uid, is.Gid)
}

// TestOwner gives a directory away, but for the data of ZooKeeper in it. Who is not root can give to himself alone.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"raftlog/1.log", "state/1.sst", "version-2/log.1"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before, after := ownedBy(t, dir), "4711:4712"
	if os.Geteuid() != 0 {
		after = before
	}
	var hint bytes.Buffer
	if err := (&ownerFlag{name: after}).give(&hint, dir, dir, ""); err != nil || hint.Len() > 0 {
		t.Fatalf("%v, %q", err, hint.String())
	}
	for path, want := range map[string]string{"": after, "state": after, "raftlog/1.log": after, "state/1.sst": after,
		"version-2": before, "version-2/log.1": before} { // order: each for itself
		if is := ownedBy(t, filepath.Join(dir, path)); is != want {
			t.Errorf("%q belongs to %s, want %s", path, is, want)
		}
	}
}

// TestOwnerIsNobody: root is told that the data is root's, others have nothing to be told.
func TestOwnerIsNobody(t *testing.T) {
	var hint bytes.Buffer
	if err := (&ownerFlag{}).give(&hint, "data", "log"); err != nil {
		t.Fatal(err)
	}
	if told := strings.Contains(hint.String(), "data and log is root's"); told != (os.Geteuid() == 0) {
		t.Errorf("told %q", hint.String())
	}
}

// TestOwnerIsNamed reads names and numbers.
func TestOwnerIsNamed(t *testing.T) {
	for name, want := range map[string]string{"": "-1:-1", "0": "0:0", "4711": "4711:4711", "4711:12": "4711:12",
		"root": "0:0", "root:4711": "0:4711"} { // order: each for itself
		uid, gid, err := (&ownerFlag{name}).ids()
		if is := fmt.Sprintf("%d:%d", uid, gid); err != nil || is != want {
			t.Errorf("%q is %s, want %s: %v", name, is, want, err)
		}
	}
	for _, name := range []string{"nobody-has-this-name", ":", "-1", "0:none-has-this-name", "0:"} {
		if _, _, err := (&ownerFlag{name}).ids(); !errors.As(err, new(usageError)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
