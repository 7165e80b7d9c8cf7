package storage

// MachineMetrics is what a machine says of itself at one moment. Counters run from Open, but those of the store, which
// begin again when a snapshot has replaced it.
type MachineMetrics struct {
	DiskBytes    uint64 // all files of the store
	MemoryBytes  int64  // of the store: blocks, and what is not flushed
	Tables       int64  // files of the store
	WrittenBytes uint64 // to disk, compactions too

	CacheBytes, CacheEntries int64  // znodes that were in use lately
	CacheHits, CacheMisses   uint64 // of look-ups of znodes
}

// Metrics returns the machine's figures. Costs some microseconds; while a snapshot replaces the state it has those of
// the cache alone. Not after Close.
func (m *Machine) Metrics() MachineMetrics {
	var found MachineMetrics
	for i := range m.cache.shards {
		s := &m.cache.shards[i]
		s.mu.Lock()
		found.CacheBytes += s.mu.bytes
		found.CacheEntries += int64(s.mu.count)
		found.CacheHits += s.mu.hits
		found.CacheMisses += s.mu.misses
		s.mu.Unlock()
	}
	if !m.copying.TryRLock() {
		return found
	}
	defer m.copying.RUnlock()
	if m.store.db == nil {
		return found
	}
	p := m.store.db.Metrics()
	found.DiskBytes = p.DiskSpaceUsage()
	found.MemoryBytes = p.BlockCache.Size + int64(p.MemTable.Size)
	for i := range p.Levels {
		found.Tables += p.Levels[i].TablesCount
		found.WrittenBytes += p.Levels[i].TableBytesFlushed + p.Levels[i].TableBytesCompacted
	}
	return found
}
