package session

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// server is a server of sessions that answers everything with OK, and notes what it was asked for.
type server struct {
	mu    sync.Mutex
	asked []jute.Op
	conns []net.Conn
}

func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, far)
	go s.serve(far)
	return near, nil
}

// read takes a frame; nil at the end.
func read(nc net.Conn) []byte {
	var head [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, b); err != nil {
		return nil
	}
	return b
}

// serve serves a connection to its end.
func (s *server) serve(nc net.Conn) {
	defer nc.Close() //nolint:errcheck // a pipe
	say := func(record func([]byte) []byte) {
		b, mark := jute.BeginFrame(nil)
		_, _ = nc.Write(jute.EndFrame(record(b), mark)) // the client may be gone
	}
	read(nc)
	welcome := jute.ConnectResponse{TimeoutMillis: 10_000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}
	say(welcome.Append)
	for {
		b := read(nc)
		if b == nil {
			return
		}
		d := jute.NewDecoder(b)
		var header jute.RequestHeader
		header.Decode(&d)
		if header.Op != jute.OpPing {
			s.mu.Lock()
			s.asked = append(s.asked, header.Op)
			s.mu.Unlock()
		}
		reply := jute.ReplyHeader{Xid: header.Xid, Zxid: 1}
		say(func(b []byte) []byte { return append(reply.Append(b), make([]byte, 100)...) })
		if header.Op == jute.OpCloseSession {
			return
		}
	}
}

// had returns what was asked for since the last call.
func (s *server) had() []jute.Op {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.asked
	s.asked = nil
	return had
}

// open opens a session with it.
func (s *server) open(t *testing.T) *Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	opened, err := Open(ctx, Options{Dial: s.dial, Addrs: []string{"a"}, Clock: clock.Real()})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// TestALookAtAZnodeCostsOneWatch: a page that asks every second costs a request when it begins, and one when it has
// been closed for a while; then the session ends.
func TestALookAtAZnodeCostsOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var far server
		s := far.open(t)
		far.had()
		first, err := s.Changes(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			time.Sleep(time.Second)
			s.Use()
			if n, err := s.Changes(t.Context(), "/a"); err != nil || n != first {
				t.Fatalf("%d, %v, was %d", n, err, first)
			}
		}
		if had := far.had(); !slices.Equal(had, []jute.Op{jute.OpAddWatch}) {
			t.Errorf("five minutes of looking: %v", had)
		}
		time.Sleep(watchAfter + 2*tick)
		if had := far.had(); !slices.Equal(had, []jute.Op{jute.OpRemoveWatches}) {
			t.Errorf("after it was closed: %v", had)
		}
		time.Sleep(IdleAfter)
		if had := far.had(); !slices.Equal(had, []jute.Op{jute.OpCloseSession}) {
			t.Errorf("a minute later: %v", had)
		}
		select {
		case <-s.Done():
		default:
			t.Error("it goes on")
		}
		s.Close()
	})
}

// TestALostConnectionIsAChange: what has happened meanwhile nobody tells.
func TestALostConnectionIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var far server
		s := far.open(t)
		defer s.Close()
		before, err := s.Changes(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		far.mu.Lock()
		_ = far.conns[0].Close() // a pipe
		far.mu.Unlock()
		time.Sleep(time.Second)
		if after, err := s.Changes(t.Context(), "/a"); err != nil || after == before {
			t.Errorf("%d, %v, was %d", after, err, before)
		}
	})
}

// TestWhoHoldsASessionKeepsIt: work may take longer than pages are open.
func TestWhoHoldsASessionKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var far server
		s := far.open(t)
		release := s.Hold()
		time.Sleep(time.Hour)
		if _, err := s.Stat(t.Context(), "/"); err != nil {
			t.Error(err)
		}
		release()
		time.Sleep(IdleAfter + 2*tick)
		if _, err := s.Stat(t.Context(), "/"); !Lost(err) {
			t.Errorf("afterwards: %v", err)
		}
		s.Close()
	})
}

// TestNoServer: what is wrong is said, at once.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		down := errors.New("nothing listens")
		_, err := Open(t.Context(), Options{Addrs: []string{"a", "b"}, Clock: clock.Real(),
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, down }})
		if !errors.Is(err, down) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
