package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/raftlog"
)

// membershipKey is the name of the membership among the log's blobs.
const membershipKey = "membership"

// The log of a new group begins behind this entry, which never existed: so a member that is added later has nothing to
// fetch entry by entry from the very beginning, where the first membership is not written, but starts from a snapshot,
// which holds it.
const (
	bootstrapIndex = 1
	bootstrapTerm  = 1
)

// openGroup returns the state that raft starts from. On the first start it makes the founders the members, or nobody
// if this member joins a group.
//
// The first start writes twice: the membership, then the beginning of the log. Both are synced, and a crash before,
// between or after them leaves what the next start completes: a log without a beginning holds no entries, so nothing
// can be lost with it. The log of a member that joins stays without a beginning until a snapshot comes.
func openGroup(o *Options, applied uint64) (*logView, member.Membership, error) {
	if err := finishInstall(o.Log, applied); err != nil {
		return nil, member.Membership{}, err
	}
	if err := openIdentity(o); err != nil {
		return nil, member.Membership{}, err
	}
	begin, err := logStart(o.Log, o, applied)
	if err != nil {
		return nil, member.Membership{}, err
	}
	m, err := loadMembership(o, begin)
	if err != nil {
		return nil, member.Membership{}, err
	}
	log := o.Log
	if log.LastIndex() < bootstrapIndex && !m.Empty() {
		hard := appendHardState(nil, bootstrapTerm, 0, begin)
		if err := log.ResetToSnapshot(begin, bootstrapTerm, hard); err != nil {
			return nil, member.Membership{}, fmt.Errorf("begin the raft log: %w", err)
		}
	}
	hard, err := loadHardState(log, applied, &m)
	if err != nil {
		return nil, member.Membership{}, err
	}
	return &logView{log: log, hard: hard, conf: m.Conf}, m, nil
}

// Imported tells whether the data that the log belongs to was brought over from an Apache ZooKeeper server, or restored
// from a backup.
func Imported(log LogReader) bool {
	_, ok := log.Meta(raftlog.ImportedKey)
	return ok
}

// logStart returns the entry behind which the log begins, or is to begin. That of imported data is another one, so
// that no member without data, which begins behind bootstrapIndex, can be taken for one that has it: it gets a
// snapshot.
func logStart(log StartLog, o *Options, applied uint64) (uint64, error) {
	imported := Imported(log)
	switch {
	case log.LastIndex() >= bootstrapIndex:
		return log.FirstIndex() - 1, nil
	case imported && applied == raftlog.ImportedIndex:
		return raftlog.ImportedIndex, mayFound(o)
	case imported:
		return 0, errors.New("data was imported or restored, and the state that it was brought into is not there: " +
			"put it back, or empty the directory and import or restore again")
	case applied != 0:
		return 0, fmt.Errorf("the state has applied entry %d and the raft log is empty: "+
			"put back the raft log, or restore a backup of both", applied)
	}
	return bootstrapIndex, nil
}

// mayFound refuses imported data on a member that cannot found a group.
func mayFound(o *Options) error {
	if o.Joining {
		return errors.New("data was imported or restored into this server, and it is to join an ensemble, which has " +
			"its own: remove zkd.join and stop the others, or empty the directory")
	}
	for _, m := range o.Members {
		if m.ID == o.ID && m.Learner {
			return errors.New("data was imported or restored into this server, which is an observer: bring it into " +
				"a participant")
		}
	}
	return nil
}

// loadMembership reads who belongs to the group, or writes that the founders do. Who has imported data bootstraps
// alone: the others, who have none, come to it as new members.
func loadMembership(o *Options, begin uint64) (member.Membership, error) {
	if blob, ok := o.Log.Meta(membershipKey); ok {
		m, err := member.Decode(blob)
		if err != nil {
			return m, err
		}
		return m, takeReturning(o.Log, &m)
	}
	if o.Log.LastIndex() > 0 {
		return member.Membership{}, fmt.Errorf("the raft log ends at entry %d and names no members: restore a backup",
			o.Log.LastIndex())
	}
	m := member.Membership{Index: begin, Conf: &raftpb.ConfState{}}
	if begin == raftlog.ImportedIndex {
		m.Conf.Voters = append(m.Conf.Voters, o.ID)
		return m, storeMembership(o.Log, &m)
	}
	if !o.Joining {
		for _, founder := range o.founders() {
			if founder.Learner {
				m.Conf.Learners = append(m.Conf.Learners, founder.ID)
			} else {
				m.Conf.Voters = append(m.Conf.Voters, founder.ID)
			}
		}
	}
	return m, storeMembership(o.Log, &m)
}

// takeReturning takes those who are to be added again, who are in a blob of their own while an older revision may have
// to read it (encodeReturning), into the membership.
func takeReturning(log *raftlog.Log, m *member.Membership) error {
	blob, ok := log.Meta(returningKey)
	if !ok || len(blob) <= 1 {
		return nil
	}
	returning, err := member.DecodeReturning(blob[1:])
	if err != nil || blob[0] != stateVersion {
		return fmt.Errorf("returning members %x in the raft log are not of format %d: run a newer zkd", blob,
			stateVersion)
	}
	out := maps.Clone(m.Returning)
	if out == nil {
		out = map[uint64]member.Returning{}
	}
	for id, o := range returning { // order: each for itself
		if !m.Has(id) {
			out[id] = o
		}
	}
	m.Returning = out
	if !m.Recorded {
		return nil
	}
	return storeMembership(log, m)
}

// encodeReturning returns the blob of those who are to be added again, as long as they are not in that of the
// membership: the version byte, then what member.DecodeReturning reads.
func encodeReturning(m *member.Membership) []byte {
	if m.Recorded {
		return []byte{stateVersion}
	}
	return m.AppendReturning([]byte{stateVersion})
}

// storeMembership makes m durable. Its blobs are written one after the other: what a crash between them leaves is put
// right by the entry that made m so, which is applied again, or by takeReturning.
func storeMembership(log *raftlog.Log, m *member.Membership) error {
	blob, err := m.Encode()
	if err != nil {
		return err
	}
	before, _ := log.Meta(returningKey)
	returning := encodeReturning(m)
	changed := !bytes.Equal(before, returning) && len(before)+len(returning) > 1
	if changed && !m.Recorded {
		if err := log.SetMeta(returningKey, returning); err != nil {
			return fmt.Errorf("store who is to be added again: %w", err)
		}
	}
	if err := log.SetMeta(membershipKey, blob); err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	if changed && m.Recorded {
		if err := log.SetMeta(returningKey, returning); err != nil {
			return fmt.Errorf("clear who is to be added again: %w", err)
		}
	}
	return nil
}

// loadHardState reads raft's state and checks that log and state fit together. What is applied is committed, even if
// the commit index, which is written with the next append only, was not on disk yet; so is the entry that has made the
// membership what it is, to which the state must come before a checkpoint can be made. A log without a beginning may
// have none.
func loadHardState(log StartLog, applied uint64, m *member.Membership) (*raftpb.HardState, error) {
	begun := !m.Empty()
	if begun {
		applied = max(applied, bootstrapIndex)
	}
	first, last := log.FirstIndex(), log.LastIndex()
	if applied > last {
		return nil, fmt.Errorf("the state has applied entry %d and the raft log ends at %d: "+
			"put back the raft log that belongs to it, or restore a backup of both", applied, last)
	}
	if applied+1 < first {
		return nil, fmt.Errorf("the state has applied entry %d and the raft log begins at %d: "+
			"put back the state that belongs to it, or restore a backup of both", applied, first)
	}
	blob, ok := log.HardState()
	if !ok {
		if !begun {
			return &raftpb.HardState{}, nil
		}
		return nil, fmt.Errorf("the raft log ends at entry %d and has no hard state: restore a backup", last)
	}
	hard, err := decodeHardState(blob)
	if err != nil {
		return nil, err
	}
	commit := min(max(hard.GetCommit(), applied, m.Index), last)
	hard.Commit = &commit
	return hard, nil
}
