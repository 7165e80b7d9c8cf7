package transport

import (
	"net"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// advanceUntil moves the clock, a hundredth of the idle timeout at a time, until a condition holds; it returns how far.
// The clock waits for the frames between members that are given: on a slow machine they come late by it, but they come.
func advanceUntil(t *testing.T, manual *clock.Manual, idle time.Duration, what string, ok func() bool,
	alive ...*member) time.Duration {
	t.Helper()
	began := manual.Now()
	eventually(t, what, func() bool {
		if ok() {
			return true
		}
		for _, m := range alive {
			if m.silence() > idle/2 {
				return false
			}
		}
		manual.Step(idle / 100)
		return false
	})
	return manual.Since(began)
}

// silence is how long m has heard nothing on a stream, or has been writing.
func (m *member) silence() (longest time.Duration) {
	now := m.now()
	for _, p := range *m.peers.Load() { // order: the longest of all
		p.mu.Lock()
		for _, s := range []*stream{p.incoming, p.outgoing} {
			if s != nil {
				longest = max(longest, s.waits(now))
			}
		}
		p.mu.Unlock()
	}
	return longest
}

func TestKeepAlivesHoldSilentStreams(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a, b := pair(t, func(o *Options) { o.Clock = manual })
	for range 30 {
		before, back := a.of(2), b.of(1)
		advanceUntil(t, manual, defaultIdleTimeout, "keep-alives come", func() bool {
			return a.of(2).BytesIn > before.BytesIn && b.of(1).BytesIn > back.BytesIn
		}, a, b)
	}
	s := a.of(2)
	if a.heard.losses(2) != 0 || b.heard.losses(1) != 0 || s.FramesIn != 0 || s.FramesOut != 0 || a.heard.count() != 0 {
		t.Errorf("losses %d and %d, status %+v", a.heard.losses(2), b.heard.losses(1), s)
	}
}

func TestSilentPeerIsGivenUp(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	m := newMember(t, 1, func(o *Options) { o.Clock = manual })
	m.SetPeers(map[uint64]Peer{2: {}})
	m.Start(m.heard)
	answered, conn := call(t, m, good())
	if answered.code != Accepted {
		t.Fatalf("answer %+v", answered)
	}
	eventually(t, "the stream is up", func() bool { return m.of(2).In })
	took := advanceUntil(t, manual, defaultIdleTimeout, "the stream is given up", func() bool {
		return m.heard.losses(2) == 1
	})
	if took < defaultIdleTimeout {
		t.Errorf("given up after %v", took)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the connection is open")
	}
	m.logs("peer disconnected", "nothing was heard")
}

// muteProcess is the number of muteListener's process.
const muteProcess = 4

// muteListener is a server that answers handshakes as server 2 and then does not read. It answers no questions for its
// cluster, and hands those out.
func muteListener(t *testing.T) (address string, questions <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	asked := make(chan net.Conn, 100)
	var conns []net.Conn
	go func() {
		defer close(ended)
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			conns = append(conns, conn)
			if h, err := readHello(conn); err == nil && h.purpose == forCluster {
				asked <- conn
				continue
			}
			a := answer{version: 1, id: 2, processID: muteProcess}
			_, _ = conn.Write(a.encode())
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String(), asked
}

// muteIdle is the idle timeout beside a mute server. The system keeps it as well, by its own clock, which must not get
// there first.
const muteIdle = 10 * testDeadline

// besideMute returns a member whose stream to a mute server is up, and its clock.
func besideMute(t *testing.T) (*member, *clock.Manual) {
	t.Helper()
	manual := clock.NewManual(time.Unix(1e6, 0))
	address, _ := muteListener(t)
	a := newMember(t, 1, func(o *Options) { o.Clock, o.IdleTimeout = manual, muteIdle })
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{address}}})
	a.Start(a.heard)
	eventually(t, "the stream is up", func() bool { return a.of(2).Out })
	return a, manual
}

// callBack makes the mute server's own stream, on which nothing comes either, and waits until its reader does: until
// then the clock counts for the handshake. It returns what was said.
func callBack(t *testing.T, a *member) hello {
	t.Helper()
	h := good()
	h.processID = muteProcess
	call(t, a, h)
	eventually(t, "the reader waits", func() bool {
		p := (*a.peers.Load())[2]
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.incoming != nil && p.incoming.waiting.Load() != 0
	})
	return h
}

func TestWriterStuckOnAFrozenPeerGivesUp(t *testing.T) {
	a, manual := besideMute(t)
	large := body(strings.Repeat("x", 1<<20))
	for a.Send(2, 1, large) {
		// until the buffers of both sides and the queue are full
	}
	eventually(t, "the writer is stuck", func() bool {
		p := (*a.peers.Load())[2]
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.outgoing.waiting.Load() != 0
	})
	took := advanceUntil(t, manual, muteIdle, "the stream is given up", func() bool { return a.heard.losses(2) == 1 })
	if took < muteIdle {
		t.Errorf("given up after %v", took)
	}
	a.logs("peer disconnected", "does not read")
	if s := a.of(2); s.QueueBytes != 0 || s.Drops == 0 {
		t.Errorf("%d bytes wait, %d drops", s.QueueBytes, s.Drops)
	}
}

func TestSilentPeerIsDialedAnew(t *testing.T) {
	a, manual := besideMute(t)
	callBack(t, a)
	advanceUntil(t, manual, muteIdle, "both streams are given up", func() bool { return a.heard.losses(2) == 2 })
	advanceUntil(t, manual, muteIdle, "it is dialed anew", func() bool { return a.heard.ups(2) == 2 })
}

func TestRestartedPeerReplacesItsSilentPredecessor(t *testing.T) {
	a, manual := besideMute(t)
	h := callBack(t, a)
	h.processID = muteProcess + 1
	if answered, _ := call(t, a, h); answered.code != AlreadyConnected {
		t.Fatalf("at once: %+v", answered)
	}
	manual.Advance(muteIdle / 2)
	if answered, _ := call(t, a, h); answered.code != Accepted {
		t.Fatalf("after half the idle timeout: %+v", answered)
	}
	eventually(t, "the streams of the predecessor end", func() bool { return a.heard.losses(2) == 2 })
}
