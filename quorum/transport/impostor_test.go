package transport

import (
	"io"
	"net"
	"testing"
)

// TestAStrangerLearnsNothing asks a server that is connected with its peer, under an id that nobody knows and in the
// name of the peer: neither learns the cluster, the founders, or what marks the process. So it is at a port for both
// kinds of connections, whose peers use TLS.
func TestAStrangerLearnsNothing(t *testing.T) {
	t.Run("plain", func(t *testing.T) { learnNothing(t, func(*Options) {}) })
	ca := newAuthority(t)
	t.Run("unified", func(t *testing.T) {
		learnNothing(t, func(o *Options) {
			ca.secured(t)(o)
			o.PortUnification = true
		})
	})
}

// learnNothing has strangers ask a server with that port.
func learnNothing(t *testing.T, port func(*Options)) {
	t.Helper()
	a, _ := pair(t, func(o *Options) {
		port(o)
		o.Founders = func() string { return "secret.example" }
		o.Streams = func(uint64, net.Conn) { t.Error("a snapshot stream is opened") }
	})
	for name, from := range map[string]uint64{"unknown": 9, "in the name of the peer": 2} { // order: alike
		for _, what := range []purpose{forMessages, forSnapshot, forCluster} {
			for _, of := range [][16]byte{{}, {9}} {
				h := good()
				h.from, h.purpose, h.cluster = from, what, of
				got, conn := call(t, a, h)
				if got.code == Accepted || got.cluster != disguised || got.processID != 0 || got.founders != "" {
					t.Errorf("%s, purpose %d: answered %+v", name, what, got)
				}
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s, purpose %d: the connection is open", name, what)
				}
			}
		}
	}
	if s := a.of(2); !s.In || !s.Out || a.heard.losses(2) != 0 {
		t.Errorf("the peer is disturbed: %+v", s)
	}
}

// TestASnapshotStreamBelongsToTheStreamsForMessages: nobody opens one who is not heard, and it ends with what it
// belongs to.
func TestASnapshotStreamBelongsToTheStreamsForMessages(t *testing.T) {
	began, ended := make(chan uint64, 1), make(chan struct{}, 1)
	m := newMember(t, 1, func(o *Options) {
		o.Streams = func(from uint64, conn net.Conn) {
			began <- from
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		}
	})
	m.SetPeers(map[uint64]Peer{2: {}})
	m.Start(m.heard)
	snapshot := func(processID uint64) *answer {
		h := good()
		h.purpose, h.processID = forSnapshot, processID
		got, _ := call(t, m, h)
		return got
	}
	if got := snapshot(99); got.code != NoStreams {
		t.Errorf("without streams for messages: answered %+v", got)
	}
	got, messages := call(t, m, good())
	if got.code != Accepted {
		t.Fatalf("answered %+v", got)
	}
	if got := snapshot(98); got.code != NoStreams {
		t.Errorf("of another process: answered %+v", got)
	}
	if got := snapshot(99); got.code != Accepted {
		t.Fatalf("answered %+v", got)
	}
	if from := <-began; from != 2 {
		t.Errorf("a stream from %d", from)
	}
	if err := messages.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
}
