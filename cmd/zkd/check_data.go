package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/quorum"
	"zkd/server/instance"
	"zkd/server/instance/peers"
	"zkd/storage/datadir"
	"zkd/storage/inspect"
	"zkd/storage/migrate"
	"zkd/storage/schema"
	"zkd/storage/serverid"
)

// importTriedBytes is how large the files of Apache ZooKeeper may be for an import to be tried in memory; a guess.
const importTriedBytes = 256 << 20

// data looks at the data directory, and returns the members as the state has them.
func (r *checkReport) data(ctx context.Context, c *conf.Config) (agreed string) {
	s := &c.Storage
	if s.ImportOnStart && datadir.ImportPending(vfs.Default, s.DataDir, s.DataLogDir) {
		r.imports(ctx, c)
		return ""
	}
	i, err := inspect.Open(datadir.Options{Dir: s.DataDir, LogDir: s.DataLogDir, FS: vfs.Default,
		Logger: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, inspect.ErrNoData):
		r.noData(c, err)
		return ""
	case errors.Is(err, inspect.ErrRunning):
		r.Running = true
		r.add(levelNotice, "dataDir", "%v: data and ports are not looked at", err)
		return ""
	case err != nil:
		r.fail(levelError, "dataDir", err)
		return ""
	}
	defer i.Close() //nolint:errcheck // it gives locks back, which end with the process at the latest
	r.add(levelOK, "dataDir", "%s is a data directory of zkd, format %d", s.DataDir, i.Format())
	state, err := i.OpenState()
	info := schema.Summary{}
	switch {
	case err == nil:
		info = state.Info()
		err = state.Close()
	case errors.Is(err, inspect.ErrNoData):
		r.add(levelOK, "state", "there is none yet")
		err = nil
	}
	if err != nil {
		r.fail(levelError, "state", err)
		return ""
	}
	r.log(ctx, i, c, &info)
	r.compareMembers(&info, c)
	return info.Config
}

// imports tries the import that the start would begin with, in memory.
func (r *checkReport) imports(ctx context.Context, c *conf.Config) {
	const key = "zkd.importOnStart"
	o := instance.ImportOptions(c, vfs.Default, slog.New(slog.DiscardHandler))
	source, err := migrate.OpenDir(vfs.Default, o.From, o.FromLog)
	if err != nil {
		r.fail(levelError, key, err)
		return
	}
	var bytes int64
	for _, f := range append(slices.Clone(source.Logs), source.Snapshots...) {
		bytes += f.Size
	}
	if bytes > importTriedBytes {
		r.add(levelNotice, key, "the start imports %s, %d MiB, which is too much to be tried here", o.From, bytes>>20)
		return
	}
	o.FromFS, o.Target.FS, o.Target.Dir, o.Target.LogDir = vfs.Default, vfs.NewMem(), "/tried", ""
	report, err := migrate.Import(ctx, o)
	if err != nil {
		r.fail(levelError, key, err)
		return
	}
	r.add(levelOK, key, "the start imports %s: zxid %#x, %d znodes", o.From, int64(report.Zxid), report.Znodes)
}

// noData says what a start without data comes to.
func (r *checkReport) noData(c *conf.Config, found error) {
	for _, dir := range []string{c.Storage.DataDir, c.Storage.DataLogDir} {
		_, err := os.Stat(dir)
		if !c.Storage.AutocreateDataDir && errors.Is(err, fs.ErrNotExist) {
			r.add(levelError, "dataDir", "%v: mount its disk, or make the directory: datadir.autocreate is false",
				found)
			return
		}
	}
	if r.mayBegin(c, found.Error()) {
		r.add(levelOK, "dataDir", "%v: the server makes it, and begins empty", found)
	}
}

// mayBegin reports whether the server would begin with an empty tree, and says why it would not.
func (r *checkReport) mayBegin(c *conf.Config, found string) bool {
	begins, err := peers.MayBeginEmpty(c, osFiles{})
	switch {
	case err != nil:
		r.fail(levelError, "dataDir", err)
	case !begins:
		r.add(levelWarning, "dataDir", "%s: db.autocreate is false, so the server waits for an ensemble to join", found)
	}
	return begins
}

// log looks at the raft log, and whether the state goes with it.
func (r *checkReport) log(ctx context.Context, i *inspect.Dir, c *conf.Config, info *schema.Summary) {
	log, err := i.OpenLog()
	if errors.Is(err, inspect.ErrNoData) {
		r.add(levelOK, "raftlog", "there is none yet")
		r.mayBegin(c, "there is no raft log")
		return
	}
	if err != nil {
		r.fail(levelError, "raftlog", err)
		return
	}
	defer log.Close() //nolint:errcheck // it was only read
	d, err := quorum.DescribeLog(log)
	if err != nil {
		r.fail(levelError, "raftlog", err)
		return
	}
	entries := fmt.Sprintf("entries %d to %d", log.FirstIndex(), log.LastIndex())
	if log.LastIndex() < log.FirstIndex() {
		entries = "no entries yet"
	}
	r.add(levelOK, "raftlog", "%s, all whole, nothing acknowledged is missing; %d MiB", entries,
		instance.DirBytes(vfs.Default, i.RaftLogDir())>>20)
	if peers.IsEmpty(log) {
		r.mayBegin(c, "the raft log has no entries")
	}
	if d.Installing {
		r.add(levelNotice, "state", "the server was stopped while it took over the state of another one: it goes on")
	}
	o := quorum.Options{ID: instance.ServerID(c, &d), Joining: c.Ensemble.Join}
	if c.Ensemble.Distributed {
		for i := range c.Ensemble.Members {
			m := &c.Ensemble.Members[i]
			o.Members = append(o.Members, quorum.Member{ID: serverid.Of(m.ID), Learner: m.Observer})
		}
	}
	if err := instance.CheckImported(ctx, c, vfs.Default, info.Zxid, log); err != nil {
		r.fail(levelError, "state", err)
		return
	}
	if err := quorum.CheckStart(log, info.Index, info.ClusterID != [16]byte{}, &o); err != nil {
		key := "state"
		if d.Member != 0 && d.Member != o.ID {
			key = "myid"
		}
		r.fail(levelError, key, err)
		return
	}
	r.add(levelOK, "state",
		"zxid %#x, %d znodes, %d sessions, digest %#x; %d MiB; entries that the start applies again: %d",
		int64(info.Zxid), info.Znodes, info.Sessions, info.Digest, instance.DirBytes(vfs.Default, i.StateDir())>>20,
		log.LastIndex()-min(info.Index, log.LastIndex()))
}

// compareMembers tells when the server lines are not the members.
func (r *checkReport) compareMembers(info *schema.Summary, c *conf.Config) {
	if info.Config == "" || !c.Ensemble.Distributed {
		return
	}
	lines := map[string]bool{}
	for line := range strings.Lines(info.Config) {
		if name, _, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "server.") {
			lines[name] = true
		}
	}
	same := len(lines) == len(c.Ensemble.Members)
	for i := range c.Ensemble.Members {
		same = same && lines[fmt.Sprintf("server.%d", c.Ensemble.Members[i].ID)]
	}
	if !same {
		r.add(levelWarning, "server.N", "the ensemble has %d members, and the lines name %d: the lines change "+
			"nothing, use reconfig, or correct them", len(lines), len(c.Ensemble.Members))
	}
}
