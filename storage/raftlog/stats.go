package raftlog

// Metrics is what a raft log says of itself at one moment. Counters run from Open.
type Metrics struct {
	FirstIndex uint64
	LastIndex  uint64
	TailBytes  int64 // memory held by the newest entries

	Appends         uint64 // batches with entries
	AppendedEntries uint64
	AppendedBytes   uint64 // of their Data
	Syncs           uint64 // batches that waited for the disk

	DiskBytes       uint64 // all files of the store
	WALBytes        uint64 // live bytes in write-ahead logs
	WALBytesWritten uint64
	WALFiles        int64  // in use
	WALRecyclable   int64  // kept to be written over
	WALRecycled     uint64 // how often one was
	FlushedBytes    uint64 // written to tables, little if the log is compacted in time
	CompactedBytes  uint64 // written by merging tables
}

// Metrics returns the log's figures. Costs some microseconds; after Close only what memory holds.
func (l *Log) Metrics() Metrics {
	l.mu.RLock()
	m := Metrics{FirstIndex: l.mu.startIndex + 1, LastIndex: l.mu.last, TailBytes: l.mu.tail.bytes}
	l.mu.RUnlock()
	m.Appends, m.AppendedEntries = l.appends.Load(), l.appendedEntries.Load()
	m.AppendedBytes, m.Syncs = l.appendedBytes.Load(), l.syncs.Load()
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed.Load() {
		return m
	}
	m.WALRecycled = l.recycled.Load()
	p := l.db.Metrics()
	m.DiskBytes = p.DiskSpaceUsage() + l.spare.size()
	m.WALBytes, m.WALBytesWritten = p.WAL.Size, p.WAL.BytesWritten
	m.WALFiles, m.WALRecyclable = p.WAL.Files, p.WAL.ObsoleteFiles
	for i := range p.Levels {
		m.FlushedBytes += p.Levels[i].TableBytesFlushed
		m.CompactedBytes += p.Levels[i].TableBytesCompacted
	}
	return m
}
