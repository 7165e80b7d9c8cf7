package quorum

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/member"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/serverid"
)

// A feature level is what all members can do (docs/decisions/0022). The leader raises the ensemble's when every member,
// observers too, has said that its program can do more and that its operator agrees. A member that is away counts with
// what it said last to this leader's process; of one that has not been met since, nothing is known, and nothing is
// raised. Only who bootstraps an ensemble asks no more than those who are there: it is theirs to begin at their level.

// levels is the loop's part that raises the feature level.
type levels struct {
	*facts
	alone         bool        // in a group of one there is nobody to ask
	changePending func() bool // raft would take no change of membership now

	looked   bool        // since the last tick
	proposed entry.Level // the highest that this leader has proposed in its term
	seen     entry.Level // the ensemble's at the last tick; 0: there was none
	lacks    uint64      // the member for whose sake it is not raised, as it was logged; 0: none
}

// levelKey is the name among the log's blobs of the highest feature level that an entry of it has needed: version byte
// 1, then the level, 2 bytes big-endian. A log without one is of the oldest.
const levelKey = "level"

// openLevel returns the level that the log says, and refuses one that this program cannot do. The log of a member that
// was sent a state of a higher level says that one from now on.
func openLevel(o *Options) (entry.Level, error) {
	level, err := logLevel(o.Log)
	if err != nil {
		return 0, err
	}
	if now := o.Machine.Level(); now > level {
		return now, storeLevel(o.Log, now)
	}
	return level, nil
}

// logLevel returns the level that a log says, and fails if this program cannot do it.
func logLevel(log LogReader) (entry.Level, error) {
	blob, ok := log.Meta(levelKey)
	if !ok {
		return entry.LevelOldest, nil
	}
	if len(blob) != 3 || blob[0] != stateVersion {
		return 0, fmt.Errorf("feature level %x in the raft log is not of format %d: run a newer zkd", blob,
			stateVersion)
	}
	level := entry.Level(binary.BigEndian.Uint16(blob[1:]))
	return level, level.Check("the raft log")
}

// storeLevel makes the level that the log says durable.
func storeLevel(log *raftlog.Log, level entry.Level) error {
	blob := binary.BigEndian.AppendUint16([]byte{stateVersion}, uint16(level))
	if err := log.SetMeta(levelKey, blob); err != nil {
		return fmt.Errorf("store the feature level: %w", err)
	}
	return nil
}

// noteLevel has the log say what its next entries need, before they are in it. It refuses those that this program
// cannot read: nothing of them is stored or acknowledged.
func (a *appender) noteLevel() error {
	needs := a.level
	for i := range a.entries {
		e := &a.entries[i]
		switch {
		case raftpb.EntryType(e.Kind) != raftpb.EntryNormal:
			needs = max(needs, levelOfChange(e))
		case len(e.Data) > 0:
			needs = max(needs, entry.Level(e.Data[0]))
		}
	}
	if needs == a.level {
		return nil
	}
	if err := needs.Check("a log entry"); err != nil {
		return err
	}
	a.level = needs
	return storeLevel(a.log, needs)
}

// levelOfChange is the feature level that a change of membership in the log needs.
func levelOfChange(e *raftlog.LogEntry) entry.Level {
	kind := raftpb.EntryType(e.Kind)
	cc, err := member.DecodeChange(&raftpb.Entry{Type: &kind, Data: e.Data})
	if err != nil {
		return entry.LevelOldest // apply will refuse it
	}
	c, err := member.ReadContext(cc.GetContext())
	needs := entry.LevelOldest
	if c.Records || err != nil {
		needs = levelAdmissions
	}
	if len(c.Proposal) > 0 {
		needs = max(needs, entry.Level(c.Proposal[0]))
	}
	return needs
}

// checkpointHeaderBytes is the size of what a checkpoint says of itself, in the data of raft's snapshot: version byte
// 1, then its feature level and the format of its store, 2 bytes big-endian each. At the oldest level it says nothing,
// as nothing was said then (snapshotData). The checkpoint may be of before the level was raised.
const checkpointHeaderBytes = 1 + 2 + 2

// snapshotData returns what a snapshot says of itself: the header of the checkpoint, then the admissions. A group that
// an older revision has founded says nothing at the oldest level, as nothing was said then.
func snapshotData(level entry.Level, a *member.Admissions) []byte {
	if level == entry.LevelOldest && !a.Recorded {
		return nil
	}
	b := binary.BigEndian.AppendUint16([]byte{stateVersion}, uint16(level))
	b = binary.BigEndian.AppendUint16(b, schema.FormatOf(level))
	return append(b, a.Encode()...)
}

// snapshotAdmissions reads the admissions in the data of a snapshot.
func snapshotAdmissions(data []byte) (member.Admissions, error) {
	return member.DecodeAdmissions(data[min(checkpointHeaderBytes, len(data)):])
}

// checkCheckpoint fails if this program cannot read the checkpoint that says so.
func checkCheckpoint(header []byte) error {
	if len(header) == 0 {
		return nil
	}
	if len(header) < checkpointHeaderBytes || header[0] != stateVersion { // a later one may say more
		return fmt.Errorf("%w: checkpoint %x", errSnapshot, header)
	}
	if err := entry.Level(binary.BigEndian.Uint16(header[1:])).Check("the state of the other members"); err != nil {
		return err
	}
	return schema.CheckStateFormat(binary.BigEndian.Uint16(header[3:]), "the state of the other members")
}

// errTooNew says that a proposal needs a level at which the ensemble is not.
func errTooNew(p *entry.Proposal, level entry.Level) error {
	return fmt.Errorf("operation %d with flags %#x cannot be proposed at feature level %d", p.Op, p.Flags, level)
}

// agreed returns the level to which all members agree, and the one that agrees to the least, 0 if that is this
// one. With present, those that were not met count for nothing.
func (v *levels) agreed(present bool) (agreed entry.Level, lacks uint64) {
	o := v.options
	agreed = o.LevelMax
	ids := v.member.IDs()
	for id, left := range v.member.Returning { // order: sorted below
		if left.Incarnation != 0 { // it is to be added again
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if id == v.id || o.PeerLevel == nil {
			continue
		}
		its := o.PeerLevel(id)
		if its < agreed && (its > 0 || !present) {
			agreed, lacks = its, id
		}
	}
	return agreed, lacks
}

// entry returns the entry that raises the level, if this leader knows of a higher one that all can do. It looks
// once a tick.
func (v *levels) entry() *raftpb.Entry {
	o := v.options
	if v.looked || v.alone {
		return nil
	}
	if !v.termReached || o.Machine.AppliedIndex() < v.termIndex || v.changePending() {
		return nil
	}
	v.looked = true
	if len(o.Bootstrap) > 0 && o.Machine.ClusterID() == [16]byte{} {
		return nil
	}
	agreed, lacks := v.agreed(false)
	v.tellLacking(lacks)
	return v.raiseTo(agreed, entry.ClusterID{})
}

// bootstrapEntry returns the entry that raises the level of the ensemble that this leader bootstraps.
func (v *levels) bootstrapEntry() *raftpb.Entry {
	agreed, _ := v.agreed(true)
	var bootstrap entry.FoundTxn
	if bootstrap.Decode(v.options.Bootstrap) != nil {
		return nil
	}
	return v.raiseTo(agreed, bootstrap.ClusterID)
}

// raiseTo returns the entry that raises the level of a cluster, or of whichever it is; nil if it is as high, or soon.
func (v *levels) raiseTo(level entry.Level, cluster entry.ClusterID) *raftpb.Entry {
	if level <= max(v.level(), v.proposed, entry.LevelOldest) {
		return nil
	}
	v.proposed = level
	v.logger.Info("proposing feature level", slog.Int("level", int(level)))
	p := entry.Proposal{
		Op: entry.OpRaiseLevel, Time: jute.Millis(v.options.Clock.Now().UnixMilli()), Server: v.id,
		Body: (&entry.RaiseTxn{Level: level, Cluster: cluster}).Append(nil),
	}
	return v.ownEntry(&p)
}

// tellLacking logs which member keeps the level from being raised, when that is known and has changed.
func (v *levels) tellLacking(id uint64) {
	if id == v.lacks || id != 0 && v.options.PeerLevel(id) == 0 {
		return
	}
	v.lacks = id
	if id != 0 {
		v.logger.Info("feature level waiting for members",
			slog.Int64("peer", serverid.Number(id)), slog.Int("level", int(v.options.PeerLevel(id))))
	}
}

// newTerm says that another term has begun: what was proposed in the one before may be lost.
func (v *levels) newTerm() { v.proposed = 0 }

// refused says that raft has not taken what was proposed last.
func (v *levels) refused() { v.proposed = 0 }

// tick has the leader look again, and logs that the level has changed.
func (v *levels) tick() {
	v.looked = false
	if now := v.level(); now != v.seen {
		if v.seen != 0 {
			v.logger.Info("feature level raised", slog.Int("level", int(now)))
		}
		v.seen = now
	}
}
