package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
)

// markOf has the machine take the sums of its state.
func (h *harness) markOf() entry.CompareTxn {
	h.t.Helper()
	mark := (&entry.CompareTxn{}).Append(nil)
	h.apply(&entry.Proposal{Op: entry.OpCompareState, Body: mark})
	return h.mark
}

// verdict applies a verdict.
func (h *harness) verdict(v entry.CompareTxn) error {
	h.t.Helper()
	b := entry.AppendEntryHeader(nil, 7, uint64(len(h.log)))
	b = entry.AppendProposal(b, &entry.Proposal{Op: entry.OpCompareState, Body: v.Append(nil)})
	h.log = append(h.log, b)
	return h.m.Apply(uint64(len(h.log)), 1, b, h)
}

// lines applies operations in the words of the scripts, an entry each.
func (h *harness) lines(text string) {
	h.t.Helper()
	for line := range strings.Lines(text) {
		p, err := h.say.Proposal(strings.TrimSpace(line))
		if err != nil {
			h.t.Fatal(err)
		}
		h.apply(p)
	}
}

// comparable is a machine that may be asked for its sums: of an ensemble at the newest level.
func comparable(t *testing.T, o MachineOptions) *harness {
	t.Helper()
	h := newHarness(t, o)
	h.apply(&entry.Proposal{Op: entry.OpRaiseLevel, Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)})
	return h
}

// compareScript is what both states of a comparison begin with.
const compareScript = `createSession session=1 timeout=4000
create /a data=x
create /quota
setACL /a acl=world:anyone:31
`

// TestVerdictOnStatesThatDiffer: whatever part of a state differs, a member whose state is not that of most stops with
// the part's name, and does not start again. A last line of both that differs in one thing makes the difference.
func TestVerdictOnStatesThatDiffer(t *testing.T) {
	for _, c := range []struct{ name, here, there, part string }{
		{"nothing", "setData /a data=y time=5000", "setData /a data=y time=5000", ""},
		{"data", "setData /a data=y time=5000", "setData /a data=z time=5000", "znodes"},
		{"long data", "setData /a size=4000 time=5000", "setData /a size=4001 time=5000", "znodes"},
		{"an ACL", "setACL /a acl=world:anyone:31", "setACL /a acl=world:anyone:30", "znodes"},
		{"a time", "setData /a data=y time=5000", "setData /a data=y time=5001", "znodes"},
		{"a znode below /zookeeper", "create /zookeeper/quota/a time=1", "create /zookeeper/quota/b time=1", "znodes"},
		{"a session's timeout", "createSession session=2 timeout=4000", "createSession session=2 timeout=4001",
			"sessions"},
		{"a zxid", "error", "reattach session=9",
			"zxid, counters, configuration or counts of quotas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := comparable(t, MachineOptions{}), comparable(t, MachineOptions{})
			for h, last := range map[*harness]string{here: c.here, there: c.there} { // order: each for itself
				h.lines(compareScript + last)
			}
			theirs := there.markOf()
			if mine := here.markOf(); mine.Index != theirs.Index {
				t.Fatalf("marks at %d and %d", mine.Index, theirs.Index)
			}
			err := here.verdict(theirs)
			if c.part == "" {
				if err != nil || here.m.AgreedIndex() != theirs.Index {
					t.Fatalf("%v, agreed on %d, want %d", err, here.m.AgreedIndex(), theirs.Index)
				}
				return
			}
			var diverged *apply.DivergedError
			if !errors.As(err, &diverged) || diverged.Part != c.part || here.m.AgreedIndex() != 0 {
				t.Fatalf("%v, agreed on %d, want a difference of %s", err, here.m.AgreedIndex(), c.part)
			}
			here.close()
			if _, err := OpenMachine(here.opts); !errors.Is(err, apply.ErrDiverged) ||
				!strings.Contains(err.Error(), diverged.Error()) {
				t.Errorf("the next start: %v", err)
			}
		})
	}
}

// TestVerdictOnAnUnknownMark: of a mark that was applied by an earlier process, or before the state came from another
// member, nothing is known, and nothing is compared.
func TestVerdictOnAnUnknownMark(t *testing.T) {
	h := comparable(t, MachineOptions{FlushBytes: 1})
	h.lines(compareScript)
	mark := h.markOf()
	h.install(entrytest.Create("/b", nil, 0))
	mark.Sums.Znodes++
	if err := h.verdict(mark); err != nil || h.m.AgreedIndex() != 0 {
		t.Errorf("after a restore: %v, agreed on %d", err, h.m.AgreedIndex())
	}
	mark = h.markOf()
	if err := h.m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.close()
	h.open()
	mark.Sums.Znodes++
	if err := h.verdict(mark); err != nil || h.m.AgreedIndex() != 0 {
		t.Errorf("after a start: %v, agreed on %d", err, h.m.AgreedIndex())
	}
}

// TestCompareIsNoWrite: a mark takes no zxid, and inside an entry with others, or cut short, it is refused.
func TestCompareIsNoWrite(t *testing.T) {
	h := comparable(t, MachineOptions{})
	h.lines(compareScript)
	before, zxid := h.m.mu.Sums(), h.m.LastZxid()
	h.markOf()
	if h.m.LastZxid() != zxid || h.m.mu.Sums() != before {
		t.Errorf("a mark has moved the zxid to %d, the sums from %x to %x", h.m.LastZxid(), before, h.m.mu.Sums())
	}
	mark := &entry.Proposal{Op: entry.OpCompareState, Body: (&entry.CompareTxn{}).Append(nil)}
	for name, c := range map[string]struct { // order: each for itself
		entry []*entry.Proposal
		code  jute.Code
	}{
		"with another": {[]*entry.Proposal{mark, entrytest.Create("/d", nil, 0)}, jute.BadArguments},
		"cut short":    {[]*entry.Proposal{{Op: entry.OpCompareState, Body: []byte{1}}}, jute.MarshallingError},
	} {
		if out := h.apply(c.entry...); !strings.Contains(out, c.code.String()) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// TestMarksAreForgotten: of the marks the last eight are remembered, and of an older one nothing is compared.
func TestMarksAreForgotten(t *testing.T) {
	h := comparable(t, MachineOptions{})
	first, second := h.markOf(), h.markOf()
	for range 7 {
		h.markOf()
	}
	if err := h.verdict(second); err != nil || h.m.AgreedIndex() != second.Index {
		t.Errorf("the eighth: %v, agreed on %d", err, h.m.AgreedIndex())
	}
	first.Sums.Znodes++
	if err := h.verdict(first); err != nil || h.m.AgreedIndex() != second.Index {
		t.Errorf("the ninth: %v, agreed on %d", err, h.m.AgreedIndex())
	}
}

// TestSumsOfAProgramThatKeptNone: a state that an earlier program has made, or has applied entries to, gets its sums
// when it is opened.
func TestSumsOfAProgramThatKeptNone(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	want := h.m.mu.Sums()
	for name, value := range map[string][]byte{ // order: each for itself
		"none": nil, "old ones": schema.Kept{Znodes: 1, Sessions: 2}.Append(nil, h.m.AppliedIndex()-1),
	} {
		if err := h.m.store.db.Delete(schema.KeySums, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if value != nil {
			if err := h.m.store.set(schema.KeySums, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.m.store.flushed(); err != nil {
			t.Fatal(err)
		}
		h.close()
		h.open()
		if got := h.m.mu.Sums(); got != want {
			t.Errorf("%s: sums %x, want %x", name, got, want)
		}
	}
}
