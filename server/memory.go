package server

import "zkd/server/limits"

// clientMemory is what the clients of a server hold of its memory.
type clientMemory struct {
	limits.Memory
	of *connections
}

// init sets the bound. o.Each is set here.
func (m *clientMemory) init(of *connections, o limits.MemoryOptions) {
	m.of = of
	o.Each = func(f func(*limits.Account)) {
		for _, c := range of.all() {
			f(&c.account)
		}
	}
	m.Init(o)
}

// unreadMax is what the apply goroutine may let a connection leave unread: most, or less while clients hold too much.
func (m *clientMemory) unreadMax(most int) int {
	if !m.Over() {
		return most
	}
	return m.UnreadMax(most, m.of.count())
}

// looksOver has somebody look for who costs most if clients hold too much, for who must not wait.
func (m *clientMemory) looksOver() {
	if m.Over() {
		m.Signal()
	}
}

// relieve makes room if clients hold too much. Who calls it holds no lock.
func (m *clientMemory) relieve() {
	if m.Over() {
		m.Relieve()
	}
}
