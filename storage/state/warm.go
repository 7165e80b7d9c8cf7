package state

import (
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// warmMost bounds the tables that wait to be warmed: as many as the store keeps open.
const warmMost = 256

// warmer reads what a look-up asks of each table first, its index and its filter, when the table is new. Otherwise the
// first entry that is applied and asks for a znode in the table's range would, and wait for the disk. What cannot be
// read whoever reads next reports.
type warmer struct {
	db   *pebble.DB
	wake chan struct{} // of size 1: keys were added, or it is closed
	loop sync.WaitGroup

	mu struct {
		sync.Mutex
		keys   [][]byte // in the range of a new table each, and in no table themselves
		busy   bool     // keys that are not in the list any more are being looked for
		closed bool
	}
}

// newWarmer returns one that begins with start.
func newWarmer() *warmer { return &warmer{wake: make(chan struct{}, 1)} }

// listen has it hear of new tables.
func (w *warmer) listen(l *pebble.EventListener) {
	l.FlushEnd = func(info pebble.FlushInfo) { w.add(info.Output) }
	l.CompactionEnd = func(info pebble.CompactionInfo) { w.add(info.Output.Tables) }
}

// add is told of new tables. The store holds its own lock, and may show them only when it has given that up.
func (w *warmer) add(tables []pebble.TableInfo) {
	w.mu.Lock()
	for i := range tables {
		// The next key after the smallest one is in the range if there are two, and no key of a znode ends in a zero.
		key := append(slices.Clone(tables[i].Smallest.UserKey), 0)
		if len(w.mu.keys) < warmMost && string(key) <= string(tables[i].Largest.UserKey) {
			w.mu.keys = append(w.mu.keys, key)
		}
	}
	w.mu.Unlock()
	w.ask()
}

// ask wakes the goroutine.
func (w *warmer) ask() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// start begins to warm the tables of db.
func (w *warmer) start(db *pebble.DB) {
	w.db = db
	w.loop.Go(func() {
		for range w.wake {
			keys, ok := w.take()
			if !ok {
				return
			}
			w.warm(keys)
		}
	})
}

// take takes the keys that are to be looked for; false once it is closed.
func (w *warmer) take() (keys [][]byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, w.mu.keys = w.mu.keys, nil
	w.mu.busy = len(keys) > 0
	return keys, !w.mu.closed
}

// warm looks for the keys, as apply does.
func (w *warmer) warm(keys [][]byte) {
	defer func() {
		w.mu.Lock()
		w.mu.busy = false
		w.mu.Unlock()
	}()
	if len(keys) == 0 {
		return
	}
	// Making a snapshot waits for the store's lock, and so for the tables to be shown.
	if err := w.db.NewSnapshot().Close(); err != nil {
		return
	}
	it, err := w.db.NewIter(&znodeIterOptions)
	if err != nil {
		return
	}
	for _, key := range keys {
		it.SeekPrefixGE(key)
	}
	_ = it.Close() // the error of a read, see above
}

// idle tells whether all new tables are warm.
func (w *warmer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.mu.busy && len(w.mu.keys) == 0
}

// close ends it, and waits for a read that is under way. Closing twice is allowed.
func (w *warmer) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.ask()
	w.loop.Wait()
}
