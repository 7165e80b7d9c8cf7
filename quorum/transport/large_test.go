package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// writing is a writer whose other end is a pipe: it gets on only as far as the test reads.
type writing struct {
	*queue
	from net.Conn
	end  func()
}

// throttled begins to write what is queued for a peer onto a stream of a version.
func throttled(t *testing.T, version uint16) *writing {
	t.Helper()
	p := newPeer(newMember(t, 1, nil).Transport, 2, Peer{}, make(chan struct{}, 1))
	p.queue.open(version)
	from, to := net.Pipe()
	s := newStream(p.transport, &link{raw: to, conn: to, version: version}, &p.bytesOut)
	done := make(chan struct{})
	go func() { defer close(done); p.write(s) }()
	w := &writing{queue: p.queue, from: from}
	w.end = func() {
		s.end(errClosed)
		<-done
		_ = from.Close()
	}
	t.Cleanup(w.end)
	return w
}

// countingReader counts what is read of it.
type countingReader struct {
	io.Reader
	bytes int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bytes += n
	return n, err
}

// TestASmallFramePassesALargeOne: what need not be in order waits for some pieces of a large frame, not for all of it,
// however slow the connection is; what is in order comes behind it.
func TestASmallFramePassesALargeOne(t *testing.T) {
	const size = 64 * pieceBytes
	large := bytes.Repeat([]byte("large"), size/5)
	w := throttled(t, versionNewest)
	w.addInOrder(1, body("before"), nil)
	if !w.addInOrder(2, body("head "), large) || !w.addInOrder(3, body("behind"), nil) ||
		!w.addInOrder(4, body("also "), []byte("large")) || !w.addInOrder(5, body("last"), nil) {
		t.Fatal("a frame is refused")
	}
	read := &countingReader{Reader: w.from}
	frames := newFrameReader(read, versionNewest)
	expect := func(kind uint8, want string, ahead bool) {
		t.Helper()
		got, content, err := frames.next()
		if err != nil || got != kind || string(content) != want || frames.ahead != ahead {
			t.Fatalf("kind %d of %d bytes, ahead %v, %v; want kind %d", got, len(content), frames.ahead, err, kind)
		}
	}
	expect(1, "before", false)
	for n := range uint8(3) { // at any place of the large one
		if !w.add(100+n, body("beat")) {
			t.Fatal("a frame is refused")
		}
		before := read.bytes
		expect(100+n, "beat", true)
		// What was under way, and what the reader's buffer holds.
		if waited := read.bytes - before; waited > (burstPieces+2)*(pieceBytes+frameHeadBytes) {
			t.Errorf("frame %d came behind %d bytes", n, waited)
		}
	}
	if size, _ := w.size(); size < len(large) {
		t.Errorf("%d bytes are queued, %d are not written", size, len(large))
	}
	expect(2, "head "+string(large), false)
	expect(3, "behind", false)
	expect(4, "also large", false)
	expect(5, "last", false)
	eventually(t, "nothing is left", func() bool { size, drops := w.size(); return size+int(drops) == 0 })
}

// TestALargeFrameForAnOldPeerIsInOnePiece: a peer that knows no pieces gets what it knows.
func TestALargeFrameForAnOldPeerIsInOnePiece(t *testing.T) {
	w := throttled(t, versionOldest)
	large := strings.Repeat("large", pieceBytes)
	w.add(1, body("first"))
	w.addInOrder(2, body("head "), []byte(large))
	w.addInOrder(3, body("behind"), nil)
	want, _ := appendFrame(nil, 1, body("first"))
	want, _ = appendFrame(want, 2, body("head "+large))
	want, _ = appendFrame(want, 3, body("behind"))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(w.from, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes are written, %v", err)
	}
}

// TestALargeFrameUnderWayRefusesNoOthers: the bound holds for what comes behind it, and what may pass it is not
// counted with it.
func TestALargeFrameUnderWayRefusesNoOthers(t *testing.T) {
	q := newQueue(1000)
	q.open(versionNewest)
	large := make([]byte, 5000)
	if !q.addInOrder(1, body(""), large) {
		t.Error("a large frame is refused by an empty queue")
	}
	for range 40 {
		if !q.add(1, body("0123456789abcdef")) { // 25 bytes
			t.Fatal("a frame that passes is refused")
		}
	}
	if q.add(1, body("")) {
		t.Error("a frame is taken beyond the bound")
	}
	if !q.addInOrder(1, body(""), large) || q.addInOrder(1, body(""), large) || q.addInOrder(1, body("x"), nil) {
		t.Error("other than one is taken behind")
	}
	q.shut(1)
	if size, drops := q.size(); size != 0 || drops != 3+1+42 {
		t.Errorf("after the loss %d bytes, %d drops", size, drops)
	}
	if q.addInOrder(1, body(""), large) {
		t.Error("a queue that is down takes a frame")
	}
}

// TestALargeFrameIsTakenBesideOthers: while a handler deals with a large frame, those that need not be in order are
// handed on, and those in order wait for it. Plain and with TLS.
func TestALargeFrameIsTakenBesideOthers(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("tls ", secure), func(t *testing.T) {
			var set func(*Options)
			if secure {
				set = newAuthority(t).secured(t)
			}
			var mu sync.Mutex
			var order []uint64
			entered, release := make(chan struct{}), make(chan struct{})
			a, b := newMember(t, 1, set), newMember(t, 2, set)
			b.heard.receive = func(_ uint64, kind uint8, body []byte) {
				if kind == 1 {
					close(entered)
					<-release
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, uint64(kind)<<32|binary.BigEndian.Uint64(body))
			}
			seen := func() string { mu.Lock(); defer mu.Unlock(); return fmt.Sprint(order) }
			a.know(b)
			b.know(a)
			a.Start(a.heard)
			b.Start(b.heard)
			a.linked(b)
			large := make([]byte, 3<<20)
			if !a.SendInOrder(2, 1, number(0), large) {
				t.Fatal("refused")
			}
			for n := range uint64(3) {
				if !a.SendInOrder(2, 2, number(n), nil) {
					t.Fatal("refused")
				}
			}
			<-entered
			for n := range uint64(3) {
				if !a.Send(2, 3, number(n)) {
					t.Fatal("refused")
				}
			}
			ahead := fmt.Sprint([]uint64{3 << 32, 3<<32 | 1, 3<<32 | 2})
			eventually(t, "those that pass are handed on", func() bool { return seen() == ahead })
			close(release)
			all := fmt.Sprint([]uint64{3 << 32, 3<<32 | 1, 3<<32 | 2, 1 << 32, 2 << 32, 2<<32 | 1, 2<<32 | 2})
			eventually(t, "the others come in order", func() bool { return seen() == all })
			eventually(t, "all are counted", func() bool {
				return a.of(2).FramesOut == 7 && b.of(1).FramesIn == 7 && a.of(2).QueueBytes == 0
			})
		})
	}
}
