package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/apply"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// settled returns the stats znodes of counts under way as they will be, if nothing changes meanwhile, when all is
// counted; and by how much their data grows.
func (r *Reader) settled() (stats map[string]*schema.Znode, grown int64, err error) {
	counts, err := r.Counts()
	if err != nil || len(counts) == 0 {
		return nil, 0, err
	}
	of := make(map[string]*schema.Count, len(counts)) // by target
	for _, c := range counts {
		of[c.Target] = c
	}
	type found struct{ znodes, bytes int64 }
	ahead := make(map[string]found, len(counts))
	var key []byte
	err = r.Headers(func(n *schema.Znode, _ []byte) error {
		key = schema.AppendNodeKey(key[:0], schema.KindNode, n.Path)
		schema.EachAbove(n.Path, func(above string) {
			if c := of[above]; c != nil && entry.ViewString(key) > c.Cursor {
				a := ahead[c.Target]
				ahead[c.Target] = found{znodes: a.znodes + 1, bytes: a.bytes + int64(n.DataLen)}
			}
		})
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	stats = make(map[string]*schema.Znode, len(counts))
	for _, c := range counts {
		n, err := r.stats(c)
		if err != nil {
			return nil, 0, err
		}
		more := ahead[c.Target]
		track := apply.ParseStatsTrack(n.Data)
		track.Count += more.znodes + c.OwedZnodes
		track.Bytes += more.bytes + c.OwedBytes
		grown -= int64(n.DataLen)
		n.SetData(track.Append(nil))
		grown += int64(n.DataLen)
		stats[n.Path] = n
	}
	return stats, grown, nil
}

// stats returns the stats znode of a count, with its data.
func (r *Reader) stats(c *schema.Count) (*schema.Znode, error) {
	path := string(schema.AppendQuotaNode(nil, c.Target, schema.StatsName))
	key := schema.AppendNodeKey(nil, schema.KindNode, path)
	header, closer, err := r.store.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, fmt.Errorf("%w %s: the quota of %q is counted, and has no stats", schema.ErrDamagedValue, r.dir,
				c.Target)
		}
		return nil, r.failed(err)
	}
	n, err := schema.DecodeHeader(path, header)
	_ = closer.Close() // it only gives back a block
	if err != nil || n.DataLoaded {
		return n, err
	}
	key[0] = schema.KindData
	value, closer, err := r.store.Get(key)
	if err != nil {
		return nil, fmt.Errorf("read the data of %q from state store %s: %w", path, r.dir, disk.AsDamage(err))
	}
	defer closer.Close()
	n.Data, n.DataLoaded = append([]byte(nil), value...), true
	return n, n.CheckData()
}
