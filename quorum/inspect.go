package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
)

// LogReader is a raft log that is read, running or not; *raftlog.Log and *raftlog.LogInspection are.
type LogReader interface {
	// HardState, Meta and LastIndex are raftlog.Log's.
	HardState() ([]byte, bool)
	Meta(key string) ([]byte, bool)
	LastIndex() uint64
}

// StartLog is the part of a raft log that a start looks at before it writes; *raftlog.Log and *raftlog.LogInspection
// are.
type StartLog interface {
	LogReader
	FirstIndex() uint64
}

// CheckStart looks whether Start would refuse a log and a state that has applied an entry, with o's ID, Members and
// Joining; founded says that the state is of an ensemble. It changes nothing. An install that was interrupted is the
// start's to finish.
func CheckStart(log StartLog, applied uint64, founded bool, o *Options) error {
	if _, err := logLevel(log); err != nil {
		return err
	}
	if _, installing := log.Meta(installingKey); installing {
		return nil
	}
	if _, err := checkIdentity(log, o.ID); err != nil {
		return err
	}
	if err := checkAlone(log, o, func() bool { return founded }); err != nil {
		return err
	}
	if _, err := logStart(log, o, applied); err != nil || log.LastIndex() < bootstrapIndex {
		return err
	}
	blob, ok := log.Meta(membershipKey)
	if !ok {
		return fmt.Errorf("the raft log ends at entry %d and names no members: restore a backup", log.LastIndex())
	}
	m, err := member.Decode(blob)
	if err == nil {
		_, err = loadHardState(log, applied, &m)
	}
	return err
}

// LogInfo is what a raft log says of its member and the group.
type LogInfo struct {
	Member           uint64 // whose log it is; 0: not written
	Term, Vote       uint64
	Commit           uint64   // the last entry known to be committed when the log was written last
	Voters, Learners []uint64 // the members, sorted
	Installing       bool     // an install of a received state was interrupted
	Imported         bool     // the data was imported, or restored from a backup
	// Stopped says that the member has stopped as it was asked to, and has written nothing since. Settled is the last
	// entry that anybody may have been told of: what is behind it this member has proposed as leader, and it has never
	// come to be committed. It is the last entry where that is not known, and where the member is the only voter.
	Stopped bool
	Settled uint64
	Sole    bool // the member is the only voter
}

// DescribeLog reads what the node keeps in the log beside the entries. It fails if a newer version has written it.
func DescribeLog(log LogReader) (LogInfo, error) {
	var info LogInfo
	if blob, ok := log.Meta(memberKey); ok && len(blob) == 9 {
		info.Member = binary.BigEndian.Uint64(blob[1:])
	}
	_, info.Installing = log.Meta(installingKey)
	info.Imported = Imported(log)
	_, err := logLevel(log)
	errs := []error{err}
	if blob, ok := log.HardState(); ok {
		hard, err := decodeHardState(blob)
		errs = append(errs, err)
		info.Term, info.Vote, info.Commit = hard.GetTerm(), hard.GetVote(), hard.GetCommit()
	}
	m := member.Membership{}
	if blob, ok := log.Meta(membershipKey); ok {
		m, err = member.Decode(blob)
		errs = append(errs, err)
		if err == nil {
			info.Voters = m.Voters()
			info.Learners = slices.Concat(m.Conf.GetLearners(), m.Conf.GetLearnersNext())
			slices.Sort(info.Learners)
		}
	}
	info.Settled, info.Stopped = settled(log, &m, info.Member)
	info.Sole = m.SoleVoter(info.Member)
	return info, errors.Join(errs...)
}

// EntryKind names what an entry of that kind (raftlog.LogEntry.Kind) holds: "proposals" or "membership".
func EntryKind(kind uint8) string {
	if raftpb.EntryType(kind) == raftpb.EntryNormal {
		return "proposals"
	}
	return "membership"
}

// EntryProposals returns the entry of proposals (entry.NewReader) in the data of an entry of that kind; empty if
// there is none.
func EntryProposals(kind uint8, data []byte) ([]byte, error) {
	typ := raftpb.EntryType(kind)
	if typ == raftpb.EntryNormal {
		return data, nil
	}
	cc, err := member.DecodeChange(&raftpb.Entry{Type: &typ, Data: data})
	if err != nil {
		return nil, err
	}
	c, err := member.ReadContext(cc.GetContext())
	return c.Proposal, err
}
