package state

import (
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/disk"
)

// successorCacheBytes is the cache of a state that is being built: a parent is found again while its children come.
const successorCacheBytes = 4 << 20

// successors builds the states that follow a machine's by a load.
type successors struct{ m *Machine }

var _ apply.Successor = successors{}

// Build implements Successor.
func (s successors) Build(l *apply.Load) (zxid jute.Zxid, refused, err error) {
	in := &uploadReader{store: s.m.store, bytes: l.Bytes}
	defer in.close()
	if refused, err := in.verify(l.Sum); refused != nil || err != nil {
		return 0, refused, err
	}
	o := s.m.opts
	fs, dir := o.FS, o.Dir+datadir.RestoringSuffix
	if err := fs.RemoveAll(dir); err != nil {
		return 0, nil, fmt.Errorf("remove what is left of an earlier restore: %w", err)
	}
	m, err := OpenMachine(MachineOptions{Dir: dir, FS: fs, Logger: o.Logger, CacheBytes: successorCacheBytes,
		BlockCacheBytes: o.BlockCacheBytes, MemTableBytes: importMemTableBytes, OnFatal: s.m.fail})
	if err != nil {
		return 0, nil, fmt.Errorf("build a state for a restore: %w", err)
	}
	built := newImport(m, m.store.fault.Tripped, l.Position.Index, l.Position.Term)
	zxid, refused, err = built.Load(l, in)
	if in.err != nil {
		refused, err = nil, in.err
	}
	if refused == nil && err == nil {
		err = built.settle()
	}
	if err = errors.Join(err, built.Close()); err != nil {
		return 0, nil, fmt.Errorf("build a state for a restore: %w", err)
	}
	if refused != nil {
		return 0, refused, fs.RemoveAll(dir)
	}
	return zxid, nil, disk.SyncDir(fs, dir)
}
