package raftlog

import "fmt"

// LogInspection is a raft log that is only read.
type LogInspection struct{ log *Log }

// OpenReadOnly opens a raft log for who only looks, and verifies it as Open does.
func OpenReadOnly(opts Options) (*LogInspection, error) {
	l := New(opts)
	if err := l.openReadOnly(); err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", opts.Dir, err)
	}
	return &LogInspection{l}, nil
}

// FirstIndex is the index of the first entry kept, LastIndex that of the last; it is one less if there is none.
func (l *LogInspection) FirstIndex() uint64 { return l.log.FirstIndex() }

// LastIndex is the index of the newest entry.
func (l *LogInspection) LastIndex() uint64 { return l.log.LastIndex() }

// HardState is Log.HardState.
func (l *LogInspection) HardState() ([]byte, bool) { return l.log.HardState() }

// Meta is Log.Meta.
func (l *LogInspection) Meta(key string) ([]byte, bool) { return l.log.Meta(key) }

// Entries is Log.Entries.
func (l *LogInspection) Entries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	return l.log.Entries(dst, lo, hi, maxBytes)
}

// Close closes the log.
func (l *LogInspection) Close() error { return l.log.db.Close() }
