package zkdata

import (
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"zkd/jute"
)

// Headers of the files (org.apache.zookeeper.server.persistence.FileHeader).
const (
	snapshotMagic = 0x5a4b534e // ZKSN
	logMagic      = 0x5a4b4c47 // ZKLG
	fileVersion   = 2
)

// openACLKey stands for the list world:anyone, everything, without an entry in the snapshot's table
// (ReferenceCountedACLCache.OPEN_UNSAFE_ACL_ID).
const openACLKey = -1

// endPath ends the list of znodes, and stands in each seal.
const endPath = "/"

// snapshotRemedy is what an operator does about a damaged snapshot.
const snapshotRemedy = "restore the file, or move it out of the directory: the snapshot before it and the logs from " +
	"there on hold the same, if they are still there"

// uploadRemedy is what an operator does about a damaged snapshot that was sent.
const uploadRemedy = "send it again, or another one"

// Snapshot reads one snapshot. It is for one goroutine.
type Snapshot struct {
	// Compression is how it was compressed.
	Compression Compression

	in       *input
	name     string
	remedy   string
	sessions []Session
	acls     map[int64][]jute.ACL
	node     Node
	digest   *Digest
	last     jute.Zxid
	hasLast  bool
	ended    bool
}

// ReadSnapshot begins to read the snapshot in r, which messages call name: its sessions and ACLs. Next reads the rest.
func ReadSnapshot(r io.Reader, name string) (*Snapshot, error) {
	return readSnapshot(r, &Snapshot{name: name, remedy: snapshotRemedy})
}

// ReadUpload is ReadSnapshot for a snapshot that somebody sends.
func ReadUpload(r io.Reader) (*Snapshot, error) {
	return readSnapshot(r, &Snapshot{name: "the snapshot", remedy: uploadRemedy})
}

// readSnapshot begins to read s.
func readSnapshot(r io.Reader, s *Snapshot) (*Snapshot, error) {
	s.acls = map[int64][]jute.ACL{}
	content, compression, err := decompress(r)
	if err != nil {
		return nil, damaged(s.name, 0, s.remedy, "%v", err)
	}
	s.in, s.Compression = newInput(content), compression
	magic, version := s.in.int(), s.in.int()
	_ = s.in.long() // the id of a database, which nobody sets
	switch {
	case s.in.err != nil:
	case magic != snapshotMagic:
		return nil, damaged(s.name, 0, s.remedy, "it begins with %08x, a snapshot with %08x", magic, snapshotMagic)
	case version != fileVersion:
		return nil, damaged(s.name, 4, s.remedy, "its version is %d, not %d", version, fileVersion)
	}
	s.readSessions()
	s.readACLs()
	return s, s.err("the head of the snapshot")
}

// Sessions returns the snapshot's sessions.
func (s *Snapshot) Sessions() []Session { return s.sessions }

// ACLs returns the number of different ACLs in the snapshot's table.
func (s *Snapshot) ACLs() int { return len(s.acls) }

// Digest returns the digest that the snapshot holds, nil if it holds none: of 3.6 or later, and once Next has come to
// the end. It is of the zxid at which the writing of the snapshot ended, after that of the snapshot's name.
func (s *Snapshot) Digest() *Digest { return s.digest }

// LastZxid returns the zxid at which the writing of the snapshot ended, of 3.9 or later, and once Next has come to the
// end.
func (s *Snapshot) LastZxid() (jute.Zxid, bool) { return s.last, s.hasLast }

// Offset returns how much of the content was read.
func (s *Snapshot) Offset() int64 { return s.in.offset }

// err words what ended the reading of something.
func (s *Snapshot) err(what string) error {
	if s.in.err == nil {
		return nil
	}
	return damaged(s.name, s.in.offset, s.remedy, "%s cannot be read: %v", what, s.in.err)
}

func (s *Snapshot) readSessions() {
	for n := s.in.count(); n > 0 && s.in.err == nil; n-- {
		session := Session{ID: jute.SessionID(s.in.long()), TimeoutMillis: s.in.int()}
		if s.in.err == nil {
			s.sessions = append(s.sessions, session)
		}
	}
}

func (s *Snapshot) readACLs() {
	for n := s.in.count(); n > 0 && s.in.err == nil; n-- {
		key := s.in.long()
		list := []jute.ACL{}
		for m := s.in.count(); m > 0 && s.in.err == nil; m-- {
			entry := jute.ACL{Perms: jute.Perms(s.in.int())}
			entry.ID.Scheme, entry.ID.ID = s.text(), s.text()
			list = append(list, entry)
		}
		if s.in.err == nil {
			s.acls[key] = list
		}
	}
}

// text reads a string in memory of its own. null, which no writer writes here, is "".
func (s *Snapshot) text() string { return textOf(s.in.buffer()) }

// textOf copies b as Java decodes it: what is not UTF-8 is replaced.
func textOf(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	d := jute.NewDecoder(jute.AppendBuffer(nil, b))
	var nulls jute.Nulls
	return d.Ustring(&nulls, 0)
}

// errPath means a path that no znode can have.
var errPath = errors.New("no znode can have that path")

// Next reads the next znode, parents before their children, and is false behind the last one, when all checksums of
// the file were right. The node is valid until the next call.
func (s *Snapshot) Next() (*Node, bool, error) {
	if s.ended {
		return nil, false, nil
	}
	at := s.in.offset
	s.in.release()
	path := s.text()
	if s.in.err == nil && path == endPath {
		s.ended = true
		return nil, false, s.trailer()
	}
	if path == "" {
		path = endPath
	}
	if s.in.err == nil && !jute.ValidPath(path) {
		return nil, false, damaged(s.name, at, s.remedy, "%v: %.120q", errPath, path)
	}
	if err := s.err("a path"); err != nil {
		return nil, false, err
	}
	s.readNode(path)
	if err := s.err("znode " + strconv.Quote(path)); err != nil {
		return nil, false, err
	}
	return &s.node, true, nil
}

// readNode reads what follows a path.
func (s *Snapshot) readNode(path string) {
	n, in := &s.node, s.in
	*n = Node{Path: path, Data: in.buffer()}
	key := in.long()
	n.Czxid, n.Mzxid = jute.Zxid(in.long()), jute.Zxid(in.long())
	n.Ctime, n.Mtime = jute.Millis(in.long()), jute.Millis(in.long())
	n.Version, n.Creations, n.Aversion = jute.Version(in.int()), jute.Version(in.int()), jute.Version(in.int())
	n.Owner, n.Pzxid = jute.SessionID(in.long()), jute.Zxid(in.long())
	if key == openACLKey {
		n.ACL = openACL
		return
	}
	list, ok := s.acls[key]
	n.ACL, n.ACLMissing = list, !ok
}

// openACL is world:anyone, everything.
var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// trailer reads what follows the znodes.
func (s *Snapshot) trailer() error {
	in := s.in
	if err := s.seal(in.sum.Sum32(), in.int()); err != nil {
		return err
	}
	if in.ended() {
		return nil
	}
	zxid := jute.Zxid(in.long())
	sum := in.sum.Sum32()
	version := in.int()
	// Without a digest the last zxid stands here, and behind it a seal, whose first half is 0.
	if in.err == nil && version != 0 {
		if err := s.readDigest(zxid, version); err != nil {
			return err
		}
		if in.ended() {
			return nil
		}
		zxid = jute.Zxid(in.long())
		sum = in.sum.Sum32()
		version = in.int()
	}
	if err := s.seal(sum, version); err != nil {
		return err
	}
	s.last, s.hasLast = zxid, true
	if !in.ended() {
		return damaged(s.name, in.offset, s.remedy, "something follows the end of the snapshot")
	}
	return nil
}

// readDigest reads the digest and the seal behind it.
func (s *Snapshot) readDigest(zxid jute.Zxid, version int32) error {
	d := &Digest{Zxid: zxid, Version: version}
	if version < DigestVersion {
		d.Sum, _ = strconv.ParseUint(s.text(), 16, 64) // of a version that nobody compares
	} else {
		d.Sum = uint64(s.in.long())
	}
	if err := s.seal(s.in.sum.Sum32(), s.in.int()); err != nil {
		return err
	}
	if zxid > 0 {
		s.digest = d
	}
	return nil
}

// seal reads the rest of a seal and compares its checksum with sum: that of all bytes before it. high is its first
// half.
func (s *Snapshot) seal(sum uint32, high int32) error {
	at := s.in.offset - 4
	stored := int64(high)<<32 | int64(uint32(s.in.int()))
	mark := s.text()
	if err := s.err("a checksum"); err != nil {
		return err
	}
	if stored != int64(sum) || mark != endPath {
		return damaged(s.name, at, s.remedy, "the checksum of all before it is %#x, and %#x is stored", sum,
			uint64(stored))
	}
	return nil
}

// LooksWhole tells whether the snapshot of size bytes in r looks as if it was written to its end
// (SnapStream.isValidSnapshot); of a compressed one only the beginning is looked at.
func LooksWhole(r io.ReaderAt, size int64, compressed bool) (bool, error) {
	if size < snapshotBytesMin {
		return false, nil
	}
	var b [tailBytes]byte
	at := int64(0)
	if !compressed {
		at = size - tailBytes
	}
	if _, err := r.ReadAt(b[:], at); err != nil {
		return false, err
	}
	if !compressed {
		return validTail(b[:]), nil
	}
	return string(b[:2]) == string(gzipMagic) || string(b[:]) == string(snappyHeader[:tailBytes]), nil
}

// validTail tells whether a plain snapshot of size bytes, of which tail are the last, was written to its end
// (SnapStream.isValidSnapshot).
func validTail(tail []byte) bool {
	return string(tail) == "\x00\x00\x00\x01/"
}

// tailBytes is what validTail wants.
const tailBytes = 5

// snapshotBytesMin is the size of the smallest snapshot that SnapStream takes.
const snapshotBytesMin = 10

// epochOf returns the epoch in a zxid (org.apache.zookeeper.server.util.ZxidUtils).
func epochOf(z jute.Zxid) int64 { return int64(uint64(z) >> 32) }

// counterOf returns the count in the epoch.
func counterOf(z jute.Zxid) int64 { return int64(z) & math.MaxUint32 }
