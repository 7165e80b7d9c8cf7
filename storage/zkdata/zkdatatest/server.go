package zkdatatest

import (
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// Server is an Apache ZooKeeper server as far as its files show it: a tree that transactions change, and snapshots
// that are written while they do. It counts its digest anew each time.
type Server struct {
	R        *rand.Rand
	Zxid     jute.Zxid
	nodes    map[string]*zkdata.Node
	Sessions map[jute.SessionID]int32
	Log      []byte
	From     jute.Zxid // of the first transaction in log
	Digests  bool
	written  map[string]bool // paths that the snapshot under way has; nil: none is
}

// NewServer returns an empty server.
func NewServer(r *rand.Rand) *Server {
	o := &Server{R: r, nodes: map[string]*zkdata.Node{}, Sessions: map[jute.SessionID]int32{}, Digests: true}
	for _, path := range []string{schema.RootPath, schema.ZookeeperPath, schema.QuotaPath, schema.ConfigPath} {
		o.nodes[path] = &zkdata.Node{Path: path, Data: []byte{}, ACL: acl.Open}
	}
	config := o.nodes[schema.ConfigPath]
	config.ACL, config.Aversion = acl.ReadOnly, -1
	o.Begin()
	return o
}

// Begin begins a log.
func (o *Server) Begin() {
	o.Log = jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, 0x5a4b4c47), 2), 0)
	o.From = o.Zxid + 1
}

// children returns the paths of the children of path, in an order of chance.
func (o *Server) children(path string) []string {
	var found []string
	for _, p := range slices.Sorted(maps.Keys(o.nodes)) {
		if p != schema.RootPath && o.parent(p) == path {
			found = append(found, p)
		}
	}
	o.R.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found
}

// parent returns the path of a parent.
func (o *Server) parent(p string) string {
	if p = schema.ParentOf(p); p == "" {
		return schema.RootPath
	}
	return p
}

// Digest sums up the tree.
func (o *Server) Digest() (sum uint64) {
	for _, n := range o.nodes { // order does not matter: a sum
		z := schema.Znode{Path: n.Path, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
			Version: n.Version, Aversion: n.Aversion, Creations: n.Creations, Owner: n.Owner}
		z.SetData(n.Data)
		sum += z.Digest(new([schema.DigestStatBytes]byte))
	}
	return sum
}

// A path of chance, few enough that they are made and deleted again and again.
func (o *Server) path() string {
	path := ""
	for range 1 + o.R.IntN(3) {
		path += "/" + string(rune('a'+o.R.IntN(3)))
	}
	return path
}

// operation returns the opcode and the body of a transaction of chance that can be done, and does it.
func (o *Server) operation(session jute.SessionID) (jute.Op, []byte, bool) {
	path := o.path()
	n, parent := o.nodes[path], o.nodes[o.parent(path)]
	data := []byte(strings.Repeat("x", o.R.IntN(2)*o.R.IntN(300)))
	list := ACLs[o.R.IntN(len(ACLs))]
	acls := jute.AppendInt(nil, int32(len(list)))
	for i := range list {
		acls = list[i].Append(acls)
	}
	switch o.R.IntN(6) {
	case 0, 1, 2:
		if n != nil || parent == nil || schema.OwnerKind(parent.Owner) == schema.OwnerSession {
			return 0, nil, false
		}
		return o.create(session, path, data, list, acls)
	case 3:
		if n == nil || len(o.children(path)) > 0 {
			return 0, nil, false
		}
		o.remove(path)
		return jute.OpDelete, jute.AppendString(nil, path), true
	case 4:
		if n == nil {
			return 0, nil, false
		}
		n.Data, n.Mzxid, n.Mtime = data, o.Zxid, jute.Millis(o.Zxid)
		n.Version++
		return jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), data),
			int32(n.Version)), true
	default:
		if n == nil {
			return 0, nil, false
		}
		n.ACL = list
		n.Aversion++
		return jute.OpSetACL, jute.AppendInt(append(jute.AppendString(nil, path), acls...), int32(n.Aversion)), true
	}
}

// create makes a znode of one kind or another.
func (o *Server) create(session jute.SessionID, path string, data []byte, list []jute.ACL, acls []byte,
) (jute.Op, []byte, bool) {
	parent := o.nodes[o.parent(path)]
	parent.Creations++
	parent.Pzxid = o.Zxid
	n := &zkdata.Node{Path: path, Data: data, ACL: list, Czxid: o.Zxid, Mzxid: o.Zxid, Pzxid: o.Zxid,
		Ctime: jute.Millis(o.Zxid), Mtime: jute.Millis(o.Zxid)}
	o.nodes[path] = n
	body := append(jute.AppendBuffer(jute.AppendString(nil, path), data), acls...)
	switch o.R.IntN(6) {
	case 0:
		n.Owner = schema.ContainerOwner
		return jute.OpCreateContainer, jute.AppendInt(body, int32(parent.Creations)), true
	case 1:
		n.Owner = schema.TTLOwnerMask | 7
		return jute.OpCreateTTL, jute.AppendLong(jute.AppendInt(body, int32(parent.Creations)), 7), true
	case 2:
		if _, ok := o.Sessions[session]; ok {
			n.Owner = session
			return jute.OpCreate, jute.AppendInt(jute.AppendBool(body, true), int32(parent.Creations)), true
		}
	}
	op := []jute.Op{jute.OpCreate, jute.OpCreate2}[o.R.IntN(2)]
	return op, jute.AppendInt(jute.AppendBool(body, false), int32(parent.Creations)), true
}

// remove deletes a znode.
func (o *Server) remove(path string) {
	delete(o.nodes, path)
	o.nodes[o.parent(path)].Pzxid = o.Zxid
}

// Step does one transaction of chance and logs it.
func (o *Server) Step() {
	o.Zxid++
	session := jute.SessionID(1 + o.R.IntN(3))
	op, body := jute.OpError, jute.AppendInt(nil, int32(jute.NoNode))
	_, lives := o.Sessions[session]
	switch kind := o.R.IntN(12); {
	case kind == 0 && !lives:
		o.Sessions[session] = 1000 * int32(session)
		op, body = jute.OpCreateSession, jute.AppendInt(nil, o.Sessions[session])
	case kind == 0 && o.wouldForget(session):
	case kind == 0:
		delete(o.Sessions, session)
		paths := []string{}
		for _, p := range slices.Sorted(maps.Keys(o.nodes)) {
			if o.nodes[p].Owner == session {
				o.remove(p)
				paths = append(paths, p)
			}
		}
		op, body = jute.OpCloseSession, nil
		if o.Digests {
			body = jute.AppendUstrings(nil, paths)
		}
	case kind == 1:
		op, body = jute.OpMulti, o.multi(session)
	case kind == 2: // one that failed, and changed nothing
		body = jute.AppendInt(nil, 2)
		body = jute.AppendBuffer(jute.AppendInt(body, int32(jute.OpDelete)), jute.AppendString(nil, o.path()))
		body = jute.AppendBuffer(jute.AppendInt(body, int32(jute.OpError)), jute.AppendInt(nil, -101))
		op = jute.OpMulti
	default:
		if did, b, ok := o.operation(session); ok {
			op, body = did, b
		}
	}
	b := jute.AppendLong(nil, int64(session))
	b = jute.AppendInt(b, 1)
	b = jute.AppendLong(b, int64(o.Zxid))
	b = jute.AppendLong(b, int64(o.Zxid))
	b = append(jute.AppendInt(b, int32(op)), body...)
	if o.Digests && op != jute.OpError {
		b = jute.AppendLong(jute.AppendInt(b, zkdata.DigestVersion), int64(o.Digest()))
	}
	o.Log = jute.AppendLong(o.Log, int64(adler32.Checksum(b)))
	o.Log = jute.AppendInt(o.Log, int32(len(b)))
	o.Log = append(append(o.Log, b...), 'B')
}

// wouldForget tells whether the files would not say what the end of a session does. Before 3.6 it names no znodes, so
// that of one which the snapshot under way does not have yet nobody knows that it was deleted: neither its parent's
// pzxid, nor that what was written to it before is not of one that is made at its path later. ZooKeeper loses that, too
// (ZOOKEEPER-3145).
func (o *Server) wouldForget(session jute.SessionID) bool {
	if o.Digests || o.written == nil {
		return false
	}
	for p, n := range o.nodes { // order does not matter: any
		if n.Owner == session && !o.written[p] {
			return true
		}
	}
	return false
}

// multi does some operations in one.
func (o *Server) multi(session jute.SessionID) []byte {
	var parts []byte
	count := int32(0)
	for range 1 + o.R.IntN(5) {
		if op, body, ok := o.operation(session); ok { // ZooKeeper has no setACL in a multi; here one does no harm
			parts = jute.AppendBuffer(jute.AppendInt(parts, int32(op)), body)
			count++
		}
	}
	return append(jute.AppendInt(nil, count), parts...)
}

// Snapshot walks over the tree as DataTree.serializeNode does, with transactions in between.
func (o *Server) Snapshot(busy int) *Snapshot {
	s := &Snapshot{o: o}
	for _, id := range slices.Sorted(maps.Keys(o.Sessions)) {
		s.Living = append(s.Living, zkdata.Session{ID: id, TimeoutMillis: o.Sessions[id]})
	}
	o.written = map[string]bool{}
	s.visit(schema.RootPath, busy)
	o.written = nil
	s.Last, s.Sum = o.Zxid, o.Digest()
	return s
}

// Lines returns the tree in lines, as compat-tests/migration keeps a walk.
func (o *Server) Lines() []string {
	var lines []string
	var visit func(p string)
	visit = func(p string) {
		n := o.nodes[p]
		children := slices.Sorted(slices.Values(o.children(p)))
		var list []string
		for _, a := range n.ACL {
			list = append(list, fmt.Sprintf("%d:%s:%s", a.Perms, a.ID.Scheme, a.ID.ID))
		}
		owner := n.Owner
		if schema.OwnerKind(owner) != schema.OwnerSession {
			owner = 0
		}
		lines = append(lines, fmt.Sprintf("%q %x %x %x %d %d %d %d %d %x %d %d %s %08x", p, int64(n.Czxid),
			int64(n.Mzxid),
			int64(n.Pzxid), n.Ctime, n.Mtime, n.Version, 2*n.Creations-jute.Version(len(children)), n.Aversion,
			uint64(owner), len(n.Data), len(children), strings.Join(list, ","), crc32.ChecksumIEEE(n.Data)))
		for _, c := range children {
			visit(c)
		}
	}
	visit(schema.RootPath)
	return lines
}

// ACLs are the lists that znodes get.
var ACLs = [][]jute.ACL{
	{{Perms: 31, ID: jute.ID{Scheme: "world", ID: "anyone"}}}, {{Perms: 1, ID: jute.ID{Scheme: "ip", ID: "10.0.0.1"}}},
	{{Perms: 31, ID: jute.ID{Scheme: "digest", ID: "a:b"}}, {Perms: 1, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
}

// Snapshot is one that is written while transactions go on.
type Snapshot struct {
	o      *Server
	Living []zkdata.Session
	Tree   []zkdata.Node
	Last   jute.Zxid // at its end
	Sum    uint64
}

// visit adds the znode at path and what is below it.
func (s *Snapshot) visit(path string, busy int) {
	n, ok := s.o.nodes[path]
	if !ok {
		return
	}
	s.Tree = append(s.Tree, *n)
	s.o.written[path] = true
	children := s.o.children(path)
	for range s.o.R.IntN(busy + 1) {
		s.o.Step()
	}
	for _, c := range children {
		s.visit(c, busy)
	}
}

// Zxid implements zkdata.Source.
func (s *Snapshot) Zxid() jute.Zxid { return s.Last }

// Digest implements zkdata.Source.
func (s *Snapshot) Digest() uint64 { return s.Sum }

// Sessions implements zkdata.Source.
func (s *Snapshot) Sessions() ([]zkdata.Session, error) { return s.Living, nil }

// Nodes implements zkdata.Source.
func (s *Snapshot) Nodes(_ bool, f func(*zkdata.Node) error) error {
	for i := range s.Tree {
		if err := f(&s.Tree[i]); err != nil {
			return err
		}
	}
	return nil
}
