package server

import (
	"errors"
	"strings"
	"testing"

	"zkd/jute"
)

func TestFrameLimits(t *testing.T) {
	var l frameLimits
	l.init(&Options{MaxFrameBytes: 5000, Limits: Limits{LargeRequestBytes: 100, LargeRequestsBytes: 1000}})
	for _, tc := range []struct {
		bytes int64 // that are taken
		frame int
		want  error
	}{
		{0, 0, nil},
		{0, -1, errFrameLength},
		{0, 5001, errFrameLength},
		{0, 1000, nil},
		{0, 1001, errLargeRequests},
		{900, 100, nil}, // not large
		{899, 101, nil},
		{900, 101, errLargeRequests},
		{5000, 100, nil},
	} {
		l.bytes.Store(tc.bytes)
		if err := l.check(tc.frame); !errors.Is(err, tc.want) {
			t.Errorf("%d bytes, then %d: %v, want %v", tc.bytes, tc.frame, err, tc.want)
		}
	}
	l.bytes.Store(900)
	if err := l.take(100); err != nil {
		t.Error(err)
	}
	if err := l.take(1); !errors.Is(err, errLargeRequests) {
		t.Errorf("one byte too many: %v", err)
	}
	if l.give(1000); l.bytes.Load() != 0 {
		t.Errorf("%d bytes are left", l.bytes.Load())
	}
}

// settled waits until nothing is reserved any more: an answer may be with its client before its bytes are given back.
func (l *frameLimits) settled(t *testing.T) {
	t.Helper()
	eventually(t, "no bytes are reserved", func() bool { return l.bytes.Load() == 0 })
}

func TestLargeRequestsAreBoundedTogether(t *testing.T) {
	r, node := startHolding(t, rigOptions{set: func(o *Options) {
		o.Limits.LargeRequestBytes, o.Limits.LargeRequestsBytes = 200, 1000
	}})
	frames := &r.server.frames
	large, larger := strings.Repeat("x", 600), strings.Repeat("x", 1000)
	a, b, c := r.connect(t), r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", large))
	node.holds(t, 1)
	if n := frames.bytes.Load(); n < 600 || n > 640 {
		t.Errorf("%d bytes are reserved for a write of 600", n)
	}
	b.send(jute.OpSetData, setTo("/n", large))
	b.wantClosed()
	c.must(jute.OpGetData, look("/n"), jute.OK) // a small one
	c.send(jute.OpSetData, setTo("/n", larger)) // by itself too large
	c.wantClosed()
	node.release(-1)
	a.wantReplies(1, jute.OK)
	a.must(jute.OpSetData, setTo("/n", large), jute.OK)
	// Whatever becomes of a request, its bytes are given back.
	long := "/" + strings.Repeat("p", 500)
	a.must(jute.OpGetData, look(long), jute.NoNode)
	a.must(jute.OpSetData, setTo(long, ""), jute.NoNode)
	a.must(jute.OpSetData, raw(append([]byte{0, 1, 0, 0}, make([]byte, 300)...)), jute.MarshallingError)
	frames.settled(t)
	if n := frames.rejected.Load(); n != 2 {
		t.Errorf("%d large requests are counted as refused, want 2", n)
	}
}

func TestLargeRequestsWaitInLineWithTheirBytes(t *testing.T) {
	r, node, _ := startThrottled(t, func(o *Options) {
		oneAtATime(o)
		o.Limits.LargeRequestBytes, o.Limits.LargeRequestsBytes = 200, 10000
	})
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", "small"))
	node.holds(t, 1)
	before := r.server.underWay.gate.waits.Load()
	b.send(jute.OpSetData, setTo("/n", strings.Repeat("x", 600)))
	r.line(before)
	if n := r.server.frames.bytes.Load(); n < 600 {
		t.Errorf("%d bytes are reserved for a write of 600 in line", n)
	}
	node.release(-1)
	b.wantReplies(1, jute.OK)
	r.server.frames.settled(t)
}
