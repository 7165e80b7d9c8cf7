package bench

import (
	"fmt"
	"strconv"
	"time"
)

// childrenPerParent keeps the lists of children short, as trees of that size are in practice.
const childrenPerParent = 1000

// tellEvery is how often it is told how far a tree has been made.
const tellEvery = 5 * time.Second

// million fills the server with small znodes, measures its memory, runs paced writes and then paced reads on top, and
// kills it and measures its restart. Stages for which the target has no means are left out.
func (r *run) million() ([]Result, error) {
	fill, err := r.fillTree()
	if err != nil {
		return nil, err
	}
	results := []Result{fill}
	if r.o.Rate > 0 {
		r.nodes = make([]string, min(r.o.Count, childrenPerParent*r.o.Clients))
		for i := range r.nodes {
			r.nodes[i] = r.leaf(i * (r.o.Count / len(r.nodes))) // spread over the tree
		}
		for _, load := range []struct {
			name string
			make func(int) generator
		}{{"writes", r.writes}, {"reads", r.reads}} {
			paced, err := r.pace(fmt.Sprintf("%s paced %s %d/s", fill.Name, load.name, r.o.Rate), load.make)
			if err != nil {
				return results, err
			}
			results = append(results, paced)
		}
	}
	if r.target.Restart != nil {
		took, err := r.target.Restart(r.ctx, r.leaf(r.o.Count-1))
		if err != nil {
			return results, err
		}
		usage, err := r.usage()
		if err != nil {
			return results, err
		}
		results = append(results, Result{
			Name: fill.Name + " restart", RestartMillis: float64(took) / float64(time.Millisecond),
			RSSBytes: usage.RSSBytes,
		})
	}
	return results, nil
}

// leaf is the path of the ith znode.
func (r *run) leaf(i int) string {
	return r.base + "/d" + strconv.Itoa(i/childrenPerParent) + "/" + strconv.Itoa(i%childrenPerParent)
}

// telling says every so often how far the tree has been made, until the returned function is called.
func (r *run) telling() (stop func()) {
	if r.o.Tell == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(tellEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.o.Tell(r.made.Load(), int64(r.o.Count))
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// fillTree creates the tree; each connection has its own parents.
func (r *run) fillTree() (Result, error) {
	result := Result{Name: r.o.String(), Unit: "znode"}
	parents := (r.o.Count + childrenPerParent - 1) / childrenPerParent
	conns, err := r.dial(r.o.Clients)
	if err != nil {
		return result, err
	}
	defer r.closeAll(conns)
	parent := func(i int) string { return r.base + "/d" + strconv.Itoa(i) }
	if err := r.createMany(r.admin, parents, parent, nil); err != nil {
		return result, err
	}
	written, err := r.written()
	if err != nil {
		return result, err
	}
	before, err := r.usage()
	if err != nil {
		return result, err
	}
	began := nanos()
	defer r.telling()()
	err = parallel(len(conns), len(conns), func(i int) error {
		mine := func(n int) int { return (n/childrenPerParent*len(conns)+i)*childrenPerParent + n%childrenPerParent }
		n := 0
		for parent := i; parent < parents; parent += len(conns) {
			n += min(childrenPerParent, r.o.Count-parent*childrenPerParent)
		}
		return r.createMany(conns[i], n, func(n int) string { return r.leaf(mine(n)) }, r.data)
	})
	if err != nil {
		return result, err
	}
	result.Seconds = time.Duration(nanos() - began).Seconds()
	after, err := r.usage()
	if err != nil {
		return result, err
	}
	result.Requests = int64(r.o.Count)
	result.PerSecond = float64(r.o.Count) / result.Seconds
	result.RSSBytes = after.RSSBytes
	result.UnitBytes = float64(after.RSSBytes-before.RSSBytes) / float64(r.o.Count)
	writtenThen, err := r.written()
	perRequest(&result, after.CPU-before.CPU, writtenThen-written)
	return result, err
}
