package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"zkd/jute"
	"zkd/jute/client"
)

// generator appends a connection's next request to b, framed.
type generator func(b []byte, xid jute.Xid) []byte

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
	return r.loopOn(conns, name, generatorOf)
}

// loopOn runs a closed load on conns, which it closes.
func (r *run) loopOn(conns []*client.Conn, name string, generatorOf func(int) generator) (Result, error) {
	defer r.closeAll(conns)
	rec := newRecorder()
	done := make(chan error, 1) // the one error of parallel
	bound := r.o.Warmup + r.o.Duration + grace
	go func() {
		done <- parallel(len(conns), len(conns), func(i int) error {
			if err := conns[i].SetDeadline(bound); err != nil {
				return err
			}
			w := worker{index: i, conn: conns[i], next: generatorOf(i), rec: rec}
			w.run(r.o.Outstanding)
			return nil
		})
	}()
	result, err := r.conclude(name, rec, conns, done)
	if err != nil {
		return result, err
	}
	if result.Requests == 0 {
		return result, fmt.Errorf("no request was answered in %v: %v", r.o.Duration, result.Errors)
	}
	return result, nil
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

// worker keeps the requests of one connection outstanding. Owned by its goroutine.
type worker struct {
	index   int
	conn    *client.Conn
	next    generator
	rec     *recorder
	sent    []int64 // ring of the times at which requests were sent, by xid
	replies []reply
	out     []byte
}

// run sends and receives until the recorder says stop and every reply is there, or the connection fails, which is
// counted.
func (w *worker) run(outstanding int) {
	w.sent = make([]int64, outstanding)
	w.replies = make([]reply, 0, outstanding)
	var got jute.Xid
	sent := w.send(0, outstanding)
	for onWay := outstanding; onWay > 0; {
		n, err := w.receive(got)
		got += jute.Xid(n) //nolint:gosec // at most outstandingMax
		onWay -= n
		if w.rec.counting.Load() {
			w.rec.add(w.index, w.replies)
		}
		if err == nil && !w.rec.stopping.Load() {
			onWay += n
			sent = w.send(sent, n)
		}
		if err != nil || sent < 0 {
			w.rec.fail(w.index, failure(err), int64(onWay))
			return
		}
	}
}

// send sends n requests after the xid last and returns the new last one, or -1 if the connection is broken.
func (w *worker) send(last jute.Xid, n int) jute.Xid {
	w.out = w.out[:0]
	for i := range n {
		w.out = w.next(w.out, last+jute.Xid(i)+1) //nolint:gosec // at most outstandingMax
	}
	now := nanos()
	for range n {
		last++
		w.sent[int(last)%len(w.sent)] = now
	}
	if err := w.conn.Write(w.out); err != nil {
		return -1
	}
	return last
}

// receive waits for a reply and takes all that have come with it into w.replies; last is the xid of the reply before.
func (w *worker) receive(last jute.Xid) (int, error) {
	w.replies = w.replies[:0]
	for more := true; more; more = w.conn.Buffered() {
		header, _, err := w.conn.ReadReply()
		if err != nil {
			return len(w.replies), err
		}
		last++
		if header.Xid != last {
			return len(w.replies), fmt.Errorf("%w: got xid %d for %d", client.ErrOutOfOrder, header.Xid, last)
		}
		w.replies = append(w.replies, reply{took: w.sent[int(last)%len(w.sent)], code: header.Err})
	}
	now := nanos() - int64(w.conn.Lag())
	for i := range w.replies {
		w.replies[i].took = now - w.replies[i].took
	}
	return len(w.replies), nil
}

// failure names the reason for which a connection's requests have no reply.
func failure(err error) string {
	if errors.Is(err, client.ErrOutOfOrder) {
		return "outOfOrder"
	}
	return jute.ConnectionLoss.String()
}
