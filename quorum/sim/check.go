package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// whyNotHealed says what the ensemble lacks, "" if nothing.
func (w *world) whyNotHealed() string {
	var missing []string
	leader := w.leader()
	if leader == nil {
		missing = append(missing, "no leader")
	}
	for _, c := range w.clients {
		if c.last != wishGranted {
			missing = append(missing, fmt.Sprintf("client %d is not served (attached: %v)", c.id, c.attached))
		}
	}
	for _, m := range w.members {
		switch {
		case m.retired || !w.group.has(m.id):
		case !m.up:
			missing = append(missing, fmt.Sprintf("member %d is down", m.id))
		case leader != nil && m.state.Leader != leader.id:
			missing = append(missing, fmt.Sprintf("member %d does not know the leader", m.id))
		case leader != nil && m.machine.AppliedIndex() != leader.log.LastIndex():
			missing = append(missing, fmt.Sprintf("member %d is behind", m.id))
		default:
			status := m.stepper.Node().Status()
			if status.OutstandingBytes > 0 {
				missing = append(missing, fmt.Sprintf("member %d has not answered all", m.id))
			}
			if !w.group.is(&status) {
				missing = append(missing, fmt.Sprintf("member %d has voters %v, learners %v, the log %v, %v", m.id,
					status.Voters, status.Learners, w.group.voters, w.group.learners))
			}
		}
	}
	return strings.Join(missing, ", ")
}

// checkLog checks, after a turn of the member's compactor, that its log has no more than twice its bound of what it
// could have forgotten, whoever lacks it.
func (m *member) checkLog() {
	upTo := m.forgettable
	m.forgettable = min(m.machine.AppliedIndex(), m.machine.DurableIndex())
	bytes, bound := int64(0), m.w.profile.retainBytes
	// While a snapshot is installed, the machine is ahead of what the log has.
	for i := m.log.FirstIndex(); i <= min(upTo, m.log.LastIndex()); i++ {
		if e := m.w.ledger.at(i); e != nil {
			bytes += int64(len(e.data))
		}
	}
	if m.w.count(drawnBoundedLog); bytes > 2*bound {
		m.w.fail("the log of member %d, from %d on, has %d bytes up to entry %d, its bound is %d", m.id,
			m.log.FirstIndex(), bytes, upTo, bound)
	}
}

// checkEnd makes the checks that need the whole run.
func (w *world) checkEnd() {
	w.checkStreams()
	w.checkTold()
	w.checkWatches()
	w.checkStates()
	w.checkLinear()
}

// checkStreams checks the order of each session's writes, and that no connection's writes have a gap.
func (w *world) checkStreams() {
	newest := map[jute.SessionID]*op{} // by session: the newest that took effect
	position := map[*op]int{}
	for n, o := range w.ledger.committed() {
		position[o] = n
		if o.code == jute.SessionMoved || o.code == jute.SessionExpired || o.kind == entry.OpReattachSession {
			continue
		}
		last := newest[o.session]
		if last != nil && o.kind == jute.OpCloseSession && last.k != o.k {
			continue // late, from a connection that the client has left: ZooKeeper does not ask whose it is, either
		}
		if last != nil && last.xid > o.xid {
			w.fail("%v takes effect after %v", o, last)
		}
		w.count(drawnOrderedWrite)
		newest[o.session] = o
	}
	for _, k := range w.ledger.streams {
		var gap, before *op
		for _, o := range k.ops {
			switch {
			case o.index == 0:
				if gap == nil && o.state != opRefused {
					gap = o
				}
				continue
			case gap != nil:
				w.fail("%v is applied, and %v, before it on its connection, is not", o, gap)
			case before != nil && position[before] > position[o]:
				w.fail("%v is applied before %v, which was before it on its connection", o, before)
			}
			before = o
		}
	}
}

// committed returns the writes of clients in the order of the log.
func (l *ledger) committed() []*op {
	var list []*op
	for i := range l.entries {
		if len(l.entries[i].data) == 0 {
			continue
		}
		reader, err := entry.NewReader(l.entries[i].data)
		if err != nil {
			l.w.fail("entry %d: %w", l.entries[i].index, err)
			return nil
		}
		var p entry.Proposal
		for reader.Next(&p) {
			if o := l.writes[writeKey{p.Session, p.Xid}]; o != nil {
				list = append(list, o)
			}
		}
	}
	return list
}

// checkTold checks that nobody who proposed to a node that lives still waits, and that what was acknowledged is in the
// log. A member that was removed gives up by itself, later.
func (w *world) checkTold() {
	for _, o := range w.history {
		s := o.k.s
		if !o.told && s.m.up && s.m.life == s.life && o.state != opRefused && w.group.has(s.m.id) {
			w.fail("%v was proposed to member %d, which lives, and its waiter was never told", o, s.m.id)
		}
		if o.state == opAnswered && o.writes() && (o.index == 0 || o.answer.zxid != o.zxid) {
			w.fail("%v was acknowledged with zxid %d and is in the log with zxid %d", o, o.answer.zxid, o.zxid)
		}
		if o.state == opProposed {
			w.report.Unknown++
		}
	}
}

// checkWatches checks that no change was missed by a watch that is still there.
func (w *world) checkWatches() {
	for _, c := range w.clients {
		for _, watch := range c.sortedWatches() {
			if first, ok := w.ledger.firstMatch(watch.key, watch.since); ok && first.zxid <= c.lastZxid {
				w.fail("client %d: the watch %v since zxid %d has not fired for %v", c.id, watch.key,
					watch.since, first)
			}
		}
	}
}

// checkStates checks that all members hold the state that a fresh machine has after the whole log, and that every read
// has shown what it has at the read's index.
func (w *world) checkStates() {
	fresh, err := state.OpenMachine(state.MachineOptions{
		Dir: "state", FS: vfs.NewMem(), CacheBytes: 1 << 20, FlushBytes: 1 << 40, FlushRequests: 1 << 40,
	})
	if err != nil {
		w.fail("open a machine to replay the log: %w", err)
		return
	}
	defer fresh.Close() //nolint:errcheck // nothing of it is kept
	if err := w.replay(fresh); err != nil {
		w.fail("replay the log: %w", err)
		return
	}
	want := dump(fresh)
	for _, m := range w.members {
		if !m.up || m.retired || !w.group.has(m.id) {
			continue
		}
		w.count(drawnComparedState)
		if m.machine.AgreedIndex() > 0 {
			w.count(drawnAgreedState)
		}
		if got := dump(m.machine.Machine); got != want {
			w.fail("member %d holds another state than the log leads to: %s", m.id, firstDifference(want, got))
		}
	}
	view := fresh.View()
	defer view.Close()
	left := maps.Clone(w.ledger.ephemerals)
	view.Ephemerals(func(id jute.SessionID, path string) {
		if left[path] != id {
			w.fail("the ephemeral %s belongs to session %#x, which has not made it", path, uint64(id))
		}
		if _, there := view.Session(id); !there {
			w.fail("the ephemeral %s has outlived its session %#x", path, uint64(id))
		}
		delete(left, path)
	})
	if len(left) > 0 {
		w.fail("ephemerals are gone before their sessions: %v", slices.Sorted(maps.Keys(left)))
	}
}

// replay applies the whole log to a machine, and makes each read again when the machine is where it was made.
func (w *world) replay(fresh *state.Machine) error {
	reads := w.ledger.reads
	slices.SortStableFunc(reads, func(a, b observation) int { return int(a.index) - int(b.index) })
	again := func(index uint64) {
		view := fresh.View()
		defer view.Close()
		for ; len(reads) > 0 && reads[0].index <= index; reads = reads[1:] {
			w.count(drawnComparedRead)
			var a answer
			if r := &reads[0]; look(view, r.o, &a) != r.shown {
				w.fail("%v on member %d at index %d has shown %v, the log leads to %v", r.o, r.m.id, r.index,
					r.o.answer, a)
			}
		}
	}
	if len(w.ledger.entries) > 0 {
		again(w.ledger.entries[0].index - 1)
	}
	for i := range w.ledger.entries {
		e := &w.ledger.entries[i]
		if err := fresh.Apply(e.index, e.term, e.data, nothing{}); err != nil {
			return err
		}
		again(e.index)
	}
	if len(reads) > 0 {
		return errors.New("a read was made of a state behind the log")
	}
	return fresh.Flush(context.Background())
}

// nothing is a sink that looks at nothing.
type nothing struct{}

// Result implements state.Sink.
func (nothing) Result(uint64, uint64, int, *apply.Result) {}

// dump writes out all that a machine's Views show, a line for each znode and session.
func dump(m *state.Machine) string {
	view := m.View()
	defer view.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "index %d zxid %d digest %x nodes %d ephemerals %d bytes %d cluster %x\n", view.AppliedIndex(),
		view.Zxid(), view.Digest(), view.NodeCount(), view.EphemeralCount(), view.ApproximateDataBytes(), m.ClusterID())
	dumpTree(&b, view, "/")
	var sessions []string
	view.Sessions(func(s schema.SessionInfo) { // in no order: sorted below
		sessions = append(sessions, fmt.Sprintf("session %+v %q\n", s, view.EphemeralsOf(s.ID, "/", nil)))
	})
	slices.Sort(sessions)
	for _, s := range sessions {
		b.WriteString(s)
	}
	return b.String()
}

// dumpTree writes out a znode and those below it.
func dumpTree(b *strings.Builder, view state.View, path string) {
	node, _ := view.Get(path)
	fmt.Fprintf(b, "%s %+v %q %+v\n", path, node.Stat(), node.Data(), node.ACL())
	names, _ := view.Children(path, nil)
	for _, name := range names {
		dumpTree(b, view, strings.TrimSuffix(path, "/")+"/"+name)
	}
}

// firstDifference returns the first lines in which two dumps differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("want %s\ngot  %s", a[i], strings.Join(b[min(i, len(b)):min(i+1, len(b))], ""))
		}
	}
	return "there is more"
}
