package migrate

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/zkdata"
)

// TestOpenDir lists a directory and refuses what is none.
func TestOpenDir(t *testing.T) {
	fs := vfs.NewMem()
	for name, content := range map[string]string{ // order does not matter: files of their own
		"/a/version-2/snapshot.5": "0123456789\x00\x00\x00\x01/", "/a/version-2/snapshot.1f.gz": "\x1f\x8b0123456789",
		"/a/version-2/snapshot.ff": "torn torn torn", "/a/version-2/snapshot.x": "", "/a/version-2/log.6": "",
		"/a/version-2/currentEpoch": "7\n", "/a/version-2/log.10.tmp": "",
		"/b/version-2/log.1": "", "/c/version-2/snapshot.1": "", "/e/version-2/currentEpoch": "x",
		"/e/version-2/snapshot.1": "", "/f": "",
	} {
		if err := fs.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/a", "/a/version-2"} {
		d, err := OpenDir(fs, dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Snapshots) != 3 || len(d.Logs) != 2 || d.CurrentEpoch != 7 || d.AcceptedEpoch != -1 {
			t.Errorf("%+v", d)
		}
		newest, ok, err := d.Newest()
		if err != nil || !ok || newest.Zxid != 0x1f || len(d.Notices) != 1 {
			t.Errorf("newest %+v, %v, %v, notices %q", newest, ok, err, d.Notices)
		}
	}
	for _, c := range []struct{ dir, log, want string }{
		{"/nowhere", "", "there is no directory"}, {"/f", "", "is a file"},
		{"/a", "/c", "holds transaction logs, but they are looked for"},
		{"/b", "/a", "holds transaction logs"}, {"/c", "/b", ""}, {"/e", "", `"x" is no epoch`},
	} {
		_, err := OpenDir(fs, c.dir, c.log)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v, want %q", c.dir, c.log, err, c.want)
		}
	}
}

// TestLogsFrom: logs that the snapshot has made needless are not opened, whatever they hold.
func TestLogsFrom(t *testing.T) {
	fs := vfs.NewMem()
	head := jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, 0x5a4b4c47), 2), 0)
	last := slices.Concat(head, record(4, "x"), record(5, "y"), make([]byte, 100))
	if err := errors.Join(fs.MkdirAll("/d/version-2", 0o750),
		disk.WriteFile(fs, "/d/version-2/log.1", "rubbish rubbish rubbish"),
		disk.WriteFile(fs, "/d/version-2/log.4", string(last))); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(fs, "/d", "")
	if err != nil {
		t.Fatal(err)
	}
	r := d.Replay(4, zkdata.ReplayOptions{})
	if x, ok, err := r.Next(); err != nil || !ok || x.Zxid != 5 {
		t.Errorf("%+v, %t, %v", x, ok, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := d.Replay(1, zkdata.ReplayOptions{}).Next(); !errors.Is(err, zkdata.ErrDamaged) {
		t.Errorf("rubbish is read as %v", err)
	}
}
