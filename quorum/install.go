package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
	"zkd/storage/invariants"
	"zkd/storage/raftlog"
)

// A snapshot is installed in three steps, by three goroutines, none of which waits for another: the append goroutine
// writes durably that it is under way, the apply goroutine puts the state in its place, and the append goroutine begins
// the log behind it, in the same write that says that nothing is under way any more. After a crash before the first
// write there is the old state. After it, the start completes the rest.

// installingKey is the name among the log's blobs of what is installed. Its presence is what datadir.Dir's
// FinishInstall is called on.
const installingKey = "installing"

// install is a snapshot on its way into log and state.
type install struct {
	member member.Membership // its index is the snapshot's
	term   uint64            // of that entry
	hard   []byte            // raft's hard state behind it; not in the blob
	newest []byte            // the newest time in the log of who has sent it; not in the blob
	dir    string            // where the state waits; not in the blob
	done   func(error)
}

// encode returns the blob: the version byte, the term (8 bytes, big-endian), then the membership as it is stored.
func (in *install) encode() ([]byte, error) {
	blob, err := in.member.Encode()
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint64([]byte{stateVersion}, in.term)
	return append(b, blob...), nil
}

// decodeInstall reads what encode wrote.
func decodeInstall(b []byte) (*install, error) {
	if len(b) < 9 || b[0] != stateVersion {
		return nil, fmt.Errorf("install %x in the raft log is not of format %d: run a newer zkd", b, stateVersion)
	}
	m, err := member.Decode(b[9:])
	return &install{member: m, term: binary.BigEndian.Uint64(b[1:])}, err
}

// begin writes durably that the install is under way.
func (in *install) begin(log *raftlog.Log) error {
	blob, err := in.encode()
	if err != nil {
		return err
	}
	if in.newest != nil {
		if err := log.SetMeta(timeKey, in.newest); err != nil {
			return err
		}
	}
	return log.SetMeta(installingKey, blob)
}

// end begins the log behind the snapshot and clears the mark, in one write.
func (in *install) end(log *raftlog.Log) error {
	blob, err := in.member.Encode()
	if err != nil {
		return err
	}
	return log.Install(in.member.Index, in.term, in.hard, map[string][]byte{
		membershipKey: blob, returningKey: encodeReturning(&in.member), installingKey: nil,
	})
}

// beginInstall begins an install and hands it to the apply goroutine.
func (a *appender) beginInstall(in *install) error {
	a.installs.Add(1)
	if err := in.begin(a.log); err != nil {
		return fmt.Errorf("begin to install a snapshot: %w", err)
	}
	a.replaceState(in)
	return nil
}

// endInstall completes it.
func (a *appender) endInstall(in *install) error {
	if err := in.end(a.log); err != nil {
		return fmt.Errorf("install a snapshot: %w", err)
	}
	a.dirty = false
	a.installs.Add(1)
	in.done(nil)
	return nil
}

// replaceState puts the state of an install in its place. Entries before it were applied, or never will be.
func (a *applier) replaceState(in *install) error {
	a.Replacing()
	if err := a.machine.Install(in.dir); err != nil {
		return fmt.Errorf("install a snapshot: %w", err)
	}
	if applied := a.machine.AppliedIndex(); applied != in.member.Index {
		return fmt.Errorf("install a snapshot of entry %d: the state in it has applied entry %d", in.member.Index,
			applied)
	}
	a.member = in.member
	a.Replaced()
	a.installed(in)
	return nil
}

// finishInstall completes an install that a crash has interrupted, on the log's side: DataDir.FinishInstall has put the
// state in its place before it was opened.
func finishInstall(log *raftlog.Log, applied uint64) error {
	blob, ok := log.Meta(installingKey)
	if !ok {
		return nil
	}
	in, err := decodeInstall(blob)
	if err != nil {
		return err
	}
	if applied != in.member.Index {
		return fmt.Errorf("a snapshot of entry %d was being installed, and the state has applied entry %d: "+
			"restore a backup of both", in.member.Index, applied)
	}
	term, vote := in.term, uint64(0)
	if stored, ok := log.HardState(); ok {
		hard, err := decodeHardState(stored)
		if err != nil {
			return err
		}
		if hard.GetTerm() >= term {
			term, vote = hard.GetTerm(), hard.GetVote()
		}
	}
	in.hard = appendHardState(nil, term, vote, in.member.Index)
	if err := in.end(log); err != nil {
		return fmt.Errorf("finish the install of a snapshot: %w", err)
	}
	return nil
}

// staged is a snapshot that has come from the leader: the message for raft, and the directory that holds its state.
type staged struct {
	message *raftpb.Message
	dir     string
	done    func(error) // told once: it is installed, or was not wanted and is removed
}

// errSnapshot means a header that no member of this group sends.
var errSnapshot = errors.New("header of a snapshot is malformed")

// Staged takes a checkpoint that another member has sent: header is what its SnapshotSender was given, and dir holds
// the checkpoint, complete and synced. It returns when the checkpoint is installed, or was not wanted any more and dir
// is removed: until then, dir must be left alone.
func (n *Node) Staged(from uint64, header []byte, dir string) error {
	done := make(chan error, 1) // told once
	if err := n.stage(from, header, dir, func(err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-n.halt:
		return ErrStopped
	}
}

// stage is Staged for who does not wait: done is told, on any goroutine, unless the node stops before or stage fails.
func (n *Node) stage(from uint64, header []byte, dir string, done func(error)) error {
	m := &raftpb.Message{}
	if err := proto.Unmarshal(header, m); err != nil {
		return fmt.Errorf("decode the header of a snapshot: %w", err)
	}
	meta := m.GetSnapshot().GetMetadata()
	if m.GetType() != raftpb.MsgSnap || m.GetFrom() != from || m.GetTo() != n.options.ID || m.GetTerm() == 0 ||
		meta.GetIndex() == 0 || meta.GetTerm() == 0 || len(meta.GetConfState().GetVoters()) == 0 {
		return fmt.Errorf("%w: %v from member %d", errSnapshot, m, from)
	}
	if err := checkCheckpoint(m.GetSnapshot().GetData()); err != nil {
		return err
	}
	if _, err := snapshotAdmissions(m.GetSnapshot().GetData()); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if !n.inbox.put(arrival{from: from, what: &staged{message: m, dir: dir, done: done}}) {
		return ErrStopped
	}
	return nil
}

// CheckSnapshot fails if the state with that header, of a SnapshotSender, is one that this program cannot read: then
// there is no use in receiving it.
func CheckSnapshot(header []byte) error {
	m := &raftpb.Message{}
	if err := proto.Unmarshal(header, m); err != nil {
		return fmt.Errorf("decode the header of a snapshot: %w", err)
	}
	return checkCheckpoint(m.GetSnapshot().GetData())
}

// receiveSnapshot shows raft a snapshot, and removes it if raft does not want it: it is older than what is here, or of
// an earlier leader.
func (l *loop) receiveSnapshot(s *staged) {
	l.handOut()
	if !l.admission.screen(s.message) {
		l.staged = s
		l.stepRaft(s.message)
		l.handOut()
		if l.staged == nil {
			return
		}
		l.staged = nil
	}
	l.logger.Info("snapshot rejected: not needed", slog.Uint64("peer", s.message.GetFrom()),
		slog.Uint64("index", s.message.GetSnapshot().GetMetadata().GetIndex()))
	l.toCheckpointer.put(checkpointJob{remove: s.dir, done: s.done})
}

// install hands a snapshot that raft has accepted to the append goroutine. What was forwarded may be in it: nobody will
// know.
func (l *loop) install(m *raftpb.Message) {
	s, meta := l.staged, m.GetSnapshot().GetMetadata()
	if s == nil || s.message.GetSnapshot().GetMetadata().GetIndex() != meta.GetIndex() {
		invariants.Violated("raft has another snapshot", slog.Uint64("index", meta.GetIndex()))
	}
	l.staged = nil
	l.logger.Info("installing a snapshot", slog.Uint64("peer", s.message.GetFrom()),
		slog.Uint64("index", meta.GetIndex()))
	if m.Term == nil {
		term, vote, commit := l.voteTerm, l.vote, meta.GetIndex()
		m.Term, m.Vote, m.Commit = &term, &vote, &commit
	}
	admitted, err := snapshotAdmissions(m.GetSnapshot().GetData())
	if err != nil {
		invariants.Violated("the admissions of a snapshot were readable before", slog.Any("err", err))
	}
	in := &install{
		member: member.Membership{Index: meta.GetIndex(), Conf: meta.GetConfState(), Admissions: admitted},
		term:   meta.GetTerm(), hard: appendHardState(nil, m.GetTerm(), m.GetVote(), m.GetCommit()),
		dir: s.dir, done: s.done,
	}
	if at, ok := decodeTime(s.message.GetContext()); ok {
		in.newest = appendTime(at)
	}
	l.forwarding.dropUnanswered(ErrLeadershipLost)
	l.members.install(in.member)
	l.admission.installed()
	l.handToAppend(m, in)
	l.clocks.installed(in.newest)
}

// Installing tells whether an install of a snapshot was begun in this log and has not ended: then the state that was
// staged must take its place (datadir.Dir.FinishInstall) before the machine is opened.
func Installing(log *raftlog.Log) bool {
	_, ok := log.Meta(installingKey)
	return ok
}
