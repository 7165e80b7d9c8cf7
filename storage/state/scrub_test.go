package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/disk"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
)

// atOnce is the pace of a scrub that does not wait.
func atOnce(ctx context.Context, _ int) error { return ctx.Err() }

// manyZnodes applies creates of znodes with data in the header and apart.
func (h *harness) manyZnodes(n int) {
	h.t.Helper()
	for i := range n {
		h.apply(entrytest.Create(fmt.Sprintf("/n%05d", i), make([]byte, i%3*200), 0))
	}
}

// TestScrub: a scrub reads everything and finds a state well, also while entries are applied.
func TestScrub(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	h.manyZnodes(2000)
	paced := 0
	report, err := h.m.Scrub(t.Context(), func(ctx context.Context, bytes int) error {
		paced += bytes
		h.manyZnodesAt("/during", 3) // on the apply goroutine, which no scrub holds up
		return ctx.Err()
	})
	if err != nil || report.Znodes != 2000+6 || report.Sessions != 1 || paced == 0 || int64(paced) > report.Bytes {
		t.Errorf("%+v, paced %d: %v", report, paced, err)
	}
	if report, err = h.m.Scrub(t.Context(), atOnce); err != nil || report.Index != h.m.AppliedIndex() {
		t.Errorf("the second: %+v: %v", report, err)
	}
}

// manyZnodesAt applies creates of sequential znodes.
func (h *harness) manyZnodesAt(path string, n int) {
	h.t.Helper()
	for range n {
		h.apply(entrytest.Create(path, nil, 2))
	}
}

// TestScrubFindsDamage: whatever a disk gives back wrong, though its blocks have the right checksums, is found.
func TestScrubFindsDamage(t *testing.T) {
	damage := map[string]func(t *testing.T, h *harness){
		"an ACL": func(t *testing.T, h *harness) {
			n, err := h.m.store.node("/a")
			if err != nil {
				t.Fatal(err)
			}
			n.ACL = nil
			h.put(schema.AppendNodeKey(nil, schema.KindNode, "/a"), n.AppendHeader(nil))
		},
		"data": func(_ *testing.T, h *harness) {
			h.put(schema.AppendNodeKey(nil, schema.KindData, "/long"), make([]byte, 4000))
		},
		"data that is gone": func(_ *testing.T, h *harness) {
			h.drop(schema.AppendNodeKey(nil, schema.KindData, "/long"))
		},
		"a znode that is gone": func(_ *testing.T, h *harness) {
			h.drop(schema.AppendNodeKey(nil, schema.KindNode, "/a"))
		},
		"a session's owner": func(_ *testing.T, h *harness) {
			info := *h.m.mu.Sessions[1]
			info.Owner++
			h.put(schema.AppendSessionKey(nil, 1), schema.AppendSession(nil, &info))
		},
		"a session that is gone": func(_ *testing.T, h *harness) { h.drop(schema.AppendSessionKey(nil, 1)) },
		"the counters": func(_ *testing.T, h *harness) {
			pos := h.m.mu.Position
			pos.Nodes++
			h.put(schema.KeyApplied, pos.Append(nil))
		},
	}
	for name, do := range damage { // order: each for itself
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, MachineOptions{})
			h.lines(compareScript + "create /long data=" + strings.Repeat("x", 4000))
			if _, err := h.m.Scrub(t.Context(), atOnce); err != nil {
				t.Fatalf("before: %v", err)
			}
			do(t, h)
			if _, err := h.m.Scrub(t.Context(), atOnce); !errors.Is(err, disk.ErrDamaged) &&
				!errors.Is(err, schema.ErrDamagedValue) {
				t.Errorf("not found: %v", err)
			}
		})
	}
}

// put and drop change the store behind the machine's back.
func (h *harness) put(key, value []byte) {
	h.t.Helper()
	if err := h.m.store.set(key, value); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) drop(key []byte) {
	h.t.Helper()
	if err := h.m.store.db.Delete(key, pebble.NoSync); err != nil {
		h.t.Fatal(err)
	}
}

// TestWhoWaitsForAnInstallNeedNot: the disk may hang while another state takes the place of this one. Who is to use the
// store behind it goes when it is told to.
func TestWhoWaitsForAnInstallNeedNot(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	calls := map[string]func(ctx context.Context) error{ // any order
		"scrub":      func(ctx context.Context) error { _, err := h.m.Scrub(ctx, atOnce); return err },
		"reclaim":    h.m.Reclaim,
		"checkpoint": func(ctx context.Context) error { _, _, err := h.m.Checkpoint(ctx, "copy"); return err },
	}
	installed, goOn := h.m.replacing(), h.m.scrubbing.halt()
	for name, call := range calls { // order: each for itself
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	goOn()
	installed()
	for name, call := range calls { // order: each for itself
		if err := call(t.Context()); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
}

// TestCloseUnderAHungScrub: a scrub hangs on its disk, and is given up. The store stays open for it.
func TestCloseUnderAHungScrub(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	h.apply(entrytest.Create("/large", make([]byte, 2*scrubStepBytes), 0))
	hangs, released, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := h.m.Scrub(t.Context(), func(context.Context, int) error { close(hangs); <-released; return nil })
		ended <- err
	}()
	select {
	case <-hangs:
	case err := <-ended:
		t.Fatalf("the scrub has ended before it hung: %v", err)
	}
	if err := h.m.Close(); err == nil || !strings.Contains(err.Error(), "its disk does not answer") {
		t.Errorf("closed: %v", err)
	}
	close(released)
	if err := <-ended; err != nil {
		t.Errorf("the scrub: %v", err)
	}
	h.close() // it is, now that nobody uses it
}

// TestScrubGivesWay: a state that is replaced does not wait for a scrub of it, however slow that is.
func TestScrubGivesWay(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	h.manyZnodes(3000)
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := h.m.Scrub(context.Background(), func(ctx context.Context, _ int) error {
			if first {
				first = false
				close(began)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		ended <- err
	}()
	select {
	case <-began:
	case err := <-ended:
		t.Fatalf("the scrub has ended before it paused: %v", err)
	}
	h.install(entrytest.Create("/later", nil, 0))
	if err := <-ended; !errors.Is(err, ErrScrubHalted) {
		t.Errorf("the scrub has ended with %v", err)
	}
	if _, err := h.m.Scrub(t.Context(), atOnce); err != nil {
		t.Errorf("a scrub of the new state: %v", err)
	}
}
