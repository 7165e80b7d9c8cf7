package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Reader reads a state from one end to the other: of a store that nobody writes to, or of a store as it was at one
// moment. Memory does not go with the number of znodes. It is for one goroutine at a time.
type Reader struct {
	store pebble.Reader
	dir   string // of the store
	end   func() error

	pos   schema.Position
	level entry.Level
	ahead map[string]*schema.Znode // see Settled; nil: nothing is ahead of the store
	grown int64                    // bytes of data that ahead has more than the store
}

// OpenReader opens the state store in dir, which must not be in use, without changing it; FS may be read-only. It fails
// if there is none, if this program cannot read it, and with disk.ErrDamaged. Pebble's lock file stays.
func OpenReader(fs vfs.FS, dir string, logger *slog.Logger) (*Reader, error) {
	fault := &disk.Fault{Store: "state store", Dir: dir, Logger: logger}
	if _, err := disk.CheckManifest(fs, dir); err != nil {
		return nil, fmt.Errorf("open state store %s: %w", dir, disk.AsDamage(err))
	}
	db, err := pebble.Open(dir, &pebble.Options{
		FS: disk.BlobFS{FS: fs}, ReadOnly: true, ErrorIfNotExists: true, DisableTableStats: true,
		Logger: disk.Logger{Fault: fault},
	})
	if err != nil {
		return nil, fmt.Errorf("open state store %s: %w", dir, disk.AsDamage(err))
	}
	r := &Reader{store: db, dir: dir, end: db.Close}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// begin looks at the format, and reads what every caller asks for.
func (r *Reader) begin() error {
	found, err := r.checkFormat()
	if err == nil && !found {
		err = foreign(r.dir)
	}
	if err != nil {
		return err
	}
	if r.level, err = r.readLevel(); err != nil { // first: all else may be in the form of a newer level
		return err
	}
	r.pos, err = r.position()
	return err
}

// Close closes the store, unless the Reader is of one that somebody else has open.
func (r *Reader) Close() error {
	if r.end == nil {
		return nil
	}
	return r.end()
}

// Dir is the directory of the store.
func (r *Reader) Dir() string { return r.dir }

// Position is how far the state has come.
func (r *Reader) Position() schema.Position { return r.pos }

// Level is the feature level of the state's ensemble.
func (r *Reader) Level() entry.Level { return r.level }

// Summary is what a backup would say of the state. It reads over all sessions.
func (r *Reader) Summary() (schema.Summary, error) {
	record, err := r.ensemble()
	if err != nil {
		return schema.Summary{}, err
	}
	sessions := 0
	err = r.Sessions(func(*schema.SessionInfo) error { sessions++; return nil })
	info := schema.SummaryOf(&r.pos, record, sessions)
	info.DataBytes += r.grown
	return info, err
}

// Settled is a Reader of the same store that shows the stats of quotas whose count is under way as they will be, if
// nothing changes meanwhile, when all is counted: whoever takes the state elsewhere counts nothing on. It reads all
// headers if there are any such counts. r goes on to own the store.
func (r *Reader) Settled() (*Reader, error) {
	settled := *r
	settled.end = nil
	var err error
	settled.ahead, settled.grown, err = r.settled()
	return &settled, err
}

// Each calls znode with each znode in the order of their keys, parents before their children, its data loaded, and with
// the value of its header; then session with each session in the order of their ids. What they get is valid during the
// call, their errors end the walk; session may be nil. It fails if data has no znode, or another length or checksum
// than its znode says.
func (r *Reader) Each(
	znode func(n *schema.Znode, header []byte) error, session func(*schema.SessionInfo) error,
) error {
	if err := r.walk(true, znode); err != nil || session == nil {
		return err
	}
	return r.Sessions(session)
}

// Headers calls f with each znode as Each does, but does not read the data that has a key of its own.
func (r *Reader) Headers(f func(n *schema.Znode, header []byte) error) error { return r.walk(false, f) }

// walk calls f with each znode and its header.
func (r *Reader) walk(data bool, f func(n *schema.Znode, header []byte) error) (err error) {
	var apart *apartReader
	if data {
		if apart, err = r.apart(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, apart.it.Close()) }()
	}
	err = r.scan([]byte{schema.KindNode}, func(key, header []byte) error {
		n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, key)), header)
		if err != nil {
			return fmt.Errorf("read state store %s: %w", r.dir, err)
		}
		if data {
			if err := apart.load(n, key); err != nil {
				return err
			}
		}
		if is := r.ahead[n.Path]; is != nil {
			n, header = is, is.AppendHeader(nil)
		}
		return f(n, header)
	})
	if err == nil && data {
		err = apart.ended()
	}
	return err
}

// apartReader reads the data that have keys of their own, along with the headers, which come in the same order.
type apartReader struct {
	it  *pebble.Iterator
	dir string
	// loaded says that the data at hand has been given away: the next one is for the next znode that has any.
	loaded bool
}

// apart begins to read the data.
func (r *Reader) apart() (*apartReader, error) {
	it, err := r.store.NewIter(&pebble.IterOptions{LowerBound: []byte{schema.KindData},
		UpperBound: []byte{schema.KindData + 1}})
	if err != nil {
		return nil, r.failed(err)
	}
	it.First()
	return &apartReader{it: it, dir: r.dir}, nil
}

// load gives n, whose header has the key, its data, which is valid until the next call, and checks it.
func (a *apartReader) load(n *schema.Znode, key []byte) error {
	if a.loaded {
		a.it.Next()
		a.loaded = false
	}
	if !n.Inline() {
		if !a.it.Valid() || !bytes.Equal(a.it.Key()[1:], key[1:]) {
			return errors.Join(fmt.Errorf("%w %s: the data of %q is missing", schema.ErrDamagedValue, a.dir, n.Path),
				disk.AsDamage(a.it.Error()))
		}
		value, err := a.it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read state store %s: %w", a.dir, disk.AsDamage(err))
		}
		n.Data, n.DataLoaded, a.loaded = value, true, true
	}
	if err := n.CheckData(); err != nil {
		return fmt.Errorf("%w %s: %w", schema.ErrDamagedValue, a.dir, err)
	}
	return nil
}

// ended fails if there is data behind that of the last znode.
func (a *apartReader) ended() error {
	if a.loaded {
		a.it.Next()
	}
	if a.it.Valid() {
		return fmt.Errorf("%w %s: there is data of %q, and no such znode", schema.ErrDamagedValue, a.dir,
			schema.PathOfNodeKey(nil, a.it.Key()))
	}
	if err := a.it.Error(); err != nil {
		return fmt.Errorf("read state store %s: %w", a.dir, disk.AsDamage(err))
	}
	return nil
}

// Sessions calls f with each session in the order of their ids, until f fails.
func (r *Reader) Sessions(f func(*schema.SessionInfo) error) error {
	each := func(key, value []byte) error {
		info, err := schema.DecodeSession(key, value)
		if err != nil {
			return err
		}
		return f(info)
	}
	// Ids have a sign, which their keys do not know: those below zero come behind the others there.
	negative := []byte{schema.KindSession, 1 << 7}
	if err := r.scanRange(negative, schema.PrefixEnd([]byte{schema.KindSession}), each); err != nil {
		return err
	}
	return r.scanRange([]byte{schema.KindSession}, negative, each)
}

// Ephemerals calls f with each ephemeral znode, sorted by session, the ids taken without a sign, and path.
func (r *Reader) Ephemerals(f func(id jute.SessionID, path string) error) error {
	return r.scan([]byte{schema.KindEphemeral}, func(key, _ []byte) error {
		return f(jute.SessionID(binary.BigEndian.Uint64(key[1:])), string(key[schema.EphemeralPrefixBytes:]))
	})
}

// Counts returns the counts of quotas under way, in the order in which they were begun.
func (r *Reader) Counts() ([]*schema.Count, error) {
	var all []*schema.Count
	err := r.scan([]byte{schema.KindCounting}, func(key, value []byte) error {
		c, err := schema.DecodeCount(key, value)
		if err == nil {
			all = append(all, c)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the counts of quotas: %w", err)
	}
	return all, nil
}

// scan calls f with each key and value that begins with prefix, in order, until f fails. Both are valid only during the
// call.
func (r *Reader) scan(prefix []byte, f func(key, value []byte) error) error {
	return r.scanRange(prefix, schema.PrefixEnd(prefix), f)
}

// scanRange calls f with each key and value from lower to before upper, in order, until f fails.
func (r *Reader) scanRange(lower, upper []byte, f func(key, value []byte) error) (err error) {
	it, err := r.store.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return r.failed(err)
	}
	defer func() { err = errors.Join(err, disk.AsDamage(it.Close())) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return r.failed(err)
		}
		if err := f(it.Key(), value); err != nil {
			return err
		}
	}
	return nil
}

// failed says what could not be read.
func (r *Reader) failed(err error) error {
	return fmt.Errorf("read state store %s: %w", r.dir, disk.AsDamage(err))
}
