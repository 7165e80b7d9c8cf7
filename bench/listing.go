package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// childPath is the path of the ith child of a znode that is listed: names of eight bytes, 12 bytes of a reply.
func childPath(parent string, i int) string { return fmt.Sprintf("%s/c%07d", parent, i) }

// children list a znode of Count children (getChildren2). Of the requests ReadPercent are lists; with each other one a
// connection creates or deletes a child of its own, so that the list stays about as long as it is.
func (r *run) children() ([]Result, error) {
	parent := r.base + "/list-" + strconv.Itoa(r.o.Count)
	if err := r.makeList(parent); err != nil {
		return nil, err
	}
	result, err := r.loop(r.o.String(), func(i int) generator {
		request := jute.PathWatchRequest{Path: parent}
		body, changes := request.Append, r.churn(childPath(parent, r.o.Count+i))
		random := rand.New(rand.NewPCG(r.o.Seed, uint64(i))) //nolint:gosec // not a secret
		return func(b []byte, xid jute.Xid) []byte {
			if random.IntN(100) >= r.o.ReadPercent {
				return changes(b, xid)
			}
			return client.Request(b, xid, jute.OpGetChildren2, body)
		}
	})
	return []Result{result}, err
}

// makeList makes a znode with Count children.
func (r *run) makeList(parent string) error {
	if err := r.create(parent[len(r.base):], nil); err != nil {
		return err
	}
	return r.createMany(r.admin, r.o.Count, func(i int) string { return childPath(parent, i) }, nil)
}

// listing has one healthy client read, and then write, one request at a time: first alone, and then while all the
// others list a znode of Count children in a loop. The last result is of the lists.
func (r *run) listing() ([]Result, error) {
	if err := r.makeNodes(1); err != nil {
		return nil, err
	}
	big := r.base + "/big"
	if err := r.makeList(big); err != nil {
		return nil, err
	}
	results, err := r.readThenWrite(r.o.String() + " alone")
	if err != nil {
		return results, err
	}
	listers, err := r.dial(r.o.Clients)
	if err != nil {
		return results, err
	}
	defer r.closeAll(listers)
	rec := newRecorder()
	done := make(chan error, 1) // the one result of parallel
	go func() {
		done <- parallel(len(listers), len(listers), func(i int) error { return r.list(listers[i], i, rec, big) })
	}()
	rec.counting.Store(true)
	began := nanos()
	some, err := r.readThenWrite(r.o.String())
	rec.stopping.Store(true)
	err = errors.Join(err, <-done)
	lists := Result{Name: r.o.String() + " lists", Seconds: time.Duration(nanos() - began).Seconds()}
	rec.fill(&lists)
	usage, usageErr := r.usage()
	lists.RSSBytes = usage.RSSBytes
	err = errors.Join(err, usageErr)
	return append(append(results, some...), lists), err
}

// readThenWrite runs one client with one request at a time.
func (r *run) readThenWrite(name string) ([]Result, error) {
	var results []Result
	for _, load := range []struct {
		name string
		make func(int) generator
	}{{" read", r.reads}, {" write", r.writes}} {
		conns, err := r.dial(1)
		if err != nil {
			return results, err
		}
		result, err := r.loopOn(conns, name+load.name, newRecorder(), load.make)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// list lists a znode until the load is over.
func (r *run) list(conn *client.Conn, i int, rec *recorder, path string) error {
	request := jute.PathWatchRequest{Path: path}
	for !rec.stopping.Load() {
		sent := nanos()
		header, _, err := conn.Do(jute.OpGetChildren, request.Append)
		if err != nil {
			return err
		}
		rec.add(i, []reply{{took: nanos() - sent, code: header.Err}})
	}
	return nil
}
