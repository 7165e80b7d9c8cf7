package state

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// TestMachineScripts runs testdata/machine: "apply" makes each line an entry, "entry" makes all lines one; the output
// is what the client is told and which watches fire. The grammar of a line is that of entrytest.Script.
func TestMachineScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		h := newHarness(t, MachineOptions{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return h.command(t, d) })
	})
}

// harness is a machine on a file system that can forget what was not synced, and the log of what was applied.
type harness struct {
	t    testing.TB
	fs   *vfs.MemFS
	opts MachineOptions
	m    *Machine
	log  [][]byte // entry of index i+1
	say  *entrytest.Script
	out  strings.Builder
	mark entry.CompareTxn // the last one
}

// newHarness opens an empty machine.
func newHarness(t testing.TB, o MachineOptions) *harness {
	t.Helper()
	h := &harness{t: t, fs: vfs.NewCrashableMem(), opts: o}
	h.say = entrytest.NewScript(func() string { return h.m.EnsembleConfig() })
	h.open()
	t.Cleanup(func() {
		if h.m != nil {
			h.close()
		}
	})
	return h
}

// open opens the machine and applies again what it has lost.
func (h *harness) open() {
	h.t.Helper()
	h.opts.FS, h.opts.Dir = h.fs, "state"
	m, err := OpenMachine(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.m = m
	if m.AppliedIndex() != m.DurableIndex() {
		h.t.Fatalf("applied %d, durable %d after opening", m.AppliedIndex(), m.DurableIndex())
	}
	for i := m.AppliedIndex(); i < uint64(len(h.log)); i++ {
		if err := m.Apply(i+1, 1, h.log[i], discard{}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// close closes the machine.
func (h *harness) close() {
	h.t.Helper()
	if err := h.m.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.m = nil
}

// crash forgets what was not synced and opens again.
func (h *harness) crash() {
	h.t.Helper()
	durable := h.m.DurableIndex()
	fs := h.fs.CrashClone(vfs.CrashCloneCfg{})
	h.close()
	h.fs = fs
	h.open()
	if h.m.DurableIndex() < durable {
		h.t.Fatalf("durable index went back from %d to %d", durable, h.m.DurableIndex())
	}
}

// apply applies one entry of the proposals, and returns the results as text.
func (h *harness) apply(proposals ...*entry.Proposal) string {
	h.t.Helper()
	b := entry.AppendEntryHeader(nil, 7, uint64(len(h.log)))
	for _, p := range proposals {
		b = entry.AppendProposal(b, p)
	}
	h.log = append(h.log, b)
	h.out.Reset()
	if err := h.m.Apply(uint64(len(h.log)), 1, slices.Clone(b), h); err != nil {
		h.t.Fatal(err)
	}
	return h.out.String()
}

// Result implements Sink.
func (h *harness) Result(origin, batch uint64, _ int, r *apply.Result) {
	if origin != 7 || batch != uint64(len(h.log)-1) {
		h.t.Errorf("result of origin %d batch %d, want 7 and %d", origin, batch, len(h.log)-1)
	}
	formatResult(&h.out, r)
	if r.Point != nil {
		h.mark = *r.Point
	}
}

// command runs one command of a script.
func (h *harness) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	h.t = t
	var out strings.Builder
	switch d.Cmd {
	case "apply", "entry":
		var proposals []*entry.Proposal
		for line := range strings.Lines(d.Input) {
			p, err := h.say.Proposal(strings.TrimSpace(line))
			if err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
			if d.Cmd == "apply" {
				out.WriteString(h.apply(p))
			} else {
				proposals = append(proposals, p)
			}
		}
		if d.Cmd == "entry" {
			out.WriteString(h.apply(proposals...))
		}
	case "tree":
		out.WriteString(dumpState(h.m, d.HasArg("system")))
	case "flush":
		if err := h.m.Flush(context.Background()); err != nil {
			d.Fatalf(t, "%v", err)
		}
		fmt.Fprintf(&out, "durable %d of %d\n", h.m.DurableIndex(), h.m.AppliedIndex())
	case "pieces": // of counts, and of sessions that end, from now on: what was applied is not applied again
		if err := h.m.Flush(context.Background()); err != nil {
			d.Fatalf(t, "%v", err)
		}
		h.close()
		d.MaybeScanArgs(t, "znodes", &h.opts.countPiece)
		d.MaybeScanArgs(t, "ephemerals", &h.opts.endPiece)
		h.open()
	case "reopen":
		h.close()
		h.open()
	case "crash":
		h.crash()
	case "read":
		for line := range strings.Lines(d.Input) {
			out.WriteString(h.read(strings.Fields(line)) + "\n")
		}
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return out.String()
}

// read answers one line of a read command.
func (h *harness) read(words []string) string {
	v := h.m.View()
	defer v.Close()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "children":
		names, ok := v.Children(arg(1), nil)
		return fmt.Sprintf("%v %s", ok, strings.Join(names, " "))
	case "get":
		n, ok := v.Get(arg(1))
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%s %s %s", formatData(n.Data()), formatStat(n.Stat()), formatACL(n.ACL()))
	case "ephemerals":
		id, err := strconv.ParseInt(arg(1), 0, 64)
		if err != nil {
			return err.Error()
		}
		return strings.Join(v.EphemeralsOf(jute.SessionID(id), arg(2), nil), " ")
	case "descendants":
		_, ok := v.Exists(arg(1))
		return fmt.Sprintf("%d %v", v.CountBelow(arg(1)), ok)
	case "expiring":
		now, err := strconv.ParseInt(arg(1), 0, 64)
		if err != nil {
			return err.Error()
		}
		limits := ExpiryLimits{Max: 1000}
		if arg(2) != "" {
			n, err := strconv.Atoi(arg(2))
			if err != nil {
				return err.Error()
			}
			limits.NeverUsedMillis = jute.Millis(n)
		}
		var paths []string
		v.Expiring(jute.Millis(now), limits, "", func(path string) { paths = append(paths, path) })
		return strings.Join(paths, " ")
	case "counting":
		var out strings.Builder
		for _, c := range h.m.mu.Counts.All() {
			fmt.Fprintf(&out, "%s %s; ", c.Target, c)
		}
		return fmt.Sprintf("%s%d", out.String(), h.m.CountingQuotas())
	case "counts":
		return fmt.Sprintf("nodes=%d ephemerals=%d bytes=%d sessions=%d zxid=%d index=%d digest=%#x",
			v.NodeCount(), v.EphemeralCount(), v.ApproximateDataBytes(), v.SessionCount(),
			v.Zxid(), v.AppliedIndex(), v.Digest())
	}
	return "unknown read " + words[0]
}
