package raftlog

import "zkd/storage/disk"

// What is in memory of the log, and in its write-ahead logs, is written to tables when that has become memtablesFull
// memtables and most of it has just been compacted away, so that little is left to be written; when it has become
// memtablesMost, whatever is left. A memtable that is flushed as soon as it is full goes to a table nearly whole: the
// entries in it are needed until the state is durable. Guesses: twice as many write half as much, and a restart reads
// twice as many write-ahead logs.
const (
	memtablesFull = 2
	memtablesMost = 4
)

// settleShare is the part of a memtable for which Settle does nothing.
const settleShare = 8

// tablesPace decides when memory is written to tables. It is the writer's.
type tablesPace struct {
	flushes  *disk.Flushes
	memtable int64 // bytes of one
	// turnOver has the store begin another memtable and write-ahead log, and flush those before as soon as it may; done
	// is closed when it has.
	turnOver func() (done <-chan struct{}, err error)

	bytes int64           // in batches since the last flush began
	done  <-chan struct{} // closed when the flush under way is over; nil: none is
	end   func()          // lets the store's own flushes wait again
}

// add counts a batch. One that is large is kept as it is, behind a memtable that ends before it.
func (p *tablesPace) add(batch int64) {
	p.bytes += batch
	if batch >= p.memtable/2 {
		p.bytes += p.memtable
	}
}

// pace begins a flush if one is due. compacted says that entries have just been compacted away.
func (p *tablesPace) pace(compacted bool) error {
	if p.done != nil {
		select {
		case <-p.done:
		default:
			return nil
		}
		p.end()
		p.done = nil
		// The memtable that is flushed next must be begun before what is compacted away in those behind it is known.
		// So it is to be a small one: what has been written since the flush began.
		_, err := p.turnOver()
		return err
	}
	if p.bytes < memtablesFull*p.memtable || !compacted && p.bytes < memtablesMost*p.memtable {
		return nil
	}
	return p.flush()
}

// settle begins a flush, if none is under way and there is anything to speak of.
func (p *tablesPace) settle() error {
	if p.done != nil || p.bytes < p.memtable/settleShare {
		return nil
	}
	return p.flush()
}

// flush begins to write to tables what is in memory.
func (p *tablesPace) flush() error {
	end := p.flushes.Pass()
	done, err := p.turnOver()
	if err != nil {
		end()
		return err
	}
	p.done, p.end, p.bytes = done, end, 0
	return nil
}
