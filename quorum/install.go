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
	"zkd/storage/serverid"
	"zkd/storage/state"
)

// A snapshot is installed in three steps, by three goroutines, none of which waits for another: the append goroutine
// writes durably that it is under way, the apply goroutine puts the state in its place, and the append goroutine begins
// the log behind it, in the same write that says that nothing is under way any more. Before the first of them the state
// was read from one end to the other. After a crash before the first write there is the old state. After it, the start
// completes the rest, or goes back to the old state if the new one cannot be used after all.

// installingKey is the name among the log's blobs of what is installed. Its presence is what
// SettleInstall finishes an install on.
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
		compactedKey: nil,
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
	at, _ := decodeTime(in.newest)
	a.newest.Store(int64(at))
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
	m, err := decodeSnapshot(header)
	if err != nil {
		return err
	}
	meta := m.GetSnapshot().GetMetadata()
	if m.GetType() != raftpb.MsgSnap || m.GetFrom() != from || m.GetTo() != n.options.ID || m.GetTerm() == 0 ||
		meta.GetIndex() == 0 || meta.GetTerm() == 0 || len(meta.GetConfState().GetVoters()) == 0 {
		return fmt.Errorf("%w: %v from member %d", errSnapshot, m, serverid.Number(from))
	}
	if err := checkCheckpoint(m.GetSnapshot().GetData()); err != nil {
		return err
	}
	if _, err := snapshotAdmissions(m.GetSnapshot().GetData()); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if err := n.verify(m, dir); err != nil {
		return err
	}
	if !n.inbox.put(arrival{from: from, what: &staged{message: m, dir: dir, done: done}}) {
		return ErrStopped
	}
	return nil
}

// CheckSnapshot fails if there is no use in receiving the state with that header, of another member's SnapshotSender:
// it is one that this program cannot read, or it does not come from the leader of this member, in its term. ErrNoLeader
// means that this member knows of none yet: it may be asked again. If it brings nothing new the leader is told so.
func (n *Node) CheckSnapshot(from uint64, header []byte) error {
	m, err := decodeSnapshot(header)
	if err != nil {
		return err
	}
	if err := checkCheckpoint(m.GetSnapshot().GetData()); err != nil {
		return err
	}
	f := n.loop.progress.following.Load()
	index, commit := m.GetSnapshot().GetMetadata().GetIndex(), n.loop.progress.commit.Load()
	switch {
	case m.GetFrom() != from || m.GetTo() != n.options.ID || m.GetTerm() < f.term ||
		m.GetTerm() == f.term && f.leader != from && f.leader != 0:
		return fmt.Errorf("%w: member %d sends one of member %d to member %d in term %d, and member %d leads in "+
			"term %d", errNotLeaders, serverid.Number(from), serverid.Number(m.GetFrom()), serverid.Number(m.GetTo()),
			m.GetTerm(), serverid.Number(f.leader), f.term)
	case m.GetTerm() > f.term || f.leader == 0:
		return fmt.Errorf("a snapshot of member %d in term %d: %w", serverid.Number(from), m.GetTerm(), ErrNoLeader)
	case index <= commit: // raft would not take it
		n.inbox.put(arrival{from: from, what: outdated{m}})
		return fmt.Errorf("%w: it is of entry %d, and %d is committed here", errOutdated, index, commit)
	}
	return nil
}

// outdated is a snapshot that brings nothing new, and that the leader has begun to send.
type outdated struct{ message *raftpb.Message }

// answerOutdated shows raft a snapshot that it does not take, so that the leader learns from its answer how much is
// here. A member that ended while it installed the snapshot has not told it, and the leader would send the same one for
// as long as that is the newest.
func (l *loop) answerOutdated(m *raftpb.Message) {
	if m.GetTerm() <= l.term && m.GetSnapshot().GetMetadata().GetIndex() <= l.commit && !l.admission.screen(m) {
		l.stepRaft(m)
	}
}

// errOutdated means a snapshot that brings nothing new.
var errOutdated = errors.New("the snapshot brings nothing new")

// errNotLeaders means a snapshot that does not come from the leader.
var errNotLeaders = errors.New("the snapshot is not the leader's")

// decodeSnapshot reads the header of a snapshot.
func decodeSnapshot(header []byte) (*raftpb.Message, error) {
	m := &raftpb.Message{}
	if err := proto.Unmarshal(header, m); err != nil {
		return nil, fmt.Errorf("decode the header of a snapshot: %w", err)
	}
	return m, nil
}

// receiveSnapshot shows raft a snapshot, and removes it if raft does not want it: it is older than what is here, or of
// an earlier leader.
func (l *loop) receiveSnapshot(s *staged) {
	l.handOut()
	// No member sends one in a term that this one has not answered in.
	if s.message.GetTerm() <= l.term && !l.admission.screen(s.message) {
		l.staged = s
		l.stepRaft(s.message)
		l.handOut()
		if l.staged == nil {
			return
		}
		l.staged = nil
	}
	l.logger.Info("snapshot rejected: not needed", slog.Int64("peer", serverid.Number(s.message.GetFrom())),
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
	l.logger.Info("installing a snapshot", slog.Int64("peer", serverid.Number(s.message.GetFrom())),
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
	l.status.publishGroup() // before this member's part is told
	l.admission.installed()
	l.handToAppend(m, in)
	l.clocks.installed(in.newest)
}

// errStaged means a staged state that is not the one of its header, or not whole.
var errStaged = errors.New("the received state cannot be used")

// verify reads what was staged before anything is given up for it, and removes it if it is of no use.
func (n *Node) verify(m *raftpb.Message, dir string) error {
	goOn := func() error {
		select {
		case <-n.halt:
			return ErrStopped
		default:
			return nil
		}
	}
	found, err := n.options.Machine.Verify(dir, goOn)
	if errors.Is(err, ErrStopped) {
		return ErrStopped
	}
	meta, own := m.GetSnapshot().GetMetadata(), n.options.Machine.ClusterID()
	switch {
	case err != nil:
	case found.Index != meta.GetIndex() || found.Term != meta.GetTerm():
		err = fmt.Errorf("it ends at entry %d of term %d, its header says %d of %d", found.Index, found.Term,
			meta.GetIndex(), meta.GetTerm())
	case own != [16]byte{} && found.ClusterID != own:
		err = fmt.Errorf("it is of cluster %x, and this server of %x", found.ClusterID, own)
	default:
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %w", errStaged, err), n.options.FS.RemoveAll(dir))
}

// InstallDir is where the state lies that an install replaces; *datadir.Dir is one.
type InstallDir interface {
	// FinishInstall puts the state that was staged into its place if it fits: true. Otherwise the one before is there.
	FinishInstall(fits func(dir string) error) (finished bool, err error)
	// DiscardInstall removes what is left of installs that are not under way.
	DiscardInstall() error
}

// SettleInstall completes an install that was begun in this log and has not ended, or gives it up if what was staged
// cannot be used: nothing was promised on it yet, and the log still goes with the state before. It removes what is left
// of others. It is called at a start, before the machine is opened; verify is Machine.Verify.
func SettleInstall(log *raftlog.Log, dir InstallDir, verify func(dir string) (state.Verified, error)) error {
	blob, ok := log.Meta(installingKey)
	if !ok {
		return dir.DiscardInstall()
	}
	in, err := decodeInstall(blob)
	if err != nil {
		return err
	}
	finished, err := dir.FinishInstall(func(dir string) error {
		found, err := verify(dir)
		if err == nil && (found.Index != in.member.Index || found.Term != in.term) {
			err = fmt.Errorf("%w: it ends at entry %d of term %d, and entry %d of term %d was being installed",
				errStaged, found.Index, found.Term, in.member.Index, in.term)
		}
		return err
	})
	if finished || err != nil {
		return err
	}
	if err := log.DeleteMeta(installingKey); err != nil {
		return fmt.Errorf("give up the install of a snapshot: %w", err)
	}
	return dir.DiscardInstall()
}
