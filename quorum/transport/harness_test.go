package transport

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/leak"
	"zkd/quorum/clock"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// testDeadline bounds every wait of a test.
const testDeadline = time.Minute

// frame is one that was received; the body is a copy.
type frame struct {
	from uint64
	kind uint8
	body string
}

// recorder is a Handler that keeps what it is told.
type recorder struct {
	receive func(from uint64, kind uint8, body []byte) // instead of keeping; may be nil

	mu        sync.Mutex
	frames    []frame
	connected map[uint64]int
	lost      map[uint64]int
	left      map[uint64]int // of those in lost
}

func (r *recorder) Receive(from uint64, kind uint8, body []byte) {
	if r.receive != nil {
		r.receive(from, kind, body)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, frame{from, kind, string(body)})
}

func (r *recorder) Connected(peer uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected[peer]++
}

func (r *recorder) Lost(peer uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[peer]++
}

func (r *recorder) Left(peer uint64) {
	r.Lost(peer)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[peer]++
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

func (r *recorder) ups(peer uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connected[peer]
}

func (r *recorder) leaves(peer uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[peer]
}

func (r *recorder) losses(peer uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[peer]
}

// logBook keeps log lines as text.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// member is a transport under test.
type member struct {
	*Transport
	t       testing.TB
	id      uint64
	address string
	heard   *recorder
	log     *logBook
}

// cluster is the id of the cluster of all members that are given no other.
var cluster = [16]byte{7, 7, 7}

// newMember returns a member that is not started, on a port of its own.
func newMember(t testing.TB, id uint64, set func(*Options)) *member {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newMemberAt(t, id, l, set)
}

// newMemberAt returns a member that is not started.
func newMemberAt(t testing.TB, id uint64, l net.Listener, set func(*Options)) *member {
	t.Helper()
	book := &logBook{}
	opts := Options{
		ID: id, Name: "test", Listeners: []net.Listener{l}, Dial: (&net.Dialer{}).DialContext,
		ClusterID: func() [16]byte { return cluster }, Clock: clock.Real(),
		Rand:   rand.New(rand.NewPCG(rand.Uint64(), id)),
		Logger: slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if set != nil {
		set(&opts)
	}
	if opts.Clock == clock.Real() { // no slow machine is silence, nor is an address given up for another one
		opts.IdleTimeout = cmp.Or(opts.IdleTimeout, 10*testDeadline) // so that no keep-alive is counted either
		opts.DialTimeout = cmp.Or(opts.DialTimeout, testDeadline)
		opts.TryTimeout = cmp.Or(opts.TryTimeout, testDeadline)
	}
	tr, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{
		Transport: tr, t: t, id: id, address: l.Addr().String(), log: book,
		heard: &recorder{connected: map[uint64]int{}, lost: map[uint64]int{}, left: map[uint64]int{}},
	}
	t.Cleanup(func() {
		tr.Close()
		if t.Failed() {
			t.Logf("log of server %d:\n%s", id, book)
		}
	})
	return m
}

// know sets the peers of m.
func (m *member) know(others ...*member) {
	peers := map[uint64]Peer{}
	for _, o := range others {
		peers[o.id] = Peer{Addresses: []string{o.address}}
	}
	m.SetPeers(peers)
}

// pair starts members 1 and 2 and waits until they are connected both ways.
func pair(t testing.TB, set func(*Options)) (a, b *member) {
	t.Helper()
	a, b = newMember(t, 1, set), newMember(t, 2, set)
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	return a, b
}

// linked waits until the streams between m and o are up both ways, as both see it.
func (m *member) linked(o *member) {
	m.t.Helper()
	eventually(m.t, "the streams are up", func() bool {
		there, back := m.of(o.id), o.of(m.id)
		return there.Out && there.In && back.Out && back.In
	})
}

// of returns the status of a peer.
func (m *member) of(id uint64) PeerStatus {
	for _, s := range m.Status() {
		if s.ID == id {
			return s
		}
	}
	return PeerStatus{}
}

// logs waits until the log has all of the texts in one line.
func (m *member) logs(texts ...string) {
	m.t.Helper()
	eventually(m.t, "the log says "+strings.Join(texts, ", "), func() bool {
		for line := range strings.Lines(m.log.String()) {
			all := true
			for _, text := range texts {
				all = all && strings.Contains(line, text)
			}
			if all {
				return true
			}
		}
		return false
	})
}

// body returns an encode function for a body.
func body(text string) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, text...) }
}

// number returns an encode function for a body of 8 bytes.
func number(n uint64) func([]byte) []byte {
	return func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, n) }
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", testDeadline, what)
		}
	}
}
