package costs

import "time"

// Entry is what it has cost a server to apply one entry of the log. Computing takes no simulated time, so it is counted
// what is asked of the state and what is written to it.
type Entry struct {
	Group  int // of goroutines: the server's
	Index  uint64
	Bytes  int  // that it has in the log
	Reads  int  // znodes that were asked for
	Steps  int  // keys that were stepped over
	Writes int  // keys that were written or deleted
	Counts bool // it has counted what is below a quota, or may have
	// Took is in simulated time, without the wait for a flush; 0 if the state was replaced, or the server paused.
	Took time.Duration
}

// hear is who hears of each.
var hear = func(*Entry) {}

// Hear has f hear of each entry that any server applies from now on. It is called by their goroutines, one at a time if
// the program has one processor.
func Hear(f func(*Entry)) { hear = f }

// Tell tells of an entry that was applied.
func Tell(e *Entry) { hear(e) }
