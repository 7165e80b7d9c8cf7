package quorum

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/storage/entry"
)

// The leader gives every proposal its time, when it takes the batch: the proposers' clocks do not matter
// (docs/decisions/0024). Times in the log do not go back, whoever leads: each member knows the time of the last entry
// of its log, and a leader goes on from there.

// timestampAheadMax is how far the log may be ahead of a leader's clock for the leader to wait for its clock, at half
// speed. A log that is farther ahead was stamped by a clock that was wrong, and times step back: else they would stand
// still, and nothing with a time to live would end, for as long as that clock was ahead. Expired znodes are looked for
// once a minute anyway (znode.container.checkIntervalMs): nobody can expect less.
const timestampAheadMax = time.Minute

// timestamper tells the time that the leader's entries bear. The loop goroutine uses it, but for Node.Time.
type timestamper struct {
	options *Options
	skew    *clockSkew
	start   time.Time // on Options.Clock; what elapsed counts from

	mu      sync.Mutex
	last    jute.Millis   // guarded by mu; of the newest entry that this member knows of; 0: of none
	unsure  bool          // guarded by mu; the log's end bears no time: what others say counts
	waiting bool          // guarded by mu; the log is ahead of the clock
	from    jute.Millis   // guarded by mu; last, when that began
	since   time.Duration // guarded by mu; elapsed then
}

// newTimestamper returns the timestamper of a member whose log ends with an entry of that time, 0 if that is not known.
func newTimestamper(o *Options, s *clockSkew, last jute.Millis) *timestamper {
	return &timestamper{options: o, skew: s, start: o.Clock.Now(), last: last, unsure: last == 0}
}

// next is the time of the next entry.
func (s *timestamper) next() jute.Millis {
	now := jute.Millis(s.options.Now().Add(s.skew.correction()).UnixMilli())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = false
	ahead := s.last - now
	switch {
	case ahead <= 0:
		s.last, s.waiting = now, false
	case ahead > jute.Millis(timestampAheadMax.Milliseconds()):
		s.options.Logger.Warn("write timestamps stepped back",
			slog.Duration("by", time.Duration(ahead)*time.Millisecond))
		s.last, s.waiting = now, false
	default:
		elapsed := s.options.Clock.Since(s.start)
		if !s.waiting {
			s.waiting, s.from, s.since = true, s.last, elapsed
		}
		s.last = max(s.last, s.from+jute.Millis(((elapsed-s.since)/2).Milliseconds()))
	}
	return s.last
}

// note takes note of the time of the entry that is the log's last now, which another member may have stamped.
func (s *timestamper) note(last jute.Millis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last != s.last {
		s.last, s.waiting = last, false
	}
	s.unsure = false
}

// forget says that a snapshot has taken the log's place, which does not tell the time of its last entry.
func (s *timestamper) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = true
}

// heard is told the newest time that another member knows of.
func (s *timestamper) heard(last jute.Millis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsure && last > s.last {
		s.last, s.waiting = last, false
	}
}

// newest is the newest time that this member knows of, 0 if none.
func (s *timestamper) newest() jute.Millis {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// timeOf returns the time of an entry; false if it bears none.
func timeOf(e *raftpb.Entry) (jute.Millis, bool) {
	data := e.GetData()
	if e.GetType() != raftpb.EntryNormal {
		var err error
		if data, err = EntryProposals(uint8(e.GetType()), data); err != nil {
			return 0, false // apply will refuse it
		}
	}
	return entry.Time(data)
}

// timeKey is the name among the log's blobs of the newest time in the log of who has sent the snapshot that was
// installed last: behind a snapshot there may be no entry yet.
const timeKey = "time"

// compactedKey is the name among the log's blobs of the time of the entries that it has forgotten: what is left may be
// changes of membership and what leaders begin their terms with, which bear none. An install begins without.
const compactedKey = "compacted"

// appendTime returns a time as it is stored and goes with a snapshot: the version byte, then milliseconds since 1970 (8
// bytes, big-endian).
func appendTime(at jute.Millis) []byte {
	return binary.BigEndian.AppendUint64([]byte{stateVersion}, uint64(at))
}

// decodeTime reads what appendTime wrote; false if there is none.
func decodeTime(b []byte) (at jute.Millis, ok bool) {
	if len(b) != 9 || b[0] != stateVersion {
		return 0, false
	}
	at = jute.Millis(binary.BigEndian.Uint64(b[1:]))
	return at, at > 0
}

// lastTime returns the time of the log's last entry up to an index that bears one. If there is none, those that the log
// has forgotten tell, or the snapshot that it begins behind; 0 if neither does.
func lastTime(v *logView, upTo uint64) (jute.Millis, error) {
	first := v.log.FirstIndex()
	for i := min(upTo, v.log.LastIndex()); i >= first && i > 0; i-- {
		entries, err := v.read(i, i+1, 0)
		if err != nil {
			return 0, err
		}
		if at, ok := timeOf(entries[0]); ok {
			return at, nil
		}
	}
	var newest jute.Millis // the version before, in between, may have left either as it was
	for _, key := range []string{timeKey, compactedKey} {
		blob, _ := v.log.Meta(key)
		at, _ := decodeTime(blob)
		newest = max(newest, at)
	}
	return newest, nil
}
