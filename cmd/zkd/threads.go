package main

import (
	"os"
	"runtime"
)

// threadsMin is how many threads may at least run Go code at a time, on however few processors
// (docs/decisions/0017-four-threads-and-room-for-a-busy-heap.md).
const threadsMin = 4

// raiseThreads has threadsMin threads run Go code, unless there are more processors or GOMAXPROCS says otherwise: a
// thread that compacts, or that waits for its turn on a processor, keeps the requests waiting that are queued behind
// it.
func raiseThreads() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < threadsMin {
		runtime.GOMAXPROCS(threadsMin)
	}
}
