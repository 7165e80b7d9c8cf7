package server

import (
	"strings"
	"testing"

	"zkd/jute"
)

// fits reports whether n bytes more could be reserved for large requests.
func (r *rig) fits(n int) bool {
	if r.server.frames.Take(n) != nil {
		return false
	}
	r.server.frames.Give(n)
	return true
}

// wantReserved proves that so many bytes are reserved for large requests, and what goes with them, but no more than 40.
func (r *rig) wantReserved(n int) {
	r.t.Helper()
	all := int(r.options.Limits.LargeRequestsBytes)
	if r.fits(all-n+1) || !r.fits(all-n-40) {
		r.t.Errorf("not %d to %d bytes of %d are reserved", n, n+40, all)
	}
}

// nothingReserved waits until nothing is reserved any more: an answer may be with its client before its bytes are given
// back.
func (r *rig) nothingReserved() {
	r.t.Helper()
	eventually(r.t, "no bytes are reserved", func() bool { return r.fits(int(r.options.Limits.LargeRequestsBytes)) })
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
	r.wantReserved(600)
	refused := frames.Refused()
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
	if n := frames.Refused() - refused; n != 2 {
		t.Errorf("%d large requests are counted as refused, want 2", n)
	}
	r.nothingReserved()
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
	before := r.server.inFlight.Gate.Counts().Waits
	b.send(jute.OpSetData, setTo("/n", strings.Repeat("x", 600)))
	r.line(before)
	r.wantReserved(600)
	node.release(-1)
	b.wantReplies(1, jute.OK)
	r.nothingReserved()
}

// TestLargeFramesAreTakenInTurns: who sends a large request waits for a turn and is answered; small ones go on beside
// it, and who goes away while it waits is forgotten. The same over TLS.
func TestLargeFramesAreTakenInTurns(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		r := newRig(t, nil)
		largeFramesAreTakenInTurns(t, r, func() *client { return r.connect(t) })
	})
	t.Run("tls", func(t *testing.T) {
		r := newRig(t, nil)
		addr := r.securePort(&Port{})
		largeFramesAreTakenInTurns(t, r, func() *client { return connectTLS(t, addr) })
	})
}

func largeFramesAreTakenInTurns(t *testing.T, r *rig, connect func() *client) {
	t.Helper()
	waits, leaves, other := connect(), connect(), connect()
	other.mustCreate("/n", "", jute.ModePersistent)
	frames := &r.server.largeTurns
	turns := takeTurns(frames)
	large := strings.Repeat("x", 500_000)
	waits.send(jute.OpSetData, setTo("/n", large))
	leaves.send(jute.OpSetData, setTo("/n", large))
	eventually(t, "two large frames that wait", func() bool { return frames.InLine() == 2 })
	other.must(jute.OpSetData, setTo("/n", "small"), jute.OK)
	r.connOf(leaves).Out.Close()
	r.count(2)
	endTurns(frames, turns)
	waits.wantReplies(1, jute.OK)
	if got := r.read(t, "/n"); string(got) != large {
		t.Errorf("%d bytes came", len(got))
	}
	if free := takeTurns(frames); free != turns {
		t.Errorf("%d of %d turns were given back", free, turns)
	}
}
