package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// sessionsMax is how many sessions one entry closes.
const sessionsMax = 500

// RestoreOptions says where a backup is restored to.
type RestoreOptions struct {
	Target datadir.Options // of the server-to-be; nothing of zkd's or of ZooKeeper's may be in it but myid
	// DropSessions ends all sessions, and their ephemeral znodes go, as if each session had been closed behind the
	// state of the backup: zxid and digest are then others.
	DropSessions bool
	// Zxid is where the zxids go on from, if it is not below the backup's: clients that have seen later ones than the
	// backup's turn away from servers that have not.
	Zxid jute.Zxid
	// Time is the time of the closing of sessions.
	Time     jute.Millis
	Progress func(znodes int64) // as of Options
}

// Restore makes the data directory of a new server out of a backup, and returns what the directory then holds.
// The state is that of the backup, but it belongs to no ensemble, as if it were imported (raftlog.ImportedIndex): the
// first start founds another one, with another cluster id, so that servers of the old one cannot mix with it.
//
// It fails with ErrUnusable, or with datadir.ErrDataDir if the target is not empty; then nothing is left there. After a
// crash the next Restore removes what is left; until then datadir.Open refuses the directory, which gets its
// format file last.
func Restore(ctx context.Context, b *Reader, o RestoreOptions) (info schema.Summary, err error) {
	if o.Zxid != 0 && o.Zxid < b.info.Zxid {
		return info, fmt.Errorf("the zxids cannot go on from %#x: the backup has come to %#x", o.Zxid, b.info.Zxid)
	}
	r := &restore{ctx: ctx, b: b, o: &o}
	if o.Target.LogDir == "" {
		o.Target.LogDir = o.Target.Dir
	}
	o.Target.Dir, o.Target.LogDir = filepath.Clean(o.Target.Dir), filepath.Clean(o.Target.LogDir)
	r.dir = &datadir.Dir{Opts: o.Target}
	if err := r.claim(); err != nil {
		return info, errors.Join(err, r.dir.Close())
	}
	if err := r.build(); err != nil {
		if left := r.clear(true); left != nil {
			return info, errors.Join(err, left, r.dir.Close())
		}
		return info, errors.Join(err, r.dir.Leave())
	}
	return r.done, r.dir.Close()
}

// restore is one restore.
type restore struct {
	ctx  context.Context //nolint:containedctx // it lives as long as the call of Restore
	b    *Reader
	o    *RestoreOptions
	dir  *datadir.Dir
	done schema.Summary

	state *state.Filler
}

// dirs are the directories of the target, each once.
func (r *restore) dirs() []string {
	if r.o.Target.LogDir != r.o.Target.Dir {
		return []string{r.o.Target.Dir, r.o.Target.LogDir}
	}
	return []string{r.o.Target.Dir}
}

// claim makes and locks the directories, refuses those that are not empty, and marks them.
func (r *restore) claim() error {
	for _, dir := range r.dirs() {
		if err := r.dir.Make(dir); err != nil {
			return err
		}
		if err := r.checkEmpty(dir); err != nil {
			return err
		}
		if err := r.dir.Lock(dir); err != nil {
			return err
		}
	}
	for _, dir := range r.dirs() {
		err := errors.Join(disk.SyncNames(r.dir.Opts.FS, dir),
			disk.WriteFile(r.dir.Opts.FS, r.dir.Path(dir, datadir.RestoreName), "a restore is under way\n"),
			disk.SyncDir(r.dir.Opts.FS, dir))
		if err != nil {
			return datadir.Failure(dir, err)
		}
	}
	return r.clear(false)
}

// checkEmpty refuses a directory that holds anything but what an operator or a mount puts there, unless it is what an
// interrupted restore has left.
func (r *restore) checkEmpty(dir string) error {
	names, err := r.dir.Opts.FS.List(dir)
	if err != nil {
		return datadir.Failure(dir, err)
	}
	if slices.Contains(names, datadir.RestoreName) && !slices.Contains(names, datadir.FormatName) {
		return nil
	}
	for _, name := range names {
		if !slices.Contains([]string{"myid", "lost+found", datadir.LockName, datadir.PIDName}, name) {
			return datadir.Refusal(dir,
				fmt.Sprintf("a backup is restored into an empty directory only, and it has %s", name),
				"name another directory, or move away what is in it")
		}
	}
	return nil
}

// clear removes the stores that an interrupted or failed restore has left, and its marks if marks says so.
func (r *restore) clear(marks bool) error {
	fs := r.dir.Opts.FS
	err := r.remove(datadir.FormatName) // first: stores without it are refused
	err = errors.Join(err, fs.RemoveAll(r.dir.StateDir()), fs.RemoveAll(r.dir.RaftLogDir()))
	if err == nil && marks {
		err = errors.Join(r.remove(datadir.PIDName), r.remove(datadir.RestoreName))
	}
	if err != nil {
		return datadir.Failure(r.o.Target.Dir, err)
	}
	return nil
}

// remove removes a file from all directories, if it is there.
func (r *restore) remove(name string) error {
	var err error
	for _, dir := range r.dirs() {
		if removeErr := r.dir.Opts.FS.Remove(r.dir.Path(dir, name)); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// build makes the two stores, then the format files, then removes the marks.
func (r *restore) build() error {
	if err := r.fill(); err != nil {
		return err
	}
	if r.o.DropSessions {
		if err := r.dropSessions(); err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := r.makeLog(); err != nil {
		return err
	}
	for _, dir := range r.dirs() {
		if err := r.dir.WriteFormat(dir); err != nil {
			return datadir.Failure(dir, err)
		}
	}
	for _, dir := range append(r.dirs(), r.dir.RaftLogDir(), r.dir.StateDir()) {
		if err := disk.SyncDir(r.dir.Opts.FS, dir); err != nil {
			return datadir.Failure(dir, err)
		}
	}
	for _, dir := range r.dirs() {
		err := errors.Join(r.dir.Opts.FS.Remove(r.dir.Path(dir, datadir.RestoreName)), disk.SyncDir(r.dir.Opts.FS, dir))
		if err != nil {
			return datadir.Failure(dir, err)
		}
	}
	return nil
}

// machineOptions are those of the machine that is filled.
func (r *restore) machineOptions() state.MachineOptions {
	return state.MachineOptions{Dir: r.dir.StateDir(), FS: r.dir.Opts.FS, Logger: r.dir.Opts.Logger}
}

// fill writes what the backup holds into a new state store, its position last.
func (r *restore) fill() (err error) {
	if err := r.dir.Opts.FS.MkdirAll(r.dir.StateDir(), disk.DirPerm); err != nil {
		return datadir.Failure(r.dir.StateDir(), err)
	}
	if r.state, err = state.OpenFiller(r.machineOptions()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.state.Close()) }()
	r.done = r.b.info
	r.done.ClusterID, r.done.Config, r.done.Index, r.done.Term = entry.ClusterID{}, "", 0, raftlog.ImportedTerm
	if err := r.b.Each(r.znode, r.state.Session); err != nil {
		return err
	}
	return r.state.Finish(r.done.Position())
}

// znode puts a znode into the store. /zookeeper/config is that of no ensemble.
func (r *restore) znode(n *schema.Znode, header []byte) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if n.Path == schema.ConfigPath {
		r.done.DataBytes -= int64(n.DataLen)
		n.SetData([]byte{})
		n.Version, n.Mzxid, n.Mtime = 0, 0, 0
		header = n.AppendHeader(nil)
	}
	err := r.state.Znode(n, header)
	if r.o.Progress != nil && r.b.tally.Znodes%progressEvery == 0 {
		r.o.Progress(r.b.tally.Znodes)
	}
	return err
}

// dropSessions closes all sessions, as their clients would have.
func (r *restore) dropSessions() (err error) {
	m, err := state.OpenMachine(r.machineOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var ids []jute.SessionID
	v := m.View()
	v.Sessions(func(s schema.SessionInfo) { ids = append(ids, s.ID) })
	v.Close()
	slices.Sort(ids)
	for some := range slices.Chunk(ids, sessionsMax) {
		record := entry.AppendEntryHeader(nil, 0, 0)
		for _, id := range some {
			record = entry.AppendProposal(record, &entry.Proposal{Op: jute.OpCloseSession, Session: id, Time: r.o.Time})
		}
		if err := m.Apply(m.AppliedIndex()+1, raftlog.ImportedTerm, record, nobody{}); err != nil {
			return err
		}
	}
	return m.Flush(r.ctx)
}

// nobody is a Sink of entries whose results nobody waits for.
type nobody struct{}

// Result implements Sink.
func (nobody) Result(uint64, uint64, int, *apply.Result) {}

// settle gives the state the position that a restored one has.
func (r *restore) settle() (err error) {
	f, err := state.OpenFiller(r.machineOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	state, err := f.Reader()
	if err != nil {
		return err
	}
	made, writer := r.done.Made, r.done.Writer
	if r.done, err = state.Summary(); err != nil {
		return err
	}
	r.done.ClusterID, r.done.Config, r.done.Made, r.done.Writer = entry.ClusterID{}, "", made, writer
	r.done.Index, r.done.Term = raftlog.ImportedIndex, raftlog.ImportedTerm
	r.done.Zxid = max(r.done.Zxid, r.o.Zxid)
	return f.Finish(r.done.Position())
}

// makeLog makes the raft log, without a beginning, and notes in it where the state is from.
func (r *restore) makeLog() (err error) {
	log, err := raftlog.Open(raftlog.Options{Dir: r.dir.RaftLogDir(), FS: r.dir.Opts.FS, Logger: r.dir.Opts.Logger})
	if err != nil {
		return err
	}
	return errors.Join(raftlog.NoteImport(log, raftlog.Note{Zxid: r.done.Zxid}), log.Close())
}
