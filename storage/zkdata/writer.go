package zkdata

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"math"

	"zkd/jute"
)

// Source is a tree at rest, from which a snapshot is made.
type Source interface {
	// Zxid is that of the last write, Digest the sum over the tree, of version DigestVersion.
	Zxid() jute.Zxid
	Digest() uint64
	// Sessions returns all sessions.
	Sessions() ([]Session, error)
	// Nodes calls f with each znode, parents before their children, in the same order each time, until f fails. The
	// data may be left out if it is not wanted. What f is given is valid only during the call.
	Nodes(data bool, f func(n *Node) error) error
}

// WriteOptions says how a snapshot is written.
type WriteOptions struct {
	Compression Compression
	// OmitLastZxid leaves out the last zxid at the end, as servers before 3.9 do (serializeLastProcessedZxid.enabled).
	OmitLastZxid bool
	// Progress is told, now and then, how many znodes have been written. It may be nil.
	Progress func(nodes int64)
}

// progressEvery is how many znodes lie between two calls of Progress.
const progressEvery = 4096

// WriteSnapshot writes the snapshot of src to w as Apache ZooKeeper 3.9 does, digest and last zxid included
// (org.apache.zookeeper.server.persistence.FileSnap). It reads the znodes twice: the ACLs stand before them. It holds
// the distinct ACLs in memory, and one znode.
func WriteSnapshot(w io.Writer, src Source, o WriteOptions) error {
	packed, err := compress(w, o.Compression)
	if err != nil {
		return err
	}
	out := &output{w: bufio.NewWriterSize(packed, inputBufferBytes), sum: adler32.New()}
	if err := out.snapshot(src, &o); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// output writes a file's content and sums it up.
type output struct {
	w   *bufio.Writer
	sum hash.Hash32
	b   []byte
}

// put writes what was gathered in b.
func (o *output) put() error {
	_, _ = o.sum.Write(o.b) // a hash does not fail
	_, err := o.w.Write(o.b)
	o.b = o.b[:0]
	return err
}

func (o *output) snapshot(src Source, opts *WriteOptions) error {
	o.b = jute.AppendInt(o.b, snapshotMagic)
	o.b = jute.AppendInt(o.b, fileVersion)
	o.b = jute.AppendLong(o.b, -1) // the id of the database, as FileTxnSnapLog sets it
	sessions, err := src.Sessions()
	if err != nil {
		return err
	}
	o.b = jute.AppendInt(o.b, int32(len(sessions)))
	for _, s := range sessions {
		o.b = jute.AppendLong(o.b, int64(s.ID))
		o.b = jute.AppendInt(o.b, s.TimeoutMillis)
	}
	keys, err := o.acls(src)
	if err != nil {
		return err
	}
	if err := o.nodes(src, keys, opts.Progress); err != nil {
		return err
	}
	o.b = jute.AppendLong(o.b, int64(src.Zxid()))
	o.b = jute.AppendInt(o.b, DigestVersion)
	o.b = jute.AppendLong(o.b, int64(src.Digest()))
	if err := o.seal(); err != nil {
		return err
	}
	if opts.OmitLastZxid {
		return nil
	}
	o.b = jute.AppendLong(o.b, int64(src.Zxid()))
	return o.seal()
}

// seal writes the checksum of all before it.
func (o *output) seal() error {
	if err := o.put(); err != nil {
		return err
	}
	o.b = jute.AppendLong(o.b, int64(o.sum.Sum32()))
	o.b = jute.AppendString(o.b, endPath)
	return o.put()
}

// aclTableMax bounds the distinct ACLs: their number has 32 bits in the file.
const aclTableMax = math.MaxInt32

// acls writes the table of ACLs and returns their keys by their encoding.
func (o *output) acls(src Source) (map[string]int64, error) {
	keys := map[string]int64{string(appendACLs(nil, openACL)): openACLKey}
	var table, scratch []byte
	err := src.Nodes(false, func(n *Node) error {
		scratch = appendACLs(scratch[:0], n.ACL)
		if _, ok := keys[string(scratch)]; ok {
			return nil
		}
		key := int64(len(keys))
		if key > aclTableMax {
			return fmt.Errorf("the tree has more than %d different ACLs", aclTableMax)
		}
		keys[string(scratch)] = key
		table = append(binary.BigEndian.AppendUint64(table, uint64(key)), scratch...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.b = jute.AppendInt(o.b, int32(len(keys)-1))
	o.b = append(o.b, table...)
	return keys, o.put()
}

// appendACLs adds a list as jute encodes a vector of them.
func appendACLs(b []byte, list []jute.ACL) []byte {
	b = jute.AppendInt(b, int32(len(list)))
	for i := range list {
		b = list[i].Append(b)
	}
	return b
}

// nodes writes the znodes and the seal behind them.
func (o *output) nodes(src Source, keys map[string]int64, progress func(int64)) error {
	var scratch []byte
	count := int64(0)
	err := src.Nodes(true, func(n *Node) error {
		scratch = appendACLs(scratch[:0], n.ACL)
		key, ok := keys[string(scratch)]
		if !ok {
			return fmt.Errorf("the tree has changed while it was written: the ACL of %q is new", n.Path)
		}
		path := n.Path
		if path == endPath {
			path = ""
		}
		o.b = jute.AppendString(o.b, path)
		o.b = jute.AppendBuffer(o.b, n.Data)
		o.b = jute.AppendLong(o.b, key)
		for _, v := range [...]int64{int64(n.Czxid), int64(n.Mzxid), int64(n.Ctime), int64(n.Mtime)} {
			o.b = jute.AppendLong(o.b, v)
		}
		for _, v := range [...]jute.Version{n.Version, n.Creations, n.Aversion} {
			o.b = jute.AppendInt(o.b, int32(v))
		}
		o.b = jute.AppendLong(o.b, int64(n.Owner))
		o.b = jute.AppendLong(o.b, int64(n.Pzxid))
		if count++; progress != nil && count%progressEvery == 0 {
			progress(count)
		}
		return o.put()
	})
	if err != nil {
		return err
	}
	if progress != nil {
		progress(count)
	}
	o.b = jute.AppendString(o.b, endPath)
	return o.seal()
}
