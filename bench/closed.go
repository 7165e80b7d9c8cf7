package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"zkd/jute"
	"zkd/jute/client"
)

// closed runs the loads that keep requests outstanding.
func (r *run) closed() ([]Result, error) {
	if err := r.makeNodes(r.o.Clients); err != nil {
		return nil, err
	}
	result, err := r.loop(r.o.String(), r.generator)
	return []Result{result}, err
}

// latency runs reads, then writes.
func (r *run) latency() ([]Result, error) {
	if err := r.makeNodes(r.o.Clients); err != nil {
		return nil, err
	}
	var results []Result
	for _, load := range []struct {
		name string
		make func(int) generator
	}{{"latency read", r.reads}, {"latency write", r.writes}} {
		result, err := r.loop(load.name, load.make)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// generator returns what the ith connection of the run's load sends.
func (r *run) generator(i int) generator {
	switch r.o.Load {
	case "read":
		return r.reads(i)
	case "create":
		return r.creates(i)
	case "multi":
		return r.multis(i)
	case "ephemeral":
		return r.ephemerals(i)
	case "mixed":
		return r.mixed(i)
	default:
		return r.writes(i)
	}
}

// reads are of all the znodes in turn, each connection beginning at its own.
func (r *run) reads(i int) generator {
	request := new(jute.PathWatchRequest)
	body, path := request.Append, r.turn(i)
	return func(b []byte, xid jute.Xid) []byte {
		request.Path = path()
		return client.Request(b, xid, jute.OpGetData, body)
	}
}

func (r *run) writes(i int) generator {
	request := &jute.SetDataRequest{Data: r.data, Version: jute.AnyVersion}
	body, path := request.Append, r.turn(i)
	return func(b []byte, xid jute.Xid) []byte {
		request.Path = path()
		return client.Request(b, xid, jute.OpSetData, body)
	}
}

func (r *run) mixed(i int) generator {
	random := rand.New(rand.NewPCG(r.o.Seed, uint64(i))) //nolint:gosec // not a secret
	reads, writes := r.reads(i), r.writes(i)
	return func(b []byte, xid jute.Xid) []byte {
		if random.IntN(100) < r.o.ReadPercent {
			return reads(b, xid)
		}
		return writes(b, xid)
	}
}

// creates make children of the connection's own znode.
func (r *run) creates(i int) generator {
	request := createRequest("", r.data)
	body, prefix, n := request.Append, r.node(i)+"/c", 0
	return func(b []byte, xid jute.Xid) []byte {
		request.Path = prefix + strconv.Itoa(n)
		n++
		return client.Request(b, xid, jute.OpCreate, body)
	}
}

// ephemerals make ephemeral sequential znodes below the connection's own one.
func (r *run) ephemerals(i int) generator {
	request := createRequest(r.node(i)+"/e-", r.data)
	request.Flags = jute.ModeEphemeralSequential
	body := request.Append
	return func(b []byte, xid jute.Xid) []byte { return client.Request(b, xid, jute.OpCreate, body) }
}

// churn creates and deletes the znode path in turn.
func (r *run) churn(path string) generator {
	create, remove := createRequest(path, r.data), jute.PathVersionRequest{Path: path, Version: jute.AnyVersion}
	createBody, removeBody, there := create.Append, remove.Append, false
	return func(b []byte, xid jute.Xid) []byte {
		there = !there
		if there {
			return client.Request(b, xid, jute.OpCreate, createBody)
		}
		return client.Request(b, xid, jute.OpDelete, removeBody)
	}
}

// deletes delete what was made before, on the same connections and off the clock. Until requests count each connection
// creates and deletes a znode of its own in turn.
func (r *run) deletes() ([]Result, error) {
	if err := r.makeNodes(r.o.Clients); err != nil {
		return nil, err
	}
	conns, err := r.dial(r.o.Clients)
	if err != nil {
		return nil, err
	}
	each := r.o.Count / len(conns)
	stock := func(i, n int) string { return r.node(i) + "/c" + strconv.Itoa(n) }
	err = parallel(len(conns), len(conns), func(i int) error {
		return r.createMany(conns[i], each, func(n int) string { return stock(i, n) }, r.data)
	})
	if err != nil {
		r.closeAll(conns)
		return nil, err
	}
	rec := newRecorder()
	result, err := r.loopOn(conns, r.o.String(), rec, func(i int) generator {
		request := jute.PathVersionRequest{Version: jute.AnyVersion}
		body, warm, turns, n := request.Append, r.churn(r.node(i)+"/w"), 0, 0
		return func(b []byte, xid jute.Xid) []byte {
			if n == 0 && (turns%2 == 1 || !rec.counting.Load()) {
				turns++
				return warm(b, xid)
			}
			if n == each {
				return nil
			}
			request.Path = stock(i, n)
			n++
			return client.Request(b, xid, jute.OpDelete, body)
		}
	})
	return []Result{result}, err
}

func (r *run) multis(i int) generator {
	request := &jute.SetDataRequest{Data: r.data, Version: jute.AnyVersion}
	header := jute.MultiHeader{Type: jute.OpSetData, Err: -1}
	path := r.turn(i)
	body := func(b []byte) []byte {
		for range opsPerMulti {
			request.Path = path()
			b = request.Append(header.Append(b))
		}
		return jute.AppendMultiEnd(b)
	}
	return func(b []byte, xid jute.Xid) []byte { return client.Request(b, xid, jute.OpMulti, body) }
}

// turn returns a function that names the znodes in turn, from the ith on.
func (r *run) turn(i int) func() string {
	n := i - 1
	return func() string {
		n = (n + 1) % len(r.nodes)
		return r.nodes[n]
	}
}

// loop runs a closed load to its end.
func (r *run) loop(name string, generatorOf func(int) generator) (Result, error) {
	conns, err := r.dial(r.o.Clients)
	if err != nil {
		return Result{Name: name}, err
	}
	return r.loopOn(conns, name, newRecorder(), generatorOf)
}

// loopOn runs a closed load on conns, which it closes.
func (r *run) loopOn(
	conns []*client.Conn, name string, rec *recorder, generatorOf func(int) generator,
) (Result, error) {
	defer r.closeAll(conns)
	workers := make([]*worker, len(conns))
	for i, conn := range conns {
		workers[i] = &worker{index: i, conn: conn, next: generatorOf(i), rec: rec}
	}
	done := r.work(workers)
	result, err := r.conclude(name, rec, conns, done)
	if err != nil {
		return result, err
	}
	if result.Requests == 0 {
		return result, fmt.Errorf("no request was answered in %v: %v", r.o.Duration, result.Errors)
	}
	return result, nil
}

// work has workers keep requests outstanding until their recorder says stop, and tells when no reply is missing.
func (r *run) work(workers []*worker) <-chan error {
	done := make(chan error, 1) // the one error of parallel
	bound := r.o.bound()
	go func() {
		done <- parallel(len(workers), len(workers), func(i int) error {
			if err := workers[i].conn.SetDeadline(bound); err != nil {
				return err
			}
			workers[i].run(r.o.Outstanding)
			return nil
		})
	}()
	return done
}

// conclude measures a load that runs on conns, ends it, and waits until done has told that it is over.
func (r *run) conclude(name string, rec *recorder, conns []*client.Conn, done <-chan error) (Result, error) {
	result, finish, err := r.measure(name, rec)
	rec.stopping.Store(true)
	if err != nil {
		cutAll(conns)
		return result, errors.Join(err, <-done)
	}
	if err := <-done; err != nil {
		return result, err
	}
	finish(&result)
	return result, nil
}
