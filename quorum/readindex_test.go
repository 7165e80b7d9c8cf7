package quorum

import (
	"testing"

	"go.etcd.io/raft/v3"
)

// TestAReadIndexThatIsLateCounts answers each question only after the next has been asked, as a leader does whose
// network takes longer than readIndexTicks there and back.
func TestAReadIndexThatIsLateCounts(t *testing.T) {
	l := newSoleVoter(2)
	l.reads.apply = newMailbox[applyWork](make(chan struct{}, 1))
	var asked [][]byte
	l.reads.index = func(context []byte) { asked = append(asked, context) }
	come := func() {
		t.Helper()
		if err := l.batcher.AddBarrier(nil); err != nil {
			t.Fatal(err)
		}
	}
	late := func() {
		for range readIndexTicks {
			l.reads.tick()
		}
		l.reads.ask()
	}
	let := func(context []byte) (barriers int) {
		l.reads.answer([]raft.ReadState{{RequestCtx: context, Index: 7}})
		for _, w := range l.reads.apply.take(nil) {
			barriers += len(w.barriers)
		}
		return barriers
	}
	come()
	l.reads.ask()
	come()
	come()
	late()
	late() // for those that the first two asked for
	if len(asked) != 3 {
		t.Fatalf("%d questions are asked, want 3", len(asked))
	}
	if got := let([]byte("no question of this process")); got != 0 {
		t.Errorf("an answer that is none lets %d barriers through", got)
	}
	if got := let(asked[0]); got != 1 {
		t.Errorf("the first answer lets %d barriers through, want the one that had come", got)
	}
	if got := let(asked[2]); got != 2 {
		t.Errorf("the third answer lets %d barriers through, want the two that the second question had asked for", got)
	}
	if got := let(asked[1]); got != 0 {
		t.Errorf("the second answer lets %d barriers through again", got)
	}
	come()
	l.reads.ask()
	if len(asked) != 4 {
		t.Error("nothing is asked after all is answered")
	}
}
