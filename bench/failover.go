package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// errNoEnsemble means that a load for the servers of an ensemble was run on something else.
var errNoEnsemble = errors.New("this load needs servers that it can tell apart: start several")

// Bounds of a failover. Guesses.
const (
	// failoverAttempt bounds one attempt to take the session to another server. ZooKeeper forgets connections that
	// come while it starts to serve, so a longer wait would count as its gap. An attempt may take a failoverShare of
	// the time that has gone by, too: on a slow machine none would succeed else.
	failoverAttempt = 100 * time.Millisecond
	failoverShare   = 10
	// failoverWithin bounds a gap.
	failoverWithin = 60 * time.Second
)

// failover ends the leader, by SIGKILL and by SIGTERM in turn, while two clients write all the time, and measures the
// gap in the writes that are acknowledged to each: one client is connected to the leader, one to a follower. A client
// that loses its connection takes its session to the next server at once. The warm-up is how long the ensemble is left
// alone before a server is ended, and how long after the first write the gap is still looked for.
func failover(r *run) ([]Result, error) {
	if r.target.Ensemble == nil {
		return nil, errNoEnsemble
	}
	if err := r.makeNodes(2); err != nil {
		return nil, err
	}
	conns, err := r.dial(2)
	if err != nil {
		return nil, err
	}
	writers := [2]*failoverWriter{}
	for i := range writers {
		writers[i] = &failoverWriter{run: r, conn: conns[i], addrs: r.target.addrs(), node: r.nodes[i]}
	}
	defer func() {
		r.closeAll([]*client.Conn{writers[0].conn, writers[1].conn})
	}()
	var gaps [2][2][]float64 // milliseconds: killed or stopped; of the follower's client or the leader's
	for n := range 2 * r.o.Count {
		ended, err := failOnce(r, writers, n%2 == 1)
		if err != nil {
			return nil, err
		}
		for i, gap := range ended {
			gaps[n%2][i] = append(gaps[n%2][i], float64(gap)/float64(time.Millisecond))
		}
	}
	var results []Result
	for end, how := range []string{"kill -9", "stop"} {
		for i, where := range []string{"a follower", "the leader"} {
			results = append(results, gapResult(r.o.String()+" "+how+", client of "+where, gaps[end][i]))
		}
	}
	lost := writers[0].expired + writers[1].expired
	if lost > 0 {
		results[0].Errors = map[string]int64{jute.SessionExpired.String(): lost}
	}
	return results, nil
}

// gapResult sums gaps up, in milliseconds.
func gapResult(name string, gaps []float64) Result {
	spread := spreadOf(gaps)
	return Result{Name: name, Requests: int64(len(gaps)), GapMillis: spread.Median, GapMaxMillis: spread.Max}
}

// failOnce ends the leader once and brings it back. It returns the gap of the follower's client, then the leader's.
func failOnce(r *run, writers [2]*failoverWriter, clean bool) (gaps [2]time.Duration, err error) {
	leader, err := r.target.Ensemble.Leader(r.ctx)
	if err != nil {
		return gaps, err
	}
	addrs := r.target.addrs()
	for i, server := range []int{(leader + 1) % len(addrs), leader} {
		if err := writers[i].move(r.ctx, server); err != nil {
			return gaps, err
		}
	}
	var end ending
	end.running.Add(len(writers))
	done := make(chan error, 1) // the one result of parallel
	go func() {
		done <- parallel(len(writers), len(writers), func(i int) (err error) {
			gaps[i], err = writers[i].write(&end)
			return err
		})
	}()
	end.running.Wait()
	err = pause(r.ctx, r.o.Warmup)
	end.began.Store(nanos())
	r.target.Ensemble.End(leader, clean)
	end.done.Store(nanos())
	if err := errors.Join(err, <-done); err != nil {
		return gaps, err
	}
	return gaps, r.target.Ensemble.Revive(r.ctx, leader)
}

// ending is the end of a server as writers see it.
type ending struct {
	running     sync.WaitGroup // of writers without an acknowledged write
	began, done atomic.Int64   // the server ended between the two; 0 is not yet
}

// failoverWriter writes one znode, one write at a time. It belongs to one goroutine at a time.
type failoverWriter struct {
	run     *run
	conn    *client.Conn
	addrs   []string
	server  int // that conn leads to
	node    string
	expired int64 // sessions that were lost
}

// move takes the session to a server.
func (w *failoverWriter) move(ctx context.Context, server int) error {
	ctx, cancel := context.WithTimeout(ctx, failoverWithin)
	defer cancel()
	conn, err := client.Reattach(ctx, w.addrs[server], w.conn)
	if err != nil {
		return fmt.Errorf("take a session to server %d: %w", server+1, err)
	}
	w.conn, w.server = conn, server
	return nil
}

// write writes until a warm-up after the first write that began after the end and was acknowledged, and returns the
// longest time between two acknowledgements from when the end began.
func (w *failoverWriter) write(end *ending) (time.Duration, error) {
	request := jute.SetDataRequest{Path: w.node, Data: w.run.data, Version: jute.AnyVersion}
	var gap, last, until int64
	running := sync.OnceFunc(end.running.Done)
	defer running()
	for {
		began := nanos()
		header, _, err := w.conn.Do(jute.OpSetData, request.Append)
		if err == nil && header.Err == jute.OK {
			acked, from, over := nanos()-int64(w.conn.Lag()), end.began.Load(), end.done.Load()
			if from != 0 && acked > from && last != 0 {
				gap = max(gap, acked-last)
			}
			if until == 0 && over != 0 && began > over {
				until = acked + int64(w.run.o.Warmup)
			}
			if until != 0 && acked >= until {
				return time.Duration(gap), nil
			}
			last = acked
			running()
			continue
		}
		if err == nil && header.Err != jute.SessionExpired {
			return 0, fmt.Errorf("setData: %v", header.Err)
		}
		if err := w.reconnect(); err != nil {
			return 0, err
		}
	}
}

// reconnect takes the session to the next server that will have it, and opens a new one if it is gone.
func (w *failoverWriter) reconnect() error {
	ctx, cancel := context.WithTimeout(w.run.ctx, failoverWithin)
	defer cancel()
	began := nanos()
	for {
		w.server = (w.server + 1) % len(w.addrs)
		within := max(failoverAttempt, time.Duration(nanos()-began)/failoverShare)
		attempt, cancel := context.WithTimeout(ctx, within)
		conn, err := client.Reattach(attempt, w.addrs[w.server], w.conn)
		if errors.Is(err, client.ErrExpired) {
			w.expired++
			conn, err = open(attempt, w.addrs[w.server])
		}
		cancel()
		if err == nil {
			w.conn = conn
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("no server took the session within %v: %w", failoverWithin, err)
		}
	}
}
