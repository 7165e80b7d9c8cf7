package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// Options says what to import where. From and Target are required.
type Options struct {
	// From and FromLog are dataDir and dataLogDir of the Apache ZooKeeper server, which must not run; FromLog may be
	// "". They are only read. Target may be the same directories.
	From, FromLog string
	Target        datadir.Options
	// FromFS is where From is, if not in the target's file system.
	FromFS vfs.FS
	// Note says by which names From and FromLog are found by the starts to come; what is empty, by the same.
	Note struct{ Dir, LogDir string }
	// TrustEmpty imports logs without a snapshot (zookeeper.snapshot.trust.empty).
	TrustEmpty bool
	// Force imports although the digest does not fit or transactions are missing; the report says so.
	Force bool
	// Progress is told how far the import has come, now and then. It may be nil.
	Progress func(Progress)
}

// Progress is how far an import has come.
type Progress struct {
	ReadBytes, TotalBytes int64 // of the files
	Znodes, Transactions  int64
	Changes               int64 // of the transactions: one of them may make very many
}

// Report is what an import has found.
type Report struct {
	Snapshot     string // the file; "" if there was none
	SnapshotZxid jute.Zxid
	Zxid         jute.Zxid // of the last transaction
	Epoch        int64     // of that zxid
	Transactions int64     // replayed behind the snapshot
	Znodes       int64     // the root included
	Ephemerals   int64
	Sessions     int
	Containers   int64
	TTLs         int64
	Quotas       int
	ACLs         int   // different ones in the snapshot
	DataBytes    int64 // of paths and data
	Digest       uint64
	// Verified says that the digest was compared with one that the server had written, at VerifiedZxid, and fits.
	Verified     bool
	VerifiedZxid jute.Zxid
	Notices      []string
}

// Import brings the data of an Apache ZooKeeper server into an empty data directory: the newest snapshot that was
// written to its end, and all transactions behind it. It fails with zkdata.ErrDamaged, zkdata.ErrGap, apply.ErrDigest
// or ErrRunning, and with datadir.ErrDataDir if the target cannot be used; then nothing is left in the target. A crash
// leaves a mark there by which datadir.Open refuses the directory; the next Import begins anew.
//
// Memory does not depend on the number of znodes, but for the sessions and the different ACLs.
func Import(ctx context.Context, o Options) (*Report, error) {
	o.Target.Importing = true
	if o.FromFS == nil {
		o.FromFS = o.Target.FS
	}
	source, err := OpenDir(o.FromFS, o.From, o.FromLog)
	if err != nil {
		return nil, err
	}
	dir, err := datadir.Open(o.Target)
	if err != nil {
		return nil, err
	}
	i := &run{ctx: ctx, o: &o, source: source, dir: dir}
	if err := i.build(); err != nil {
		return nil, errors.Join(err, dir.AbandonImport())
	}
	if err := errors.Join(dir.EndImport(), dir.Close()); err != nil {
		return nil, err
	}
	return &i.report, nil
}

// run is one import.
type run struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call of Import
	o      *Options
	source *Dir
	dir    *datadir.Dir
	im     *state.ImportState
	report Report
	told   Progress

	last       jute.Zxid      // of the files
	fuzzyUntil jute.Zxid      // the snapshot may hold parts of transactions up to there
	expected   *zkdata.Digest // of the snapshot, not compared yet
	differs    *zkdata.Digest // the first one that did not fit
	lastFits   bool           // the digest that was compared last fits
}

// build fills the stores of the target.
func (r *run) build() (err error) {
	log, err := raftlog.Open(raftlog.Options{Dir: r.dir.RaftLogDir(), FS: r.dir.Opts.FS, Logger: r.dir.Opts.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r.im, err = state.OpenImport(state.MachineOptions{
		Dir: r.dir.StateDir(), FS: r.dir.Opts.FS, Logger: r.dir.Opts.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.im.Close()) }()
	r.im.OnChange(func() error {
		r.told.Changes++
		return r.step(r.told.Changes)
	})
	if err := r.fill(); err != nil {
		return err
	}
	if err := r.source.checkStill(r.ctx, r.last); err != nil {
		return err
	}
	return raftlog.NoteImport(log, raftlog.Note{Zxid: r.report.Zxid,
		Dir: cmp.Or(r.o.Note.Dir, r.o.From), LogDir: cmp.Or(r.o.Note.LogDir, r.o.FromLog)})
}

// fill reads the source into the machine.
func (r *run) fill() error {
	snapshot, found, err := r.source.Newest()
	if err != nil {
		return err
	}
	if !found && !r.o.TrustEmpty {
		return fmt.Errorf("%w: %s holds transaction logs and no whole snapshot: restore the newest snapshot, or, if "+
			"there never was one, set snapshot.trust.empty=true", ErrNoData, r.source.SnapshotDir)
	}
	if len(r.source.Logs) == 0 {
		r.notice("there are no transaction logs in %s: what was written after the snapshot is not imported; if "+
			"the server had a dataLogDir, name it", r.source.LogDir)
	}
	r.told.TotalBytes = snapshot.Size
	for _, f := range r.source.LogsFrom(snapshot.Zxid) {
		r.told.TotalBytes += f.Size
	}
	if found {
		if err := r.readSnapshot(snapshot); err != nil {
			return err
		}
	}
	if err := r.replay(snapshot.Zxid); err != nil {
		return err
	}
	if err := r.verify(); err != nil {
		return err
	}
	orphans, err := r.im.Finish()
	if err != nil {
		return err
	}
	if orphans > 0 {
		r.notice("%d ephemeral znodes of sessions that are gone were removed", orphans)
	}
	return r.count()
}

// notice adds to what an operator should know.
func (r *run) notice(format string, args ...any) {
	r.report.Notices = append(r.report.Notices, fmt.Sprintf(format, args...))
}

// progressEvery is how many znodes or changes lie between two calls of Progress.
const progressEvery = 1024

// step tells the progress now and then, and ends the import if its context has ended.
func (r *run) step(n int64) error {
	if n%progressEvery == 0 && r.o.Progress != nil {
		r.o.Progress(r.told)
	}
	return r.ctx.Err()
}

// countedReader counts what was read of a file.
type countedReader struct {
	r io.Reader
	n *int64
}

// Read implements io.Reader.
func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

// readSnapshot reads sessions and znodes.
func (r *run) readSnapshot(f File) error {
	file, err := r.source.fs.Open(f.Path, vfs.SequentialReadsOption)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	s, err := zkdata.ReadSnapshot(countedReader{file, &r.told.ReadBytes}, f.Path)
	if err != nil {
		return err
	}
	for _, session := range s.Sessions() {
		r.im.Session(session.ID, session.TimeoutMillis)
	}
	for {
		n, ok, err := s.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r.im.Add(n)
		r.told.Znodes++
		if err := errors.Join(r.im.Settle(), r.step(r.told.Znodes)); err != nil {
			return fmt.Errorf("import %s: %w", f.Path, err)
		}
	}
	r.im.At(f.Zxid)
	r.report.Snapshot, r.report.SnapshotZxid, r.report.ACLs = f.Path, f.Zxid, s.ACLs()
	r.fuzzyUntil = f.Zxid
	if last, ok := s.LastZxid(); ok {
		r.fuzzyUntil = max(r.fuzzyUntil, last)
	}
	// A digest of before the snapshot began is of the last transaction before an election.
	if d := s.Digest(); d != nil && d.Zxid >= f.Zxid {
		r.fuzzyUntil, r.expected = max(r.fuzzyUntil, d.Zxid), d
		r.compare(f.Zxid, d)
	}
	return nil
}

// replay applies the transactions behind from.
func (r *run) replay(from jute.Zxid) error {
	logs := r.source.Replay(from, zkdata.ReplayOptions{
		AcceptGaps: r.o.Force, Read: func(n int64) { r.told.ReadBytes += n },
	})
	defer logs.Close() //nolint:errcheck // opened for reading only
	for {
		x, ok, err := logs.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r.im.Replay(x)
		r.told.Transactions++
		if r.expected != nil {
			r.compare(x.Zxid, r.expected)
		} else if x.Digest != nil && x.Zxid >= r.fuzzyUntil {
			r.compare(x.Zxid, x.Digest)
		}
		if err := errors.Join(r.im.Settle(), r.ctx.Err()); err != nil {
			return fmt.Errorf("import transaction %#x: %w", int64(x.Zxid), err)
		}
	}
	r.report.Notices = append(append(r.report.Notices, r.source.Notices...), logs.Notices...)
	if r.o.Progress != nil {
		r.o.Progress(r.told)
	}
	r.last = max(logs.Last, r.fuzzyUntil)
	if logs.Last >= r.fuzzyUntil {
		return nil
	}
	if !r.o.Force {
		return fmt.Errorf("%w: the snapshot was written while transactions up to %#x were applied, and the logs "+
			"end at "+
			"%#x: add the logs to %s, or name their directory", zkdata.ErrGap, int64(r.fuzzyUntil), int64(logs.Last),
			r.source.LogDir)
	}
	r.notice("transactions are missing between %#x and %#x", int64(logs.Last), int64(r.fuzzyUntil))
	return nil
}

// compare compares the tree with a digest if it is of the transaction zxid, the last one applied.
func (r *run) compare(zxid jute.Zxid, d *zkdata.Digest) {
	if zxid < d.Zxid {
		return
	}
	if d == r.expected {
		r.expected = nil
	}
	if zxid != d.Zxid || d.Version != zkdata.DigestVersion {
		return
	}
	r.lastFits = d.Sum == r.im.Digest()
	r.report.VerifiedZxid = zxid
	if !r.lastFits && r.differs == nil {
		found := *d
		r.differs = &found
	}
}

// verify decides what the comparisons mean. One that fits makes up for one before it that did not: the sum is over the
// whole tree, and what ZooKeeper's leader writes down beforehand is sometimes wrong.
func (r *run) verify() error {
	r.report.Verified = r.lastFits
	if r.lastFits {
		r.report.Digest = r.im.Digest()
		return nil
	}
	if r.differs == nil {
		r.notice("no digest was there to compare the tree with: ZooKeeper writes one since 3.6")
		return nil
	}
	if !r.o.Force {
		return fmt.Errorf("%w: from transaction %#x on it is %#x in %s, and another one was computed from the files: "+
			"import the directory of another server, or the same one by force", apply.ErrDigest,
			int64(r.differs.Zxid),
			r.differs.Sum, r.source.LogDir)
	}
	r.notice("the digest of the tree does not fit from transaction %#x on", int64(r.differs.Zxid))
	return nil
}

// count fills the report.
func (r *run) count() error {
	state, err := r.im.Reader()
	if err != nil {
		return err
	}
	info, err := state.Summary()
	if err != nil {
		return err
	}
	report := &r.report
	report.Zxid, report.Epoch, report.Transactions = info.Zxid, int64(uint64(info.Zxid)>>32), r.im.Transactions()
	report.Znodes, report.Ephemerals, report.DataBytes = info.Znodes, info.Ephemerals, info.DataBytes
	report.Digest, report.Sessions, report.Quotas = info.Digest, int(info.Sessions), r.im.Quotas()
	if info.Digest != r.im.Digest() {
		return fmt.Errorf("%w: %#x was counted on the way and %#x at the end: report this", apply.ErrDigest,
			r.im.Digest(), info.Digest)
	}
	// Those with children are candidates for nothing and not listed: all headers are read over.
	return state.Headers(func(n *schema.Znode, _ []byte) error {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		switch schema.OwnerKind(n.Owner) {
		case schema.OwnerContainer:
			report.Containers++
		case schema.OwnerTTL:
			report.TTLs++
		}
		return nil
	})
}
