package storage

import (
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// A state that has parted from the others' looks well to itself: every znode of it is whole. So the leader has all
// members take the sums of their states at the same place of the log, a mark, and when it knows theirs it has all of
// them compare with what most have: that is a verdict. Neither changes the state, nor takes a zxid.

// mark is the sums of the state before the entry at index.
type mark struct {
	index uint64
	sums  entry.Sums
}

// marksKept is how many marks are remembered: of a leader that stops between a mark and its verdict the mark stays
// without one.
const marksKept = 8

// ErrDiverged says that a state was found to be another than the ensemble's, so that it is not served.
var ErrDiverged = errors.New("this state was found to differ from the ensemble's")

// DivergedError says that the state is not the one that the ensemble has at the same place of the log. It is final.
type DivergedError struct {
	Index      uint64     // of the mark
	Part       string     // what differs first
	Here, Most entry.Sums // of this state, and of the ensemble
}

// Error implements error.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the state of this server is not the ensemble's: at entry %d of the log the %s differ "+
		"(sums %#x %#x %#x here, %#x %#x %#x there); find where with zkd inspect diff, keep a copy of the data "+
		"directory, then empty it: this server fetches everything from the others", e.Index, e.Part, e.Here.Znodes,
		e.Here.Sessions, e.Here.Rest, e.Most.Znodes, e.Most.Sessions, e.Most.Rest)
}

// compareState takes the sums of the state at a mark, or compares those of a mark with a verdict. The sums of a mark
// that this server has not seen, because its state came from another one or was flushed behind it, are not known: then
// there is nothing to compare. A difference ends the server.
func (t *txn) compareState(r *Result) {
	var body entry.CompareTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	if !t.alone {
		r.Code = jute.BadArguments // of a mark inside an entry the state is not there
		return
	}
	m := t.m
	if body.Index == 0 {
		if len(m.marks) == marksKept {
			m.marks = append(m.marks[:0], m.marks[1:]...)
		}
		m.marks = append(m.marks, mark{t.pos.Index, m.sums()})
		r.Mark = &entry.CompareTxn{Index: t.pos.Index, Sums: m.marks[len(m.marks)-1].sums}
		return
	}
	for _, k := range m.marks {
		if k.index != body.Index {
			continue
		}
		if part := k.sums.Differs(body.Sums); part != "" {
			t.err = &DivergedError{Index: k.index, Part: part, Here: k.sums, Most: body.Sums}
			return
		}
		m.agreed.Store(k.index)
	}
}

// AgreedIndex is the last entry of the log before which this state was found to be the ensemble's; 0 if none was since
// the start. Any goroutine may call it.
func (m *Machine) AgreedIndex() uint64 { return m.agreed.Load() }

// Condemn makes it durable that the state is not the ensemble's, so that no later start serves it. Any goroutine may
// call it; the process is to end.
func (m *Machine) Condemn(cause error) error {
	defer m.scrubbing.halt()() // a state that takes this one's place is another one, and waits
	if err := m.store.set(schema.KeyDiverged, []byte(cause.Error())); err != nil {
		return fmt.Errorf("note in state store %s that it differs from the ensemble's: %w", m.store.dir, err)
	}
	return m.store.flushed()
}
