package storage

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/storage/disk"
	"zkd/storage/schema"
)

// inspected is the state of a harness as an inspection shows it.
func (h *harness) inspected(dir string) *StateInspection {
	h.t.Helper()
	if _, _, err := h.m.Checkpoint(h.t.Context(), dir); err != nil {
		h.t.Fatal(err)
	}
	store, err := openCheckpoint(h.fs, dir, &disk.Fault{Store: "state store", Dir: dir, Logger: h.m.opts.Logger})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := store.db.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return &StateInspection{store: store}
}

// differences are the differences of two states as text.
func differences(t *testing.T, a, b Comparable) string {
	t.Helper()
	var out strings.Builder
	err := Differences(a, b, func(d Difference) bool {
		fmt.Fprintf(&out, "%s%x", d.Path, uint64(d.Session))
		if d.OnlyIn > 0 {
			fmt.Fprintf(&out, " only in %d", d.OnlyIn)
		}
		for _, f := range d.Fields {
			fmt.Fprintf(&out, ", %s %s | %s", f.Name, f.First, f.Second)
		}
		out.WriteByte('\n')
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestDifferences: each znode and session that two states do not have alike is named, in order, whether they are read
// from a directory or from a backup.
func TestDifferences(t *testing.T) {
	const begin = "createSession session=1 timeout=4000 time=5\ncreate /a data=x time=6\ncreate /both time=7\n"
	one, two := newHarness(t, MachineOptions{}), newHarness(t, MachineOptions{})
	one.lines(begin + "create /a/deep time=8\nsetData /both data=yy time=9\n" +
		"createSession session=-4611686018427387904 timeout=4000\n" +
		"createSession session=3 timeout=4000\nsetACL /a acl=world:anyone:31")
	two.lines(begin + "create /a/other time=8\nsetData /both data=zz time=9\n" +
		"createSession session=-4611686018427387904 timeout=4001\n" +
		"error\nsetACL /a acl=world:anyone:30")
	want := `/a0, ACL [world:anyone:31] | [world:anyone:30]
/both0, data 2 bytes, checksum 0x8f7a7eb2 | 2 bytes, checksum 0x3d5e7ccb
/a/deep0 only in 1
/a/other0 only in 2
c000000000000000, timeout 4000 ms | 4001 ms
3 only in 1
`
	a, b := one.inspected("copy"), two.inspected("copy")
	got := differences(t, a, b)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if out := differences(t, a, a); out != "" {
		t.Errorf("a state and itself: %s", out)
	}
	written, _ := two.backup()
	backup, err := OpenBackup(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	if out := differences(t, a, backup); out != got {
		t.Errorf("of a backup: %s", out)
	}
}

// TestDifferencesOfADamagedState: what cannot be read is an error, not a difference, and the one who asks may stop.
func TestDifferencesOfADamagedState(t *testing.T) {
	h, other := newHarness(t, MachineOptions{}), newHarness(t, MachineOptions{})
	h.lines(compareScript)
	a, none := h.inspected("copy"), other.inspected("copy")
	seen := 0
	if err := Differences(a, none, func(Difference) bool { seen++; return false }); err != nil || seen != 1 {
		t.Errorf("%d differences are told to who wants one: %v", seen, err)
	}
	h.put(schema.AppendNodeKey(nil, schema.KindNode, "/a"), []byte("garbage"))
	if err := h.m.store.flushed(); err != nil {
		t.Fatal(err)
	}
	b := h.inspected("damaged")
	for _, pair := range [][2]Comparable{{a, b}, {b, a}} {
		if err := Differences(pair[0], pair[1], func(Difference) bool { return true }); err == nil {
			t.Error("damage is no error")
		}
	}
}
