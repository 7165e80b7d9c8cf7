package batcher

import (
	"bytes"
	"testing"

	"zkd/jute"
	"zkd/storage/entry"
)

// fill adds so many writes of 1 KiB, and takes them before it adds the next so many. It returns the batches.
func fill(t *testing.T, b *Batcher, writes ...int) (batches []*Batch) {
	t.Helper()
	for _, n := range writes {
		for range n {
			if err := b.Add(proposal(1, 1<<10), nil); err != nil {
				t.Fatal(err)
			}
		}
		batches = b.Take(1, 0, batches)
	}
	return batches
}

// TestLargeBuffersAreForLargeBatches: however batches of all sizes follow one another, they find the buffers that they
// need. When the last that was answered was the next to be used, small ones had the large buffers.
func TestLargeBuffersAreForLargeBatches(t *testing.T) {
	b, _ := newBatcher(1<<20, 64<<20)
	small := make([]int, 20)
	for i := range small {
		small[i] = 1 + i%3
	}
	round := func() {
		some := fill(t, b, small...)
		large := fill(t, b, 300, 700, 500)
		answer(b, append(some, large...))
		answer(b, append(fill(t, b, 900), fill(t, b, small...)...))
	}
	round()
	b.mu.Lock()
	kept, room := len(b.mu.free.bySize), b.mu.free.bytes
	b.mu.Unlock()
	for range 50 {
		round()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := len(b.mu.free.bySize); got != kept || b.mu.free.bytes != room {
		t.Errorf("%d batches of %d bytes are free, want %d of %d as after the first round", got, b.mu.free.bytes,
			kept, room)
	}
	if room > freeEntries<<20 {
		t.Errorf("%d bytes wait to be used again", room)
	}
}

// TestABatchGrowsIntoAFreeBuffer with all that it has, and leaves its own.
func TestABatchGrowsIntoAFreeBuffer(t *testing.T) {
	b, _ := newBatcher(1<<20, 64<<20)
	answer(b, append(fill(t, b, 600), fill(t, b, 1)...))
	large := b.mu.free.bySize[len(b.mu.free.bySize)-1]
	first := &large.Data[:1][0]
	want := entry.AppendEntryHeader(nil, testOrigin, b.mu.number+1)
	for number := range jute.Xid(300) {
		p := proposal(number, 1<<10)
		if err := b.Add(p, nil); err != nil {
			t.Fatal(err)
		}
		want = entry.AppendProposal(want, p)
	}
	batches := b.Take(1, 0, nil)
	if len(batches) != 1 || !bytes.Equal(batches[0].Data, want) {
		t.Fatalf("%d batches, or another entry", len(batches))
	}
	if &batches[0].Data[0] != first {
		t.Error("the batch has not taken the large buffer")
	}
	if cap(large.Data) >= 32<<10 {
		t.Errorf("the other batch has a buffer of %d bytes", cap(large.Data))
	}
}

// TestBuffersThatWaitAreBounded in bytes, too.
func TestBuffersThatWaitAreBounded(t *testing.T) {
	const maxEntry = 64 << 10
	b, _ := newBatcher(maxEntry, 64<<20)
	var batches []*Batch
	for range 4 * freeEntries {
		batches = append(batches, fill(t, b, 50)...)
	}
	answer(b, batches)
	if room := b.mu.free.bytes; room > freeEntries*maxEntry || room < freeEntries*maxEntry/2 {
		t.Errorf("buffers of %d bytes wait, want up to %d", room, freeEntries*maxEntry)
	}
	sum := 0
	for i, batch := range b.mu.free.bySize {
		sum += cap(batch.Data)
		if i > 0 && cap(batch.Data) < cap(b.mu.free.bySize[i-1].Data) {
			t.Errorf("batch %d has the smaller buffer", i)
		}
	}
	if sum != b.mu.free.bytes {
		t.Errorf("%d bytes are counted, want %d", b.mu.free.bytes, sum)
	}
}

// TestABufferOfALargeWriteIsNotKept: it would take the room of the others.
func TestABufferOfALargeWriteIsNotKept(t *testing.T) {
	b, _ := newBatcher(64<<10, 64<<20)
	if err := b.Add(proposal(1, 200<<10), nil); err != nil {
		t.Fatal(err)
	}
	answerAll(b)
	if n := len(b.mu.free.bySize); n != 0 {
		t.Errorf("%d batches are free, with %d bytes", n, b.mu.free.bytes)
	}
}
