package quorum

import "sync"

// mailbox takes values from any goroutines to one. Putting never blocks, so that two goroutines with a mailbox each
// cannot wait for one another; the bound is in what is under way at all: raft's limits on entries and messages in
// flight.
type mailbox[T any] struct {
	signal chan struct{} // of size 1: "something was put since the last take"

	mu struct {
		sync.Mutex
		items []T
	}
}

// newMailbox returns an empty mailbox that sets signal when something is put.
func newMailbox[T any](signal chan struct{}) *mailbox[T] { return &mailbox[T]{signal: signal} }

// put adds an item and wakes the receiver.
func (m *mailbox[T]) put(item T) {
	m.putQuietly(item)
	notify(m.signal)
}

// putQuietly adds an item that can wait until the receiver wakes for another reason.
func (m *mailbox[T]) putQuietly(item T) {
	m.mu.Lock()
	m.mu.items = append(m.mu.items, item)
	m.mu.Unlock()
}

// take returns all items in the order they were put. spare is the slice that the last call returned, done with, or nil.
func (m *mailbox[T]) take(spare []T) []T {
	clear(spare)
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.mu.items
	m.mu.items = spare[:0]
	return items
}

// notify sets a signal of size 1; one that is set stays set.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // set already
	}
}
