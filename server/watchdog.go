package server

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// heldAfter is what nobody is to hold up others for: the apply goroutine with an entry, a read with the present state
// or a View of it. Beyond it they are told of while they last.
const heldAfter = 500 * time.Millisecond

// watchdogTick is how often the watchdog looks. What takes heldAfter and a tick is seen, whatever else is going on.
const watchdogTick = heldAfter / 2

// watchdog tells of entries and reads that take long while they do, each once, and of their ends. Whoever does the work
// dates nothing and waits for nobody: the watchdog looks.
type watchdog struct {
	server *Server
	lines  *warning.Limiter // of reads

	mu    sync.Mutex      // held while a line is written, so that none of an end comes before its beginning
	entry quorum.Applying // that was told last; guarded by mu

	list    []*conn // memory to work in; the watchdog's own
	own     ownReads
	entries counter // told
	reads   counter // told
	// The elapsed time at which the read began, or was first seen, that takes longest; 0: none takes long.
	oldest atomic.Int64
}

// ownReads are the reads under way that the server makes for itself, and for commands. Few are at once.
type ownReads struct {
	mu  sync.Mutex
	all map[*held]struct{} // guarded by mu
}

// init sets up the watchdog.
func (w *watchdog) init(s *Server) {
	w.server, w.lines = s, warning.NewLimiter(s.opts.Logger, s.opts.Clock)
	w.own.all = map[*held]struct{}{}
}

// showsEntry is a Node that shows the entry which it applies.
type showsEntry interface {
	Applying(than time.Duration, ended func(took time.Duration)) (quorum.Applying, bool)
}

// run looks at every tick until the server stops.
func (w *watchdog) run() {
	ticker := w.server.opts.Clock.NewTicker(watchdogTick)
	defer ticker.Stop()
	for {
		select {
		case <-w.server.stop:
			return
		case <-ticker.C():
			w.look()
		}
	}
}

// look looks at all that is under way.
func (w *watchdog) look() {
	w.lookAtEntry()
	now, oldest := w.server.elapsed(), time.Duration(0)
	see := func(h *held, c *conn) {
		if since, long := w.lookAtRead(h, c, now); long && (oldest == 0 || since < oldest) {
			oldest = since
		}
	}
	w.list = w.server.connections.appendAll(w.list[:0])
	for _, c := range w.list {
		see(&c.held, c)
	}
	clear(w.list)
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	for h := range w.own.all { // any order
		see(h, nil)
	}
	w.oldest.Store(int64(oldest))
}

// applying returns the entry that has been applied for long, if one has.
func (w *watchdog) applying(ended func(took time.Duration)) (quorum.Applying, bool) {
	node, ok := w.server.opts.node.(showsEntry)
	if !ok {
		return quorum.Applying{}, false
	}
	return node.Applying(heldAfter, ended)
}

// lookAtEntry tells of the entry that is applied, if it takes long.
func (w *watchdog) lookAtEntry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, long := w.applying(w.entryEnded)
	if !long || a.Index == w.entry.Index {
		return
	}
	w.entry = a
	w.entries.Add(1)
	w.server.opts.Logger.Warn("slow entry, still being applied",
		append(w.entryAttrs(&a), slog.Duration("took", w.server.opts.Clock.Since(a.Since)))...)
}

// entryEnded tells of the end of an entry that was told of. The apply goroutine calls it, and holds no lock.
func (w *watchdog) entryEnded(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server.opts.Logger.Info("slow entry applied", append(w.entryAttrs(&w.entry), slog.Duration("took", took))...)
}

// entryAttrs are the attributes of an entry. The address of a client that another server has is not known here.
func (w *watchdog) entryAttrs(a *quorum.Applying) []any {
	peer := ""
	if c := w.server.connectionOf(a.Session); c != nil {
		peer = c.remote.String()
	}
	return []any{
		slog.Uint64("index", a.Index), slog.String("step", a.Step.String()), session(a.Session),
		slog.String("peer", peer), slog.Int64("server", serverid.Number(a.Server)), slog.String("op", a.Op.String()),
		slog.Int("xid", int(a.Xid)), slog.String("path", shown(a.Path)),
	}
}

// held is what one reader holds of the state: a Present or a View. The reader begins and ends it, at the price of two
// atomic operations; the watchdog looks at it meanwhile.
type held struct {
	now   atomic.Uint64 // the hold's number, a multiple of 4, and holding, or holding and told; 0: nothing is held
	waits atomic.Bool   // for a turn: it reads nothing meanwhile
	hold  uint64        // the last hold's number; owned by the reader
	what  request       // written by the reader before it begins
	name  string        // of one that is not made for a client; likewise

	// mu is held by the watchdog while it looks at what, and taken by the reader at the end of a hold that was told.
	mu    sync.Mutex
	since time.Duration // guarded by mu; elapsed time at which the hold that was told began
	shown bool          // guarded by mu; the line was written

	seen  uint64        // the hold that was seen last; owned by the watchdog, as is first
	first time.Duration // elapsed time at which it was seen first
}

// What is in the low bits of held.now.
const (
	holding = 1
	told    = 2
)

// begin says that the reader holds something from now on, for r.
func (h *held) begin(r *request) {
	h.what = *r
	h.hold += 4
	h.now.Store(h.hold | holding)
}

// end says that it holds nothing any more. long says that the hold was told of: then since is when it began.
func (h *held) end() (since time.Duration, long bool) {
	if h.now.CompareAndSwap(h.hold|holding, 0) {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	long = h.now.Load()&told != 0 && h.shown
	h.now.Store(0)
	return h.since, long
}

// lookAtRead tells of a read that has held something for long. since is when it began, as far as was seen.
func (w *watchdog) lookAtRead(h *held, c *conn, now time.Duration) (since time.Duration, long bool) {
	v := h.now.Load()
	hold := v &^ told
	if v == 0 || h.waits.Load() {
		h.seen = 0
		return 0, false
	}
	if hold != h.seen {
		h.seen, h.first = hold, now
	}
	if long = now-h.first >= heldAfter; !long || v&told != 0 {
		return h.first, long
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.now.CompareAndSwap(v, v|told) {
		return 0, false
	}
	w.reads.Add(1)
	h.since = h.first
	h.shown = w.lines.Warn("slow read, still holding the state", w.readAttrs(h, c, now-h.first)...)
	return h.first, true
}

// readAttrs are the attributes of a read.
func (w *watchdog) readAttrs(h *held, c *conn, took time.Duration) []any {
	if c == nil {
		return []any{slog.String("op", h.name), slog.Duration("took", took)}
	}
	return []any{session(c.session), slog.String("peer", c.remote.String()), slog.String("op", h.what.op.String()),
		slog.Int("xid", int(h.what.xid)), slog.String("path", shown(pathOf(&h.what))), slog.Duration("took", took)}
}

// readEnded tells of the end of a read that was told of.
func (w *watchdog) readEnded(h *held, c *conn, since time.Duration) {
	w.server.opts.Logger.Info("slow read ended", w.readAttrs(h, c, w.server.elapsed()-since)...)
}

// beginOwn says that the server reads the state for a purpose of its own; ended is to be called at the end.
func (w *watchdog) beginOwn(name string) (h *held, ended func()) {
	h = &held{name: name}
	h.begin(&request{op: jute.OpError})
	w.own.mu.Lock()
	w.own.all[h] = struct{}{}
	w.own.mu.Unlock()
	return h, func() {
		w.own.mu.Lock()
		delete(w.own.all, h)
		w.own.mu.Unlock()
		if since, long := h.end(); long {
			w.readEnded(h, nil, since)
		}
	}
}

// set sets the watchdog's figures.
func (w *watchdog) set(set func(name string, value int64), setFloat func(name string, value float64)) {
	set("zkd_slow_entries_total", w.entries.Load())
	set("zkd_slow_reads_total", w.reads.Load())
	entry, read := time.Duration(0), time.Duration(0)
	if a, long := w.applying(nil); long {
		entry = w.server.opts.Clock.Since(a.Since)
	}
	if since := w.oldest.Load(); since != 0 {
		read = w.server.elapsed() - time.Duration(since)
	}
	setFloat("zkd_slow_entry_seconds", entry.Seconds())
	setFloat("zkd_slow_read_seconds", read.Seconds())
}
