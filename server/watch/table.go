package watch

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"zkd/jute"
	"zkd/storage/acl"
)

// Watcher is a connection as the table sees it. The table calls both methods on the goroutine that fires, without
// holding any lock of its own; neither may wait. Either may still be called for a change that was being fired while the
// connection left.
type Watcher interface {
	// Proven returns who the connection is now: what READ is checked on before it hears of a change of a znode with an
	// ACL (org.apache.zookeeper.server.ServerCnxn.process). nil may hear of all. While it is the same, so are the
	// answers.
	Proven() *acl.Proven
	// WatchFired tells of a change. notice is one whole frame, length included: the notification as the client gets it.
	// It is valid only during the call.
	WatchFired(ev *Event, notice []byte)
}

// Event is one change of one znode, as the state machine reports it in firing order. The table keeps nothing of it.
type Event struct {
	Type jute.EventType
	Path string
	Zxid jute.Zxid
	ACL  []jute.ACL // of the znode that READ is checked on; nil when anyone may hear. It never changes
}

// Holder is a connection's side of the table: part of the connection's struct, set up once by Init, its address the
// connection's name in the table.
type Holder struct {
	watcher Watcher
	session jute.SessionID
	// What follows is guarded by the mu of the table.
	number uint32 // of this holder in the table; 0 while it holds nothing and is not listed
	first  uint32 // the newest of its watches, or 0
	told   uint64 // the last round of firing that found this holder
	data   uint32 // its watches in the data table
	child  uint32 // its watches in the child table
	bytes  int    // what these take, as if nobody else had any
	listed bool   // counted among the watching connections: see Counts
	closed bool   // RemoveAll was called
}

// Init sets up h before its first use.
func (h *Holder) Init(w Watcher, session jute.SessionID) { h.watcher, h.session = w, session }

// mode is the set of modes of one watch (org.apache.zookeeper.server.watch.WatcherMode).
type mode uint32

const (
	standard   mode = 1 << 28
	persistent mode = 1 << 29
	recursive  mode = 1 << 30
	anyMode         = standard | persistent | recursive
)

// kind is one of the two tables.
type kind uint32

const (
	dataKind  kind = 0
	childKind kind = 1 << 31
)

// pathsMax is how many different paths a table can hold: what modes and kind leave of a word.
const pathsMax = 1<<28 - 1

// watchRecord is one watch. All numbers are of slabs of the table.
type watchRecord struct {
	word     uint32 // the number of the path, the modes, the kind
	holder   uint32
	chain    uint32 // next in the index bucket
	next     uint32 // of the same path and kind: first the recursive ones, then by age; the last one's is 0
	prev     uint32 // likewise; the first one's is the last
	nextHeld uint32 // of the same holder
	prevHeld uint32
}

func (r *watchRecord) path() uint32 { return r.word & pathsMax }
func (r *watchRecord) kind() kind   { return kind(r.word) & childKind }
func (r *watchRecord) modes() mode  { return mode(r.word) & anyMode }

// pathRecord is one watched path.
type pathRecord struct {
	text  *byte // the first byte of a string that nothing else refers to; its hash is behind a long one
	bytes uint32
	chain uint32 // next in the index bucket
	data  uint32 // the first watch in the data table, or 0
	child uint32 // the first watch in the child table, or 0
}

func (p *pathRecord) name() string { return unsafe.String(p.text, p.bytes) }

// hash is that of a long path.
func (p *pathRecord) hash() uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice(p.text, p.bytes+hashBytes)[p.bytes:])
}

// is reports whether it is the record of path. A long one is known by its hash: who walks up from a znode that is
// thousands of others deep does not compare all that is above it. Two of them have one hash with a chance of 2^-64.
func (p *pathRecord) is(path string, hash uint64) bool {
	if int(p.bytes) != len(path) {
		return false
	}
	if len(path) >= longPathBytes {
		return p.hash() == hash && *p.text == path[0] // of which a path that no znode can have makes no name
	}
	return p.name() == path
}

// longPathBytes is from how many bytes on a path is known by its hash, of hashBytes. A guess: what is shorter is
// compared in nanoseconds.
const (
	longPathBytes = 512
	hashBytes     = 8
)

func (p *pathRecord) list(k kind) *uint32 {
	if k == childKind {
		return &p.child
	}
	return &p.data
}

// Table is the watches of one server. The zero Table is not ready; use New.
type Table struct {
	seed      maphash.Seed // immutable after New
	hashRoot  uint64       // hash of the root; immutable after New
	recursive atomic.Int64 // watches with the recursive mode; written under mu
	watched   atomic.Int64 // different paths; written under mu
	mu        struct {
		sync.Mutex
		paths      slab[pathRecord]
		watches    slab[watchRecord]
		holders    slab[*Holder]
		pathIndex  index
		watchIndex index
		listed     int // holders with listed set
		dataPaths  int // paths with a watch in the data table
		dataCount  int // watches in the data table
		childCount int // watches in the child table
		bytes      int // what all watches take, about
		round      uint64
		added      uint64 // counts what was registered
	}
	firing firing // owned by the goroutine that fires
	fired  FiredCounts
}

// Bounds are how many watches there may be, 0 for no bound: Full says when they are reached.
type Bounds struct {
	All       int // of all holders
	PerHolder int
	// Bytes is what all watches may take. Of the first half any holder may have what is left; beyond it, no more than
	// an equal share: so who has little is served whatever the others have.
	Bytes int
}

// recordBytes is what a watch takes besides its path, about: by TestMemoryPerWatch.
const recordBytes = 64

// Asked is what a request asks for.
type Asked struct{ Watches, PathBytes int }

// bytes is what that takes, about.
func (a Asked) bytes() int { return a.Watches*recordBytes + a.PathBytes }

// Full reports whether h may not have these watches, too. What it may have is not reserved: callers at once may go
// beyond the bounds of all holders by what they ask for. Costs nothing without bounds.
func (t *Table) Full(b Bounds, h *Holder, more Asked) bool {
	if b == (Bounds{}) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return b.All > 0 && t.mu.dataCount+t.mu.childCount+more.Watches > b.All ||
		b.PerHolder > 0 && int(h.data)+int(h.child)+more.Watches > b.PerHolder ||
		b.Bytes > 0 && t.largeLocked(b.Bytes, h, more.bytes())
}

// largeLocked reports whether h may not have so many bytes more of those that all holders may have.
func (t *Table) largeLocked(most int, h *Holder, more int) bool {
	if t.mu.bytes+more <= most/2 {
		return false
	}
	share := most / 2 / max(1, t.mu.holders.live())
	return t.mu.bytes+more > most || h.bytes+more > share
}

// New returns an empty table.
func New() *Table {
	seed := maphash.MakeSeed()
	return &Table{seed: seed, hashRoot: maphash.String(seed, "/")}
}

// AddData registers a standard watch in the data table, as exists and getData do. path is copied if it has to be kept.
// It does nothing after RemoveAll(h) (ZooKeeper's WatchManager.isDeadWatcher).
func (t *Table) AddData(h *Holder, path string) { t.add(h, path, dataKind, standard) }

// AddChild registers a standard watch in the child table, as getChildren and getChildren2 do, like AddData.
func (t *Table) AddChild(h *Holder, path string) { t.add(h, path, childKind, standard) }

// AddWatch registers a watch that stays, as addWatch and setWatches2 do: in both tables, or in the data table with all
// descendants (org.apache.zookeeper.server.DataTree.addWatch). It returns BadArguments for an unknown mode; the server
// answers an unknown mode of addWatch with MarshallingError before it comes here.
func (t *Table) AddWatch(h *Holder, path string, m jute.AddWatchMode) jute.Code {
	switch m {
	case jute.WatchPersistent:
		t.add(h, path, dataKind, persistent)
		t.add(h, path, childKind, persistent)
	case jute.WatchPersistentRecursive:
		t.add(h, path, dataKind, recursive)
	default:
		return jute.BadArguments
	}
	return jute.OK
}

// Has reports whether h has a watch of that type on path, as checkWatches asks (DataTree.containsWatcher).
func (t *Table) Has(h *Holder, path string, which jute.WatcherType) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.findPath(path, t.hashPath(path))
	if p == 0 {
		return false
	}
	switch which {
	case jute.WatcherChildren:
		return t.modesOf(h, p, childKind)&standard != 0
	case jute.WatcherData:
		return t.modesOf(h, p, dataKind)&standard != 0
	case jute.WatcherPersistent:
		return t.modesOf(h, p, dataKind)&persistent != 0
	case jute.WatcherPersistentRecursive:
		return t.modesOf(h, p, dataKind)&recursive != 0
	case jute.WatcherAny:
		return t.modesOf(h, p, childKind)|t.modesOf(h, p, dataKind) != 0
	}
	return false
}

// Remove drops h's watches of that type on path, as removeWatches does, and reports whether there were any
// (DataTree.removeWatch). No event is sent.
func (t *Table) Remove(h *Holder, path string, which jute.WatcherType) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.findPath(path, t.hashPath(path))
	if p == 0 {
		return false
	}
	switch which {
	case jute.WatcherChildren:
		return t.drop(h, p, childKind, standard)
	case jute.WatcherData:
		return t.drop(h, p, dataKind, standard)
	case jute.WatcherPersistent:
		return t.dropBoth(h, p, persistent)
	case jute.WatcherPersistentRecursive:
		return t.drop(h, p, dataKind, recursive)
	case jute.WatcherAny:
		return t.dropBoth(h, p, anyMode)
	}
	return false
}

// removedAtOnce is how many watches of a holder are dropped while others wait: a tenth of a millisecond.
const removedAtOnce = 1024

// RemoveAll drops everything that h holds, when its connection closes. Later registrations of h are ignored, so that a
// request still being answered leaves nothing behind. The time is proportional to the number of h's watches.
func (t *Table) RemoveAll(h *Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.closed = true
	for n := 1; h.first != 0; n++ {
		if t.unlink(h.first); n%removedAtOnce == 0 { // others may register, remove and fire
			t.mu.Unlock()
			t.mu.Lock()
		}
	}
	t.unlist(h)
	if h.number != 0 {
		t.mu.holders.release(h.number)
		h.number = 0
	}
}

// add registers a watch or adds a mode to one that is there.
func (t *Table) add(h *Holder, path string, k kind, m mode) {
	hash := t.hashPath(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.closed {
		return
	}
	t.mu.added++
	if h.number == 0 {
		h.number = t.mu.holders.take()
		*t.mu.holders.at(h.number) = h
	}
	p := t.findPath(path, hash)
	if p == 0 {
		p = t.newPath(path, hash)
	}
	if k == dataKind && !h.listed {
		h.listed = true
		t.mu.listed++
	}
	id := t.findWatch(h.number, p, k)
	if id == 0 {
		t.link(h, p, k, m)
		return
	}
	t.setModes(id, t.mu.watches.at(id).modes()|m)
}

// hashPath is made of the hashes of the path's names, one after the other, so that one pass finds those of all above
// it, too. It needs no lock.
func (t *Table) hashPath(path string) uint64 {
	hash := t.hashRoot
	for start := 0; start+1 < len(path); {
		end := nextName(path, start)
		hash = t.hashNext(hash, path[start+1:end])
		start = end
	}
	return hash
}

// hashNext is the hash of a path by that of the one above it and its last name.
func (t *Table) hashNext(above uint64, name string) uint64 {
	hi, lo := bits.Mul64(above^maphash.String(t.seed, name), 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// nextName returns the end of the name that begins behind the '/' at start of path.
func nextName(path string, start int) (end int) {
	if i := strings.IndexByte(path[start+1:], '/'); i >= 0 {
		return start + 1 + i
	}
	return len(path)
}

// hashWatch spreads a holder, a path and a kind over 32 bits.
func hashWatch(holder, path uint32, k kind) uint32 {
	hi, lo := bits.Mul64(uint64(holder)<<32|uint64(path|uint32(k)), 0x9e3779b97f4a7c15)
	return uint32(hi ^ lo ^ lo>>32)
}

// findPath returns the number of a path, or 0.
func (t *Table) findPath(path string, hash uint64) uint32 {
	if t.mu.pathIndex.count == 0 {
		return 0
	}
	for id := *t.mu.pathIndex.bucket(uint32(hash)); id != 0; {
		p := t.mu.paths.at(id)
		if p.is(path, hash) {
			return id
		}
		id = p.chain
	}
	return 0
}

// findWatch returns the number of a watch, or 0.
func (t *Table) findWatch(holder, path uint32, k kind) uint32 {
	if t.mu.watchIndex.count == 0 || holder == 0 {
		return 0
	}
	want := path | uint32(k)
	for id := *t.mu.watchIndex.bucket(hashWatch(holder, path, k)); id != 0; {
		r := t.mu.watches.at(id)
		if r.holder == holder && r.word&^uint32(anyMode) == want {
			return id
		}
		id = r.chain
	}
	return 0
}

func (t *Table) modesOf(h *Holder, path uint32, k kind) mode {
	if id := t.findWatch(h.number, path, k); id != 0 {
		return t.mu.watches.at(id).modes()
	}
	return 0
}
