package state

import (
	"encoding/binary"
	"testing"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// lastResult keeps the code of the last result.
type lastResult struct{ code jute.Code }

func (l *lastResult) Result(_, _ uint64, _ int, r *apply.Result) { l.code = r.Code }

// TestAnExpiryCountsInItsTermAlone: the end of a session that names a term is refused in an entry of another.
func TestAnExpiryCountsInItsTermAlone(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	apply := func(term uint64, p *entry.Proposal) jute.Code {
		t.Helper()
		var got lastResult
		entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), p)
		if err := m.Apply(m.AppliedIndex()+1, term, entry, &got); err != nil {
			t.Fatal(err)
		}
		return got.code
	}
	expiry := func(term uint64) *entry.Proposal {
		return &entry.Proposal{Op: jute.OpCloseSession, Session: 7, Body: binary.BigEndian.AppendUint64(nil, term)}
	}
	open := &entry.Proposal{Op: jute.OpCreateSession, Session: 7,
		Body: (&entry.SessionTxn{TimeoutMillis: 1}).Append(nil)}
	for _, step := range []struct {
		term uint64
		p    *entry.Proposal
		want jute.Code
	}{
		{4, open, jute.OK},
		{5, expiry(4), jute.SessionMoved},
		{5, expiry(6), jute.SessionMoved},
		{5, expiry(5), jute.OK},
		{5, expiry(5), jute.SessionExpired},
		{5, open, jute.OK},
		{6, &entry.Proposal{Op: jute.OpCloseSession, Session: 7}, jute.OK}, // the client's own wish counts always
	} {
		if got := apply(step.term, step.p); got != step.want {
			t.Errorf("%v in term %d with body %x: %v, want %v", step.p.Op, step.term, step.p.Body, got, step.want)
		}
	}
}
