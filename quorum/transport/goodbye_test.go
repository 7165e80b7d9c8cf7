package transport

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// says counts the lines of a member's log that have a text.
func (m *member) says(text string) int { return strings.Count(m.log.String(), text) }

// TestPeerThatStopsSaysSo: no warning comes of a server that stops as it was asked to, and its break is one line.
func TestPeerThatStopsSaysSo(t *testing.T) {
	a, b := pair(t, nil)
	b.Stop(t.Context())
	a.logs("level=INFO", `msg="peer left"`, "peer=2")
	eventually(t, "both streams have ended", func() bool { return a.heard.losses(2) == 2 })
	if n := a.heard.leaves(2); n != 1 {
		t.Errorf("its leaving was heard %d times", n)
	}
	eventually(t, "it is dialed again", func() bool { err := a.of(2).LastError; return err != nil && err != errLeft })
	if n := a.says("peer left"); n != 1 || a.says("peer disconnected") != 0 {
		t.Errorf("%d lines say that it left; the log:\n%s", n, a.log)
	}
	if b.says("peer left")+b.says("level=WARN") != 0 || b.heard.losses(1) != 0 {
		t.Errorf("who stops says %s", b.log)
	}
}

// TestNoStreamBeginsAfterStop: Stop says goodbye on the streams that it sees, so none may come up behind its back.
func TestNoStreamBeginsAfterStop(t *testing.T) {
	m := newMember(t, 1, nil)
	m.SetPeers(map[uint64]Peer{2: {}})
	m.Start(m.heard)
	m.shut()
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	p := (*m.peers.Load())[2]
	if err := p.serve(&link{raw: near, conn: near, version: versionGoodbye}); err != errClosed {
		t.Errorf("it ends with %v", err)
	}
	if m.heard.ups(2) != 0 || p.queue.goodbye() {
		t.Error("it was up for a while")
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is left open: %v", err)
	}
}

// TestPeerThatDiesIsOneLine: two streams break, and one line says so; another one when that happens again.
func TestPeerThatDiesIsOneLine(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	way := newProxy(t, b.address)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{way.listener.Addr().String()}}})
	a.Start(a.heard)
	for round := 1; round <= 2; round++ {
		b.know(a)
		b.Start(b.heard)
		a.linked(b)
		eventually(t, "both are logged", func() bool { return a.says("peer connected") == 2*round })
		b.Close()
		eventually(t, "both breaks are noticed", func() bool { return a.heard.losses(2) == 2*round })
		if a.heard.leaves(2) != 0 {
			t.Error("it was taken for one that has said so")
		}
		if n := a.says("peer disconnected"); n != round {
			t.Errorf("%d lines after %d breaks:\n%s", n, round, a.log)
		}
		b = newMember(t, 2, nil)
		way.lead(b.address)
	}
}

// listener answers one handshake as server 2, in a version; where its stream comes out.
func listener(t *testing.T, version uint16) (address string, streams <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1) // the one
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		defer close(accepted)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		a := answer{version: version, id: 2, processID: muteProcess, cluster: cluster}
		if _, err = readHello(conn); err == nil {
			_, err = conn.Write(a.encode())
		}
		if err == nil {
			accepted <- conn
		}
	}()
	return l.Addr().String(), accepted
}

// TestGoodbyeIsForWhoUnderstandsIt has a server stop beside one of an older version, and one of this one.
func TestGoodbyeIsForWhoUnderstandsIt(t *testing.T) {
	for version, want := range map[uint16][]byte{ // any order: each has its own server
		versionPieces:  {},
		versionGoodbye: {0x20, 0, 0, 0, 0, 0, 0, 0},
	} {
		m := newMember(t, 1, nil)
		address, streams := listener(t, version)
		m.SetPeers(map[uint64]Peer{2: {Addresses: []string{address}}})
		m.Start(m.heard)
		conn := <-streams
		eventually(t, "the stream is up", func() bool { return m.of(2).Out })
		stopped := make(chan struct{})
		go func() { defer close(stopped); m.Stop(t.Context()) }()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("version %d: %x, %v", version, got, err)
		}
		if len(want) > 0 {
			_ = conn.Close() // as who has understood
		} else if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
			t.Errorf("version %d: %x, %v", version, rest, err)
		}
		<-stopped
	}
}

// TestStopWaitsForNobodyForLong has a server stop beside one that hears the goodbye and does nothing.
func TestStopWaitsForNobodyForLong(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	for name, enough := range map[string]func(cancel func()){ // any order: each has its own server
		"its own bound": func(func()) { manual.Step(goodbyeWait) },
		"its caller's":  func(cancel func()) { cancel() },
	} {
		m := newMember(t, 1, func(o *Options) { o.Clock, o.IdleTimeout = manual, muteIdle })
		address, streams := listener(t, versionGoodbye)
		m.SetPeers(map[uint64]Peer{2: {Addresses: []string{address}}})
		m.Start(m.heard)
		conn := <-streams
		eventually(t, "the stream is up", func() bool { return m.of(2).Out })
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); m.Stop(ctx) }()
		if _, err := io.ReadFull(conn, make([]byte, frameHeadBytes)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		select {
		case <-stopped:
			t.Errorf("%s: it did not wait", name)
		default:
		}
		enough(cancel)
		<-stopped
		cancel()
		_ = conn.Close()
	}
}

// TestGoodbyeIsTheLastFrame: what is small goes before it, what is large is dropped, and nothing is let in.
func TestGoodbyeIsTheLastFrame(t *testing.T) {
	q := newQueue(1 << 20)
	if q.goodbye() {
		t.Error("said without a stream")
	}
	q.open(versionGoodbye)
	q.add(1, body("small"))
	q.addInOrder(2, body("large"), []byte("kept"))
	q.addInOrder(2, body("behind"), nil)
	if !q.goodbye() || q.add(1, body("x")) || q.addInOrder(1, body("x"), nil) {
		t.Error("it is not said, or something comes behind it")
	}
	taken, frames, large := q.take(nil)
	r := newFrameReader(bytes.NewReader(taken), versionGoodbye)
	kind, _, err := r.next()
	_, _, last := r.next()
	if frames != 1 || large != nil || kind != 1 || err != nil || last != errLeft {
		t.Errorf("%d frames, large %v, kind %d, %v, %v", frames, large, kind, err, last)
	}
	if _, drops := q.size(); drops != 4 {
		t.Errorf("%d drops", drops)
	}
}
