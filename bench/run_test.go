package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zkd/bench/internal/fakeserver"
	"zkd/bench/process"
	"zkd/jute"
	"zkd/jute/client"
)

// small is a load that is over in a moment.
func small(name string) Options {
	load, err := LoadNamed(name)
	if err != nil {
		panic(err)
	}
	o := load.Defaults
	o.Clients, o.Outstanding = min(o.Clients, 4), min(o.Outstanding, 8)
	o.Count, o.Rate = min(o.Count, 2500), min(o.Rate, 200)
	o.Warmup, o.Duration = 20*time.Millisecond, 150*time.Millisecond
	return o
}

// tries is how often a load is run before what it shows counts, each time for twice as long: a machine that stands
// still for a moment spoils a short one.
const tries = 7

// again makes tries until one shows what is wanted; longer is by how much this one is to be longer than the first.
func again(t *testing.T, try func(longer time.Duration) error) {
	t.Helper()
	var err error
	for n := range tries {
		if err = try(1 << n); err == nil {
			return
		}
	}
	t.Error(err)
}

// growingUsage is a server's usage that grows with each reading: 1 ms of CPU and 1 MiB.
func growingUsage() func() (process.Usage, error) {
	var n atomic.Int64
	return func() (process.Usage, error) {
		i := n.Add(1)
		return process.Usage{CPU: time.Duration(i) * time.Millisecond, RSSBytes: i << 20}, nil
	}
}

// TestLoads runs every load on the fake: requests of the right kind arrive, nothing fails, nothing is left behind.
func TestLoads(t *testing.T) {
	kinds := map[string][]jute.Op{
		"mixed": {jute.OpGetData, jute.OpSetData}, "read": {jute.OpGetData}, "write": {jute.OpSetData},
		"create": {jute.OpCreate}, "multi": {jute.OpMulti, -jute.OpSetData},
		"latency": {jute.OpGetData, jute.OpSetData}, "paced": {jute.OpSetData},
		"fanout": {jute.OpAddWatch, jute.OpSetData}, "idle": {jute.OpPing}, "watches": {jute.OpExists},
		"ownwatches": {jute.OpExists},
		"million":    {jute.OpCreate, jute.OpSetData}, "beside": {jute.OpGetData, jute.OpSetData, jute.OpSync},
		"failover": {jute.OpSetData}, "listing": {jute.OpGetData, jute.OpSetData, jute.OpGetChildren},
		"delete": {jute.OpCreate, jute.OpDelete}, "ephemeral": {jute.OpCreate}, "children": {jute.OpGetChildren2},
	}
	for _, load := range Loads() {
		t.Run(load.Name, func(t *testing.T) {
			if len(kinds[load.Name]) == 0 {
				t.Fatal("no kinds of requests are expected of this load")
			}
			again(t, func(longer time.Duration) error { return tryLoad(t, load.Name, kinds[load.Name], longer) })
		})
	}
}

// tryLoad runs a load once. Its error says what was missing.
func tryLoad(t *testing.T, name string, kinds []jute.Op, longer time.Duration) error {
	t.Helper()
	server := fakeserver.Start(t, fakeserver.Faults{})
	o := small(name)
	o.Duration *= longer
	if name == "idle" {
		o.Count = 50
	}
	target := Target{Addr: server.Addr, Usage: growingUsage()}
	if name == "beside" || name == "failover" {
		target.More, target.Ensemble = []string{server.Addr, server.Addr}, &fakeEnsemble{server: server}
		o.Count = 1
	}
	target.Restart = func(_ context.Context, path string) (time.Duration, error) {
		if !strings.HasSuffix(path, "/d2/499") {
			t.Errorf("restart reads %s, want the last znode", path)
		}
		return time.Second, nil
	}
	results, err := Run(t.Context(), target, o)
	if n := server.Nodes(); n != 1 {
		t.Errorf("%d znodes are left, want the root alone", n)
	}
	if n := server.Sessions(); n != 0 && name != "failover" { // a server that ends may answer no handshake
		t.Errorf("%d sessions are left", n)
	}
	for _, r := range results {
		if r.ErrorCount() != 0 {
			t.Errorf("result %+v", r)
		}
		if r.RSSBytes == 0 && r.GapMillis == 0 || r.Requests == 0 && r.RestartMillis == 0 {
			err = errors.Join(err, fmt.Errorf("result %+v", r))
		}
	}
	for _, op := range kinds {
		if server.Count(op) == 0 {
			err = errors.Join(err, fmt.Errorf("no %v has come", op))
		}
	}
	return err
}

// fakeEnsemble is one fake that is all servers of an ensemble: it is down for a while when its leader ends.
type fakeEnsemble struct {
	server *fakeserver.Server
	down   time.Duration
	ends   []bool // clean or not, in order
	back   chan struct{}
}

func (e *fakeEnsemble) Leader(context.Context) (int, error) { return 1, nil }

func (e *fakeEnsemble) End(_ int, clean bool) {
	e.ends, e.back = append(e.ends, clean), make(chan struct{})
	e.server.Down(true)
	time.AfterFunc(e.down, func() {
		e.server.Down(false)
		close(e.back)
	})
}

func (e *fakeEnsemble) Revive(context.Context, int) error {
	<-e.back
	return nil
}

// TestFailoverMeasuresTheGap finds the time in which no server was there, in each of its four figures.
func TestFailoverMeasuresTheGap(t *testing.T) {
	again(t, func(longer time.Duration) error {
		down := 250 * time.Millisecond * longer
		least := float64(down.Milliseconds()) / 2 // half: the last write before it may have been seen late
		server := fakeserver.Start(t, fakeserver.Faults{})
		e := &fakeEnsemble{server: server, down: down}
		o := small("failover")
		o.Count = 2
		target := Target{Addr: server.Addr, More: []string{server.Addr, server.Addr}, Ensemble: e, Disposable: true}
		results, err := Run(t.Context(), target, o)
		if err != nil || len(results) != 4 {
			return fmt.Errorf("%d results and %w, want 4", len(results), err)
		}
		if want := []bool{false, true, false, true}; !slices.Equal(e.ends, want) {
			t.Errorf("servers were ended cleanly %v, want %v", e.ends, want)
		}
		for _, r := range results {
			if r.Requests != 2 || r.GapMillis < least || r.GapMaxMillis > 60_000 {
				err = errors.Join(err, fmt.Errorf("%s: %d gaps of %.0f ms, want 2 of about %v",
					r.Name, r.Requests, r.GapMillis, down))
			}
		}
		return err
	})
}

// TestEnsembleLoadsNeedServers refuses one server where several are needed.
func TestEnsembleLoadsNeedServers(t *testing.T) {
	for _, load := range []string{"beside", "failover"} {
		server := fakeserver.Start(t, fakeserver.Faults{})
		if _, err := Run(t.Context(), Target{Addr: server.Addr}, small(load)); !errors.Is(err, errNoEnsemble) {
			t.Errorf("%s: error %v, want errNoEnsemble", load, err)
		}
	}
}

// TestConnectionsAreSpread sees each server get its share.
func TestConnectionsAreSpread(t *testing.T) {
	again(t, func(longer time.Duration) error {
		first, second := fakeserver.Start(t, fakeserver.Faults{}), fakeserver.Start(t, fakeserver.Faults{})
		o := small("read")
		o.Clients, o.Duration = 4, o.Duration*longer
		target := Target{Addr: first.Addr, More: []string{second.Addr}, Disposable: true}
		results, err := Run(t.Context(), target, o) // the second has no znodes: its reads fail, and are counted
		got := [2]int{first.Count(jute.OpSync), second.Count(jute.OpSync)}
		if err != nil || results[0].Errors["noNode"] == 0 || got != [2]int{2, 2} {
			return fmt.Errorf("%v connections, %v and %w; want 2 each", got, results, err)
		}
		return nil
	})
}

// TestDeletesEndWithTheirStock ends the interval that counts when a connection has nothing left to delete, and counts
// no delete of a znode that is not there.
func TestDeletesEndWithTheirStock(t *testing.T) {
	server := fakeserver.Start(t, fakeserver.Faults{})
	o := small("delete")
	o.Count, o.Warmup, o.Duration = 200, 0, time.Hour
	results, err := Run(t.Context(), Target{Addr: server.Addr, Disposable: true}, o)
	if err != nil || results[0].ErrorCount() != 0 {
		t.Fatalf("%+v and %v", results, err)
	}
	if n := results[0].Requests; n < int64(o.Count/o.Clients) || n > int64(o.Count+2*o.Clients*o.Outstanding) {
		t.Errorf("%d requests count, want the share of one client to all of %d", n, o.Count)
	}
}

// TestChildrenChange counts lists and changes.
func TestChildrenChange(t *testing.T) {
	again(t, func(longer time.Duration) error {
		server := fakeserver.Start(t, fakeserver.Faults{})
		o := small("children")
		o.Count, o.ReadPercent, o.Duration = 10, 50, o.Duration*longer
		results, err := Run(t.Context(), Target{Addr: server.Addr, Disposable: true}, o)
		if err != nil {
			return err
		}
		if results[0].ErrorCount() != 0 {
			t.Errorf("errors %v", results[0].Errors)
		}
		lists, changes := server.Count(jute.OpGetChildren2), server.Count(jute.OpDelete)
		if changes == 0 || lists < changes/2 {
			return fmt.Errorf("%d lists and %d deletes, want half and a quarter", lists, changes)
		}
		return nil
	})
}

// TestWarmRequests waits for them before anything counts.
func TestWarmRequests(t *testing.T) {
	server := fakeserver.Start(t, fakeserver.Faults{})
	o := small("read")
	o.Warmup, o.WarmRequests = 0, 1000
	results, err := Run(t.Context(), Target{Addr: server.Addr}, o)
	if err != nil {
		t.Fatal(err)
	}
	if before := int64(server.Count(jute.OpGetData)) - results[0].Requests; before < int64(o.WarmRequests) {
		t.Errorf("%d requests came before those that count, want %d", before, o.WarmRequests)
	}
}

// TestMultiHasTen holds multi to its number of operations.
func TestMultiHasTen(t *testing.T) {
	again(t, func(longer time.Duration) error {
		server := fakeserver.Start(t, fakeserver.Faults{})
		o := small("multi")
		o.Duration *= longer
		_, err := Run(t.Context(), Target{Addr: server.Addr}, o)
		if multis, ops := server.Count(jute.OpMulti), server.Count(-jute.OpSetData); ops != 10*multis {
			t.Errorf("%d operations in %d multis", ops, multis)
		}
		return err
	})
}

// TestMixedRatio counts reads and writes.
func TestMixedRatio(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		again(t, func(longer time.Duration) error {
			server := fakeserver.Start(t, fakeserver.Faults{})
			o := small("mixed")
			o.ReadPercent, o.Duration = percent, o.Duration*longer
			if _, err := Run(t.Context(), Target{Addr: server.Addr}, o); err != nil {
				return err
			}
			reads, writes := server.Count(jute.OpGetData), server.Count(jute.OpSetData)
			if got := 100 * reads / max(reads+writes, 1); got < percent-20 || got > percent+20 || reads+writes == 0 {
				return fmt.Errorf("%d %% reads (%d of %d), want %d", got, reads, reads+writes, percent)
			}
			return nil
		})
	}
}

// TestPacedRate holds the open load to its rate, whatever the server does.
func TestPacedRate(t *testing.T) {
	again(t, func(longer time.Duration) error {
		server := fakeserver.Start(t, fakeserver.Faults{})
		o := small("paced")
		o.Duration = 500 * time.Millisecond * longer
		results, err := Run(t.Context(), Target{Addr: server.Addr}, o)
		if err != nil {
			return err
		}
		if n := results[0].Requests; n < 80*int64(longer) || n > 120*int64(longer) {
			return fmt.Errorf("%d requests in %v at 200/s", n, o.Duration)
		}
		return nil
	})
}

// TestPacedCountsFromDue stalls the server once: the requests that were due meanwhile are all late, not only the one
// that was on its way.
func TestPacedCountsFromDue(t *testing.T) {
	const stall = 400 * time.Millisecond
	for n := range tries { // always as long: the stall is to be half of it
		server := fakeserver.Start(t, fakeserver.Faults{Stall: stall})
		o := small("paced")
		o.Clients, o.Warmup, o.Duration = 1, 0, 800*time.Millisecond
		results, err := Run(t.Context(), Target{Addr: server.Addr}, o)
		if err != nil {
			t.Fatal(err)
		}
		// Half of the load falls into the stall, and waits for half of it on average.
		l, requests := results[0].Latency, results[0].Requests
		if l.P99Micros >= 300_000 && l.MaxMicros >= 380_000 && requests >= 120 {
			return
		}
		if n == tries-1 {
			t.Errorf("%d requests, want the 160 that were due; latencies %+v with a stall of %v in %v", requests, l,
				stall, o.Duration)
		}
	}
}

// TestCutConnection counts what was on its way when the server goes.
func TestCutConnection(t *testing.T) {
	again(t, func(longer time.Duration) error {
		server := fakeserver.Start(t, fakeserver.Faults{CutAfter: 200})
		o := small("write")
		o.Warmup, o.Duration = 0, o.Duration*longer
		results, err := Run(t.Context(), Target{Addr: server.Addr, Disposable: true}, o)
		if err == nil && results[0].Errors["connectionLoss"] == 0 {
			return fmt.Errorf("no error after a cut: %+v", results)
		}
		return nil
	})
}

// TestFaults shows each fault of a server in the result or the error.
func TestFaults(t *testing.T) {
	failing := func(op jute.Op, code jute.Code) fakeserver.Faults {
		return fakeserver.Faults{Codes: map[jute.Op]jute.Code{op: code}}
	}
	tests := map[string]struct {
		faults fakeserver.Faults
		load   string
		count  string // error that is counted
		fails  string // error of the run
	}{
		"error code":     {failing(jute.OpSetData, jute.NoAuth), "write", "noAuth", ""},
		"refused":        {fakeserver.Faults{Refuse: true}, "read", "", "maxClientCnxns"},
		"wrong order":    {fakeserver.Faults{WrongXid: true}, "read", "", "outOfOrder"},
		"long reply":     {fakeserver.Faults{LongReply: true}, "read", "", "connectionLoss"},
		"no addWatch":    {failing(jute.OpAddWatch, jute.Unimplemented), "fanout", "", "3.6"},
		"usage unknown":  {fakeserver.Faults{}, "idle", "", "process"},
		"fails to write": {failing(jute.OpCreate, jute.NoAuth), "read", "", "noAuth"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			again(t, func(longer time.Duration) error {
				server := fakeserver.Start(t, test.faults)
				o := small(test.load)
				o.Duration *= longer
				results, err := Run(t.Context(), Target{Addr: server.Addr, Disposable: true}, o)
				if test.fails != "" {
					if err == nil || !strings.Contains(err.Error(), test.fails) {
						return fmt.Errorf("error %w, want one with %q", err, test.fails)
					}
					return nil
				}
				if err != nil || results[0].Errors[test.count] == 0 {
					return fmt.Errorf("errors %v and %w, want %s", results, err, test.count)
				}
				return nil
			})
		})
	}
}

// TestEndsWithContext ends a long load early.
func TestEndsWithContext(t *testing.T) {
	server := fakeserver.Start(t, fakeserver.Faults{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // as soon as it has begun
		for server.Count(jute.OpGetData) == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	o := small("read")
	o.Duration = time.Hour
	if _, err := Run(ctx, Target{Addr: server.Addr}, o); err == nil {
		t.Error("a load that was cancelled has no error")
	}
	if n := server.Nodes(); n != 1 {
		t.Errorf("%d znodes are left after the cancel", n)
	}
	if n := server.Sessions(); n != 0 {
		t.Errorf("%d sessions are left after the cancel", n)
	}
}

// TestPipelineOrder checks that each reply is handed to its request.
func TestPipelineOrder(t *testing.T) {
	server := fakeserver.Start(t, fakeserver.Faults{})
	conn, err := open(t.Context(), server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := jute.PathWatchRequest{}
	next := 0
	err = conn.Pipeline(t.Context(), 1000, 64, func(b []byte, i int, xid jute.Xid) []byte {
		request.Path = map[bool]string{true: "/", false: "/none"}[i%3 == 0]
		return client.Request(b, xid, jute.OpGetData, request.Append)
	}, func(i int, code jute.Code) error {
		if i != next || (code == jute.OK) != (i%3 == 0) {
			t.Errorf("reply %d is %v, want reply %d", i, code, next)
		}
		next++
		return nil
	})
	if err != nil || next != 1000 {
		t.Errorf("%d replies and %v, want 1000", next, err)
	}
	if err := conn.Alive(); err != nil {
		t.Error(err)
	}
}
