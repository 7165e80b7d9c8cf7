package bench

import (
	"fmt"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// eventsWithin bounds the wait for the last event of a write.
const eventsWithin = 30 * time.Second

// fanout writes a znode on which every client has a persistent watch, waits until all have their event, and writes
// again. Requests are events delivered; a latency is from the sending of the write to one client's event.
func fanout(r *run) ([]Result, error) {
	if err := r.makeNodes(1); err != nil {
		return nil, err
	}
	conns, err := r.dial(r.o.Clients)
	if err != nil {
		return nil, err
	}
	defer r.closeAll(conns)
	add := jute.AddWatchRequest{Path: r.nodes[0], Mode: jute.WatchPersistent}
	for _, conn := range conns {
		header, _, err := conn.Do(jute.OpAddWatch, add.Append)
		if err == nil && header.Err != jute.OK {
			err = fmt.Errorf("addWatch: %v; the server must be of 3.6 or later", header.Err)
		}
		if err == nil {
			err = conn.SetDeadline(r.o.bound() + eventsWithin)
		}
		if err != nil {
			return nil, err
		}
	}
	result, err := fanOn(r, conns)
	return []Result{result}, err
}

// fanOn runs the load on connections that watch.
func fanOn(r *run, conns []*client.Conn) (Result, error) {
	f := &fan{run: r, rec: newRecorder(), conns: conns, all: make(chan struct{}, 1)} // one write, one signal
	done := make(chan error, 1)                                                      // the one result of parallel
	go func() {
		done <- parallel(len(conns)+1, len(conns)+1, func(i int) error {
			if i == len(conns) {
				defer cutAll(conns) // ends the readers
				return f.write()
			}
			f.receive(i)
			return nil
		})
	}()
	result, finish, err := r.measure(r.o.String(), f.rec)
	f.rec.stopping.Store(true)
	if writeErr := <-done; err == nil {
		err = writeErr
	}
	if err != nil {
		return result, err
	}
	finish(&result)
	return result, nil
}

// fan is one fan-out. write runs on one goroutine, receive on one for each connection.
type fan struct {
	run     *run
	rec     *recorder
	conns   []*client.Conn
	sent    atomic.Int64  // when the last write was sent; written only by write
	missing atomic.Int64  // events of the last write that are not there yet
	all     chan struct{} // has one when missing came to 0
}

// write sends one write after another on the admin connection, and pings on the others in between.
func (f *fan) write() error {
	request := jute.SetDataRequest{Path: f.run.nodes[0], Data: f.run.data, Version: jute.AnyVersion}
	pinged := nanos()
	wait := time.NewTimer(eventsWithin)
	defer wait.Stop()
	for !f.rec.stopping.Load() {
		f.missing.Store(int64(len(f.conns)))
		f.sent.Store(nanos())
		header, _, err := f.run.admin.Do(jute.OpSetData, request.Append)
		if err == nil && header.Err != jute.OK {
			err = fmt.Errorf("setData: %v", header.Err)
		}
		if err != nil {
			return err
		}
		wait.Reset(eventsWithin)
		select {
		case <-f.all:
		case <-f.run.ctx.Done():
			return f.run.ctx.Err()
		case <-wait.C:
			return fmt.Errorf("%d of %d events were missing after %v", f.missing.Load(), len(f.conns), eventsWithin)
		}
		if nanos()-pinged > int64(f.conns[0].Timeout/4) {
			pinged = nanos()
			if err := pingAll(f.conns); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fan) receive(i int) {
	for {
		header, _, err := f.conns[i].ReadReply()
		if err != nil {
			return // cut by write at the end; before, write misses the event
		}
		if header.Xid != jute.XidNotification {
			continue
		}
		f.rec.see(i, []reply{{took: nanos() - int64(f.conns[i].Lag()) - f.sent.Load()}})
		if f.missing.Add(-1) == 0 {
			f.all <- struct{}{}
		}
	}
}

// pingAll keeps sessions alive. The replies are for whoever reads next.
func pingAll(conns []*client.Conn) error {
	for _, conn := range conns {
		if err := conn.Ping(); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
	return nil
}
