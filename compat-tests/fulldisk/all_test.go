package fulldisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
)

// kind is a way of writing until nothing is taken any more.
type kind struct {
	bytes int // of each znode
	batch int // znodes that one multi makes; 0: each is made alone
}

// Who fills a disk: several clients, each with several calls under way.
const (
	clients = 4
	writers = 8 // of each client
)

// writer makes znodes below one of its own, and knows which were acknowledged.
type writer struct {
	t      *testing.T
	c      *zk.Conn
	kind   kind
	parent string
	next   int
	names  map[string]bool
}

// newWriters returns writers of each kind in turn that run at the same time.
func newWriters(t *testing.T, e *ensemble.Ensemble, under string, kinds []kind) []*writer {
	t.Helper()
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		conns[i] = connect(t, e.Addrs()...)
	}
	awaitRoom(t, conns[0], under, 0)
	all := make([]*writer, clients*writers)
	for i := range all {
		w := &writer{t: t, c: conns[i%clients], kind: kinds[i%len(kinds)], names: map[string]bool{},
			parent: fmt.Sprintf("%s/%02d", under, i)}
		awaitRoom(t, w.c, w.parent, 0)
		all[i] = w
	}
	return all
}

// each has all writers do the same at once, until all have done it.
func each(all []*writer, do func(w *writer)) {
	var wg sync.WaitGroup
	for _, w := range all {
		wg.Go(func() { do(w) })
	}
	wg.Wait()
}

// do is persist for any goroutine: it returns the last error if the call cannot be made in time.
func do(call func() error) error {
	var last error
	ensemble.Await(within, func() (bool, string) {
		last = call()
		return !again(last), ""
	})
	return last
}

// fill makes znodes until one is refused, or more than limit bytes were written, and returns what refused it.
func (w *writer) fill(limit *atomic.Int64) error {
	data := bytes.Repeat([]byte{'x'}, w.kind.bytes)
	for limit.Add(-int64(max(w.kind.batch, 1)*w.kind.bytes)) > 0 {
		names := make([]string, max(w.kind.batch, 1))
		creates := make([]any, len(names))
		for i := range names {
			names[i] = fmt.Sprintf("%08d", w.next+i)
			creates[i] = &zk.CreateRequest{Path: w.path(names[i]), Data: data, Acl: zk.WorldACL(zk.PermAll)}
		}
		lost := false
		err := do(func() (err error) {
			if w.kind.batch > 0 {
				_, err = w.c.Multi(creates...)
			} else {
				_, err = w.c.Create(w.path(names[0]), data, 0, zk.WorldACL(zk.PermAll))
			}
			if errors.Is(err, zk.ErrNodeExists) { // the attempt before, whose reply was lost
				return nil
			}
			lost = lost || again(err)
			return err
		})
		if err != nil && !(lost && refused(err) && w.there(names[0])) {
			return err
		}
		for _, name := range names {
			w.names[name] = true
		}
		w.next += len(names)
	}
	return nil
}

// there tells whether a znode is there. An attempt to make it whose reply was lost comes no later than this: its
// session has gone on over another connection, or has ended.
func (w *writer) there(name string) bool {
	found := false
	err := do(func() (err error) {
		found, _, err = w.c.Exists(w.path(name))
		return err
	})
	if err != nil {
		w.t.Errorf("look for %s: %v", w.path(name), err)
	}
	return found
}

// path is that of a znode.
func (w *writer) path(name string) string { return w.parent + "/" + name }

// check fails the test unless exactly what was acknowledged is there; of the data some is looked at.
func (w *writer) check() {
	var there []string
	err := do(func() (err error) {
		there, _, err = w.c.Children(w.parent)
		return err
	})
	slices.Sort(there)
	want := slices.Sorted(maps.Keys(w.names))
	if err != nil || !slices.Equal(there, want) {
		w.t.Errorf("%s has %d children, %v; %d were acknowledged, and the others refused", w.parent, len(there), err,
			len(want))
		return
	}
	step := max(len(want)/readsMax, 1)
	for n := len(want) - 1; n >= 0; n -= step {
		var data []byte
		err := do(func() (err error) {
			data, _, err = w.c.Get(w.path(want[n]))
			return err
		})
		if err != nil || len(data) != w.kind.bytes {
			w.t.Errorf("read %s, which was acknowledged: %d bytes, %v", w.path(want[n]), len(data), err)
			return
		}
	}
}

// remove removes a share of the znodes.
func (w *writer) remove(share float64) {
	names := slices.Sorted(maps.Keys(w.names))
	names = names[:int(float64(len(names))*share)]
	for batch := range slices.Chunk(names, 100) {
		deletes := make([]any, len(batch))
		for i, name := range batch {
			deletes[i] = &zk.DeleteRequest{Path: w.path(name), Version: -1}
		}
		err := do(func() error {
			_, err := w.c.Multi(deletes...)
			if errors.Is(err, zk.ErrNoNode) { // the attempt before, whose reply was lost
				return nil
			}
			return err
		})
		if err != nil {
			w.t.Errorf("remove %s from a full disk: %v", w.path(batch[0]), err)
			return
		}
		for _, name := range batch {
			delete(w.names, name)
		}
	}
}

// count is how many znodes were acknowledged, and their bytes.
func count(all []*writer) (znodes, bytes int) {
	for _, w := range all {
		znodes += len(w.names)
		bytes += len(w.names) * w.kind.bytes
	}
	return znodes, bytes
}

// fillAll has all writers fill until each is refused. It fails the test if one is refused for another reason than the
// disk, or not at all.
func fillAll(t *testing.T, e *ensemble.Ensemble, all []*writer, disk int64) {
	t.Helper()
	var limit atomic.Int64
	limit.Store(10 * disk)
	each(all, func(w *writer) {
		err := w.fill(&limit)
		if !refused(err) {
			t.Errorf("a full disk is answered %v, want %s", err, refusal)
		}
	})
	alive(t, e)
	if t.Failed() {
		t.FailNow()
	}
}

// used is what the servers have on their disks, without the reserve, in MiB.
func used(t *testing.T, e *ensemble.Ensemble) (mib []int64) {
	t.Helper()
	for _, s := range e.Servers {
		mib = append(mib, usedBytes(t, s)>>20)
	}
	return mib
}

// stop ends all servers, one after the other and with notice; kill at once and without.
func stop(e *ensemble.Ensemble) {
	for _, s := range e.Servers {
		s.Stop()
	}
	e.StartAll()
}

func kill(e *ensemble.Ensemble) {
	for _, s := range e.Servers {
		s.Kill9()
	}
	e.StartAll()
}

// TestAllDisksFull fills the disks of all servers by what clients write: no server ends, each starts again, what was
// acknowledged is there and nothing else, and when some of it is removed there is room again.
func TestAllDisksFull(t *testing.T) {
	all := []kind{{bytes: 100}, {bytes: 1000}, {bytes: 100_000}, {bytes: 1000, batch: 50}}
	if sizeGiven(t) == 0 {
		allDisksFull(t, false, all...)
		return
	}
	for _, ext4 := range []bool{false, true} {
		for _, k := range all {
			name := fmt.Sprintf("ext4=%v/%dB", ext4, k.bytes)
			if k.batch > 0 {
				name += "-multi"
			}
			t.Run(name, func(t *testing.T) { allDisksFull(t, ext4, k) })
		}
		t.Run(fmt.Sprintf("ext4=%v/mixed", ext4), func(t *testing.T) { allDisksFull(t, ext4, all...) })
	}
}

// refilledWithin bounds how long what was removed is made anew, fill by fill: each ends at the first refusal. A guess.
const refilledWithin = 4 * time.Minute

// awaitGivenBack returns once servers on which all is removed have their reserves, say that there is room, and use less
// than half of their disks: mostly for what the log keeps.
func awaitGivenBack(t *testing.T, e *ensemble.Ensemble, disk int64) {
	t.Helper()
	awaitAmple(t, e)
	if why := ensemble.Await(within, func() (bool, string) {
		mib := used(t, e)
		return slices.Max(mib) < disk>>21, fmt.Sprintf("%d MiB are in use", mib)
	}); why != "" {
		t.Fatalf("all is removed, and after %v: %s", within, why)
	}
}

func allDisksFull(t *testing.T, ext4 bool, kinds ...kind) {
	disk := diskBytes(t)
	e := prepare(t, ensemble.Options{DiskBytes: disk, CanHang: ext4})
	empty := used(t, e)
	all := newWriters(t, e, "/big", kinds)
	fillAll(t, e, all, disk)
	first, data := count(all)
	t.Logf("used %d MiB when empty; %d znodes with %d MiB of data are taken; then %d MiB are used", empty, first,
		data>>20, used(t, e))
	stop(e)
	each(all, (*writer).check)
	kill(e)
	each(all, (*writer).check)
	t.Logf("started again twice: used %d MiB", used(t, e))
	for round := range rounds(t) {
		share := 0.5
		if round%2 == 1 {
			share = 1
		}
		before, _ := count(all)
		each(all, func(w *writer) { w.remove(share) })
		left, _ := count(all)
		if share == 1 {
			awaitGivenBack(t, e, disk)
		}
		at := used(t, e)
		now, data := left, 0
		why := ensemble.Await(refilledWithin, func() (bool, string) { // refusals end while room is given back
			each(all, (*writer).refill)
			fillAll(t, e, all, disk)
			now, data = count(all)
			return now >= first*2/3, fmt.Sprintf("%d znodes are taken, %d were at first", now, first)
		})
		t.Logf("%d of %d removed: used %d MiB; %d made: %d znodes with %d MiB, used %d MiB", before-left, before, at,
			now-left, now, data>>20, used(t, e))
		if why != "" {
			t.Fatalf("%v after removals: %s", refilledWithin, why)
		}
	}
	kill(e)
	each(all, (*writer).check)
	each(all, func(w *writer) { w.remove(1) })
	awaitGivenBack(t, e, disk)
	alive(t, e)
	t.Logf("all is removed: used %d MiB", used(t, e))
}

// refill waits until a znode is taken again, without anybody doing anything for it.
func (w *writer) refill() {
	path, last := w.path("room"), error(nil)
	if why := ensemble.Await(within, func() (bool, string) {
		_, last = w.c.Create(path, make([]byte, w.kind.bytes), 0, zk.WorldACL(zk.PermAll))
		return last == nil || errors.Is(last, zk.ErrNodeExists), fmt.Sprint(last)
	}); why != "" {
		w.t.Errorf("write after room was made: after %v: %s", within, why)
		return
	}
	w.names["room"] = true
}

// overwrittenZnodes is how many znodes TestOverwritten writes again and again.
const overwrittenZnodes = 8

// TestOverwritten writes the same few znodes again and again, several times what the disks hold: that needs no room, so
// it is never refused for long, and no server ends.
func TestOverwritten(t *testing.T) {
	if sizeGiven(t) == 0 {
		t.Skip("it writes much: make fulldisk runs it")
	}
	for _, bytes := range []int{100_000, 1000} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) { overwritten(t, bytes) })
	}
}

func overwritten(t *testing.T, bytes int) {
	disk := diskBytes(t)
	e := prepare(t, ensemble.Options{DiskBytes: disk})
	conns := make([]*zk.Conn, overwrittenZnodes)
	last := make([]uint64, overwrittenZnodes)
	for i := range conns {
		conns[i] = connect(t, e.Addrs()...)
		awaitRoom(t, conns[i], overwrittenPath(i), bytes)
	}
	var refusals atomic.Int64
	write := func(times int) {
		var wg sync.WaitGroup
		for i, c := range conns {
			wg.Go(func() {
				data := make([]byte, bytes)
				for range times {
					last[i]++
					binary.BigEndian.PutUint64(data, last[i])
					why := ensemble.Await(within, func() (bool, string) {
						_, err := c.Set(overwrittenPath(i), data, -1)
						if refused(err) {
							refusals.Add(1)
						}
						return err == nil, fmt.Sprint(err)
					})
					if why != "" {
						t.Errorf("write %s once more: %s", overwrittenPath(i), why)
						return
					}
				}
			})
		}
		wg.Wait()
		if alive(t, e); t.Failed() {
			t.FailNow()
		}
	}
	check := func() {
		for i, c := range conns {
			data, err := []byte(nil), error(nil)
			if err = do(func() (err error) { data, _, err = c.Get(overwrittenPath(i)); return err }); err != nil {
				t.Fatal(err)
			}
			if got := binary.BigEndian.Uint64(data); got != last[i] || len(data) != bytes {
				t.Fatalf("%s is what was written as number %d, want %d", overwrittenPath(i), got, last[i])
			}
		}
	}
	times := int(3*disk) / bytes / overwrittenZnodes
	write(times)
	t.Logf("%d writes of %d bytes: %d refused, used %d MiB", times*overwrittenZnodes, bytes, refusals.Load(),
		used(t, e))
	kill(e)
	check()
	all := newWriters(t, e, "/big", []kind{{bytes: 10_000}})
	fillAll(t, e, all, disk)
	refusals.Store(0)
	write(times / 3)
	t.Logf("%d more on full disks: %d refused, used %d MiB", times/3*overwrittenZnodes, refusals.Load(), used(t, e))
	stop(e)
	check()
	each(all, (*writer).check)
	each(all, func(w *writer) { w.remove(1) })
	awaitGivenBack(t, e, disk)
}

// overwrittenPath is one of them.
func overwrittenPath(i int) string { return fmt.Sprintf("/over%d", i) }
