package quorum

import (
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/storage/entry"
)

// batch is what becomes one raft entry: the encoded proposals and, in the same order, who waits for them.
//
// It is filled under the gatherer's lock, then owned by the loop until raft has the entry, then by the apply goroutine.
type batch struct {
	number  uint64
	term    uint64               // in which it was proposed or forwarded
	prev    uint64               // the batch before it in the stream to the leader; 0 at the beginning
	change  *raftpb.ConfChangeV2 // comes into force if its one proposal succeeds; nil in all but such a batch
	reconf  bool                 // its one proposal is a reconfig, of which the leader makes a change
	window  bool                 // the loop waits for it to be applied, to forward another one
	bytes   int                  // what its proposals count for in gatherer.outstanding
	data    []byte               // the entry; raft copies it, so the buffer is used again
	kept    bool                 // the transport has kept data, which must not change then
	waiters []Waiter
	began   time.Time // of the first proposal
}

// maxFreeBatches is how many batches wait to be used again: one that fills, one on its way to disk, one that is
// applied, one more.
const maxFreeBatches = 4

// batchBufferBytes is the size of a new batch's buffer: sixteen writes of 1 KiB. Buffers grow, and are used again.
const batchBufferBytes = 16 << 10

// gatherer collects proposals into batches and remembers the batches that are not answered.
//
// The proposers fill one batch while earlier ones are on their way; the loop takes what there is when raft can have it.
// What is outstanding is bounded: a proposer that meets the bound waits in line.
type gatherer struct {
	origin         uint64 // immutable, as are the next three
	maxEntry       int
	maxOutstanding int
	clock          clock.Clock
	wake           chan<- struct{} // wakes the loop; of size 1

	mu struct {
		sync.Mutex
		refusal     error         // why nothing is taken any more
		suspension  error         // why nothing is taken for now
		idle        bool          // the loop sleeps and would take a proposal at once
		number      uint64        // of the last batch
		open        *batch        // the one that fills; nil if none
		full        []*batch      // those before it, oldest first; bounded by outstanding
		proposed    []*batch      // taken by the loop and not applied, oldest first, of one term; bounded likewise
		free        []*batch      // at most maxFreeBatches
		barriers    []Waiter      // not yet taken by the loop; each counts one byte
		outstanding int           // bytes of what is not answered
		line        []*lineMember // proposers that wait for room, first come first; one per blocked goroutine
		drained     chan struct{} // closed when refusal is set and outstanding is 0
		proposals   uint64        // taken since the start
		touched     bool          // something was proposed since the last idle check
	}
}

// lineMember is one proposer that waits for room.
type lineMember struct {
	size  int
	err   error         // why it is turned away; set before ready is closed
	ready chan struct{} // closed when size is reserved, or when it is turned away
}

// newGatherer returns an empty gatherer whose batches bear origin.
func newGatherer(origin uint64, o *Options, wake chan<- struct{}) *gatherer {
	g := &gatherer{
		origin: origin, maxEntry: o.MaxEntryBytes, maxOutstanding: o.MaxOutstandingBytes, clock: o.Clock, wake: wake,
	}
	g.mu.drained = make(chan struct{})
	return g
}

// proposalOverheadBytes is about what a proposal without body and identities adds to an entry.
const proposalOverheadBytes = 48

// proposalBytes is about how much p adds to an entry, never 0.
func proposalBytes(p *entry.Proposal) int {
	n := proposalOverheadBytes + len(p.Body)
	for i := range p.Identities {
		n += 8 + len(p.Identities[i].Scheme) + len(p.Identities[i].ID)
	}
	return n
}

// add encodes p into the open batch, or, if it must be alone in its entry, into one of its own. It blocks while too
// much is outstanding.
func (g *gatherer) add(p *entry.Proposal, w Waiter) error {
	size := proposalBytes(p)
	if size > ProposalBytesMax {
		return ErrTooLarge
	}
	g.mu.Lock()
	if err := g.reserveLocked(size); err != nil {
		g.mu.Unlock()
		return err
	}
	if size >= g.maxEntry {
		return g.addLargeAndUnlock(p, w, size)
	}
	alone := p.Op == entry.OpRestoreCommit
	b := g.mu.open
	if b != nil && (alone || len(b.data)+size > g.maxEntry) {
		g.sealLocked()
		b = nil
	}
	if b == nil {
		b = g.openLocked()
	}
	if alone {
		g.sealLocked()
	}
	g.fillLocked(b, p, w, size)
	return nil
}

// addLargeAndUnlock encodes p, which has its room and is larger than what an entry has of small ones, into a batch of
// its own. The lock is released while it is copied.
func (g *gatherer) addLargeAndUnlock(p *entry.Proposal, w Waiter, size int) error {
	g.mu.Unlock()
	data := entry.AppendEntryHeader(make([]byte, 0, size+batchBufferBytes), g.origin, 0)
	data = entry.AppendProposal(data, p)
	g.mu.Lock()
	if err := g.refusalLocked(); err != nil {
		g.freeLocked(size)
		g.mu.Unlock()
		return err
	}
	g.sealLocked()
	b := g.openLocked()
	g.sealLocked()
	level := data[0]
	entry.AppendEntryHeader(data[:0], g.origin, b.number)
	data[0] = level
	b.data = data
	b.waiters = append(b.waiters, w)
	b.bytes += size
	g.mu.proposals++
	g.wakeAndUnlock(false)
	return nil
}

// addChange encodes p into a batch of its own, which is to become a change of membership: cc, or if that is nil what
// the leader makes of p. It blocks while too much is outstanding.
func (g *gatherer) addChange(cc *raftpb.ConfChangeV2, p *entry.Proposal, w Waiter) error {
	size := proposalBytes(p)
	if size > ProposalBytesMax {
		return ErrTooLarge
	}
	g.mu.Lock()
	if err := g.reserveLocked(size); err != nil {
		g.mu.Unlock()
		return err
	}
	g.sealLocked()
	b := g.openLocked()
	b.change, b.reconf = cc, cc == nil
	g.sealLocked()
	g.fillLocked(b, p, w, size)
	return nil
}

// sealLocked puts the open batch, if there is one, to those that take no more.
func (g *gatherer) sealLocked() {
	if g.mu.open != nil {
		g.mu.full = append(g.mu.full, g.mu.open)
		g.mu.open = nil
	}
}

// fillLocked encodes p into b and releases the lock.
func (g *gatherer) fillLocked(b *batch, p *entry.Proposal, w Waiter, size int) {
	b.data = entry.AppendProposal(b.data, p)
	b.waiters = append(b.waiters, w)
	b.bytes += size
	g.mu.proposals++
	g.wakeAndUnlock(false)
}

// addBarrier takes a barrier for the loop.
func (g *gatherer) addBarrier(w Waiter) error {
	g.mu.Lock()
	if err := g.refusalLocked(); err != nil {
		g.mu.Unlock()
		return err
	}
	g.mu.outstanding++
	g.mu.barriers = append(g.mu.barriers, w)
	g.wakeAndUnlock(len(g.mu.barriers) == 1) // the loop takes all at once
	return nil
}

// wakeAndUnlock releases the lock and wakes the loop if it waits for a proposal, or must.
func (g *gatherer) wakeAndUnlock(must bool) {
	wake := g.mu.idle || must
	g.mu.idle = false
	g.mu.Unlock()
	if wake {
		notify(g.wake)
	}
}

// notify sets a signal of size 1; one that is set stays set.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // set already
	}
}

// reserveLocked counts size as outstanding, after waiting in line if there is no room. The lock is released while it
// waits.
func (g *gatherer) reserveLocked(size int) error {
	if err := g.refusalLocked(); err != nil {
		return err
	}
	if g.roomLocked() { // so nobody is in line: freeLocked lets in as many as there is room for
		g.mu.outstanding += size
		return nil
	}
	me := &lineMember{size: size, ready: make(chan struct{})}
	g.mu.line = append(g.mu.line, me)
	g.mu.Unlock()
	<-me.ready
	g.mu.Lock()
	return me.err
}

// refusalLocked is why nothing is taken, or nil.
func (g *gatherer) refusalLocked() error {
	if g.mu.refusal != nil {
		return g.mu.refusal
	}
	return g.mu.suspension
}

// roomLocked tells whether another proposal may be taken. One is always taken when nothing is outstanding.
func (g *gatherer) roomLocked() bool { return g.mu.outstanding < g.maxOutstanding }

// openLocked begins a batch.
func (g *gatherer) openLocked() *batch {
	var b *batch
	if n := len(g.mu.free); n > 0 {
		b = g.mu.free[n-1]
		g.mu.free = g.mu.free[:n-1]
	} else {
		b = &batch{data: make([]byte, 0, batchBufferBytes)}
	}
	g.mu.number++
	b.number = g.mu.number
	b.began = g.clock.Now()
	b.data = entry.AppendEntryHeader(b.data, g.origin, b.number)
	g.mu.open = b
	g.mu.touched = true
	return b
}

// take moves what was gathered to the batches that wait to be applied, as proposed in term, and appends it to dst: all
// of it, or with a window only as many batches as make window of them wait. If there is nothing, the next proposal will
// wake the loop.
//
// As long as a batch of another term waits nothing is taken: it may come to be applied, or else must be proposed again
// before what was gathered after it. Who finds out wakes the loop.
func (g *gatherer) take(term uint64, window int, dst []*batch) []*batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.mu.proposed) > 0 && g.mu.proposed[0].term != term {
		return dst
	}
	if window > 0 && len(g.mu.proposed) >= window {
		return dst
	}
	before := len(dst)
	g.sealLocked()
	n := len(g.mu.full)
	if window > 0 {
		n = min(n, window-len(g.mu.proposed))
	}
	dst = append(dst, g.mu.full[:n]...)
	rest := copy(g.mu.full, g.mu.full[n:])
	clear(g.mu.full[rest:])
	g.mu.full = g.mu.full[:rest]
	g.mu.idle = len(dst) == before
	for _, b := range dst[before:] {
		b.term, b.prev, b.window = term, 0, window > 0
		g.mu.proposed = append(g.mu.proposed, b)
	}
	return dst
}

// gathered returns the bytes that take would take.
func (g *gatherer) gathered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, b := range g.mu.full {
		n += len(b.data)
	}
	if g.mu.open != nil {
		n += len(g.mu.open.data)
	}
	return n
}

// takeBarriers appends the barriers that wait for the loop to dst.
func (g *gatherer) takeBarriers(dst []Waiter) []Waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	dst = append(dst, g.mu.barriers...)
	clear(g.mu.barriers)
	g.mu.barriers = g.mu.barriers[:0]
	return dst
}

// claim returns the proposed batch with this number, or nil, if an entry of term that holds it is to be applied. An
// entry of a term is never applied after one of a later term: what was proposed in earlier ones and is not applied yet
// never will be, and is gathered again. lost are batches that were passed over within the term, which the loop and the
// leader do not let happen.
func (g *gatherer) claim(number, term uint64) (found *batch, lost []*batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for n < len(g.mu.proposed) && g.mu.proposed[n].term < term && g.mu.proposed[n].number != number {
		n++
	}
	if n > 0 {
		again := slices.Clone(g.mu.proposed[:n])
		g.shortenLocked(n)
		g.gatherAgainLocked(again)
	}
	n = slices.IndexFunc(g.mu.proposed, func(b *batch) bool { return b.number >= number })
	if number == 0 || n < 0 || g.mu.proposed[n].number != number {
		return nil, nil
	}
	found, lost = g.mu.proposed[n], slices.Clone(g.mu.proposed[:n])
	g.shortenLocked(n + 1)
	return found, lost
}

// shortenLocked forgets the first n proposed batches.
func (g *gatherer) shortenLocked(n int) {
	rest := copy(g.mu.proposed, g.mu.proposed[n:])
	clear(g.mu.proposed[rest:])
	g.mu.proposed = g.mu.proposed[:rest]
}

// gatherAgainLocked puts batches before all that is gathered.
func (g *gatherer) gatherAgainLocked(batches []*batch) {
	g.mu.full = append(batches, g.mu.full...)
	notify(g.wake)
}

// release says that b is answered; it is used again.
func (g *gatherer) release(b *batch) {
	g.mu.Lock()
	g.freeLocked(b.bytes)
	if len(g.mu.free) < maxFreeBatches && cap(b.data) <= 2*g.maxEntry && !b.kept {
		clear(b.waiters)
		*b = batch{data: b.data[:0], waiters: b.waiters[:0]}
		g.mu.free = append(g.mu.free, b)
	}
	g.mu.Unlock()
}

// releaseBarriers says that n barriers are answered.
func (g *gatherer) releaseBarriers(n int) {
	g.mu.Lock()
	g.freeLocked(n)
	g.mu.Unlock()
}

// freeLocked gives back size bytes and lets in those who wait for them.
func (g *gatherer) freeLocked(size int) {
	g.mu.outstanding -= size
	n := 0
	for n < len(g.mu.line) && g.roomLocked() {
		g.mu.outstanding += g.mu.line[n].size
		close(g.mu.line[n].ready)
		n++
	}
	if n > 0 {
		rest := copy(g.mu.line, g.mu.line[n:])
		clear(g.mu.line[rest:])
		g.mu.line = g.mu.line[:rest]
	}
	g.drainedLocked()
}

// drainedLocked tells whoever waits that all that was taken is answered.
func (g *gatherer) drainedLocked() {
	if g.mu.refusal != nil && g.mu.outstanding == 0 {
		select {
		case <-g.mu.drained:
		default:
			close(g.mu.drained)
		}
	}
}

// refuse turns away all that comes from now on, with err, and returns what is closed when nothing is outstanding. The
// first err stays.
func (g *gatherer) refuse(err error) (drained <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.refusal == nil {
		g.mu.refusal = err
		g.turnAwayLocked()
		g.drainedLocked()
	}
	return g.mu.drained
}

// retract takes b, which cannot be proposed at all, out of the proposed batches.
func (g *gatherer) retract(b *batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.mu.proposed, b); i >= 0 {
		g.mu.proposed = slices.Delete(g.mu.proposed, i, i+1)
	}
}

// putBack gathers batches again that were just taken and not proposed.
func (g *gatherer) putBack(batches []*batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.proposed = slices.DeleteFunc(g.mu.proposed, func(b *batch) bool { return slices.Contains(batches, b) })
	g.mu.full = append(slices.Clone(batches), g.mu.full...)
	g.mu.idle = false
}

// eachProposed calls do for each batch that was taken in term and is not applied, oldest first. Nobody changes, applies
// or forgets it meanwhile: do must not call the gatherer.
func (g *gatherer) eachProposed(term uint64, do func(b *batch)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.mu.proposed {
		if b.term == term {
			do(b)
		}
	}
}

// underWay is how long the batches together are that were taken and are not applied.
func (g *gatherer) underWay() (bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.mu.proposed {
		bytes += len(b.data)
	}
	return bytes
}

// oldest is the number of the oldest proposed batch, 0 if none is.
func (g *gatherer) oldest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.mu.proposed) == 0 {
		return 0
	}
	return g.mu.proposed[0].number
}

// abandon takes away all batches that are not answered, and the barriers that the loop has not taken.
func (g *gatherer) abandon() ([]*batch, []Waiter) {
	barriers := g.takeBarriers(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealLocked()
	batches := append(g.mu.proposed, g.mu.full...)
	g.mu.proposed, g.mu.full = nil, nil
	g.mu.idle = true
	return batches, barriers
}

// suspend takes nothing until resume is called, which is nothing that lasts: err says why. Who waits in line is turned
// away.
func (g *gatherer) suspend(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.suspension = err
	g.turnAwayLocked()
}

// resume ends a suspension.
func (g *gatherer) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.suspension = nil
}

// turnAwayLocked empties the line.
func (g *gatherer) turnAwayLocked() {
	for _, m := range g.mu.line {
		m.err = g.refusalLocked()
		close(m.ready)
	}
	g.mu.line = nil
}

// shrink forgets the free batches if nothing was proposed since the last call.
func (g *gatherer) shrink() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.touched {
		clear(g.mu.free)
		g.mu.free = g.mu.free[:0]
	}
	g.mu.touched = false
}

// taken returns the number of proposals taken and the bytes outstanding.
func (g *gatherer) taken() (proposals uint64, outstanding int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.proposals, g.mu.outstanding
}

// refuseBatch answers a batch that can never be proposed.
func (g *gatherer) refuseBatch(b *batch, err error) {
	g.retract(b)
	dropBatch(b, err)
	g.release(b)
}

// dropBatch tells the waiters of b that are left that nothing will be known.
func dropBatch(b *batch, err error) {
	for n, w := range b.waiters {
		if w != nil {
			b.waiters[n] = nil
			w.Dropped(err)
		}
	}
}
