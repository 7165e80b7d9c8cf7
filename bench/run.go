package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"zkd/bench/process"
	"zkd/jute"
	"zkd/jute/client"
)

// Target is the server, or the ensemble, that a load runs on.
type Target struct {
	Addr string // host:port of the client port
	// More are the client ports of the other servers of an ensemble. Connections are spread over all in turn.
	More []string
	// Ensemble is what some loads do to the servers of an ensemble; nil if it cannot be done.
	Ensemble Ensemble
	// Usage reads what the server uses; nil if that cannot be known.
	Usage func() (process.Usage, error)
	// Written reads what was written to the server's disk in all; nil, or 0, if that cannot be known.
	Written func() (int64, error)
	// Restart kills the server, starts it again and returns the time to the first answered read of path; nil if it
	// cannot be restarted.
	Restart func(ctx context.Context, path string) (time.Duration, error)
	// Disposable means that what a load has created may stay.
	Disposable bool
}

// Ensemble knows and ends the servers of an ensemble. Servers are numbered from 0: Target.Addr, then Target.More.
type Ensemble interface {
	// Leader returns the number of the server that leads, once there is one.
	Leader(ctx context.Context) (int, error)
	// End sends a server SIGKILL, or SIGTERM if clean is set, and returns at once.
	End(server int, clean bool)
	// Revive waits until a server has ended, starts it again and returns once it serves.
	Revive(ctx context.Context, server int) error
}

// addrs are the client ports of all servers.
func (t *Target) addrs() []string { return append([]string{t.Addr}, t.More...) }

// sessionTimeout is what is asked for: the longest that the defaults of ZooKeeper give is 40 s.
const sessionTimeout = 40 * time.Second

// warmWithin bounds the time beyond the warm-up in which the requests that warm up may still come, and warmEvery is how
// often they are looked at.
const (
	warmWithin = 30 * time.Second
	warmEvery  = 20 * time.Millisecond
)

// grace is what the last replies of a load may take after its end.
const grace = 30 * time.Second

// closeWithin bounds the closing of sessions whose connections were cut.
const closeWithin = 2 * time.Second

// closeAgain is the wait before it is tried again.
const closeAgain = 10 * time.Millisecond

// prepareWindow is the number of requests outstanding during preparation.
const prepareWindow = 100

// dialers is the number of connections that are opened at once: ZooKeeper's listen backlog is 50.
const dialers = 32

// run is one run of a load.
type run struct {
	ctx    context.Context //nolint:containedctx // a run is one call of Run
	o      Options
	target Target
	base   string       // the path of the znode that everything is under
	admin  *client.Conn // prepares and cleans up
	data   []byte       // what writes write
	nodes  []string     // the znodes that reads and writes use; immutable after makeNodes
	made   atomic.Int64 // znodes that createMany has made
}

// Run runs one load on target and returns what it showed, one result for each stage. What it has created it deletes,
// unless the target is disposable. An error means that the load could not be run; requests that failed are counted
// in the results.
func Run(ctx context.Context, target Target, o Options) ([]Result, error) {
	load, err := LoadNamed(o.Load)
	if err != nil {
		return nil, err
	}
	r, err := newRun(ctx, target, o)
	if err != nil {
		return nil, err
	}
	results, err := load.on(r)
	if err != nil {
		err = fmt.Errorf("load %s: %w", o, err)
	}
	if !target.Disposable {
		err = errors.Join(err, r.cleanUp())
	}
	r.admin.Close()
	return results, err
}

// newRun returns a run of a load, with the znode that everything is under. Its admin connection is to be closed.
func newRun(ctx context.Context, target Target, o Options) (*run, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, o: o, target: target, data: randomBytes(o.SizeBytes, o.Seed)}
	var err error
	if r.admin, err = open(ctx, target.Addr); err != nil {
		return nil, err
	}
	r.base = fmt.Sprintf("/zkd-bench-%x", uint64(r.admin.Session)) //nolint:gosec // only printed
	if err := r.create("", nil); err != nil {
		r.admin.Close()
		return nil, err
	}
	return r, nil
}

// create makes one znode below base, which is one itself.
func (r *run) create(below string, data []byte) error {
	request := createRequest(r.base+below, data)
	header, _, err := r.admin.Do(jute.OpCreate, request.Append)
	if err == nil && header.Err != jute.OK {
		err = fmt.Errorf("create %s: %v", request.Path, header.Err)
	}
	return err
}

func createRequest(path string, data []byte) *jute.CreateRequest {
	return &jute.CreateRequest{
		Path: path, Data: data,
		ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
	}
}

// createMany makes the znodes path(0) to path(n-1) with the run's data.
func (r *run) createMany(conn *client.Conn, n int, path func(int) string, data []byte) error {
	request := createRequest("", data)
	body := request.Append
	return conn.Pipeline(r.ctx, n, prepareWindow, func(b []byte, i int, xid jute.Xid) []byte {
		request.Path = path(i)
		return client.Request(b, xid, jute.OpCreate, body)
	}, func(i int, code jute.Code) error {
		if code != jute.OK {
			return fmt.Errorf("create %s: %v", path(i), code)
		}
		r.made.Add(1)
		return nil
	})
}

// node is the path of the ith znode that reads and writes use.
func (r *run) node(i int) string { return r.base + "/n" + strconv.Itoa(i) }

// makeNodes makes the znodes that reads and writes use.
func (r *run) makeNodes(n int) error {
	r.nodes = make([]string, n)
	for i := range r.nodes {
		r.nodes[i] = r.node(i)
	}
	return r.createMany(r.admin, n, r.node, r.data)
}

// open opens a session on a server.
func open(ctx context.Context, addr string) (*client.Conn, error) {
	return client.Dial(ctx, client.Options{Addr: addr, Timeout: sessionTimeout, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
}

// dial opens n connections, in the order of their numbers, to all servers in turn.
func (r *run) dial(n int) ([]*client.Conn, error) { return r.dialTo(r.target.addrs(), n) }

// dialTo opens n connections to the servers of addrs in turn. Each server has by then applied what the run has written.
func (r *run) dialTo(addrs []string, n int) ([]*client.Conn, error) {
	conns := make([]*client.Conn, n)
	err := parallel(n, dialers, func(i int) (err error) {
		conns[i], err = open(r.ctx, addrs[i%len(addrs)])
		if err == nil && len(r.target.More) > 0 {
			request := jute.PathRequest{Path: "/"}
			_, _, err = conns[i].Do(jute.OpSync, request.Append)
		}
		return err
	})
	if err != nil {
		r.closeAll(conns)
	}
	return conns, err
}

// closeAll closes the sessions of conns. On a server that goes on it does so for those, too, whose connection was cut.
func (r *run) closeAll(conns []*client.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closeWithin)
	defer cancel()
	_ = parallel(len(conns), dialers, func(i int) error {
		if conns[i] != nil && !conns[i].Close() && !r.target.Disposable {
			closeSession(ctx, conns[i])
		}
		return nil
	})
}

// closeSession closes the session of a connection that was cut, until ctx ends: it expires by itself if this fails. A
// server that has not noticed yet that the connections are gone may let nobody in.
func closeSession(ctx context.Context, cut *client.Conn) {
	for {
		err := client.CloseSession(ctx, cut)
		if err == nil || errors.Is(err, client.ErrExpired) || pause(ctx, closeAgain) != nil {
			return
		}
	}
}

func cutAll(conns []*client.Conn) {
	for _, conn := range conns {
		if conn != nil {
			conn.Cut()
		}
	}
}

// usage is the target's usage, zero if it cannot be known.
func (r *run) usage() (process.Usage, error) {
	if r.target.Usage == nil {
		return process.Usage{}, nil
	}
	return r.target.Usage()
}

// written is what was written to the target's disk, zero if it cannot be known.
func (r *run) written() (int64, error) {
	if r.target.Written == nil {
		return 0, nil
	}
	return r.target.Written()
}

// measure lets the load run through its warm-up and its duration, in which rec counts, and stops it. It returns the
// result with the interval and the server's usage over it; the caller fills in the rest.
func (r *run) measure(name string, rec *recorder) (Result, func(*Result), error) {
	result := Result{Name: name}
	if err := r.warm(rec); err != nil {
		return result, nil, err
	}
	written, err := r.written()
	if err != nil {
		return result, nil, err
	}
	before, err := r.usage()
	if err != nil {
		return result, nil, err
	}
	own := process.Own()
	began := nanos()
	rec.counting.Store(true)
	err = pauseUntil(r.ctx, r.o.Duration, rec.dry)
	rec.counting.Store(false)
	took := time.Duration(nanos() - began)
	result.Seconds = took.Seconds()
	if err != nil {
		return result, nil, err
	}
	result.LoadProcessors = float64(process.Own()-own) / float64(took)
	after, err := r.usage()
	if err != nil {
		return result, nil, err
	}
	rec.stopping.Store(true) // what else is written would count
	result.RSSBytes = after.RSSBytes
	writtenThen, err := r.written()
	finish := func(result *Result) {
		rec.fill(result)
		perRequest(result, after.CPU-before.CPU, writtenThen-written)
	}
	return result, finish, err
}

// warm lets the load run until it counts.
func (r *run) warm(rec *recorder) error {
	err := pause(r.ctx, r.o.Warmup)
	for end := nanos() + int64(warmWithin); err == nil && rec.warmed.Load() < int64(r.o.WarmRequests); {
		if nanos() > end {
			break
		}
		err = pause(r.ctx, warmEvery)
	}
	return err
}

// perRequest shares what the server has used among the requests.
func perRequest(result *Result, cpu time.Duration, written int64) {
	if result.Requests > 0 {
		n := float64(result.Requests)
		result.CPUMicros = float64(cpu) / float64(time.Microsecond) / n
		result.WrittenBytes = float64(written) / n
	}
}

// cleanUp deletes base and all below it.
func (r *run) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), durationMax)
	defer cancel()
	conn, err := open(ctx, r.target.Addr) // the load may have taken longer than the session
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := deleteTree(ctx, conn, r.base); err != nil {
		return fmt.Errorf("delete %s: %w", r.base, err)
	}
	return nil
}

// deleteTree deletes path and what is below it; a load's tree is three levels deep.
func deleteTree(ctx context.Context, conn *client.Conn, path string) error {
	request := jute.PathWatchRequest{Path: path}
	header, body, err := conn.Do(jute.OpGetChildren, request.Append)
	if err != nil || header.Err == jute.NoNode {
		return err
	}
	d := jute.NewDecoder(body)
	var response jute.GetChildrenResponse
	response.Decode(&d)
	if d.Err() != nil {
		return d.Err()
	}
	paths := make([]string, len(response.Children))
	for i, name := range response.Children {
		paths[i] = path + "/" + name // a copy, since name is a view
	}
	codes, err := deleteAll(ctx, conn, paths)
	if err != nil {
		return err
	}
	for i, code := range codes {
		if code == jute.NotEmpty {
			if err := deleteTree(ctx, conn, paths[i]); err != nil {
				return err
			}
		}
	}
	_, err = deleteAll(ctx, conn, []string{path})
	return err
}

func deleteAll(ctx context.Context, conn *client.Conn, paths []string) ([]jute.Code, error) {
	codes := make([]jute.Code, len(paths))
	request := jute.PathVersionRequest{Version: jute.AnyVersion}
	body := request.Append
	err := conn.Pipeline(ctx, len(paths), prepareWindow, func(b []byte, i int, xid jute.Xid) []byte {
		request.Path = paths[i]
		return client.Request(b, xid, jute.OpDelete, body)
	}, func(i int, code jute.Code) error {
		codes[i] = code
		return nil
	})
	return codes, err
}

// parallel calls do for 0 to n-1, at most workers at once, and returns the first error, after which no more are
// begun.
func parallel(n, workers int, do func(i int) error) error {
	var (
		wg    sync.WaitGroup
		state struct {
			sync.Mutex
			next int
			err  error
		}
	)
	take := func() (int, bool) {
		state.Lock()
		defer state.Unlock()
		i := state.next
		state.next++
		return i, state.err == nil && i < n
	}
	for range min(n, workers) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := do(i); err != nil {
					state.Lock()
					state.err = errors.Join(state.err, err)
					state.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return state.err
}

// randomBytes returns n bytes that depend on the seed alone.
func randomBytes(n int, seed uint64) []byte {
	random := rand.NewPCG(seed, 1) //nolint:gosec // not a secret
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, random.Uint64())
	}
	return b[:n]
}
