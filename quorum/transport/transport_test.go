package transport

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
)

func TestFramesArriveInOrder(t *testing.T) {
	a, b := pair(t, nil)
	const frames = 20_000
	sent := 0
	for sent < frames {
		if a.Send(2, uint8(sent%251), number(uint64(sent))) {
			sent++
		}
	}
	eventually(t, "all arrive", func() bool { return b.heard.count() == frames })
	for i, f := range b.heard.frames {
		if f.from != 1 || f.kind != uint8(i%251) || f.body != string(number(uint64(i))(nil)) {
			t.Fatalf("frame %d is %+v", i, f)
		}
	}
	const bytes = frames * 17
	want := [4]int64{frames, bytes, frames, bytes}
	var got [4]int64
	counted := func() bool {
		there, back := a.of(2), b.of(1)
		got = [4]int64{there.FramesOut, there.BytesOut, back.FramesIn, back.BytesIn}
		return got == want
	}
	eventually(t, "all are counted", func() bool { return counted() || got[0] > frames || got[1] > bytes })
	if got != want { // the sender counts what it has written, which may have arrived by then
		t.Errorf("counted %d frames, %d bytes out, %d and %d in", got[0], got[1], got[2], got[3])
	}
	if a.heard.ups(2) != 1 || b.heard.ups(1) != 1 || a.heard.losses(2) != 0 || b.heard.losses(1) != 0 {
		t.Errorf("told %+v and %+v, want one Connected each", a.heard, b.heard)
	}
}

func TestFramesOfAllSizes(t *testing.T) {
	a, b := pair(t, nil)
	sizes := []int{0, 1, readBufferBytes - 1, readBufferBytes, growBytes - 1, 3*growBytes + 5, 0, frameBytesMax - 1}
	for _, size := range sizes {
		want, n := strings.Repeat("x", size), b.heard.count()
		if !a.Send(2, 9, body(want)) {
			t.Fatalf("frame of %d bytes refused", size)
		}
		eventually(t, "it arrives", func() bool { return b.heard.count() > n })
		if got := b.heard.frames[n]; got.body != want {
			t.Errorf("frame of %d bytes came with %d", size, len(got.body))
		}
	}
	if a.Send(2, 9, body(strings.Repeat("x", frameBytesMax))) {
		t.Error("a frame beyond the bound was taken")
	}
	if !a.Send(2, 9, body("after")) {
		t.Error("the next frame was not taken")
	}
	eventually(t, "it arrives", func() bool { return b.heard.count() == len(sizes)+1 })
}

func TestManySendersAtOnce(t *testing.T) {
	a, b := pair(t, nil)
	const senders, each = 8, 500
	var all sync.WaitGroup
	for s := range uint64(senders) {
		all.Go(func() {
			for i := range uint64(each) {
				a.Send(2, uint8(s), number(i))
			}
		})
	}
	all.Wait()
	eventually(t, "all arrive", func() bool { return b.heard.count() == senders*each })
	next := map[uint8]uint64{}
	for _, f := range b.heard.frames {
		if got := binary.BigEndian.Uint64([]byte(f.body)); got != next[f.kind] {
			t.Fatalf("sender %d: frame %d, want %d", f.kind, got, next[f.kind])
		}
		next[f.kind]++
	}
}

// countingConn counts the calls of Write.
type countingConn struct {
	net.Conn
	mu     *sync.Mutex
	writes *int
}

func (c countingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	*c.writes++
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func TestWhatWaitsIsWrittenWithOneCall(t *testing.T) {
	q := newQueue(1 << 20)
	q.open(versionOldest)
	for i := range uint64(100) {
		q.add(1, number(i))
	}
	server, client := net.Pipe()
	defer func() { _ = server.Close() }()
	writes := 0
	mu := sync.Mutex{}
	a := newMember(t, 1, nil)
	p := newPeer(a.Transport, 2, Peer{}, make(chan struct{}, 1))
	p.queue = q
	raw := countingConn{client, &mu, &writes}
	s := newStream(a.Transport, &link{raw: raw, conn: raw}, &p.bytesOut)
	done := make(chan int)
	go func() { done <- p.write(s) }()
	frames := newFrameReader(server, versionOldest)
	for i := range uint64(100) {
		_, got, err := frames.next()
		if err != nil || binary.BigEndian.Uint64(got) != i {
			t.Fatalf("frame %d: %x, %v", i, got, err)
		}
	}
	s.end(errClosed)
	if lost := <-done; lost != 0 || writes != 1 {
		t.Errorf("%d writes, %d lost, want one write", writes, lost)
	}
}

func TestSendAllocatesNothing(t *testing.T) {
	q := newQueue(1 << 30)
	q.open(versionOldest)
	encode := body(strings.Repeat("x", 1024))
	var spare []byte
	allocs := testing.AllocsPerRun(200, func() {
		for range 64 {
			q.add(1, encode)
		}
		taken, _, _ := q.take(spare)
		spare = taken
	})
	if allocs > 0 {
		t.Errorf("%v allocations for 64 frames", allocs)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := newQueue(1000)
	if q.add(1, body("x")) {
		t.Error("a queue that is down takes a frame")
	}
	q.open(versionOldest)
	large := body(strings.Repeat("x", 5000))
	if !q.add(1, large) {
		t.Error("a large frame is refused by an empty queue")
	}
	if q.add(1, body("x")) {
		t.Error("a frame is taken beyond the bound")
	}
	taken, frames, _ := q.take(nil)
	if frames != 1 || len(taken) != 5009 {
		t.Errorf("took %d frames of %d bytes", frames, len(taken))
	}
	taken, _, _ = q.take(taken)
	small := body(strings.Repeat("x", 191))
	for i := range 5 {
		if !q.add(1, small) || i < 4 && q.add(1, large) {
			t.Errorf("frame %d of 200 bytes refused, or a large one taken behind it", i)
		}
	}
	if q.add(1, body("")) || q.add(1, large) {
		t.Error("a frame is taken beyond the bound")
	}
	if size, drops := q.size(); size != 1000 || drops != 8 {
		t.Errorf("%d bytes, %d drops, want 1000 and 8", size, drops)
	}
	q.take(taken)
	q.add(1, small)
	if size, _ := q.size(); size != 1200 {
		t.Errorf("what is in flight does not count: %d bytes", size)
	}
	if q.add(1, small) {
		t.Error("a second frame is taken while the bound is in flight")
	}
	q.shut(5)
	if size, drops := q.size(); size != 0 || drops != 15 {
		t.Errorf("after the loss %d bytes, %d drops, want 0 and 15", size, drops)
	}
}

func TestSendToNobody(t *testing.T) {
	a := newMember(t, 1, nil)
	a.know()
	a.Start(a.heard)
	if a.Send(9, 1, body("x")) || a.Send(1, 1, body("x")) {
		t.Error("a frame to an unknown peer, or to itself, is taken")
	}
}

func TestSlowPeerDelaysNoOther(t *testing.T) {
	set := func(o *Options) { o.QueueBytesMax = 1 << 20 }
	a, slow, fast := newMember(t, 1, set), newMember(t, 2, set), newMember(t, 3, set)
	release := make(chan struct{})
	slow.heard.receive = func(uint64, uint8, []byte) { <-release }
	a.know(slow, fast)
	slow.know(a)
	fast.know(a)
	for _, m := range []*member{a, slow, fast} {
		m.Start(m.heard)
	}
	a.linked(slow)
	a.linked(fast)
	large := body(strings.Repeat("x", 256<<10))
	for a.Send(2, 1, large) {
		// until the buffers of both sides and the queue are full
	}
	for i := range 100 {
		if !a.Send(3, 1, number(uint64(i))) {
			t.Fatal("the fast peer's queue is full")
		}
	}
	eventually(t, "the fast peer has all", func() bool { return fast.heard.count() == 100 })
	if s := a.of(2); s.QueueBytes > 2<<20 || s.Drops == 0 || !s.Out {
		t.Errorf("the slow peer's queue has %d bytes, %d drops", s.QueueBytes, s.Drops)
	}
	close(release)
}

func TestPeerThatDiesIsNoticedAndComesBack(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	way := newProxy(t, b.address) // so that nobody takes its port while it is away
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{way.listener.Addr().String()}}})
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	b.Close()
	eventually(t, "both breaks are noticed", func() bool { return a.heard.losses(2) == 2 })
	if a.Send(2, 1, body("x")) {
		t.Error("a frame to a lost peer is taken")
	}
	if b.heard.losses(1) != 0 {
		t.Error("Close has told Lost")
	}
	again := newMember(t, 2, nil)
	way.lead(again.address)
	again.know(a)
	again.Start(again.heard)
	a.linked(again)
	if !a.Send(2, 1, body("x")) || !again.Send(1, 1, body("y")) {
		t.Error("the new streams take no frames")
	}
	eventually(t, "frames arrive", func() bool { return again.heard.count() == 1 && a.heard.count() == 1 })
	if s := a.of(2); s.LastError == nil || s.Program != "test" {
		t.Errorf("status %+v", s)
	}
}
