package quorum

import (
	"sync"
	"time"
)

// ApplyPhases says how the entry that is applied came to be. Times are zero where they are not known.
type ApplyPhases struct {
	Durable   time.Time // on this member's disk; a member may learn that an entry is committed before it has it there
	Committed time.Time // known here to be committed
	Began     time.Time // to be applied
	// Share is what the apply goroutine has needed for each proposal of the entry, on average, to evaluate and publish
	// it.
	Share time.Duration
}

// durableTimesKept is how many writes of the log are remembered. An entry is applied long before as many follow.
const durableTimesKept = 64

// durableTimes are when entries became durable, as far as that is not long ago. The append goroutine adds, the apply
// goroutine asks for entries that took long.
type durableTimes struct {
	mu   sync.Mutex
	last [durableTimesKept]durableTime // guarded by mu; a ring
	next int                           // guarded by mu
}

// durableTime is when the log was durable up to an entry.
type durableTime struct {
	index uint64
	at    time.Time
}

// add says that the log is durable up to an entry.
func (d *durableTimes) add(index uint64, at time.Time) {
	d.mu.Lock()
	d.last[d.next] = durableTime{index, at}
	d.next = (d.next + 1) % len(d.last)
	d.mu.Unlock()
}

// at returns when an entry became durable; zero if that is not known.
func (d *durableTimes) at(index uint64) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first time.Time
	for back := 1; back <= len(d.last); back++ {
		t := d.last[(d.next-back+len(d.last))%len(d.last)]
		if t.index < index { // before it; what is older may have been overwritten
			break
		}
		first = t.at
	}
	return first
}
