package statetest

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema/schematest"
	"zkd/storage/state"
)

// quiet is what Pebble tells a test.
var quiet = disk.Logger{Fault: &disk.Fault{Logger: slog.New(slog.DiscardHandler)}}

// Harness is a Machine on a file system in memory.
type Harness struct {
	T   testing.TB
	FS  *vfs.MemFS
	M   *state.Machine
	say *entrytest.Script
}

// New opens an empty Machine.
func New(t testing.TB) *Harness {
	t.Helper()
	h := &Harness{T: t, FS: vfs.NewMem()}
	h.M = Open(t, h.FS, "state")
	h.say = entrytest.NewScript(h.M.EnsembleConfig)
	return h
}

// Random returns one with the state that a random load of so many proposals has left.
func Random(t testing.TB, seed uint64, proposals int) *Harness {
	t.Helper()
	h := New(t)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed is to give the same state
	g := entrytest.NewGenerator(r, h.M.EnsembleConfig)
	for range proposals / 20 {
		together := make([]*entry.Proposal, 20)
		for i := range together {
			together[i] = g.Proposal()
		}
		h.Apply(together...)
	}
	return h
}

// Open opens the Machine in dir of fs, and closes it when the test ends.
func Open(t testing.TB, fs vfs.FS, dir string) *state.Machine {
	t.Helper()
	m, err := state.OpenMachine(state.MachineOptions{FS: fs, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Apply applies one entry of the proposals, and returns their results.
func (h *Harness) Apply(proposals ...*entry.Proposal) []jute.Code {
	h.T.Helper()
	var told codes
	record := entrytest.Entries(len(proposals), proposals)[0]
	if err := h.M.Apply(h.M.AppliedIndex()+1, 1, record, &told); err != nil {
		h.T.Fatal(err)
	}
	return told
}

// codes is a Sink that keeps results.
type codes []jute.Code

// Result implements state.Sink.
func (c *codes) Result(_, _ uint64, _ int, r *apply.Result) { *c = append(*c, r.Code) }

// Lines applies operations in the words of entrytest.Script, an entry each.
func (h *Harness) Lines(text string) {
	h.T.Helper()
	for line := range strings.Lines(text) {
		p, err := h.say.Proposal(strings.TrimSpace(line))
		if err != nil {
			h.T.Fatal(err)
		}
		h.Apply(p)
	}
}

// Reader reads a checkpoint of the present state, which it makes in dir and leaves there.
func (h *Harness) Reader(dir string) *state.Reader {
	h.T.Helper()
	if _, _, err := h.M.Checkpoint(h.T.Context(), dir); err != nil {
		h.T.Fatal(err)
	}
	return Reader(h.T, h.FS, dir)
}

// Changed reads a checkpoint of the present state, in dir, in which a key has another value.
func (h *Harness) Changed(dir string, key, value []byte) *state.Reader {
	h.T.Helper()
	if _, _, err := h.M.Checkpoint(h.T.Context(), dir); err != nil {
		h.T.Fatal(err)
	}
	db, err := pebble.Open(dir, &pebble.Options{FS: h.FS, Logger: quiet})
	if err != nil {
		h.T.Fatal(err)
	}
	if err := errors.Join(db.Set(key, value, pebble.NoSync), db.Flush(), db.Close()); err != nil {
		h.T.Fatal(err)
	}
	return Reader(h.T, h.FS, dir)
}

// Content returns all keys and values of the present state.
func (h *Harness) Content() map[string]string {
	h.T.Helper()
	return Content(h.T, h.FS, h.M)
}

// Discard is a Sink that reads nothing.
type Discard struct{}

// Result implements state.Sink.
func (Discard) Result(_, _ uint64, _ int, _ *apply.Result) {}

// Reader reads the state in dir of fs, which no Machine has open, and closes it when the test ends.
func Reader(t testing.TB, fs vfs.FS, dir string) *state.Reader {
	t.Helper()
	r, err := state.OpenReader(fs, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Check checks that the state of m, whose store is in fs, agrees with itself.
func Check(t testing.TB, fs vfs.FS, m *state.Machine) {
	t.Helper()
	schematest.Check(t, Content(t, fs, m))
}

// Content returns all keys and values of the state of m, whose store is in fs.
func Content(t testing.TB, fs vfs.FS, m *state.Machine) map[string]string {
	t.Helper()
	const dir = "content"
	if _, _, err := m.Checkpoint(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(dir, &pebble.Options{FS: fs, ReadOnly: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			t.Fatal(err)
		}
		all[string(it.Key())] = string(value)
	}
	if err := errors.Join(it.Close(), db.Close(), fs.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	return all
}
