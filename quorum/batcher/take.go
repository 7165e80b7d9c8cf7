package batcher

import "slices"

// Take moves what was added to the batches that wait to be applied, as proposed in term, and appends it to dst: all
// of it, or with a window only as many batches as make window of them wait. If there is nothing, the next proposal will
// wake the loop.
//
// As long as a batch of another term waits nothing is taken: it may come to be applied, or else must be proposed again
// before what was added after it. Who finds out wakes the loop.
func (b *Batcher) Take(term uint64, window int, dst []*Batch) []*Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.proposed) > 0 && b.mu.proposed[0].Term != term {
		return dst
	}
	if window > 0 && len(b.mu.proposed) >= window {
		return dst
	}
	before := len(dst)
	b.sealLocked()
	n := len(b.mu.full)
	if window > 0 {
		n = min(n, window-len(b.mu.proposed))
	}
	dst = append(dst, b.mu.full[:n]...)
	b.mu.full = slices.Delete(b.mu.full, 0, n)
	b.mu.idle = len(dst) == before
	for _, batch := range dst[before:] {
		batch.Term, batch.Prev, batch.Window = term, 0, window > 0
		b.mu.proposed = append(b.mu.proposed, batch)
	}
	return dst
}

// AddedBytes returns the bytes that take would take.
func (b *Batcher) AddedBytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, batch := range b.mu.full {
		n += len(batch.Data)
	}
	if b.mu.open != nil {
		n += len(b.mu.open.Data)
	}
	return n
}

// TakeBarriers appends the barriers that wait for the loop to dst.
func (b *Batcher) TakeBarriers(dst []Waiter) []Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, b.mu.barriers...)
	clear(b.mu.barriers)
	b.mu.barriers = b.mu.barriers[:0]
	return dst
}

// PutBack takes batches back that were just taken and not proposed: they come first when Take is called again.
func (b *Batcher) PutBack(batches []*Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.proposed = slices.DeleteFunc(b.mu.proposed, func(batch *Batch) bool { return slices.Contains(batches, batch) })
	b.mu.full = slices.Insert(b.mu.full, 0, batches...)
	b.mu.idle = false
}

// Reject answers a batch that can never be proposed.
func (b *Batcher) Reject(batch *Batch, err error) {
	b.retract(batch)
	batch.Drop(err)
	b.Release(batch)
}

// retract takes batch, which cannot be proposed at all, out of the proposed batches.
func (b *Batcher) retract(batch *Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.mu.proposed, batch); i >= 0 {
		b.mu.proposed = slices.Delete(b.mu.proposed, i, i+1)
	}
}

// EachProposed calls do for each batch that was taken in term and is not applied, oldest first. Nobody changes, applies
// or forgets it meanwhile: do must not call the batcher.
func (b *Batcher) EachProposed(term uint64, do func(batch *Batch)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, batch := range b.mu.proposed {
		if batch.Term == term {
			do(batch)
		}
	}
}

// InFlightBytes is how long the batches together are that were taken and are not applied.
func (b *Batcher) InFlightBytes() (bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, batch := range b.mu.proposed {
		bytes += len(batch.Data)
	}
	return bytes
}

// Oldest is the number of the oldest proposed batch, 0 if none is.
func (b *Batcher) Oldest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.proposed) == 0 {
		return 0
	}
	return b.mu.proposed[0].Number
}

// Claim returns the proposed batch with this number, or nil, if an entry of term that holds it is to be applied. An
// entry of a term is never applied after one of a later term: what was proposed in earlier ones and is not applied yet
// never will be, and is to be taken again. lost are batches that were passed over within the term, which the loop and
// the leader do not let happen.
func (b *Batcher) Claim(number, term uint64) (found *Batch, lost []*Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.mu.proposed) && b.mu.proposed[n].Term < term && b.mu.proposed[n].Number != number {
		n++
	}
	if n > 0 {
		b.mu.full = slices.Insert(b.mu.full, 0, b.mu.proposed[:n]...)
		b.mu.proposed = slices.Delete(b.mu.proposed, 0, n)
		b.options.Wake()
	}
	n = slices.IndexFunc(b.mu.proposed, func(batch *Batch) bool { return batch.Number >= number })
	if number == 0 || n < 0 || b.mu.proposed[n].Number != number {
		return nil, nil
	}
	found, lost = b.mu.proposed[n], slices.Clone(b.mu.proposed[:n])
	b.mu.proposed = slices.Delete(b.mu.proposed, 0, n+1)
	return found, lost
}

// Abandon takes away all batches that are not answered, and the barriers that the loop has not taken.
func (b *Batcher) Abandon() ([]*Batch, []Waiter) {
	barriers := b.TakeBarriers(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealLocked()
	batches := append(b.mu.proposed, b.mu.full...)
	b.mu.proposed, b.mu.full = nil, nil
	b.mu.idle = true
	return batches, barriers
}
