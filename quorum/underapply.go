package quorum

import (
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// Applying is an entry that is being applied, and the proposal of it that the apply goroutine is at.
type Applying struct {
	Index uint64
	Since time.Time  // when it began to be applied
	Step  state.Step // what it is at
	// Of the proposal. Op is 0 if the entry has none.
	Op      jute.Op
	Session jute.SessionID
	Xid     jute.Xid
	Server  uint64 // that the client is connected to; 0: not known
	Path    string // the first
}

// underApply shows the entry that is being applied to others while it is.
type underApply struct {
	clock clock.Clock

	mu    sync.Mutex
	index uint64 // guarded by mu, as is all below; 0: none is applied
	began time.Time
	data  []byte
	ended func(took time.Duration) // who has looked at the entry is told of its end; nil: nobody has
}

// begin says that an entry is applied from now on.
func (u *underApply) begin(index uint64, began time.Time, data []byte) {
	u.mu.Lock()
	u.index, u.began, u.data = index, began, data
	u.mu.Unlock()
}

// end says that it is not any more: nobody reads its data then.
func (u *underApply) end() {
	u.mu.Lock()
	began, ended := u.began, u.ended
	u.index, u.data, u.ended = 0, nil, nil
	u.mu.Unlock()
	if ended != nil {
		ended(u.clock.Since(began))
	}
}

// longer returns what is applied if that has taken so long. ended, if not nil, is called at its end, instead of what
// was given before.
func (u *underApply) longer(than time.Duration, m Machine, ended func(took time.Duration)) (Applying, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.index == 0 || u.clock.Since(u.began) < than {
		return Applying{}, false
	}
	if ended != nil {
		u.ended = ended
	}
	a := Applying{Index: u.index, Since: u.began}
	var n int
	a.Step, n = m.Applying()
	if len(u.data) == 0 {
		return a, true
	}
	reader, err := entry.NewReader(u.data)
	if err != nil {
		return a, true // the machine refuses it
	}
	var p entry.Proposal
	for range n + 1 {
		if !reader.Next(&p) {
			return a, true
		}
	}
	a.Op, a.Session, a.Xid, a.Server, a.Path = p.Op, p.Session, p.Xid, p.Server, strings.Clone(p.Path())
	return a, true
}

// Applying returns what has been applied for so long now, if anything has. ended, if not nil, is called at the end of
// that entry, on the apply goroutine, with the time that it took. Any goroutine may call it.
func (n *Node) Applying(than time.Duration, ended func(took time.Duration)) (Applying, bool) {
	return n.applier.now.longer(than, n.options.Machine, ended)
}

// ApplyPhases says how the entry that is applied came to be. Only Waiters and the Observer may ask, while they are told
// of a result of that entry.
func (n *Node) ApplyPhases() ApplyPhases {
	a := n.applier
	return ApplyPhases{Durable: n.appender.durable.at(a.index), Committed: a.committed, Began: a.began, Share: a.share}
}

// ApplyShare is ApplyPhases' Share.
func (n *Node) ApplyShare() time.Duration { return n.applier.share }
