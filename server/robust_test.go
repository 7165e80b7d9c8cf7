package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/quorum/clock"
)

func TestShutdownAnswersWhatWasTaken(t *testing.T) {
	r := newRig(t, nil)
	setup := r.connect(t)
	setup.mustCreate("/n", "", jute.ModePersistent)
	const clients = 8
	var all sync.WaitGroup
	var answered atomic.Int64
	begun := make(chan struct{}, clients)
	for range clients {
		c := r.connect(t)
		all.Go(func() {
			defer func() { begun <- struct{}{} }()
			var b []byte
			for i := range jute.Xid(500) {
				b = append(b, encodeRequest(1+i, jute.OpSetData, setTo("/n", fmt.Sprint(i)))...)
			}
			_ = c.net.SetWriteDeadline(time.Now().Add(testDeadline)) // an error shows with the replies
			_, _ = c.net.Write(b)
			for want := jute.Xid(1); ; want++ {
				payload, err := c.next()
				if err != nil {
					if !isClosed(err) {
						t.Errorf("the connection ends with %v", err)
					}
					return
				}
				if got := c.parse(payload); got.Xid != want || got.Err != jute.OK {
					t.Errorf("reply %+v, want xid %d", got.ReplyHeader, want)
				}
				if answered.Add(1) == 50 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := r.server.Shutdown(ctx); err != nil {
		t.Errorf("second shutdown: %v", err)
	}
	all.Wait()
	v := r.machine.View()
	n, _ := v.Get("/n")
	stat := n.Stat()
	v.Close()
	if got := answered.Load(); got != int64(stat.Version) {
		t.Errorf("%d writes are answered, %d applied", got, stat.Version)
	}
}

// TestShutdownByAnyClock: who says nothing is not waited for, although the clock of the server is far ahead of that by
// which sockets go.
func TestShutdownByAnyClock(t *testing.T) {
	r := startRig(t, rigOptions{clock: clock.NewManual(time.Now().Add(ahead))})
	silent := r.connect(t)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		defer cancel()
		ended <- r.server.Shutdown(ctx)
	}()
	silent.wantClosed()
	_ = silent.net.Close() // the server waits for this end, too
	if err := <-ended; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownGivesUpOnAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t, nil)
	r.broken = true // the rig's own Shutdown is the second
	deaf := r.connect(t)
	deaf.mustCreate("/big", string(bytesOf('x', 1000000)), jute.ModePersistent)
	for range 30 {
		deaf.send(jute.OpGetData, look("/big"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	r.count(0)
}

func TestShutdownWhileClientsConnect(t *testing.T) {
	for range 5 {
		r := newRig(t, nil)
		var all sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			all.Go(func() { connectUntil(r, stop) })
		}
		eventually(t, "some sessions", func() bool { return r.machine.LastZxid() > 20 })
		r.stop()
		close(stop)
		all.Wait()
	}
}

// connectUntil opens and drops sessions until stop, or until nobody listens.
func connectUntil(r *rig, stop chan struct{}) {
	hello := frame((&jute.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}).Append(nil))
	for {
		select {
		case <-stop:
			return
		default:
		}
		nc, err := dialQuietly(r.addr)
		if err != nil {
			return
		}
		c := &client{t: r.t, net: nc}
		if _, err := nc.Write(hello); err == nil {
			_, _ = c.next() // whether it is answered depends on when the shutdown comes
		}
		_ = nc.Close()
	}
}

func TestADiskFailureAcknowledgesNothing(t *testing.T) {
	var failing atomic.Bool
	wrap := func(fs vfs.FS) vfs.FS {
		return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return errorfs.ErrInjected
			}
			return nil
		}))
	}
	r := startRig(t, rigOptions{wrap: wrap})
	c, reader := r.connect(t), r.connect(t)
	c.mustCreate("/n", "0", jute.ModePersistent)
	failing.Store(true)
	var b []byte
	for range 20 {
		b = append(b, c.encode(jute.OpSetData, setTo("/n", "lost"))...)
	}
	c.write(b)
	c.wantClosed()
	eventually(t, "the failure is reported", r.failed.Load)
	late := r.dial(t)
	late.write(frame((&jute.ConnectRequest{TimeoutMillis: 10000}).Append(nil)))
	late.wantClosed()
	// Reads of what was acknowledged may be answered, but never show what was not.
	reader.send(jute.OpGetData, look("/n"))
	if payload, err := reader.next(); err == nil {
		got := reader.parse(payload)
		if got.Err == jute.OK && got.data(t) != "0" {
			t.Errorf("a read shows %q, which was never acknowledged", got.data(t))
		}
	}
}

func TestSessionsThatMoveBetweenConnections(t *testing.T) {
	r := newRig(t, nil)
	const sessions, moves = 6, 25
	var all sync.WaitGroup
	for i := range sessions {
		c := r.connect(t)
		c.mustCreate(fmt.Sprintf("/e%d", i), "", jute.ModeEphemeral)
		c.mustCreate(fmt.Sprintf("/n%d", i), "", jute.ModePersistent)
		all.Go(func() { r.move(t, c, fmt.Sprintf("/n%d", i), moves) })
	}
	all.Wait()
	r.count(sessions)
	for i := range sessions {
		if !r.exists(fmt.Sprintf("/e%d", i)) {
			t.Errorf("session %d has lost its ephemeral", i)
		}
	}
	r.server.sessions.mu.Lock()
	if n := len(r.server.sessions.bound); n != sessions {
		t.Errorf("%d sessions are bound, want %d", n, sessions)
	}
	r.server.sessions.mu.Unlock()
}

// move takes a session from connection to connection while requests are under way on the old one.
func (r *rig) move(t *testing.T, c *client, path string, moves int) {
	random := rand.New(rand.NewPCG(uint64(c.welcome.SessionID), 1))
	for range moves {
		var b []byte
		for range random.IntN(20) {
			b = append(b, c.encode(jute.OpSetData, setTo(path, "x"))...)
			b = append(b, c.encode(jute.OpGetData, watching(path))...)
		}
		if _, err := c.net.Write(b); err != nil {
			t.Errorf("send: %v", err)
			return
		}
		nc, err := dialQuietly(r.addr)
		if err != nil {
			t.Errorf("dial: %v", err)
			return
		}
		t.Cleanup(func() { _ = nc.Close() })
		next := &client{t: t, net: nc}
		req := jute.ConnectRequest{TimeoutMillis: longMillis, SessionID: c.welcome.SessionID, Passwd: c.welcome.Passwd}
		_, _ = nc.Write(frame(req.Append(nil))) // an error shows with the answer
		payload, err := next.next()
		if err != nil {
			t.Errorf("reattach: %v", err)
			return
		}
		d := jute.NewDecoder(payload)
		next.welcome.Decode(&d)
		if next.welcome.SessionID != c.welcome.SessionID {
			t.Errorf("reattached as %+v", next.welcome)
			return
		}
		for err = nil; err == nil; { // what was answered, and then the end
			_, err = c.next()
		}
		if !isClosed(err) {
			t.Errorf("the old connection ends with %v", err)
		}
		c = next
	}
}
