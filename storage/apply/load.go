package apply

import (
	"errors"
	"fmt"
	"io"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// Load is what the state is built of that the end of an upload leads to: a snapshot of Apache ZooKeeper's, and of the
// present state what the snapshot cannot say.
type Load struct {
	Position schema.Position // of the present state; index and term are those of the entry that ends the upload
	Bytes    int64           // of the upload
	Sum      uint64          // its checksum, as its sender says
	Ensemble *schema.EnsembleRecord
	Level    entry.Level
	Sessions map[jute.SessionID]*schema.SessionInfo
	Config   *schema.Znode // /zookeeper/config, with its data; nil if there is none
}

// loader fills a state with a Load.
type loader struct {
	*Importer
	load   *Load
	newest jute.Zxid // of what is in the snapshot
}

// Load fills the state of im, which is that of an empty server, with what l says and the snapshot in in. zxid is the
// one that the state has then. What is wrong with the snapshot is in refused, the same on every server; so is an error
// of in, which its owner knows.
func (im *Importer) Load(l *Load, in io.Reader) (zxid jute.Zxid, refused, err error) {
	b := &loader{Importer: im, load: l}
	im.t.Ensemble, im.t.Level = l.Ensemble, l.Level
	snapshot, refused, err := b.read(in)
	if err != nil || refused != nil {
		return 0, refused, err
	}
	if refused = b.verify(snapshot); refused != nil {
		return 0, refused, nil
	}
	// One more than the present one at least: two states of one zxid could not be told apart.
	zxid = max(l.Position.Zxid+1, b.newest)
	im.t.Position.Zxid, im.t.Loaded = zxid, zxid
	b.keepConfig()
	if _, err := im.Finish(); errors.Is(err, ErrTree) {
		return 0, err, nil
	} else if err != nil {
		return 0, nil, err
	}
	if digest := im.t.base.Position.Digest; digest != im.digest {
		return 0, nil, fmt.Errorf("%w: %#x was counted on the way and %#x at the end: report this", ErrDigest,
			im.digest, digest)
	}
	return zxid, nil, nil
}

// read reads the snapshot.
func (b *loader) read(in io.Reader) (s *zkdata.Snapshot, refused, err error) {
	if s, err = zkdata.ReadUpload(in); err != nil {
		return nil, err, nil
	}
	for _, session := range s.Sessions() {
		b.session(session)
	}
	for {
		n, more, err := s.Next()
		if err != nil {
			return nil, err, nil
		}
		if more {
			b.newest = max(b.newest, n.Czxid, n.Mzxid, n.Pzxid)
			b.Add(n)
		}
		if b.err != nil {
			return nil, b.err, b.t.tree.err
		}
		if err := b.Settle(); err != nil || !more {
			return s, nil, err
		}
	}
}

// session adds a session of the snapshot. Of one that lives in the present state, too, the client keeps its password
// and its timeout; the rest get the password that Apache ZooKeeper would give them, as by an import.
func (b *loader) session(s zkdata.Session) {
	if info := b.load.Sessions[s.ID]; info != nil {
		b.t.sessions.set(s.ID, info)
		return
	}
	b.Session(s.ID, s.TimeoutMillis)
}

// verify compares the tree with the digest of the snapshot, if it has one of the moment at which it ends: an earlier
// one is of the last write before the server's start.
func (b *loader) verify(s *zkdata.Snapshot) error {
	d, end := s.Digest(), b.newest
	if last, ok := s.LastZxid(); ok {
		end = last
	}
	b.newest = max(b.newest, end)
	if d == nil {
		return nil
	}
	if d.Zxid >= end && d.Version == zkdata.DigestVersion && d.Sum != b.digest {
		return fmt.Errorf("%w: in the snapshot it is %#x, and its znodes make %#x: it was taken while there were "+
			"writes, which are only in the logs behind it; take one of a server that has none, or of zkd", ErrDigest,
			d.Sum, b.digest)
	}
	b.newest = max(b.newest, d.Zxid)
	return nil
}

// keepConfig lets /zookeeper/config say what the members have agreed on, to those who have the right to see it now:
// the snapshot may be of another ensemble. Its children, if it has any, are the snapshot's.
func (b *loader) keepConfig() {
	present, c := b.load.Config, b.look(schema.ConfigPath)
	if present == nil || c.cur == nil {
		return
	}
	b.setACL(c, present.ACL)
	b.modify(c, func(n *schema.Znode) {
		n.Version, n.Mzxid, n.Mtime, n.Aversion = present.Version, present.Mzxid, present.Mtime, present.Aversion
		n.SetData(b.keep(present.Data))
	})
	c.dataChanged = true
}
