package state

import (
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/disk"
)

// replacementCacheBytes is the cache of a state that is being built: a parent is found again while its children come.
const replacementCacheBytes = 4 << 20

// replacements builds the states that follow a machine's by a load.
type replacements struct{ m *Machine }

var _ apply.Replacement = replacements{}

// Build implements Replacement.
func (s replacements) Build(l *apply.Load) (zxid jute.Zxid, refused, err error) {
	in := &uploadReader{store: s.m.store, bytes: l.Bytes}
	defer in.close()
	if refused, err := in.verify(l.Sum); refused != nil || err != nil {
		return 0, refused, err
	}
	o := s.m.opts
	fs, dir := o.FS, o.Dir+datadir.BuildingSuffix
	if err := fs.RemoveAll(dir); err != nil {
		return 0, nil, fmt.Errorf("remove what is left of an earlier load: %w", err)
	}
	m, err := OpenMachine(MachineOptions{Dir: dir, FS: fs, Logger: o.Logger, CacheBytes: replacementCacheBytes,
		BlockCacheBytes: o.BlockCacheBytes, MemTableBytes: importMemTableBytes, OnFatal: s.m.fail,
		Outage: o.Outage})
	if err != nil {
		return 0, nil, fmt.Errorf("build a state for a load: %w", err)
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
		return 0, nil, fmt.Errorf("build a state for a load: %w", err)
	}
	if refused != nil {
		return 0, refused, fs.RemoveAll(dir)
	}
	return zxid, nil, disk.SyncDir(fs, dir)
}
