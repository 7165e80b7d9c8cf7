package batcher

import "slices"

// queuedProposer is one proposer that waits for room.
type queuedProposer struct {
	size  int
	err   error         // why it is turned away; set before ready is closed
	ready chan struct{} // closed when size is reserved, or when it is turned away
}

// reserveLocked counts size as outstanding, after waiting in the queue if there is no room. The lock is released while
// it waits.
func (b *Batcher) reserveLocked(size int) error {
	if err := b.refusalLocked(); err != nil {
		return err
	}
	if b.hasRoomLocked() { // so nobody is queued: freeLocked lets in as many as there is room for
		b.mu.outstanding += size
		return nil
	}
	me := &queuedProposer{size: size, ready: make(chan struct{})}
	b.mu.queue = append(b.mu.queue, me)
	b.mu.Unlock()
	<-me.ready
	b.mu.Lock()
	return me.err
}

// hasRoomLocked tells whether another proposal may be taken. One is always taken when nothing is outstanding.
func (b *Batcher) hasRoomLocked() bool { return b.mu.outstanding < b.options.MaxOutstandingBytes }

// refusalLocked is why nothing is taken, or nil.
func (b *Batcher) refusalLocked() error {
	if b.mu.refusal != nil {
		return b.mu.refusal
	}
	return b.mu.suspension
}

// Release says that batch is answered; it is used again.
func (b *Batcher) Release(batch *Batch) {
	b.mu.Lock()
	b.freeLocked(batch.bytes)
	if batch.Reconf {
		b.mu.reconfigs--
	}
	if !batch.Kept {
		b.mu.free.put(batch, b.options.MaxEntryBytes)
	}
	b.mu.Unlock()
}

// ReleaseBarriers says that n barriers are answered.
func (b *Batcher) ReleaseBarriers(n int) {
	b.mu.Lock()
	b.freeLocked(n)
	b.mu.Unlock()
}

// freeLocked gives back size bytes and lets in those who wait for them.
func (b *Batcher) freeLocked(size int) {
	b.mu.outstanding -= size
	n := 0
	for n < len(b.mu.queue) && b.hasRoomLocked() {
		b.mu.outstanding += b.mu.queue[n].size
		close(b.mu.queue[n].ready)
		n++
	}
	b.mu.queue = slices.Delete(b.mu.queue, 0, n)
	b.drainedLocked()
}

// Refuse turns away all that comes from now on, with err, and returns what is closed when nothing is outstanding. The
// first err stays.
func (b *Batcher) Refuse(err error) (drained <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.refusal == nil {
		b.mu.refusal = err
		b.turnAwayLocked()
		b.drainedLocked()
	}
	return b.mu.drained
}

// drainedLocked tells whoever waits that all that was taken is answered.
func (b *Batcher) drainedLocked() {
	if b.mu.refusal != nil && b.mu.outstanding == 0 {
		select {
		case <-b.mu.drained:
		default:
			close(b.mu.drained)
		}
	}
}

// Suspend takes nothing until Resume is called, which is nothing that lasts: err says why. Who is queued is turned
// away; it returns how many were.
func (b *Batcher) Suspend(err error) (turnedAway int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.suspension = err
	turnedAway = len(b.mu.queue)
	b.turnAwayLocked()
	return turnedAway
}

// Resume ends a suspension.
func (b *Batcher) Resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.suspension = nil
}

// turnAwayLocked empties the queue.
func (b *Batcher) turnAwayLocked() {
	for _, q := range b.mu.queue {
		q.err = b.refusalLocked()
		close(q.ready)
	}
	b.mu.queue = nil
}
