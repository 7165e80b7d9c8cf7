package batcher

import (
	"errors"
	"slices"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// testOrigin is what the batches of tests bear.
const testOrigin = 77

// newBatcher returns a batcher, and how often it has woken the loop.
func newBatcher(maxEntry, maxOutstanding int) (b *Batcher, woken *int) {
	woken = new(int)
	return New(Options{
		Origin: testOrigin, MaxEntryBytes: maxEntry, MaxOutstandingBytes: maxOutstanding,
		Clock: clock.NewManual(time.Unix(1, 0)), Wake: func() { *woken++ },
	}), woken
}

// answerAll has all batches proposed and answered.
func answerAll(b *Batcher) {
	answer(b, b.Take(1, 0, nil))
}

// answer has batches answered that were taken in term 1, in this order.
func answer(b *Batcher, batches []*Batch) {
	for _, batch := range batches {
		found, _ := b.Claim(batch.Number, 1)
		b.Release(found)
	}
}

// proposal returns a proposal with a number and a body of so many bytes.
func proposal(number jute.Xid, size int) *entry.Proposal {
	return &entry.Proposal{Op: jute.OpSetData, Xid: number, Body: make([]byte, size)}
}

// add adds proposals with the numbers from first to last, small ones.
func add(t *testing.T, b *Batcher, first, last jute.Xid) {
	t.Helper()
	for number := first; number <= last; number++ {
		if err := b.Add(proposal(number, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// told is a Waiter that keeps what it was told.
type told struct {
	applied int
	dropped []error
}

// Applied implements Waiter.
func (w *told) Applied(*apply.Result) { w.applied++ }

// Dropped implements Waiter.
func (w *told) Dropped(err error) { w.dropped = append(w.dropped, err) }

// numbers are the numbers of batches.
func numbers(batches []*Batch) (numbers []uint64) {
	for _, batch := range batches {
		numbers = append(numbers, batch.Number)
	}
	return numbers
}

// proposed are the numbers of the batches that were taken in a term and are not claimed.
func proposed(b *Batcher, term uint64) (numbers []uint64) {
	b.EachProposed(term, func(batch *Batch) { numbers = append(numbers, batch.Number) })
	return numbers
}

// read returns the numbers of a batch's proposals, and checks what its entry says of it.
func read(t *testing.T, batch *Batch) (numbers []jute.Xid) {
	t.Helper()
	r, err := entry.NewReader(batch.Data)
	if err != nil || r.Origin != testOrigin || r.Batch != batch.Number {
		t.Fatalf("batch %d: %+v, %v", batch.Number, r, err)
	}
	for p := (entry.Proposal{}); r.Next(&p); {
		numbers = append(numbers, p.Xid)
	}
	if r.Err() != nil {
		t.Fatalf("batch %d: %v", batch.Number, r.Err())
	}
	return numbers
}

func TestEntriesAreBounded(t *testing.T) {
	b, _ := newBatcher(1000, 1<<20)
	var want []jute.Xid
	waiters := make([]told, 10)
	for n := range waiters {
		if err := b.Add(proposal(jute.Xid(n), 300), &waiters[n]); err != nil {
			t.Fatal(err)
		}
		want = append(want, jute.Xid(n))
	}
	var got []jute.Xid
	batches := b.Take(5, 0, nil)
	for i, batch := range batches {
		if len(batch.Data) > 1000 || batch.Number != uint64(i+1) || batch.Term != 5 {
			t.Errorf("batch %d: number %d, term %d, %d bytes", i, batch.Number, batch.Term, len(batch.Data))
		}
		proposals := read(t, batch)
		for n, number := range proposals {
			if batch.TakeWaiter(n) != &waiters[number] || batch.TakeWaiter(n) != nil {
				t.Errorf("somebody else waits for proposal %d, or still", number)
			}
		}
		if n, ok := batch.Unanswered(); ok {
			t.Errorf("batch %d: somebody waits for proposal %d of %d", i, n, len(proposals))
		}
		got = append(got, proposals...)
	}
	if len(batches) < 4 || b.AddedBytes() != 0 {
		t.Errorf("%d batches, %d bytes left", len(batches), b.AddedBytes())
	}
	if !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// TestALargeProposalIsAlone: it is as large as an entry may be, and does not overtake what was added before.
func TestALargeProposalIsAlone(t *testing.T) {
	b, _ := newBatcher(1000, 1<<20)
	for number, size := range []int{0, 5000, 0, 0} {
		if err := b.Add(proposal(jute.Xid(number), size), nil); err != nil {
			t.Fatal(err)
		}
	}
	if bytes := b.AddedBytes(); bytes < 5000 {
		t.Errorf("%d bytes are to be taken", bytes)
	}
	var got [][]jute.Xid
	for _, batch := range b.Take(1, 0, nil) {
		got = append(got, read(t, batch))
	}
	if want := [][]jute.Xid{{0}, {1}, {2, 3}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("entries of %v, want %v", got, want)
	}
}

// TestTheEndOfAnUploadIsAlone in its entry, whatever is proposed before and behind it: the state refuses it otherwise.
func TestTheEndOfAnUploadIsAlone(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	for number, op := range []jute.Op{
		jute.OpError, jute.OpError, entry.OpLoadCommit, entry.OpLoadCommit, jute.OpError,
		entry.OpLoadChunk,
	} {
		if err := b.Add(&entry.Proposal{Op: op, Xid: jute.Xid(number)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]jute.Xid
	for _, batch := range b.Take(1, 0, nil) {
		got = append(got, read(t, batch))
	}
	if want := [][]jute.Xid{{0, 1}, {2}, {3}, {4, 5}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("entries of %v, want %v", got, want)
	}
}

// TestAChangeIsAlone: a change of membership is decided by one proposal, and is taken in its turn.
func TestAChangeIsAlone(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	add(t, b, 1, 1)
	if err := b.AddChange(nil, proposal(2, 0), nil); err != nil {
		t.Fatal(err)
	}
	add(t, b, 3, 3)
	batches := b.Take(1, 0, nil)
	if !slices.Equal(numbers(batches), []uint64{1, 2, 3}) || batches[0].Reconf || !batches[1].Reconf ||
		batches[2].Reconf {
		t.Fatalf("took %+v", batches)
	}
	if got := read(t, batches[1]); !slices.Equal(got, []jute.Xid{2}) {
		t.Errorf("the change comes with proposals %v", got)
	}
}

func TestAnIdleLoopIsWokenOnce(t *testing.T) {
	b, woken := newBatcher(1000, 1<<20)
	wakes := func() bool {
		before := *woken
		add(t, b, 1, 1)
		return *woken > before
	}
	if wakes() {
		t.Error("woken, although the loop has not looked yet")
	}
	if got := len(b.Take(1, 0, nil)); got != 1 {
		t.Fatalf("%d batches, want 1", got)
	}
	if wakes() {
		t.Error("woken, although the loop is at work")
	}
	b.Take(1, 0, nil)
	if got := len(b.Take(1, 0, nil)); got != 0 {
		t.Fatalf("%d batches, want none", got)
	}
	if !wakes() || wakes() {
		t.Error("an idle loop must be woken once")
	}
}

// TestABarrierWakesTheLoop whether it is idle or not, once for all that it takes at once.
func TestABarrierWakesTheLoop(t *testing.T) {
	b, woken := newBatcher(1000, 1<<20)
	waiters := make([]told, 3)
	for n := range waiters {
		if err := b.AddBarrier(&waiters[n]); err != nil {
			t.Fatal(err)
		}
	}
	if *woken != 1 {
		t.Errorf("woken %d times, want once", *woken)
	}
	if s := b.Status(); s.Barriers != 3 || s.OutstandingBytes != 3 {
		t.Errorf("of three barriers: %+v", s)
	}
	if got := b.TakeBarriers(nil); len(got) != 3 || got[0] != &waiters[0] || got[2] != &waiters[2] {
		t.Errorf("took %v", got)
	}
	if got := b.TakeBarriers(nil); len(got) != 0 {
		t.Errorf("took %v a second time", got)
	}
	b.ReleaseBarriers(3)
	if s := b.Status(); s != (Status{}) {
		t.Errorf("afterwards: %+v", s)
	}
}

func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name         string
		term         uint64 // of the three batches 1, 2, 3
		number, with uint64
		found        bool
		lost, again  []uint64
	}{
		{"the first", 2, 1, 2, true, nil, nil},
		{"of another process, same term", 2, 0, 2, false, nil, nil},
		{"of another process, later term", 2, 0, 3, false, nil, []uint64{1, 2, 3}},
		{"of this process, later term, given up", 2, 9, 3, false, nil, []uint64{1, 2, 3}},
		{"one was passed over", 2, 2, 2, true, []uint64{1}, nil},
		{"earlier term than what is proposed", 4, 0, 3, false, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, woken := newBatcher(1, 1<<20)
			add(t, b, 1, 3)
			b.Take(c.term, 0, nil)
			before := *woken
			found, lost := b.Claim(c.number, c.with)
			if (found != nil) != c.found || found != nil && found.Number != c.number ||
				!slices.Equal(numbers(lost), c.lost) {
				t.Errorf("found %v, lost %v; want %v, %v", found, numbers(lost), c.found, c.lost)
			}
			want := 3 - len(c.lost) - len(c.again)
			if c.found {
				want--
			}
			if left := proposed(b, c.term); len(left) != want {
				t.Errorf("batches %v are left, want %d", left, want)
			}
			if *woken > before != (c.again != nil) {
				t.Errorf("the loop was woken %d times", *woken-before)
			}
			if want > 0 {
				return // nothing is taken in another term
			}
			if again := numbers(b.Take(c.with, 0, nil)); !slices.Equal(again, c.again) {
				t.Errorf("took %v again, want %v", again, c.again)
			}
		})
	}
}

// TestBatchesOfAnEarlierTermGoFirst takes nothing while the fate of an earlier term's batch is open, and that batch
// before what came after it.
func TestBatchesOfAnEarlierTermGoFirst(t *testing.T) {
	b, _ := newBatcher(1, 1<<20)
	add(t, b, 1, 1)
	b.Take(2, 0, nil)
	add(t, b, 2, 3)
	if got := b.Take(3, 0, nil); len(got) != 0 {
		t.Fatalf("took %v while batch 1 is open", numbers(got))
	}
	b.Claim(0, 3)
	if got := numbers(b.Take(3, 2, nil)); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("took %v, want 1 and 2", got)
	}
	if got := b.Take(3, 2, nil); len(got) != 0 {
		t.Fatalf("took %v beyond the window", numbers(got))
	}
	b.Claim(1, 3)
	if got := numbers(b.Take(3, 2, nil)); !slices.Equal(got, []uint64{3}) {
		t.Fatalf("took %v, want 3", got)
	}
}

// TestALeaderOfBeforeForwardsNothingYet: it has proposed more in this term than the window of who forwards allows.
func TestALeaderOfBeforeForwardsNothingYet(t *testing.T) {
	b, _ := newBatcher(1, 1<<20)
	add(t, b, 1, 3)
	b.Take(2, 0, nil)
	add(t, b, 4, 4)
	if got := b.Take(2, 2, nil); len(got) != 0 {
		t.Fatalf("took %v beyond the window", numbers(got))
	}
	for number := range uint64(2) {
		b.Claim(number+1, 2)
	}
	if got := numbers(b.Take(2, 2, nil)); !slices.Equal(got, []uint64{4}) {
		t.Fatalf("took %v, want 4", got)
	}
}

// TestWhatIsPutBackComesFirst and what is rejected does not come again.
func TestWhatIsPutBackComesFirst(t *testing.T) {
	b, _ := newBatcher(1, 1<<20)
	add(t, b, 1, 2)
	var w told
	if err := b.Add(proposal(3, 0), &w); err != nil {
		t.Fatal(err)
	}
	batches := b.Take(1, 0, nil)
	add(t, b, 4, 4)
	b.PutBack(batches[1:])
	if got := proposed(b, 1); !slices.Equal(got, []uint64{1}) || b.Oldest() != 1 {
		t.Errorf("proposed are %v, the oldest %d", got, b.Oldest())
	}
	again := b.Take(1, 0, nil)
	if !slices.Equal(numbers(again), []uint64{2, 3, 4}) {
		t.Fatalf("took %v, want 2, 3 and 4", numbers(again))
	}
	err := errors.New("it cannot be proposed")
	b.Reject(again[1], err)
	if !slices.Equal(w.dropped, []error{err}) || w.applied != 0 {
		t.Errorf("the waiter was told %+v", w)
	}
	if got := proposed(b, 1); !slices.Equal(got, []uint64{1, 2, 4}) {
		t.Errorf("proposed are %v", got)
	}
}

// TestWhatIsInFlight counts what was taken and not claimed.
func TestWhatIsInFlight(t *testing.T) {
	b, _ := newBatcher(1, 1<<20)
	if b.Oldest() != 0 || b.InFlightBytes() != 0 {
		t.Error("something is in flight before anything was added")
	}
	add(t, b, 1, 2)
	added := b.AddedBytes()
	b.Take(1, 0, nil)
	if b.InFlightBytes() != added || b.Oldest() != 1 {
		t.Errorf("%d bytes of %d are in flight, the oldest of batch %d", b.InFlightBytes(), added, b.Oldest())
	}
	b.Claim(1, 1)
	if b.InFlightBytes() != added/2 || b.Oldest() != 2 {
		t.Errorf("%d bytes of %d are in flight, the oldest of batch %d", b.InFlightBytes(), added, b.Oldest())
	}
}

// TestBuffersAreUsedAgain but those that the transport keeps.
func TestBuffersAreUsedAgain(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	cycle := func(kept bool) *Batch {
		add(t, b, 1, 1)
		batch := b.Take(1, 0, nil)[0]
		batch.Kept = kept
		found, _ := b.Claim(batch.Number, 1)
		b.Release(found)
		return found
	}
	first := cycle(false)
	if second := cycle(true); second != first {
		t.Error("a buffer is not used again")
	}
	if third := cycle(false); third == first {
		t.Error("what is kept is used again")
	}
	b.Shrink() // something was added since the last time
	if len(b.mu.free.bySize) != 1 {
		t.Errorf("%d batches are free while proposals come", len(b.mu.free.bySize))
	}
	b.Shrink()
	if len(b.mu.free.bySize) != 0 {
		t.Errorf("%d batches are free although nothing came", len(b.mu.free.bySize))
	}
}

// TestFewBuffersWait to be used again, however many batches there were at once.
func TestFewBuffersWait(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	for number := range jute.Xid(3 * maxFreeBatches) {
		if err := b.AddChange(nil, proposal(number, 0), nil); err != nil { // in a batch of its own
			t.Fatal(err)
		}
	}
	answerAll(b)
	if len(b.mu.free.bySize) != maxFreeBatches {
		t.Errorf("%d batches are free, want %d", len(b.mu.free.bySize), maxFreeBatches)
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	p, w := proposal(1, 1024), &told{}
	var batches []*Batch
	cycle := func() {
		for range 64 {
			if err := b.Add(p, w); err != nil {
				t.Fatal(err)
			}
		}
		batches = b.Take(1, 0, batches[:0])
		found, _ := b.Claim(batches[0].Number, 1)
		b.Release(found)
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 0 {
		t.Errorf("a batch of 64 proposals allocates %v times", n)
	}
}

// TestAbandonTakesAll that is not claimed, oldest first.
func TestAbandonTakesAll(t *testing.T) {
	b, _ := newBatcher(1, 1<<20)
	waiters := make([]told, 3)
	for n := range 2 {
		if err := b.Add(proposal(jute.Xid(n), 0), &waiters[n]); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			b.Take(1, 0, nil)
		}
	}
	if err := b.AddBarrier(&waiters[2]); err != nil {
		t.Fatal(err)
	}
	batches, barriers := b.Abandon()
	if !slices.Equal(numbers(batches), []uint64{1, 2}) || len(barriers) != 1 {
		t.Fatalf("abandoned %v and %d barriers", numbers(batches), len(barriers))
	}
	err := errors.New("nobody knows")
	for n, batch := range batches {
		if first, ok := batch.Unanswered(); !ok || first != 0 {
			t.Errorf("nobody waits for batch %d", batch.Number)
		}
		batch.Drop(err)
		b.Release(batch)
		if !slices.Equal(waiters[n].dropped, []error{err}) {
			t.Errorf("waiter %d was told %+v", n, waiters[n])
		}
	}
	b.ReleaseBarriers(len(barriers))
	if s := b.Status(); s.OutstandingBytes != 0 || b.AddedBytes() != 0 || b.Oldest() != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestWhatIsTooLargeIsRefused and leaves nothing behind.
func TestWhatIsTooLargeIsRefused(t *testing.T) {
	b, _ := newBatcher(1<<20, 1<<20)
	p := proposal(1, ProposalBytesMax)
	if err := b.Add(p, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a proposal: %v", err)
	}
	if err := b.AddChange(nil, p, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a change: %v", err)
	}
	if s := b.Status(); s != (Status{}) {
		t.Errorf("afterwards: %+v", s)
	}
}
