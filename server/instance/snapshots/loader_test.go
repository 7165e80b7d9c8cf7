package snapshots

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// scriptedNode answers the proposals of a loader.
type scriptedNode struct {
	t        *testing.T
	asked    []jute.Op
	content  []byte
	refuse   jute.Op // is answered with a refusal
	drop     jute.Op // is dropped
	turnaway jute.Op // is not taken
}

var errNoLeader = errors.New("no leader")

// Propose implements Proposer.
func (n *scriptedNode) Propose(p *entry.Proposal, w batcher.Waiter) error {
	var txn entry.LoadTxn
	if err := txn.Decode(p.Body); err != nil {
		n.t.Error(err)
	}
	if p.Op == entry.OpLoadChunk {
		if txn.Offset != int64(len(n.content)) || txn.Upload != 5 {
			n.t.Errorf("a piece of upload %d at %d", txn.Upload, txn.Offset)
		}
		n.content = append(n.content, txn.Data...)
	}
	if p.Op == entry.OpLoadCommit && txn.Offset != int64(len(n.content)) {
		n.t.Errorf("ended at %d of %d", txn.Offset, len(n.content))
	}
	if len(n.asked) == 0 || n.asked[len(n.asked)-1] != p.Op {
		n.asked = append(n.asked, p.Op)
	}
	switch p.Op {
	case n.turnaway:
		return errNoLeader
	case n.refuse:
		w.Applied(&apply.Result{Op: p.Op, Code: jute.DataInconsistency, Refusal: "it smells"})
	case n.drop:
		w.Dropped(errNoLeader)
	default:
		w.Applied(&apply.Result{Op: p.Op, Zxid: 9})
	}
	return nil
}

// TestLoader: all of what is sent goes on in order, and whatever goes wrong before the end gives it up.
func TestLoader(t *testing.T) {
	const begin, chunk, commit, abort = entry.OpLoadBegin, entry.OpLoadChunk, entry.OpLoadCommit,
		entry.OpLoadAbort
	content := bytes.Repeat([]byte("0123456789"), 60_000) // three pieces
	for _, c := range []struct {
		name  string
		node  scriptedNode
		body  io.Reader
		asked []jute.Op
		want  string
		is    error
	}{
		{"well", scriptedNode{}, iotest.HalfReader(bytes.NewReader(content)), []jute.Op{begin, chunk, commit}, "", nil},
		{"of nothing", scriptedNode{}, strings.NewReader(""), []jute.Op{begin, commit}, "", nil},
		{"cut off", scriptedNode{}, io.MultiReader(bytes.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF)),
			[]jute.Op{begin, chunk, abort}, "did not come to its end, after 600000 bytes", io.ErrUnexpectedEOF},
		{"refused", scriptedNode{refuse: commit}, bytes.NewReader(content), []jute.Op{begin, chunk, commit},
			"nothing has changed: it smells", errRefused},
		{"a piece is refused", scriptedNode{refuse: chunk}, bytes.NewReader(content), []jute.Op{begin, chunk, abort},
			"at byte 0", errRefused},
		{"no leader at first", scriptedNode{turnaway: begin}, bytes.NewReader(content), []jute.Op{begin}, "",
			errNoLeader},
		{"no leader then", scriptedNode{drop: chunk}, bytes.NewReader(content), []jute.Op{begin, chunk, abort}, "",
			errNoLeader},
		{"no leader any more", scriptedNode{refuse: chunk, turnaway: abort}, bytes.NewReader(content),
			[]jute.Op{begin, chunk, abort}, "give up", errNoLeader},
		{"unknown", scriptedNode{drop: commit}, bytes.NewReader(content), []jute.Op{begin, chunk, commit},
			"look whether the snapshot was restored", errNoLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.node.t = t
			r := NewLoader(&c.node, clock.Real(), func() uint64 { return 5 })
			zxid, err := r.Restore(t.Context(), c.body)
			if c.is == nil && (err != nil || zxid != 9) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%d, %v", zxid, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !slices.Equal(c.node.asked, c.asked) {
				t.Errorf("asked %v, want %v", c.node.asked, c.asked)
			}
			if c.name == "well" && !bytes.Equal(c.node.content, content) {
				t.Errorf("%d bytes came, others than were sent", len(c.node.content))
			}
			r.busy <- struct{}{}
			if _, err := r.Restore(t.Context(), c.body); !errors.Is(err, errRestoring) {
				t.Errorf("a second one at once: %v", err)
			}
		})
	}
}
