package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/jute"
)

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// text is all that was logged so far.
func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// slow returns the lines about slow requests, by operation and path.
func (l *logged) slow(t *testing.T) map[string]map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]map[string]any{}
	for line := range bytes.Lines(l.b.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields["msg"] == "slow request" {
			found[fields["op"].(string)+" "+fields["path"].(string)] = fields
		}
	}
	return found
}

// TestSlowRequestsAreLogged: with the parts of their time, which add up.
func TestSlowRequestsAreLogged(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) {
		o.SlowRequest, o.LinearizableReads = 1, true // everything is slow
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	c := r.connect(t)
	c.mustCreate("/a", "x", jute.ModePersistent)
	c.must(jute.OpGetData, &jute.PathWatchRequest{Path: "/a"}, jute.OK)
	c.must(jute.OpSync, &jute.PathRequest{Path: "/b"}, jute.OK)
	c.must(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 7}, jute.BadVersion)
	parts := map[bool][]string{
		true:  {"held", "log", "replicate", "apply"},
		false: {"throttled", "in_turn", "read_index", "served"},
	}
	for name, write := range map[string]bool{ // any order: each by itself
		jute.OpCreate.String() + " /a": true, jute.OpGetData.String() + " /a": false,
		jute.OpSync.String() + " /b": false, jute.OpSetData.String() + " ": true,
	} {
		var line map[string]any
		eventually(t, "a line about "+name, func() bool {
			line = log.slow(t)[name]
			return line != nil
		})
		sum := time.Duration(0)
		for _, part := range parts[write] {
			took, ok := line[part].(float64)
			if !ok || took < 0 {
				t.Errorf("%s: %s is %v", name, part, line[part])
			}
			sum += time.Duration(took)
		}
		if took := time.Duration(line["took"].(float64)); took != sum || took <= 0 {
			t.Errorf("%s: took %v, its parts %v: %v", name, took, sum, line)
		}
		if line["session"] != jute.Hex(c.welcome.SessionID) || write && line["zxid"] == "" {
			t.Errorf("%s: %v", name, line)
		}
	}
	if n := r.server.slow.seen.Load(); n < 4 {
		t.Errorf("%d slow requests are counted", n)
	}
}

// TestAHeldWriteIsHeld: what a limit has held back is told apart.
func TestAHeldWriteIsHeld(t *testing.T) {
	log := &logged{}
	r, node := startHolding(t, rigOptions{set: func(o *Options) {
		o.SlowRequest, o.Limits.Outstanding = 1, 1
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	}})
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/a", "x", jute.ModePersistent)
	r.nothingUnderWay()
	set := &jute.SetDataRequest{Path: "/a", Version: -1}
	a.send(jute.OpSetData, set)
	b.send(jute.OpSetData, set)
	node.holds(t, 2)
	b.send(jute.OpDelete, &jute.PathVersionRequest{Path: "/a", Version: -1}) // one of its own is under way
	out := &r.server.connectionOf(b.welcome.SessionID).Out
	eventually(t, "the delete to wait", func() bool { return out.State().Held })
	node.release(-1)
	for range 2 {
		b.receive()
	}
	var line map[string]any
	eventually(t, "a line about the delete", func() bool {
		line = log.slow(t)[jute.OpDelete.String()+" /a"]
		return line != nil
	})
	if held, ok := line["held"].(float64); !ok || held <= 0 {
		t.Errorf("held is %v", line["held"])
	}
}

// TestNoRequestIsSlowWhenOff needs no line.
func TestNoRequestIsSlowWhenOff(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	c := r.connect(t)
	c.mustCreate("/a", "x", jute.ModePersistent)
	if got := log.slow(t); len(got) != 0 || r.server.slow.seen.Load() != 0 {
		t.Errorf("logged %v", got)
	}
}

// TestLinesOfTheLogAreShort: what a client sends is in the log as far as it helps.
func TestLinesOfTheLogAreShort(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) {
		o.SlowRequest = 1 // everything is slow
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	c := r.connect(t)
	long := strings.Repeat("ä", 100<<10)
	c.must(jute.OpExists, look("/"+long), jute.NoNode)
	c.must(jute.OpCreate, makeNode("/"+long, "", jute.ModePersistent), jute.OK)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: long}, jute.AuthFailed)
	eventually(t, "the failure is in the log", func() bool { return log.has("authentication failed") })
	log.mu.Lock()
	defer log.mu.Unlock()
	for line := range bytes.Lines(log.b.Bytes()) {
		if len(line) > 4<<10 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

// has reports whether a text is in the log.
func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.b.Bytes(), []byte(text))
}
