package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/watch"
)

// hoarded is what clients hold.
func (r *rig) hoarded() int64 {
	return r.server.memory.Used(limits.Unread) + r.server.memory.Used(limits.Requests)
}

// smallMemory is a server whose clients may hold 4 MiB, and the log that it writes.
func smallMemory(t *testing.T) (*rig, *logged) {
	t.Helper()
	log := &logged{}
	return newRig(t, func(o *Options) {
		o.Limits.MemoryBytes = 4 << 20
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	}), log
}

// wantHoarder checks that the log names a connection that was closed.
func wantHoarder(t *testing.T, log *logged, session bool) {
	t.Helper()
	for line := range strings.Lines(log.text()) {
		var entry struct {
			Msg, Peer, Session string
			Bytes              int64
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg == "closed connection: client memory used up" && entry.Peer != "" && entry.Bytes > 0 &&
			(entry.Session != "") == session {
			return
		}
	}
	t.Errorf("no line for a connection that was closed:\n%s", log.text())
}

// TestUnreadAnswersAreBounded has clients ask for more than all clients may hold, and not read it: some are cut off,
// and one beside them reads the same all the while.
func TestUnreadAnswersAreBounded(t *testing.T) {
	r, log := smallMemory(t)
	healthy := r.connect(t)
	healthy.mustCreate("/large", string(bytesOf('x', 900_000)), jute.ModePersistent)
	read := multi{{jute.OpGetData, look("/large")}, {jute.OpGetData, look("/large")}, {jute.OpGetData, look("/large")}}
	for range 20 {
		deaf := r.connect(t)
		shrink(t, deaf)
		for range 4 { // the kernel holds some
			deaf.write(deaf.encode(jute.OpMultiRead, read))
		}
		healthy.must(jute.OpGetData, look("/large"), jute.OK)
	}
	eventually(t, "no more is held than may be", func() bool {
		return r.hoarded() <= 4<<20 && r.server.memory.Closed() >= 17 && r.server.connections.count() <= 4
	})
	wantHoarder(t, log, true)
	healthy.must(jute.OpGetData, look("/large"), jute.OK)
}

// TestEventsThatNobodyReadsAreBounded does the same with events.
func TestEventsThatNobodyReadsAreBounded(t *testing.T) {
	r, log := smallMemory(t)
	path := "/" + string(bytes.Repeat([]byte("p"), 100_000))
	writer := r.connect(t)
	writer.mustCreate(path, "", jute.ModePersistent)
	const watchers = 20
	for range watchers {
		deaf := r.connect(t)
		shrink(t, deaf)
		deaf.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: path, Mode: jute.WatchPersistent}, jute.OK)
	}
	for i := 0; r.server.connections.count() > watchers/2; i++ {
		if i > 2000 {
			t.Fatalf("%d are connected, and %d bytes held", r.server.connections.count(), r.hoarded())
		}
		writer.must(jute.OpSetData, setTo(path, "x"), jute.OK)
		if held := r.hoarded(); held > 8<<20 { // the bound, and as much again in equal shares at most
			t.Fatalf("%d bytes are held", held)
		}
	}
	eventually(t, "no more is held than may be", func() bool { return r.hoarded() <= 4<<20 })
	if !strings.Contains(log.text(), "closed connection: ") {
		t.Errorf("no line for a connection that was closed:\n%s", log.text())
	}
}

// TestAnEventAloneHasSomebodyLookWhoHoldsMost: no request comes after it that would.
func TestAnEventAloneHasSomebodyLookWhoHoldsMost(t *testing.T) {
	r, _ := smallMemory(t)
	deaf := r.connect(t)
	shrink(t, deaf)
	for _, c := range r.server.connections.all() {
		c.WatchFired(nil, make([]byte, 12<<20)) // of which the kernel takes some
	}
	eventually(t, "who holds it is cut off", func() bool { return r.server.memory.Closed() == 1 })
}

// TestUnfinishedRequestsAreBounded has clients send most of a large request, and nothing more: some are cut off, and
// who sends all of one is answered.
func TestUnfinishedRequestsAreBounded(t *testing.T) {
	r, log := smallMemory(t)
	healthy := r.connect(t)
	healthy.mustCreate("/n", "", jute.ModePersistent)
	const length, came, clients = 0x0f0000, 700_000, 8
	most := append([]byte{0, length >> 16, 0, 0}, make([]byte, came)...)
	for range clients {
		r.connect(t).write(most)
	}
	eventually(t, "some were cut off, and the rest holds what has come", func() bool {
		closed := r.server.memory.Closed()
		return closed >= 3 && r.hoarded() >= (clients-closed)*came
	})
	wantHoarder(t, log, true)
	began := time.Now()
	eventually(t, "what stays counts more than as much that is on its way", func() bool {
		return time.Since(began) > time.Second // by limits.freshFor, 700,000 bytes as 1,400,000 that are new
	})
	healthy.must(jute.OpSetData, setTo("/n", string(bytesOf('x', 1_000_000))), jute.OK)
	if held := r.hoarded(); held > 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestLongWatchesAreBounded has one client set watches on long paths until it may not, while another still may.
func TestLongWatchesAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Watches = watch.Bounds{Bytes: 4 << 20} })
	greedy, other := r.connect(t), r.connect(t)
	long := func(i int) string { return fmt.Sprintf("/%d%s", i, strings.Repeat("w", 900_000)) }
	other.must(jute.OpExists, watching("/own"), jute.NoNode)
	for i := range 2 {
		greedy.must(jute.OpExists, watching(long(i)), jute.NoNode)
	}
	for i := range 3 {
		greedy.must(jute.OpExists, watching(long(10+i)), jute.Throttled)
	}
	if got := r.server.metrics.watchesRefused.Load(); got != 3 {
		t.Errorf("%d watches were refused, want 3", got)
	}
	if held, small := r.connOf(greedy).describe().HeldBytes, r.connOf(other).describe().HeldBytes; held < 1_800_000 ||
		small != 0 {
		t.Errorf("the connections are said to hold %d bytes, and %d", held, small)
	}
	other.must(jute.OpExists, watching(long(20)), jute.NoNode)
	greedy.must(jute.OpExists, watching(long(0)), jute.Throttled)
	greedy.net.Close()
	r.count(1)
	if got := r.server.watches.Bytes(); got > 2<<20 {
		t.Errorf("watches take %d bytes", got)
	}
	other.must(jute.OpExists, watching(long(21)), jute.NoNode)
}
