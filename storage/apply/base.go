package apply

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Base is the state before an entry, as far as it is in memory. Between two entries Take brings it up to date.
type Base struct {
	Position schema.Position
	Kept     schema.Kept                            // the sums that are written with every entry
	Ensemble *schema.EnsembleRecord                 // immutable; nil if none was founded
	Sessions map[jute.SessionID]*schema.SessionInfo // the infos are immutable
	Quotas   Quotas
	Counts   Counts         // of quotas, under way
	Upload   *schema.Upload // nil if none is under way
	Level    entry.Level    // of the ensemble
	Loaded   jute.Zxid      // with which a load has replaced the state last; 0: never
}

// Take makes what an entry has come to the state before the next one.
func (b *Base) Take(c *Changes) {
	for _, id := range c.sessions.order {
		if info := c.sessions.made[id]; info != nil {
			b.Sessions[id] = info
		} else {
			delete(b.Sessions, id)
		}
	}
	if c.quotaTouch {
		b.takeQuotas(c)
	}
	b.Counts.take(c.counts)
	b.Ensemble, b.Upload, b.Loaded, b.Level = c.Ensemble, c.upload.is, c.Loaded, c.Level
	b.Position, b.Kept = c.Position, c.Kept
}

// takeQuotas takes the changes of quotas.
func (b *Base) takeQuotas(c *Changes) {
	for _, z := range c.znodes {
		if target, ok := schema.QuotaTarget(z.path, schema.LimitsName); !ok {
			continue
		} else if z.cur != nil {
			b.Quotas.put(target)
		} else {
			b.Quotas.drop(target)
		}
	}
}

// Sums returns the sums of the state.
func (b *Base) Sums() entry.Sums {
	rest := binary.BigEndian.AppendUint64(nil, uint64(b.Position.Zxid))
	for _, n := range [...]int64{b.Position.Nodes, b.Position.Ephemerals, b.Position.DataBytes, int64(b.Loaded)} {
		rest = binary.BigEndian.AppendUint64(rest, uint64(n))
	}
	rest = binary.BigEndian.AppendUint64(rest, b.Position.Digest)
	rest = binary.BigEndian.AppendUint16(rest, uint16(b.Level))
	if b.Upload != nil {
		rest = b.Upload.Append(rest)
	}
	if b.Ensemble != nil {
		rest = b.Ensemble.Append(rest)
	}
	rest = b.Counts.append(rest)
	return entry.Sums{Znodes: b.Kept.Znodes, Sessions: b.Kept.Sessions, Rest: xxhash.Sum64(rest)}
}

// Quotas are the paths that have a quota. The zero Quotas are none.
type Quotas struct{ paths pathTree[string] }

// put adds a path, of which it keeps a copy.
func (q *Quotas) put(path string) {
	path = strings.Clone(path)
	q.paths.put(path, path, false)
}

// drop removes a path.
func (q *Quotas) drop(path string) { q.paths.drop(path) }

// Len returns how many there are.
func (q *Quotas) Len() int { return q.paths.count }

// All returns the paths, sorted.
func (q *Quotas) All() []string {
	all := make([]string, 0, q.paths.count)
	q.paths.each(func(path string) { all = append(all, path) })
	slices.Sort(all)
	return all
}

// QuotasOf returns the paths that have a quota, of a state whose keys scan reads: it calls f with each key and value
// from lower to before upper, until f returns false.
func QuotasOf(
	scan func(lower, upper []byte, f func(key, value []byte) (bool, error)) error,
) (Quotas, error) {
	var all Quotas
	for _, keys := range schema.Below(schema.QuotaPath) {
		err := scan(keys.Lower, keys.Upper, func(key, _ []byte) (bool, error) {
			path := string(schema.PathOfNodeKey(nil, key))
			if target, ok := schema.QuotaTarget(path, schema.LimitsName); ok {
				all.put(target)
			}
			return true, nil
		})
		if err != nil {
			return Quotas{}, err
		}
	}
	return all, nil
}

// Store shows the state before the entry: all of it, from memory or disk. Its errors end the evaluation, and are final.
type Store interface {
	// Znode returns the znode at path, which begins with '/'; nil if there is none. Its data may be missing.
	Znode(path string) (*schema.Znode, error)
	// Data returns the data of n, where that is missing.
	Data(n *schema.Znode) ([]byte, error)
	// Scan returns the keys from lower to before upper.
	Scan(lower, upper []byte) (Cursor, error)
}

// Cursor stands on keys and their values, in order. What it returns is valid until it moves.
type Cursor interface {
	First() bool
	Next() bool
	Key() []byte
	ValueAndErr() ([]byte, error)
	Close() error // why First or Next have found nothing more, if that is an error
}

// scan calls f with each key and value of s from lower to before upper, in order, until f returns false. Both are valid
// only during the call.
func scan(s Store, lower, upper []byte, f func(key, value []byte) (bool, error)) error {
	at, err := s.Scan(lower, upper)
	if err != nil {
		return err
	}
	goOn := true
	for ok := at.First(); ok && goOn && err == nil; ok = at.Next() {
		var value []byte
		if value, err = at.ValueAndErr(); err == nil {
			goOn, err = f(at.Key(), value)
		}
	}
	if err = errors.Join(err, at.Close()); err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	return nil
}

// eachBelow calls f with the header key and value of each znode below path that lies behind cursor, in the order of the
// keys, until f returns false. The cursor is such a key, or what those of the children begin with; "" begins with the
// first one.
func eachBelow(s Store, path, cursor string, f func(key, value []byte) (bool, error)) error {
	next, goOn := append([]byte(cursor), 0), true // the next key that there can be
	for _, keys := range schema.Below(path) {
		if bytes.Compare(next, keys.Lower) > 0 {
			keys.Lower = next
		}
		if bytes.Compare(keys.Lower, keys.Upper) >= 0 {
			continue
		}
		err := scan(s, keys.Lower, keys.Upper, func(key, value []byte) (_ bool, err error) {
			goOn, err = f(key, value)
			return goOn, err
		})
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// Batch takes what an entry changes in the store. It keeps neither key nor value.
type Batch interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	DeleteRange(lower, upper []byte) error
}

// Replacement builds the state that the end of an upload leads to.
type Replacement interface {
	// Build builds it beside the present one, and makes it durable; zxid is the one that it has. What is wrong with the
	// upload is in refused, the same on every server; err is the store's.
	Build(l *Load) (zxid jute.Zxid, refused, err error)
}
