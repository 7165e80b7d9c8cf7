package state

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// lastZxid is a Sink that keeps the zxid of the last result it was told.
type lastZxid struct{ atomic.Int64 }

func (l *lastZxid) Result(_, _ uint64, _ int, r *apply.Result) { l.Store(int64(r.Zxid)) }

// TestViewsAreConsistent reads while multis change two znodes and a list of children together: no View shows one
// without the others, none shows what the sink has not been told, and none goes back.
func TestViewsAreConsistent(t *testing.T) {
	for _, cache := range []int64{1, 1 << 20} {
		t.Run(fmt.Sprintf("cache=%d", cache), func(t *testing.T) { testConsistency(t, cache) })
	}
}

func testConsistency(t *testing.T, cacheBytes int64) {
	m := benchMachine(t, MachineOptions{CacheBytes: cacheBytes, FlushReplay: 50 * replayRequest})
	told := &lastZxid{}
	apply := func(proposals ...*entry.Proposal) {
		if err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(len(proposals), proposals)[0], told); err != nil {
			t.Error(err)
		}
	}
	apply(entrytest.Create("/x", nil, 0), entrytest.Create("/y", nil, 0))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last jute.Zxid
			for {
				select {
				case <-done:
					return
				default:
					last = readConsistently(t, m, told, last)
				}
			}
		})
	}
	for i := range 500 {
		// Data of a key of its own, so that header and data must fit.
		data := fmt.Appendf(nil, "%0300d", i)
		child := fmt.Sprintf("/x/c%d", i%7)
		p := &entry.Proposal{Op: jute.OpMulti, Session: 1}
		p.Body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(p.Body)
		p.Body = (&jute.SetDataRequest{Path: "/x", Data: data, Version: -1}).Append(p.Body)
		if i%14 < 7 {
			p.Body = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(p.Body)
			p.Body = (&jute.CreateRequest{Path: child, ACL: acl.Open}).Append(p.Body)
		} else {
			p.Body = (&jute.MultiHeader{Type: jute.OpDelete, Err: -1}).Append(p.Body)
			p.Body = (&jute.PathVersionRequest{Path: child, Version: -1}).Append(p.Body)
		}
		p.Body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(p.Body)
		p.Body = (&jute.SetDataRequest{Path: "/y", Data: data, Version: jute.Version(i)}).Append(p.Body)
		p.Body = jute.AppendMultiEnd(p.Body)
		apply(p)
	}
	close(done)
	readers.Wait()
	v := m.View()
	defer v.Close()
	if n, _ := v.Get("/y"); n.Stat().Version != 500 {
		t.Errorf("version %d of /y: some multis failed", n.Stat().Version)
	}
}

// readConsistently checks one View and returns its zxid.
func readConsistently(t *testing.T, m *Machine, told *lastZxid, last jute.Zxid) jute.Zxid {
	t.Helper()
	v := m.View()
	defer v.Close()
	x, _ := v.Get("/x")
	y, _ := v.Get("/y")
	names, _ := v.Children("/x", nil)
	written := x.Stat().Version > 0
	if string(x.Data()) != string(y.Data()) || x.Stat().Version != y.Stat().Version ||
		written && x.Stat().Mzxid != y.Stat().Mzxid {
		t.Errorf("half a multi: %+v and %+v", x.Stat(), y.Stat())
	}
	if len(names) != int(x.Stat().NumChildren) || int(x.Stat().DataLength) != len(x.Data()) {
		t.Errorf("%d children and %d bytes, the Stat says %+v", len(names), len(x.Data()), x.Stat())
	}
	if z := v.Zxid(); z < last || int64(z) > told.Load() || x.Stat().Mzxid > z {
		t.Errorf("zxid %d after %d, told %d, mzxid %d", z, last, told.Load(), x.Stat().Mzxid)
	}
	return v.Zxid()
}

// TestChildrenAreOnlyChildren lists among paths that sort close to one another.
func TestChildrenAreOnlyChildren(t *testing.T) {
	h := newHarness(t, MachineOptions{CacheBytes: 1})
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: (&entry.SessionTxn{}).Append(nil)})
	paths := []string{"/a", "/a/b", "/a/b/c", "/a-", "/a-/b", "/a/b-", "/a0", "/a0/x", "/ab", "/a/é", "/é", "/é/a",
		"/a/b/c/d"}
	for _, path := range paths {
		h.apply(entrytest.Create(path, nil, 0))
	}
	v := h.m.View()
	defer v.Close()
	for _, parent := range append(paths, "/") {
		var want, below int
		for _, path := range paths {
			if jute.ParentPath(path) == parent {
				want++
			}
			if parent != "/" && len(path) > len(parent) && path[:len(parent)+1] == parent+"/" {
				below++
			}
		}
		if parent == "/" {
			want++ // /zookeeper
			below = len(paths) + 3
		}
		names, ok := v.Children(parent, []string{"kept"})
		if !ok || len(names) != want+1 || names[0] != "kept" {
			t.Errorf("children of %s: %q, want %d", parent, names, want)
		}
		if n := v.CountBelow(parent); n != below {
			t.Errorf("%d below %s, want %d", n, parent, below)
		}
	}
}

// TestExpiringContainersArePieces: however many containers were never used, a View looks at no more of them than it is
// to, and one after the other they find what may go, once each.
func TestExpiringContainersArePieces(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	proposals := []*entry.Proposal{}
	path := func(i int) string { return fmt.Sprintf("/c%04d", i) }
	const containers = 1000
	var want []string
	for i := range containers {
		create := jute.CreateRequest{Path: path(i), ACL: acl.Open, Flags: jute.ModeContainer}
		proposals = append(proposals, &entry.Proposal{Op: jute.OpCreateContainer,
			Session: 1, Identities: entrytest.Identities, Body: create.Append(nil)})
		if i%333 == 0 {
			want = append(want, path(i))
			child := path(i) + "/child"
			proposals = append(proposals, entrytest.Create(child, nil, jute.ModePersistent), entrytest.Delete(child))
		}
	}
	h.apply(append([]*entry.Proposal{entrytest.Session(1)}, proposals...)...)
	var got []string
	pieces, after := 0, ""
	for {
		v := h.m.View()
		v.Pace(func() bool { return true })
		limits := ExpiryLimits{Max: containers, Containers: 300}
		after = v.Expiring(1<<50, limits, after, func(path string) { got = append(got, path) })
		if v.at.paced > limits.Containers {
			t.Errorf("piece %d has read %d keys", pieces, v.at.paced)
		}
		v.Close()
		if pieces++; after == "" {
			break
		}
	}
	if !slices.Equal(got, want) || pieces != 4 {
		t.Errorf("%d pieces have found %v, want 4 and %v", pieces, got, want)
	}
}
