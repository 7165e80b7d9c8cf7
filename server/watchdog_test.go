package server

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/stats/catalog"
)

// lines returns the lines with a message.
func (l *logged) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.text()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// awaitLine waits for the one line with a message, and compares some of its fields.
func (l *logged) awaitLine(t *testing.T, message string, want map[string]any) {
	t.Helper()
	var lines []map[string]any
	eventually(t, "a line: "+message, func() bool { lines = l.lines(t, message); return len(lines) > 0 })
	for key, value := range want { // any order
		if lines[0][key] != value {
			t.Errorf("%s: %s is %v, want %v", message, key, lines[0][key], value)
		}
	}
	if took, ok := lines[0]["took"].(float64); len(lines) != 1 || !ok || took < float64(heldAfter) {
		t.Errorf("%s: %d lines, the first with %v", message, len(lines), lines[0])
	}
}

// figure asks a server for one of its figures.
func figure(s *Server, name string) float64 {
	values := catalog.New()
	s.SetMetrics(values)
	n, _ := values.Number(name)
	return n.Decimals + float64(n.Whole)
}

// TestASlowEntryIsToldWhileItLasts holds up the apply goroutine in the middle of an entry: what it is at is told, and
// its end. Who asks for metrics meanwhile is answered.
func TestASlowEntryIsToldWhileItLasts(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	c := r.connect(t)
	c.mustCreate("/a", "x", jute.ModePersistent)
	v := r.machine.Present()
	c.send(jute.OpSetData, setTo("/a", "y"))
	want := map[string]any{
		"session": jute.Hex(c.welcome.SessionID), "peer": c.net.LocalAddr().String(), "op": "setData", "path": "/a",
		"xid": float64(c.xid),
	}
	log.awaitLine(t, "slow entry, still being applied", want)
	log.awaitLine(t, "slow entry, still being applied", map[string]any{"step": "publish"})
	r.server.watchdog.lookAtEntry() // it has been told
	if held := figure(r.server, "zkd_slow_entry_seconds"); held < heldAfter.Seconds() {
		t.Errorf("the metric says %v s", held)
	}
	v.Close()
	c.receive()
	log.awaitLine(t, "slow entry applied", want)
	if n, held := figure(r.server, "zkd_slow_entries_total"), figure(r.server, "zkd_slow_entry_seconds"); n != 1 ||
		held != 0 {
		t.Errorf("the metrics say %v entries, %v s", n, held)
	}
}

// TestASlowReadIsToldWhileItLasts stops a list of children at the disk.
func TestASlowReadIsToldWhileItLasts(t *testing.T) {
	log := &logged{}
	r, s := coldRig(t, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	c := r.connect(t)
	c.must(jute.OpExists, look("/big"), jute.OK)
	s.armed.Store(true)
	c.send(jute.OpGetChildren, look("/big"))
	<-s.stuck
	want := map[string]any{
		"session": jute.Hex(c.welcome.SessionID), "peer": c.net.LocalAddr().String(), "op": "getChildren",
		"path": "/big", "xid": float64(c.xid),
	}
	log.awaitLine(t, "slow read, still holding the state", want)
	eventually(t, "the metric", func() bool { return figure(r.server, "zkd_slow_read_seconds") >= heldAfter.Seconds() })
	close(s.free)
	c.receive()
	log.awaitLine(t, "slow read ended", want)
	eventually(t, "the metric to end", func() bool { return figure(r.server, "zkd_slow_read_seconds") == 0 })
	if n := figure(r.server, "zkd_slow_reads_total"); n != 1 {
		t.Errorf("%v reads are counted", n)
	}
}

// watched is a watchdog without a server that runs, and its log.
func watched() (*watchdog, *logged) {
	log := &logged{}
	s := &Server{}
	s.opts.Logger, s.opts.Clock = slog.New(slog.NewJSONHandler(log, nil)), clock.NewManual(time.Unix(1, 0))
	s.watchdog.init(s)
	return &s.watchdog, log
}

// TestAHoldIsToldOnce: from when it was seen, without the time in which it waits for a turn, and not one for another.
func TestAHoldIsToldOnce(t *testing.T) {
	w, log := watched()
	h := &held{name: "test"}
	look := func(at time.Duration, want bool) {
		t.Helper()
		if _, long := w.lookAtRead(h, nil, at); long != want {
			t.Errorf("at %v: long is %v", at, long)
		}
	}
	const message = "slow read, still holding the state"
	look(1, false)
	h.begin(&request{})
	look(2, false)
	if _, long := h.end(); long {
		t.Error("a hold that was not told is long")
	}
	h.begin(&request{})
	look(2+heldAfter, false)
	h.waits.Store(true)
	look(3+2*heldAfter, false)
	h.waits.Store(false)
	look(4+2*heldAfter, false)
	look(3+3*heldAfter, false)
	if n := len(log.lines(t, message)); n != 0 {
		t.Fatalf("%d lines too early", n)
	}
	look(4+3*heldAfter, true)
	look(5+3*heldAfter, true)
	if n := len(log.lines(t, message)); n != 1 {
		t.Errorf("%d lines", n)
	}
	if since, long := h.end(); !long || since != 4+2*heldAfter {
		t.Errorf("it was held since %v, long: %v", since, long)
	}
	look(6+3*heldAfter, false)
}

// TestTheWatchdogLooksAtReadsThatGoOn has the race detector look on.
func TestTheWatchdogLooksAtReadsThatGoOn(t *testing.T) {
	w, _ := watched()
	c, h := &conn{}, &held{}
	var reader sync.WaitGroup
	stop := make(chan struct{})
	reader.Go(func() {
		for n := jute.Xid(0); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			h.begin(&request{xid: n})
			h.end()
		}
	})
	for w.reads.Load() < 100 {
		w.lookAtRead(h, c, 0)
		w.lookAtRead(h, c, heldAfter)
	}
	close(stop)
	reader.Wait()
	if h.now.Load() != 0 {
		t.Error("a hold is left")
	}
}
