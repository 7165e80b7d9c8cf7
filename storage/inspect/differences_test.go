package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/storage/backup"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/state/statetest"
)

// seen is the state of a harness as an inspection shows it, of a checkpoint in dir.
func seen(h *statetest.Harness, dir string) *State {
	h.T.Helper()
	return &State{r: h.Reader(dir)}
}

// differences are the differences of two states as text.
func differences(t *testing.T, a, b Comparable) string {
	t.Helper()
	var out strings.Builder
	err := Differences(t.Context(), a, b, func(d Difference) bool {
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
	one, two := statetest.New(t), statetest.New(t)
	one.Lines(begin + "create /a/deep time=8\nsetData /both data=yy time=9\n" +
		"createSession session=-4611686018427387904 timeout=4000\n" +
		"createSession session=3 timeout=4000\nsetACL /a acl=world:anyone:31")
	two.Lines(begin + "create /a/other time=8\nsetData /both data=zz time=9\n" +
		"createSession session=-4611686018427387904 timeout=4001\n" +
		"error\nsetACL /a acl=world:anyone:30")
	want := `/a0, ACL [world:anyone:31] | [world:anyone:30]
/both0, data 2 bytes, checksum 0x8f7a7eb2 | 2 bytes, checksum 0x3d5e7ccb
/a/deep0 only in 1
/a/other0 only in 2
c000000000000000, timeout 4000 ms | 4001 ms
3 only in 1
`
	a, b := seen(one, "copy"), seen(two, "copy")
	got := differences(t, a, b)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if out := differences(t, a, a); out != "" {
		t.Errorf("a state and itself: %s", out)
	}
	var written bytes.Buffer
	if _, err := backup.WriteMachine(t.Context(), two.M, "scratch", backup.Options{}, &written); err != nil {
		t.Fatal(err)
	}
	of, err := backup.Open(&written)
	if err != nil {
		t.Fatal(err)
	}
	if out := differences(t, a, of); out != got {
		t.Errorf("of a backup: %s", out)
	}
}

// TestDifferencesOfADamagedState: what cannot be read is an error, not a difference, and the one who asks may stop.
func TestDifferencesOfADamagedState(t *testing.T) {
	h, other := statetest.New(t), statetest.New(t)
	h.Lines("createSession session=1 timeout=4000\ncreate /a data=x\ncreate /b")
	a, none := seen(h, "copy"), seen(other, "copy")
	told := 0
	err := Differences(t.Context(), a, none, func(Difference) bool { told++; return false })
	if err != nil || told != 1 {
		t.Errorf("%d differences are told to who wants one: %v", told, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told = 0
	err = Differences(ctx, a, none, func(Difference) bool { told++; cancel(); return true })
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("after an interrupt %d differences are told: %v", told, err)
	}
	b := &State{r: h.Changed("damaged", schema.AppendNodeKey(nil, schema.KindNode, "/a"), []byte("garbage"))}
	for _, pair := range [][2]Comparable{{a, b}, {b, a}} {
		if err := Differences(t.Context(), pair[0], pair[1], func(Difference) bool { return true }); err == nil {
			t.Error("damage is no error")
		}
	}
}

// TestCountUnderWayInDifferences: two directories whose counts differ differ.
func TestCountUnderWayInDifferences(t *testing.T) {
	const children = 3000 // more than an entry counts
	h := statetest.New(t)
	h.Lines("raise\ncreateSession\ncreate /a")
	some := make([]*entry.Proposal, children)
	for i := range some {
		some[i] = entrytest.Create(fmt.Sprintf("/a/%04d", i), []byte("12"), 0)
	}
	h.Apply(some...)
	h.Lines("create /zookeeper/quota/a\ncreate /zookeeper/quota/a/zookeeper_stats\ncount")
	var c *schema.Count
	for key, value := range h.Content() { // order does not matter: there is one
		if key[0] == schema.KindCounting {
			var err error
			if c, err = schema.DecodeCount([]byte(key), []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c == nil {
		t.Fatal("nothing is left to count")
	}
	c.OwedZnodes, c.OwedBytes = 1, 2
	one := seen(h, "copy")
	two := &State{r: h.Changed("owing", c.AppendKey(nil), c.Append(nil))}
	if out := differences(t, one, one); out != "" {
		t.Errorf("a state differs from itself: %s", out)
	}
	const want = "/zookeeper/quota/a/zookeeper_stats0, " +
		"data 21 bytes, checksum 0xf790fcfa | 21 bytes, checksum 0x6e004f26, " +
		"count under way begun at 0xbbc, come to /a/1023, owes 0 znodes of 0 bytes | " +
		"begun at 0xbbc, come to /a/1023, owes 1 znodes of 2 bytes\n"
	if out := differences(t, one, two); out != want {
		t.Errorf("%s, want %s", out, want)
	}
}
