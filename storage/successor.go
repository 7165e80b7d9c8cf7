package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// Fence is a Sink that must know when a restore replaces the whole state, as if another server's had been installed.
type Fence interface {
	Sink
	// Replacing is called on the apply goroutine before the state is replaced, and before the result of the proposal
	// that does it; Replaced after Views show the new one. Neither may block.
	Replacing()
	Replaced()
}

// successorCacheBytes is the cache of a state that is being built: a parent is found again while its children come.
const successorCacheBytes = 4 << 20

// successor builds the state that a restore leads to.
type successor struct {
	t      *txn // of the present state
	im     *importer
	in     *uploadReader
	newest jute.Zxid // of what is in the snapshot
}

// buildSuccessor builds the state of the upload beside the present one and makes it durable; zxid is the one that it
// has. What is wrong with the upload is in refused, the same on every server; err is the store's.
func (t *txn) buildSuccessor(sum uint64) (zxid jute.Zxid, refused, err error) {
	in := &uploadReader{store: t.m.store, bytes: t.upload.Bytes}
	defer in.close()
	if refused, err := in.verify(sum); refused != nil || err != nil {
		return 0, refused, err
	}
	fs, dir := t.m.opts.FS, t.m.opts.Dir+datadir.RestoringSuffix
	if err := fs.RemoveAll(dir); err != nil {
		return 0, nil, fmt.Errorf("remove what is left of an earlier restore: %w", err)
	}
	m, err := OpenMachine(MachineOptions{Dir: dir, FS: fs, Logger: t.m.opts.Logger, CacheBytes: successorCacheBytes,
		BlockCacheBytes: t.m.opts.BlockCacheBytes, MemTableBytes: importMemTableBytes, OnFatal: t.m.fail})
	if err != nil {
		return 0, nil, fmt.Errorf("build a state for a restore: %w", err)
	}
	b := &successor{t: t, in: in, im: newImporterAt(m, t.pos.Index, t.pos.Term)}
	zxid, refused, err = b.build()
	if err = errors.Join(err, m.txn.reader.close(), m.Close()); err != nil {
		return 0, nil, fmt.Errorf("build a state for a restore: %w", err)
	}
	if refused != nil {
		return 0, refused, fs.RemoveAll(dir)
	}
	return zxid, nil, disk.SyncDir(fs, dir)
}

// build fills the new state and makes it durable.
func (b *successor) build() (zxid jute.Zxid, refused, err error) {
	b.im.failed = b.im.m.store.fault.Tripped
	b.im.t.ensemble, b.im.t.level = b.t.ensemble, b.t.level
	snapshot, refused, err := b.read()
	if err != nil || refused != nil {
		return 0, refused, err
	}
	if refused = b.verify(snapshot); refused != nil {
		return 0, refused, nil
	}
	// One more than the present one at least: two states of one zxid could not be told apart.
	zxid = max(b.t.pos.Zxid+1, b.newest)
	b.im.t.pos.Zxid, b.im.t.restored = zxid, zxid
	b.keepConfig()
	if _, err := b.im.finish(); errors.Is(err, errTree) {
		return 0, err, nil
	} else if err != nil {
		return 0, nil, err
	}
	if pos := b.im.m.mu.pos; pos.Digest != b.im.digest {
		return 0, nil, fmt.Errorf("%w: %#x was counted on the way and %#x at the end: report this", ErrDigest,
			b.im.digest, pos.Digest)
	}
	return zxid, nil, b.t.err
}

// read reads the upload into the new state.
func (b *successor) read() (s *zkdata.Snapshot, refused, err error) {
	if s, err = zkdata.ReadUpload(b.in); err != nil {
		return nil, err, b.in.err
	}
	for _, session := range s.Sessions() {
		b.session(session)
	}
	for {
		n, more, err := s.Next()
		if err != nil {
			return nil, err, b.in.err
		}
		if more {
			b.newest = max(b.newest, n.Czxid, n.Mzxid, n.Pzxid)
			b.im.add(n)
		}
		if b.im.err != nil {
			return nil, b.im.err, b.im.t.err
		}
		if err := b.im.settled(); err != nil || !more {
			return s, nil, err
		}
	}
}

// session adds a session of the snapshot. Of one that lives in the present state, too, the client keeps its password
// and its timeout; the rest get the password that Apache ZooKeeper would give them, as by an import.
func (b *successor) session(s zkdata.Session) {
	if info := b.t.session(s.ID); info != nil {
		b.im.t.setSession(s.ID, info)
		return
	}
	b.im.session(s.ID, s.TimeoutMillis)
}

// verify compares the tree with the digest of the snapshot, if it has one of the moment at which it ends: an earlier
// one is of the last write before the server's start.
func (b *successor) verify(s *zkdata.Snapshot) error {
	d, end := s.Digest(), b.newest
	if last, ok := s.LastZxid(); ok {
		end = last
	}
	b.newest = max(b.newest, end)
	if d == nil {
		return nil
	}
	if d.Zxid >= end && d.Version == zkdata.DigestVersion && d.Sum != b.im.digest {
		return fmt.Errorf("%w: in the snapshot it is %#x, and its znodes make %#x: it was taken while there were "+
			"writes, which are only in the logs behind it; take one of a server that has none, or of zkd", ErrDigest,
			d.Sum, b.im.digest)
	}
	b.newest = max(b.newest, d.Zxid)
	return nil
}

// keepConfig lets /zookeeper/config say what the members have agreed on, to those who have the right to see it now:
// the snapshot may be of another ensemble. Its children, if it has any, are the snapshot's.
func (b *successor) keepConfig() {
	present := b.t.look(schema.ConfigPath)
	data := b.t.data(present)
	c := b.im.look(schema.ConfigPath)
	if b.t.err != nil || present.cur == nil || c.cur == nil {
		return
	}
	b.im.setACL(c, present.cur.ACL)
	b.im.modify(c, func(n *schema.Znode) {
		n.Version, n.Mzxid, n.Mtime, n.Aversion = present.cur.Version, present.cur.Mzxid, present.cur.Mtime,
			present.cur.Aversion
		n.SetData(b.im.keep(data))
	})
	c.dataChanged = true
}

// restored returns the zxid with which a restore has replaced the state last, 0 if none has.
func (s *stateStore) restored() (jute.Zxid, error) {
	return optional(s, schema.KeyRestored, "last restore", func(value []byte) (jute.Zxid, error) {
		if len(value) != 8 {
			return 0, fmt.Errorf("%w %s: zxid of a restore %x", schema.ErrDamagedValue, s.dir, value)
		}
		return jute.Zxid(binary.BigEndian.Uint64(value)), nil
	})
}

// succeed puts the state that the entry has built into the place of the present one, and tells the sink. From the
// rename on, the new one is the state, after a crash too.
func (m *Machine) succeed(sink Sink) error {
	m.copying.Lock()
	defer m.copying.Unlock()
	fence, fenced := sink.(Fence)
	if fenced {
		fence.Replacing()
	}
	fs, dir := m.opts.FS, m.opts.Dir
	if err := disk.MoveDir(fs, dir+datadir.RestoringSuffix, dir+datadir.RestoredSuffix); err != nil {
		return m.store.fault.Trip(fmt.Errorf("restore a snapshot: %w", err))
	}
	t := &m.txn
	err := m.replaceStore(dir+datadir.RestoredSuffix, func() {
		for i := range t.results {
			sink.Result(t.origin, t.batchNo, i, &t.results[i])
		}
	})
	if err != nil {
		return err
	}
	if fenced {
		fence.Replaced()
	}
	if err := datadir.RemoveReplaced(fs, dir); err != nil {
		return m.store.fault.Trip(fmt.Errorf("restore a snapshot: %w", err))
	}
	return nil
}
