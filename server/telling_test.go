package server

import (
	"strings"
	"testing"

	"zkd/jute"
)

// TestEventsOfAWriteAreToldTogether: who watches what a multi changes thousands of times hears of each change, in
// order, more of them than gather; who has sent it hears of all before the answer. What single writes change comes in
// its place.
func TestEventsOfAWriteAreToldTogether(t *testing.T) {
	r := newRig(t, nil)
	const parts = 3000
	path := func(i int) string { return []string{"/a", "/b", "/" + strings.Repeat("c", 500)}[i%3] }
	owner, other, gone := r.connect(t), r.connect(t), r.connect(t)
	for i := range 3 {
		owner.mustCreate(path(i), "", jute.ModePersistent)
	}
	for _, c := range []*client{owner, other, gone} {
		c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.WatchPersistentRecursive}, jute.OK)
	}
	r.connOf(gone).Out.Close()
	var many multi
	want := make([]event, 0, parts)
	for i := range parts {
		many = append(many, multi{{jute.OpSetData, setTo(path(i), "")}}...)
		want = append(want, event{jute.EventNodeDataChanged, path(i)})
	}
	before := r.server.metrics.sent.Load()
	for range 2 {
		owner.send(jute.OpMulti, many)
		owner.wantEvents(want...)
		if got := owner.receive(); got.Xid != owner.xid || got.Err != jute.OK {
			t.Fatalf("behind the events: %+v, want the answer", got.ReplyHeader)
		}
		other.wantEvents(want...)
		owner.send(jute.OpSetData, setTo("/a", "x"))
		owner.wantEvents(event{jute.EventNodeDataChanged, "/a"})
		owner.wantReplies(1, jute.OK)
		other.wantEvents(event{jute.EventNodeDataChanged, "/a"})
	}
	if n := r.server.metrics.sent.Load() - before; n != 2*(2*(parts+1)+2) {
		t.Errorf("%d packets are counted, want %d", n, 2*(2*(parts+1)+2))
	}
}
