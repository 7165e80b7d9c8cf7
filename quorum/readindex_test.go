package quorum

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// asking is a follower whose questions for a read index go nowhere.
type asking struct {
	*loop
	t         *testing.T
	questions [][]byte
}

func newAsking(t *testing.T) *asking {
	a := &asking{loop: newSoleVoter(2), t: t}
	a.reads.apply = newMailbox[applyWork](make(chan struct{}, 1))
	a.reads.index = func(context []byte) { a.questions = append(a.questions, context) }
	return a
}

// come adds a barrier.
func (a *asking) come() {
	a.t.Helper()
	if err := a.batcher.AddBarrier(nil); err != nil {
		a.t.Fatal(err)
	}
}

// after asks, if something is to be asked, after so many ticks.
func (a *asking) after(ticks int) {
	for range ticks {
		a.reads.tick()
	}
	a.reads.ask()
}

// let answers a question and returns how many barriers that lets through.
func (a *asking) let(context []byte) (barriers int) {
	a.reads.answer([]raft.ReadState{{RequestCtx: context, Index: 7}})
	for _, w := range a.reads.apply.take(nil) {
		barriers += len(w.barriers)
	}
	return barriers
}

// TestAReadIndexThatIsLateCounts answers each question only after the next has been asked, as a leader does whose
// network takes longer than readIndexTicks there and back.
func TestAReadIndexThatIsLateCounts(t *testing.T) {
	l := newAsking(t)
	late := func() { l.after(readIndexTicks) }
	l.come()
	l.reads.ask()
	l.come()
	l.come()
	late()
	late() // for those that the first two asked for
	if len(l.questions) != 3 {
		t.Fatalf("%d questions are asked, want 3", len(l.questions))
	}
	if got := l.let([]byte("no question of this process")); got != 0 {
		t.Errorf("an answer that is none lets %d barriers through", got)
	}
	if got := l.let(l.questions[0]); got != 1 {
		t.Errorf("the first answer lets %d barriers through, want the one that had come", got)
	}
	if got := l.let(l.questions[2]); got != 2 {
		t.Errorf("the third answer lets %d barriers through, want the two that the second question had asked for", got)
	}
	if got := l.let(l.questions[1]); got != 0 {
		t.Errorf("the second answer lets %d barriers through again", got)
	}
	l.come()
	l.reads.ask()
	if len(l.questions) != 4 {
		t.Error("nothing is asked after all is answered")
	}
}

// TestABarrierWaitsForNoEarlierAnswer has barriers come while a question is on its way: all of them are asked for
// together a tick later.
func TestABarrierWaitsForNoEarlierAnswer(t *testing.T) {
	l := newAsking(t)
	for step, c := range []struct {
		come, ticks, questions int
	}{{1, 0, 1}, {1, 0, 1}, {1, 1, 2}, {0, 1, 2}, {0, 1, 2}, {2, 0, 3}, {0, readIndexTicks - 1, 3}, {0, 1, 4}} {
		for range c.come {
			l.come()
		}
		if l.after(c.ticks); len(l.questions) != c.questions {
			t.Errorf("step %d: %d questions are asked, want %d", step, len(l.questions), c.questions)
		}
	}
	for i, want := range []int{1, 2, 2, 0} {
		if got := l.let(l.questions[i]); got != want {
			t.Errorf("answer %d lets %d barriers through, want %d", i, got, want)
		}
	}
}

// TestAQuestionThatWasNotSentIsAskedATickLater, whether or not more barriers come before: who cannot be reached is not
// asked in each turn of the loop.
func TestAQuestionThatWasNotSentIsAskedATickLater(t *testing.T) {
	l := newAsking(t)
	l.come()
	for n := 1; n < 4; n++ {
		if l.after(1); len(l.questions) != n {
			t.Fatalf("%d questions are asked, want %d", len(l.questions), n)
		}
		l.reads.dropped()
		if n == 2 {
			l.come()
		}
		if l.after(0); len(l.questions) != n {
			t.Fatal("a question is asked again before the next tick")
		}
	}
}

// TestALeaderKeepsTheLastQuestionOfEachMember while it has committed nothing of its term: the answer lets the barriers
// of the earlier ones through, too.
func TestALeaderKeepsTheLastQuestionOfEachMember(t *testing.T) {
	l := newSoleVoter(1)
	l.member.Conf.Learners = []uint64{2, 3}
	question := func(from, number uint64) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.MsgReadIndex.Enum(), From: &from, Index: &number}
	}
	for number := range uint64(4) {
		for _, from := range []uint64{2, 3} {
			if !l.reads.deferQuestion(question(from, number)) {
				t.Fatal("raft is given a question")
			}
		}
	}
	var given []uint64
	l.reads.step = func(m *raftpb.Message) { given = append(given, m.GetFrom(), m.GetIndex()) }
	l.reads.stepDeferred()
	l.termReached = true
	l.reads.stepDeferred()
	if want := []uint64{2, 3, 3, 3}; !slices.Equal(given, want) {
		t.Errorf("raft is given questions (member, number) %v, want %v", given, want)
	}
}
