package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// StateSource is the state in a store that nobody writes to, a checkpoint's or that of a server that does not run, as
// zkdata writes it down. It is for one goroutine.
type StateSource struct {
	store *stateStore
	pos   schema.Position
}

var _ zkdata.Source = (*StateSource)(nil)

// OpenStateSource opens the state store at dir, which must not be in use, without changing it. It fails if there is
// none.
func OpenStateSource(fs vfs.FS, dir string) (*StateSource, error) {
	s := &StateSource{store: &stateStore{dir: dir}}
	o := MachineOptions{Dir: dir, FS: fs}
	o.setDefaults()
	s.store.fault.Store, s.store.fault.Dir, s.store.fault.Logger = "state store", dir, o.Logger
	s.store.blocks = pebble.NewCache(o.BlockCacheBytes)
	options := &pebble.Options{FS: fs, ReadOnly: true, ErrorIfNotExists: true, DisableTableStats: true,
		Cache: s.store.blocks, Logger: disk.Logger{Fault: &s.store.fault}}
	db, err := pebble.Open(dir, options)
	if err != nil {
		s.store.blocks.Unref()
		return nil, fmt.Errorf("open state store %s: %w", dir, disk.AsDamage(err))
	}
	s.store.db = db
	value, closer, err := db.Get(schema.KeyFormat)
	if err == nil {
		err = errors.Join(s.store.checkFormat(value), closer.Close())
	}
	if err == nil {
		s.pos, err = s.store.position()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read state store %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// Close closes the store.
func (s *StateSource) Close() error { return s.store.close() }

// AppliedIndex returns the index of the last log entry in the state.
func (s *StateSource) AppliedIndex() uint64 { return s.pos.Index }

// Zxid implements zkdata.Source.
func (s *StateSource) Zxid() jute.Zxid { return s.pos.Zxid }

// Digest implements zkdata.Source.
func (s *StateSource) Digest() uint64 { return s.pos.Digest }

// Znodes returns their number, the root included.
func (s *StateSource) Znodes() int64 { return s.pos.Nodes }

// Sessions implements zkdata.Source: they are sorted by id.
func (s *StateSource) Sessions() ([]zkdata.Session, error) {
	all, err := s.sessions()
	if err != nil {
		return nil, err
	}
	list := make([]zkdata.Session, len(all))
	for i, info := range all {
		list[i] = zkdata.Session{ID: info.ID, TimeoutMillis: info.TimeoutMillis}
	}
	return list, nil
}

// OwnPasswords returns how many sessions have a password that Apache ZooKeeper would not give them: their clients
// cannot come back to them there.
func (s *StateSource) OwnPasswords() (int, error) {
	all, err := s.sessions()
	own := 0
	for _, info := range all {
		if info.Passwd != zkdata.Passwd(info.ID) {
			own++
		}
	}
	return own, err
}

// sessions returns all sessions, sorted by id.
func (s *StateSource) sessions() ([]*schema.SessionInfo, error) {
	all, err := s.store.sessions()
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *schema.SessionInfo) int { return cmp.Compare(a.ID, b.ID) }),
		nil
}

// Nodes implements zkdata.Source: the order is that of the keys, in which parents precede their children.
func (s *StateSource) Nodes(data bool, f func(n *zkdata.Node) error) error {
	apart, err := s.store.db.NewIter(&pebble.IterOptions{LowerBound: []byte{schema.KindData},
		UpperBound: []byte{schema.KindData + 1}})
	if err != nil {
		return fmt.Errorf("read state store %s: %w", s.store.dir, err)
	}
	apart.First()
	err = s.store.scan([]byte{schema.KindNode}, func(key, value []byte) (bool, error) {
		n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, key)), value)
		if err != nil {
			return false, err
		}
		if data && !n.DataLoaded {
			if err := s.dataOf(apart, key, n); err != nil {
				return false, err
			}
		}
		return true, f(exported(n))
	})
	return errors.Join(err, apart.Close())
}

// dataOf reads the data that has a key of its own, on which the iterator comes in the same order as the headers do.
func (s *StateSource) dataOf(apart *pebble.Iterator, key []byte, n *schema.Znode) error {
	if !apart.Valid() || !bytes.Equal(apart.Key()[1:], key[1:]) {
		return errors.Join(fmt.Errorf("%w: data of %q is missing", schema.ErrDamagedValue, n.Path), apart.Error())
	}
	value, err := apart.ValueAndErr()
	if err != nil {
		return err
	}
	if len(value) != int(n.DataLen) {
		return fmt.Errorf("%w: data of %q has %d bytes, its header says %d", schema.ErrDamagedValue, n.Path, len(value),
			n.DataLen)
	}
	n.Data = append([]byte(nil), value...)
	apart.Next()
	return nil
}

// exported returns n as a snapshot has it.
func exported(n *schema.Znode) *zkdata.Node {
	return &zkdata.Node{Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid,
		Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion, Creations: n.Creations,
		Owner: n.Owner}
}
