package raftlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// logOracle is what a raft log is, as a slice. It also remembers what a crash may take back: every moment since the
// last sync.
type logOracle struct {
	start, startTerm uint64
	entries          []LogEntry
	hardState        string
	meta             string
}

func (o *logOracle) clone() logOracle {
	c := *o
	c.entries = slices.Clone(o.entries)
	return c
}

func (o *logOracle) last() uint64 { return o.start + uint64(len(o.entries)) }

func (o *logOracle) lastTerm() uint64 {
	if len(o.entries) == 0 {
		return o.startTerm
	}
	return o.entries[len(o.entries)-1].Term
}

// matches says where the log differs from the oracle; "" if nowhere.
func (o *logOracle) matches(l *Log) string {
	if l.FirstIndex() != o.start+1 || l.LastIndex() != o.last() {
		return fmt.Sprintf("log is [%d, %d], oracle [%d, %d]", l.FirstIndex(), l.LastIndex(), o.start+1, o.last())
	}
	got, err := l.Entries(nil, o.start+1, o.last()+1, 1<<40)
	if err != nil {
		return err.Error()
	}
	if !slices.EqualFunc(got, o.entries, sameEntry) {
		return "entries differ"
	}
	if why := o.outlineDiffers(l); why != "" {
		return why
	}
	if term, err := l.Term(o.start); term != o.startTerm || err != nil {
		return fmt.Sprintf("term of the start is %d (%v), want %d", term, err, o.startTerm)
	}
	if state, _ := l.HardState(); string(state) != o.hardState {
		return fmt.Sprintf("hard state is %q, want %q", state, o.hardState)
	}
	if meta, _ := l.Meta("name"); string(meta) != o.meta {
		return fmt.Sprintf("blob is %q, want %q", meta, o.meta)
	}
	return ""
}

// outlineDiffers says where what the log knows without its disk differs from the oracle; "" if nowhere.
func (o *logOracle) outlineDiffers(l *Log) string {
	heads, err := l.Heads(nil, o.start+1, o.last()+1)
	if err != nil || len(heads) != len(o.entries) {
		return fmt.Sprintf("%d heads (%v), want %d", len(heads), err, len(o.entries))
	}
	for i := range o.entries {
		e, h := &o.entries[i], &heads[i]
		term, err := l.Term(e.Index)
		if err != nil || term != e.Term || h.Index != e.Index || h.Term != e.Term || h.Kind != e.Kind {
			return fmt.Sprintf("head %+v and term %d (%v) of entry %d, term %d, kind %d", h, term, err, e.Index, e.Term,
				e.Kind)
		}
	}
	from := l.RecentFrom()
	recent, found, err := l.RecentEntries(nil, from, o.last()+1, 1<<40)
	if err != nil || !found || !slices.EqualFunc(recent, o.entries[from-o.start-1:], sameEntry) {
		return fmt.Sprintf("the entries from %d on are not in memory (%v)", from, err)
	}
	if from == o.start+1 {
		return ""
	}
	if _, found, err := l.RecentEntries(nil, from-1, o.last()+1, 1<<40); found || err != nil {
		return fmt.Sprintf("entry %d is in memory (%v), the first is to be %d", from-1, err, from)
	}
	return ""
}

// logModel drives a log and its oracle.
type logModel struct {
	fs    *vfs.MemFS
	log   *Log
	now   logOracle
	since []logOracle // states since the last sync, oldest first: a crash leaves one of them or now
}

func (m *logModel) open(t *rapid.T) {
	opts := testLogOptions(m.fs, "log")
	l, err := Open(opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.log = l
}

// wrote notes a write that was made.
func (m *logModel) wrote(sync bool, before logOracle) {
	if sync {
		m.since = nil
		return
	}
	m.since = append(m.since, before)
}

func (m *logModel) appendEntries(t *rapid.T) {
	before := m.now.clone()
	back := rapid.Uint64Range(0, min(3, uint64(len(m.now.entries)))).Draw(t, "back")
	n := rapid.IntRange(0, 5).Draw(t, "entries")
	bytesEach := rapid.SampledFrom([]int{10, 300, 9000, 90000}).Draw(t, "bytes")
	term := m.now.lastTerm() + rapid.Uint64Range(0, 1).Draw(t, "newer")
	sync := rapid.Bool().Draw(t, "sync")
	var hardState []byte
	if rapid.Bool().Draw(t, "state") || n == 0 {
		hardState = []byte(fmt.Sprintf("state %d", rapid.IntRange(0, 99).Draw(t, "value")))
		m.now.hardState = string(hardState)
	}
	first := m.now.last() + 1
	if n > 0 {
		first -= back
		m.now.entries = m.now.entries[:uint64(len(m.now.entries))-back]
	}
	entries := testEntries(first, max(term, 1), n, bytesEach)
	for i := range entries {
		entries[i].Kind = uint8(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "kind"))
	}
	m.now.entries = append(m.now.entries, entries...)
	if err := m.log.Append(entries, hardState, sync); err != nil {
		t.Fatal(err)
	}
	m.wrote(sync, before)
}

func (m *logModel) compact(t *rapid.T) {
	if len(m.now.entries) == 0 {
		return
	}
	before := m.now.clone()
	n := rapid.IntRange(1, len(m.now.entries)).Draw(t, "forgotten")
	entry := m.now.entries[n-1]
	m.now.start, m.now.startTerm = entry.Index, entry.Term
	m.now.entries = slices.Clone(m.now.entries[n:])
	meta := map[string][]byte{}
	if rapid.Bool().Draw(t, "tells") {
		m.now.meta = rapid.StringN(1, 20, 40).Draw(t, "blob")
		meta["name"] = []byte(m.now.meta)
	}
	if err := m.log.Compact(entry.Index, entry.Term, meta); err != nil {
		t.Fatal(err)
	}
	m.wrote(false, before)
}

func (m *logModel) reset(t *rapid.T) {
	m.now.start = m.now.last() + rapid.Uint64Range(0, 5).Draw(t, "ahead")
	m.now.startTerm = m.now.lastTerm() + 1
	m.now.entries, m.now.hardState = nil, "snapshot"
	blob := rapid.StringN(0, 20, 40).Draw(t, "blob")
	meta := map[string][]byte{"name": []byte(blob)}
	if m.now.meta = blob; blob == "" {
		meta["name"] = nil // deletes it
	}
	if err := m.log.Install(m.now.start, m.now.startTerm, []byte("snapshot"), meta); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.log.Meta("name"); ok != (blob != "") {
		t.Fatalf("blob %q is there: %t", blob, ok)
	}
	m.wrote(true, logOracle{})
}

func (m *logModel) setMeta(t *rapid.T) {
	m.now.meta = rapid.StringN(0, 20, 40).Draw(t, "blob")
	if err := m.log.SetMeta("name", []byte(m.now.meta)); err != nil {
		t.Fatal(err)
	}
	m.wrote(true, logOracle{})
}

func (m *logModel) reopen(t *rapid.T) {
	if err := m.log.Close(); err != nil {
		t.Fatal(err)
	}
	m.since = nil
	m.open(t)
}

// crash loses some of what was not synced. What is left must be the oracle at one moment since the last sync.
func (m *logModel) crash(t *rapid.T) {
	percent := rapid.SampledFrom([]int{0, 0, 50, 90, 100}).Draw(t, "kept")
	seed := rapid.Uint64().Draw(t, "seed")
	clone := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
	if err := m.log.Close(); err != nil {
		t.Fatal(err)
	}
	m.fs = clone
	m.open(t)
	var why string
	for _, moment := range append(slices.Clone(m.since), m.now) {
		if why = moment.matches(m.log); why == "" {
			m.now, m.since = moment, nil
			return
		}
	}
	t.Fatalf("after a crash the log is none of %d possible states: %s", len(m.since)+1, why)
}

// TestRaftLogModel compares a log with a slice over random operations, restarts and crashes.
func TestRaftLogModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &logModel{fs: vfs.NewCrashableMem()}
		m.open(t)
		defer func() { _ = m.log.Close() }() // a failure was reported where it happened
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.appendEntries,
			"append2": m.appendEntries,
			"append3": m.appendEntries,
			"compact": m.compact,
			"reset":   m.reset,
			"meta":    m.setMeta,
			"reopen":  m.reopen,
			"crash":   m.crash,
			"": func(t *rapid.T) {
				if why := m.now.matches(m.log); why != "" {
					t.Fatal(why)
				}
			},
		})
	})
}
