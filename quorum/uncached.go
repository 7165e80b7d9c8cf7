package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/raftlog"
)

// A member that is behind needs entries that the log does not have in memory any more. raft asks for them on the loop
// goroutine, which must not wait for the disk. So it is told that they are not there, and that there is no snapshot
// either, which leaves the member as it is; the read goroutine reads a chunk of them, and when that has come, raft is
// made to send again. While a chunk is sent the next one is read.
//
// What raft needs of entries beside their data, terms and kinds, the log has in memory. The data of committed entries
// that are not there is read by the apply goroutine itself: raft hands on entries without data.
//
// A chunk is part of the log as it was at one moment. It is used if its last entry that is to be sent still has the
// term that the log says: then all before it is in the log, too, by raft's log matching.

// Bounds of what is read for members that are behind. Guesses, but for what one member has under way at most: eight
// messages of raft's size.
const (
	chunkBytes      = 4 << 20  // read at once, or one entry
	chunksBytesMax  = 32 << 20 // kept, or one chunk
	chunksWantedMax = 64       // to be read; what is beyond is asked for again when one has come
	chunkIdleTicks  = 10       // after which a chunk that is not used is forgotten
	resendsMax      = 64       // messages to a member for one chunk
)

// headsMax is how many entries without data raft hands to the apply goroutine before it waits for it: their size is not
// known, and the log is kept until they are applied. A guess. To look for changes of membership raft gets
// scanHeadsMax at once.
const (
	headsMax     = 512
	scanHeadsMax = 4096
)

// entryRange is entries that the read goroutine is to read: [lo, hi), as far as their data stays within chunkBytes.
type entryRange struct{ lo, hi uint64 }

// chunk is entries that were read, in order. Nothing of it is changed but idle.
type chunk struct {
	entries []*raftpb.Entry // none: they are not in the log any more
	bytes   int
	idle    int // ticks since it was used
}

// first and end are its first entry, and the one behind its last.
func (c *chunk) first() uint64 { return c.entries[0].GetIndex() }
func (c *chunk) end() uint64   { return c.first() + uint64(len(c.entries)) }

// uncachedReader is the read goroutine's: it reads what the log does not have in memory.
type uncachedReader struct {
	log  *raftlog.Log
	work *mailbox[entryRange] // from the loop, one at a time
	done func(chunk)          // tells the loop
}

// read reads all ranges. An error is final: the log is damaged.
func (r *uncachedReader) read(ranges []entryRange) error {
	for _, want := range ranges {
		entries, err := r.log.Entries(nil, want.lo, want.hi, chunkBytes)
		if err != nil && !errors.Is(err, raftlog.ErrCompacted) && !errors.Is(err, raftlog.ErrUnavailable) {
			return fmt.Errorf("read entry %d of the raft log for a member that is behind: %w", want.lo, err)
		}
		c := chunk{entries: raftEntries(entries)}
		for i := range entries {
			c.bytes += len(entries[i].Data)
		}
		r.done(c)
	}
	return nil
}

// uncached is the loop's side of it.
type uncached struct {
	log     *raftlog.Log
	ask     func(entryRange) // hands a range to the read goroutine
	chunks  []*chunk         // the one used last is the last
	bytes   int              // of them
	wanted  []uint64         // entries where chunks are to begin, the next one first
	reading bool             // the read goroutine is at one
	ticks   int              // since it was asked
	told    int              // ticks at which a warning was given last; 0: none was
	since   time.Time        // when it was asked, if a warning was given: about
}

// take returns the entries [lo, hi), at least one, as far as their data stays within maxBytes, nil if they are yet to
// be read. Behind the middle of a chunk the next one is wanted.
func (c *uncached) take(lo, hi, maxBytes uint64) []*raftpb.Entry {
	i := c.find(lo)
	if i < 0 {
		return nil
	}
	k := c.chunks[i]
	c.chunks = append(slices.Delete(c.chunks, i, i+1), k)
	begin := lo - k.first()
	found := k.entries[begin : min(hi, k.end())-k.first()]
	bytes := uint64(0)
	for n, e := range found {
		if bytes += uint64(len(e.GetData())); bytes > maxBytes && n > 0 {
			found = found[:n]
			break
		}
	}
	last := found[len(found)-1]
	if term, err := c.log.Term(last.GetIndex()); err != nil || term != last.GetTerm() {
		c.forget(len(c.chunks) - 1) // of before another leader has replaced the end of the log
		return nil
	}
	k.idle = 0
	if begin+uint64(len(found)) > uint64(len(k.entries))/2 {
		c.want(k.end())
	}
	return found[:len(found):len(found)]
}

// want has a chunk read that begins at an entry, unless it is on its way, there already, or in the log's memory.
func (c *uncached) want(lo uint64) {
	if len(c.wanted) < chunksWantedMax && !slices.Contains(c.wanted, lo) {
		c.wanted = append(c.wanted, lo)
		c.next()
	}
}

// find returns which chunk has an entry, -1 if none has.
func (c *uncached) find(index uint64) int {
	return slices.IndexFunc(c.chunks, func(k *chunk) bool { return k.first() <= index && index < k.end() })
}

// next gives the read goroutine something to do if it has nothing: so no more than one chunk is on its way.
func (c *uncached) next() {
	for !c.reading && len(c.wanted) > 0 {
		lo, hi := c.wanted[0], c.log.RecentFrom()
		if lo >= hi || c.find(lo) >= 0 {
			c.wanted = c.wanted[1:]
			continue
		}
		c.reading, c.ticks, c.told = true, 0, 0
		c.ask(entryRange{lo, hi})
	}
}

// came takes a chunk.
func (c *uncached) came(k *chunk) {
	c.reading = false
	if len(c.wanted) > 0 {
		c.wanted = c.wanted[1:]
	}
	if len(k.entries) == 0 {
		return
	}
	for len(c.chunks) > 0 && c.bytes+k.bytes > chunksBytesMax {
		c.forget(0)
	}
	c.chunks = append(c.chunks, k)
	c.bytes += k.bytes
}

// forget forgets a chunk.
func (c *uncached) forget(i int) {
	c.bytes -= c.chunks[i].bytes
	c.chunks = slices.Delete(c.chunks, i, i+1)
}

// forgetAll forgets all, and what was to be read, but for what the read goroutine is at.
func (c *uncached) forgetAll() {
	c.chunks, c.bytes = nil, 0
	c.wanted = c.wanted[:min(len(c.wanted), 1)]
	if !c.reading {
		c.wanted = nil
	}
}

// tick forgets what is not used.
func (c *uncached) tick() {
	c.ticks++
	for i := len(c.chunks) - 1; i >= 0; i-- {
		if c.chunks[i].idle++; c.chunks[i].idle > chunkIdleTicks {
			c.forget(i)
		}
	}
}

// uncachedReads is the loop's part that has entries read that raft is to send and the log's memory does not have.
type uncachedReads struct {
	*facts
	view       *logView
	chunks     *mailbox[chunk]         // from the read goroutine
	step       func(m *raftpb.Message) // gives raft a message
	stallTicks func() int              // after how many ticks a disk hangs

	came []chunk // taken; of one call
}

// take takes what was read, and has raft send it.
func (r *uncachedReads) take() {
	r.came = r.chunks.take(r.came)
	if len(r.came) == 0 {
		return
	}
	c := &r.view.uncached
	if c.told > 0 {
		r.logger.Info("the raft log was read for a member that is behind", slog.Duration("took",
			r.options.Clock.Since(c.since)))
	}
	for i := range r.came {
		k := r.came[i]
		c.came(&k)
	}
	if !r.view.leads() {
		c.forgetAll()
		return
	}
	c.next()
	r.resend()
}

// resend has raft send to those that are behind what the log's memory has. raft sends when a member answers a
// heartbeat: it does nothing else with such an answer, as it has heard that member and is free to send to it.
func (r *uncachedReads) resend() {
	var ids []uint64
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != r.id && r.behind(&pr) {
			ids = append(ids, id)
		}
	})
	for _, id := range ids {
		for next, n := r.nextFor(id), 0; next > 0 && n < resendsMax; n++ {
			term := r.raft.BasicStatus().GetTerm()
			r.step(&raftpb.Message{
				Type: raftpb.MsgHeartbeatResp.Enum(), From: &id, To: &r.id, Term: &term,
			})
			before := next
			if next = r.nextFor(id); next == before {
				break
			}
		}
	}
}

// behind tells whether raft is free to send a member entries that the log's memory does not have.
func (r *uncachedReads) behind(pr *tracker.Progress) bool {
	return !pr.IsPaused() && pr.RecentActive && pr.Next < r.log.RecentFrom()
}

// nextFor is the next entry that raft sends a member that is behind; 0: it is not, or raft waits for it.
func (r *uncachedReads) nextFor(peer uint64) (next uint64) {
	if _, pr, ok := r.progressOf(peer); ok && r.behind(&pr) {
		return pr.Next
	}
	return 0
}

// endLeadership forgets what was read: nobody is sent anything any more.
func (r *uncachedReads) endLeadership() { r.view.uncached.forgetAll() }

// tick forgets what nobody needs, and warns when the log is not read for as long as a disk takes to hang. Only the
// members that are behind wait for it.
func (r *uncachedReads) tick() {
	c := &r.view.uncached
	c.tick()
	if !c.reading || c.ticks < r.stallTicks() || c.ticks < 2*c.told {
		return
	}
	if c.told == 0 {
		c.since = r.options.Clock.Now().Add(-time.Duration(c.ticks) * r.options.TickInterval)
	}
	c.told = c.ticks
	r.logger.Warn("the raft log is not read, and a member that is behind waits for it: look for a volume, a "+
		"controller or a file system that hangs", slog.Duration("took", r.options.Clock.Since(c.since)))
}

// absent is the data of an entry without data. Whoever sees it has this very slice.
var absent = []byte{0}

// withoutData tells whether e is an entry whose data is yet to be read.
func withoutData(e *raftpb.Entry) bool {
	return len(e.GetData()) == len(absent) && &e.GetData()[0] == &absent[0]
}

// withoutDataAll are the entries without data.
func withoutDataAll(heads []raftlog.LogEntry) []*raftpb.Entry {
	for i := range heads {
		heads[i].Data = absent
	}
	return raftEntries(heads)
}
