package disk

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// flushCategory is the category with which Pebble creates the files of a flush (getDiskWriteCategoryForCompaction).
const flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"

// Flushes lets a store keep what is written to it in memory until its owner asks for a flush. Pebble begins a flush of
// its own accord as soon as one memtable is full, and takes another one for what follows. Held, such a flush waits
// where it creates its first file, and so do those behind it, which Pebble then does as one. So memtables may be small,
// and there are as many as the load needs: large ones would be as few flushes, but Pebble never gives them back.
//
// The zero value holds nothing. Safe for concurrent use.
type Flushes struct {
	mu     sync.Mutex
	held   bool          // guarded by mu, as are the rest
	passes int           // of those that let flushes through though they are held
	shut   chan struct{} // closed when flushes may go on; nil: they may
}

// Hold has flushes wait from now on, unless somebody lets them through.
func (f *Flushes) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
	f.turnLocked()
}

// Pass lets flushes through until end is called, once.
func (f *Flushes) Pass() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passes++
	f.turnLocked()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.passes--
		f.turnLocked()
	}
}

// PassStalls has the listener of the store let flushes through while writes wait for them, which else would be for
// ever.
func (f *Flushes) PassStalls(events *pebble.EventListener) {
	begin := events.WriteStallBegin
	var end func() // under the store's lock for writes
	events.WriteStallBegin = func(info pebble.WriteStallBeginInfo) {
		end = f.Pass()
		if begin != nil {
			begin(info)
		}
	}
	events.WriteStallEnd = func() { end() }
}

// turnLocked shuts or opens.
func (f *Flushes) turnLocked() {
	switch shut := f.held && f.passes == 0; {
	case shut && f.shut == nil:
		f.shut = make(chan struct{})
	case !shut && f.shut != nil:
		close(f.shut)
		f.shut = nil
	}
}

// wait returns when a flush may create its file, or the store is about to be closed.
func (f *Flushes) wait(closing <-chan struct{}) {
	for {
		f.mu.Lock()
		shut := f.shut
		f.mu.Unlock()
		if shut == nil {
			return
		}
		select {
		case <-shut:
		case <-closing:
			return
		}
	}
}
