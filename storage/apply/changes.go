package apply

import (
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Changes is what an entry comes to: the state as it will be, as far as it is in memory, what differs in the tree, and
// what those are told who wait for it. It is good from Txn.Prepare to Txn.End.
type Changes struct {
	Origin, BatchNo uint64 // of the entry
	Position        schema.Position
	Kept            schema.Kept
	Ensemble        *schema.EnsembleRecord
	Level           entry.Level
	Loaded          jute.Zxid // with which a load has replaced the state last
	// Replaced says that the entry has built a state that takes the place of this one: the rest is of no importance
	// but for the results.
	Replaced bool
	// Agreed is the last checksum point at which the state was the majority's, as the entry has shown; 0: none.
	Agreed  uint64
	Results []Result

	spans  []span // of Results: where their events and operations are
	events []Event
	ops    []OpResult

	znodes     []*change // every znode that the entry has looked at, as they were first looked at
	sessions   sessions
	quotaTouch bool                     // the entry has made or deleted a quota
	counts     map[string]*schema.Count // what the entry has made of counts of quotas, by target; nil: ended
	upload     upload
}

// span is where a result's events and operations lie in the slices of all.
type span struct{ events, eventsEnd, ops, opsEnd int }

// begin starts an entry on the state of base.
func (c *Changes) begin(base *Base, index, term uint64) {
	c.Position, c.Kept = base.Position, base.Kept
	c.Position.Index, c.Position.Term = index, term
	c.Ensemble, c.Level, c.Loaded = base.Ensemble, base.Level, base.Loaded
	c.Origin, c.BatchNo, c.Replaced, c.Agreed = 0, 0, false, 0
	c.sessions.before, c.upload.is = base.Sessions, base.Upload
}

// addResult adds a result that says nothing yet. It is made in its place: a Result is large, and end has cleared it.
func (c *Changes) addResult() *Result {
	n := len(c.Results)
	c.Results = slices.Grow(c.Results, 1)[:n+1]
	return &c.Results[n]
}

// end forgets the entry, so that nothing keeps its bytes alive.
func (c *Changes) end() {
	if len(c.znodes) > keptChangesMax {
		c.znodes, c.events = nil, nil
	}
	clear(c.znodes)
	clear(c.Results)
	clear(c.events)
	clear(c.ops)
	clear(c.counts)
	c.znodes = c.znodes[:0]
	c.Results, c.spans, c.events, c.ops = c.Results[:0], c.spans[:0], c.events[:0], c.ops[:0]
	c.quotaTouch = false
	c.sessions.end()
	c.upload.end()
}

// Each calls f with each znode that differs: was is nil if it was made, is if it is gone. A znode that is there may be
// kept: its memory is its own.
func (c *Changes) Each(f func(path string, was, is *schema.Znode)) {
	for _, z := range c.znodes {
		if z.cur != z.base {
			f(z.path, z.base, z.cur)
		}
	}
}

// settle moves what outlives the entry into memory of its own: until now paths and new data were views. It gives the
// results their events and operations.
func (c *Changes) settle() {
	for _, z := range c.znodes {
		n := z.cur
		switch {
		case n == z.base || n == nil:
		case !z.dataChanged:
			n.Path = z.base.Path
		case n.Data == nil:
			n.Path = strings.Clone(z.path)
		default:
			// One allocation for both. The path is copied each time, so that an old one does not keep old data alive.
			b := make([]byte, len(z.path)+len(n.Data))
			copy(b, z.path)
			copy(b[len(z.path):], n.Data)
			n.Path = entry.ViewString(b[:len(z.path)])
			n.Data = b[len(z.path):]
		}
	}
	for i := range c.Results {
		s := c.spans[i]
		c.Results[i].Events = c.events[s.events:s.eventsEnd]
		c.Results[i].Ops = c.ops[s.ops:s.opsEnd]
	}
}

// sessions are those of the state, and what an entry does to them.
type sessions struct {
	before map[jute.SessionID]*schema.SessionInfo
	made   map[jute.SessionID]*schema.SessionInfo // by the entry, changed or, if nil, ended
	order  []jute.SessionID                       // the keys of made, as they came
}

// get returns the session as the entry sees it, or nil.
func (s *sessions) get(id jute.SessionID) *schema.SessionInfo {
	if len(s.made) > 0 {
		if info, ok := s.made[id]; ok {
			return info
		}
	}
	return s.before[id]
}

// set makes info, or nothing, the session id.
func (s *sessions) set(id jute.SessionID, info *schema.SessionInfo) {
	if _, ok := s.made[id]; !ok {
		s.order = append(s.order, id)
	}
	s.made[id] = info
}

// end forgets what the entry has done.
func (s *sessions) end() {
	clear(s.made)
	s.order = s.order[:0]
}

// upload is the upload of a load as it will be, and what becomes of its pieces.
type upload struct {
	is     *schema.Upload // nil: none is under way
	writes []uploadWrite
}

// uploadWrite is a change of the upload's pieces: one more, or none are left.
type uploadWrite struct {
	offset int64
	data   []byte // a view of the entry; nil drops all
}

// begin begins another one.
func (u *upload) begin(id uint64) {
	u.drop()
	u.is = &schema.Upload{ID: id}
}

// drop removes the upload and all its pieces.
func (u *upload) drop() {
	u.is = nil
	u.writes = append(u.writes, uploadWrite{})
}

// add adds a piece.
func (u *upload) add(data []byte) {
	u.writes = append(u.writes, uploadWrite{offset: u.is.Bytes, data: data})
	u.is = &schema.Upload{ID: u.is.ID, Bytes: u.is.Bytes + int64(len(data))}
}

// end forgets what the entry has done.
func (u *upload) end() {
	clear(u.writes)
	u.writes = u.writes[:0]
}
