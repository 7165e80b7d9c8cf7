package quorum

import (
	"encoding/binary"
	"fmt"

	"zkd/quorum/member"
	"zkd/storage/raftlog"
	"zkd/storage/serverid"
)

// The commit index on disk lags behind the one that writes were acknowledged by: it is written with the next append. So
// who looks at a log at rest cannot tell whether its last entries were acknowledged to anybody. A member that stops as
// it was asked to writes down what it knows by then. If it has led in the newest term that it knows of, and all entries
// behind the commit index are of that term, nobody else can have acknowledged them: a leader after it had a later term,
// and what that one has written goes beyond this log.

// restKey is the name among the log's blobs of what a member knew when it stopped: the version byte, then raft's term,
// the commit index and the last entry, 8 bytes big-endian each, and 1 if what is behind the commit index is of a term
// in which this member has led, else 0. It is deleted at the next start.
const restKey = "rest"

// rest is what a member knew when it stopped.
type rest struct {
	term, commit, last uint64
	led                bool
}

// restBytes is the length of the blob.
const restBytes = 1 + 3*8 + 1

// encode returns the blob.
func (r *rest) encode() []byte {
	b := []byte{stateVersion}
	for _, n := range []uint64{r.term, r.commit, r.last} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	if r.led {
		return append(b, 1)
	}
	return append(b, 0)
}

// restOf reads the blob, if there is one and nothing was written since: a version that does not know it leaves it.
func restOf(log LogReader) (r rest, ok bool) {
	blob, ok := log.Meta(restKey)
	if !ok || len(blob) != restBytes || blob[0] != stateVersion {
		return r, false
	}
	r = rest{term: binary.BigEndian.Uint64(blob[1:]), commit: binary.BigEndian.Uint64(blob[9:]),
		last: binary.BigEndian.Uint64(blob[17:]), led: blob[25] == 1}
	state, ok := log.HardState()
	if !ok {
		return r, false
	}
	hard, err := decodeHardState(state)
	return r, err == nil && hard.GetTerm() == r.term && hard.GetCommit() == r.commit && log.LastIndex() == r.last
}

// settled is the last entry of a log at rest that may have been acknowledged, as LogInfo has it.
func settled(log LogReader, m *member.Membership, id uint64) (last uint64, stopped bool) {
	r, stopped := restOf(log)
	if stopped && r.led && !m.SoleVoter(id) {
		return r.commit, true
	}
	return log.LastIndex(), stopped
}

// takeRest takes what the member knew when it stopped out of the log: it returns the term in which it has led, or 0.
// Until there is another leader nothing has changed about the entries of that term.
func takeRest(log *raftlog.Log) (led uint64, err error) {
	if _, there := log.Meta(restKey); !there {
		return 0, nil
	}
	if r, ok := restOf(log); ok && r.led {
		led = r.term
	}
	if err := log.DeleteMeta(restKey); err != nil {
		return 0, fmt.Errorf("begin to write to the raft log: %w", err)
	}
	return led, nil
}

// noteRest writes down what a member knows, with the commit index, which a start from there needs not ask others for.
// Its goroutines have ended. A member that is in the midst of an install, whose log lacks what raft takes to be in it,
// says nothing.
func noteRest(l *loop, a *appender) error {
	if len(a.held) > 0 || l.voteTerm == 0 {
		return nil
	}
	r := rest{term: l.voteTerm, commit: l.commit, last: l.log.LastIndex()}
	if r.commit < r.last && l.led == r.term {
		oldest, err := l.log.Term(r.commit + 1)
		r.led = err == nil && oldest == r.term
	}
	if err := l.log.Append(nil, appendHardState(nil, r.term, l.vote, r.commit), false); err != nil {
		return fmt.Errorf("stop member %d: store the commit index: %w", serverid.Number(l.id), err)
	}
	if err := l.log.SetMeta(restKey, r.encode()); err != nil {
		return fmt.Errorf("stop member %d: store what is committed: %w", serverid.Number(l.id), err)
	}
	return nil
}
