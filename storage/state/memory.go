package state

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// memory keeps the store's cache of blocks at its size while memtables come and go: Pebble takes them out of the
// cache's budget, which so has room for all of them, and what of that room they do not need is reserved here. Safe for
// concurrent use.
type memory struct {
	blocks *pebble.Cache
	unit   int64 // of a memtable

	mu       sync.Mutex
	total    int64    // bytes that memtables have taken since the start; guarded by mu, as is the rest
	flushed  int64    // of them, that they have given back
	reserved []func() // for each unit that is in no memtable, what gives it back
	units    int      // for memtables beyond memTablesMax
}

// memoryUnitsMost bounds the memtables for which there is room in the cache's budget. A guess: with more of them than
// that a read of one key takes longer than most blocks are worth.
const memoryUnitsMost = 256

// newMemory returns the memory of a store. Of blocks no more than BlockCacheBytes are kept, whatever memtables take.
func newMemory(o *MachineOptions) *memory {
	units := int(min((o.UnflushedBytes+o.MemTableBytes-1)/o.MemTableBytes, memoryUnitsMost))
	m := &memory{unit: o.MemTableBytes, units: units}
	m.blocks = pebble.NewCache(o.BlockCacheBytes + int64(memTablesMax+units)*o.MemTableBytes)
	m.taken(0)
	return m
}

// taken says that memtables hold so many bytes more. It returns how many they have taken in all.
func (m *memory) taken(bytes int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += bytes
	m.reserveLocked()
	return m.total
}

// givenBack says that of all that memtables have taken so many bytes are flushed.
func (m *memory) givenBack(flushed int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushed = max(m.flushed, flushed)
	m.reserveLocked()
}

// reserveLocked has as much reserved as no memtable takes.
func (m *memory) reserveLocked() {
	free := max(0, m.units-int((m.total-m.flushed)/m.unit))
	for len(m.reserved) > free {
		last := len(m.reserved) - 1
		m.reserved[last]()
		m.reserved = m.reserved[:last]
	}
	for len(m.reserved) < free {
		m.reserved = append(m.reserved, m.blocks.Reserve(int(m.unit)))
	}
}

// close gives the cache back.
func (m *memory) close() { m.blocks.Unref() }
