package limits

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zkd/quorum/clock"
)

// Use is what clients hold memory for.
type Use uint8

// The uses.
const (
	Unread   Use = iota // answers and events that a client has not taken, and answers that are being made
	Requests            // requests that are being read
	uses
)

// MemoryStepBytes is what a connection may hold for each use without being counted, so that small requests and answers
// cost nothing. A guess: ten thousand connections hold 160 MiB by it, each of them on purpose.
const MemoryStepBytes = 16 << 10

// roomWithin is how long who asks for memory waits for others to give theirs back, before whoever costs most is cut
// off. A guess: clients that read take some megabytes in that time, and nobody is to wait for others much longer.
const roomWithin = 50 * time.Millisecond

// Memory bounds what all clients hold together: what is unread, and what is being read. When it is used up, whoever
// costs most is cut off, and the others go on: bytes count by how long their connection has held any, so that a request
// or an answer that is on its way does not give way to as much that stays. The zero Memory is to be set up by Init.
type Memory struct {
	max   int64 // 0: no bound
	clock clock.Clock
	each  func(func(*Account)) // calls it for the account of each connection, in any order

	used   [uses]atomic.Int64
	closed atomic.Int64 // connections
	wake   chan struct{}

	evicting sync.Mutex // one at a time looks for who costs most
	waiting  atomic.Int32
	room     struct {
		sync.Mutex
		line []waiter // first come first served; one for each goroutine that waits
	}
}

// waiter waits for room for so many bytes.
type waiter struct {
	bytes int64
	there chan struct{} // closed when there is
}

// MemoryOptions say what a Memory is of. Clock and Each are needed.
type MemoryOptions struct {
	Max   int64 // bytes; 0 is no bound
	Clock clock.Clock
	Each  func(func(*Account)) // calls it for the account of each connection
}

// Init sets the bound.
func (m *Memory) Init(o MemoryOptions) {
	m.max, m.clock, m.each, m.wake = o.Max, o.Clock, o.Each, make(chan struct{}, 1)
}

// Max is the bound; 0 is none.
func (m *Memory) Max() int64 { return m.max }

// Used returns what is held for a use.
func (m *Memory) Used(u Use) int64 { return m.used[u].Load() }

// Closed returns how many connections were cut off so far.
func (m *Memory) Closed() int64 { return m.closed.Load() }

// Awaited returns how many wait for room.
func (m *Memory) Awaited() int { return int(m.waiting.Load()) }

// Most returns what the connection holds that holds most.
func (m *Memory) Most() (most int64) {
	m.each(func(a *Account) { most = max(most, a.Held()) })
	return most
}

// Over reports whether more than the bound is held. Costs two loads.
func (m *Memory) Over() bool { return m.max > 0 && !m.fits(0) }

// fits reports whether there is room for n bytes more.
func (m *Memory) fits(n int64) bool {
	return m.max <= 0 || m.used[Unread].Load()+m.used[Requests].Load()+n <= m.max
}

// UnreadMax is what a connection may leave unread when more is appended by whoever must not wait: most, or as long as
// the memory is used up an equal share of it.
func (m *Memory) UnreadMax(most, connections int) int {
	return min(most, max(MemoryStepBytes, int(m.max)/max(connections, 1)))
}

// Signal has Run cut somebody off if that is needed. It never waits.
func (m *Memory) Signal() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run relieves the memory on behalf of those who may not do it themselves, until stop is closed.
func (m *Memory) Run(stop <-chan struct{}) {
	for {
		select {
		case <-m.wake:
			m.Relieve()
		case <-stop:
			return
		}
	}
}

// Relieve cuts off whoever costs most as long as more than the bound is held. The caller holds no lock that the end of
// a connection takes.
func (m *Memory) Relieve() {
	m.evicting.Lock()
	defer m.evicting.Unlock()
	for m.Over() {
		a, held := m.costliest()
		if a == nil {
			return
		}
		if a.close() {
			m.closed.Add(1)
			a.end(held)
		}
	}
}

// freshFor is how long bytes are held before that counts more than how many they are: a guess, the time in which a
// client on a slow line takes a megabyte.
const freshFor = time.Second

// costliest returns the account that costs most, and what it holds; nil: none holds anything.
func (m *Memory) costliest() (most *Account, held int64) {
	now, highest := m.clock.Now(), 0.0
	m.each(func(a *Account) {
		n, since := a.holds()
		if cost := float64(n) * (freshFor + now.Sub(since)).Seconds(); n > 0 && (most == nil || cost > highest) {
			most, held, highest = a, n, cost
		}
	})
	return most, held
}

// awaitRoom waits until there is room for n bytes more, for so long as is bearable.
func (m *Memory) awaitRoom(n int64) {
	timer := m.clock.NewTimer(roomWithin)
	defer timer.Stop()
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	w := waiter{n, make(chan struct{})}
	m.room.Lock()
	m.room.line = append(m.room.line, w)
	m.room.Unlock()
	m.freed() // what was given back before it stood in line
	select {
	case <-w.there:
	case <-timer.C():
		m.room.Lock()
		m.room.line = slices.DeleteFunc(m.room.line, func(o waiter) bool { return o.there == w.there })
		m.room.Unlock()
	}
}

// freed lets those go on, first come first served, for whom there is room now; who needs less may go before who needs
// more. It wakes nobody else: thousands may wait, and what is given back is room for few.
func (m *Memory) freed() {
	if m.waiting.Load() == 0 {
		return
	}
	m.room.Lock()
	defer m.room.Unlock()
	var let int64
	m.room.line = slices.DeleteFunc(m.room.line, func(w waiter) bool {
		fits := m.fits(let + w.bytes)
		if fits {
			let += w.bytes
			close(w.there)
		}
		return fits
	})
}

// Account is what one connection holds of a Memory. Any goroutine may use it; its lock is a leaf.
type Account struct {
	memory *Memory
	end    func(held int64) // ends the connection, which held so much; must not wait

	mu    sync.Mutex
	held  [uses]int64
	since time.Time // when it began to hold anything
	ended bool
}

// Open begins an account. end is called at most once, without any lock of the account's or the memory's that a
// connection needs.
func (a *Account) Open(m *Memory, end func(held int64)) { a.memory, a.end = m, end }

// Add counts n bytes more, or with a negative n less, whether or not there is room: the caller has Relieve called if
// the memory is over.
func (a *Account) Add(u Use, n int64) {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return
	}
	if a.held == ([uses]int64{}) {
		a.since = a.memory.clock.Now()
	}
	a.held[u] += n
	a.memory.used[u].Add(n)
	a.mu.Unlock()
	if n < 0 {
		a.memory.freed()
	}
}

// Take is Add for who can wait: if there is no room it waits for some, and then whoever costs most is cut off.
// false: that was this account's connection. The caller holds no lock.
func (a *Account) Take(u Use, n int64) bool {
	if !a.memory.fits(n) {
		a.memory.awaitRoom(n)
	}
	a.Add(u, n)
	if a.memory.Over() {
		a.memory.Relieve()
	}
	return !a.Ended()
}

// Fits reports whether Take would not wait for room for so many bytes.
func (a *Account) Fits(n int) bool { return a.memory.fits(int64(n)) }

// Held returns what the account holds.
func (a *Account) Held() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[Unread] + a.held[Requests]
}

// holds returns what the account holds, and since when it has held anything.
func (a *Account) holds() (held int64, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[Unread] + a.held[Requests], a.since
}

// Ended reports whether the account was closed.
func (a *Account) Ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// Close gives everything back. What is counted later is not.
func (a *Account) Close() { a.close() }

// close is Close; false if it was closed before.
func (a *Account) close() bool {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return false
	}
	a.ended = true
	for u, n := range a.held {
		a.memory.used[u].Add(-n)
	}
	a.held = [uses]int64{}
	a.mu.Unlock()
	a.memory.freed()
	return true
}
