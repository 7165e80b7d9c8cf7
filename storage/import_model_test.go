package storage

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// oldServer is an Apache ZooKeeper server as far as its files show it: a tree that transactions change, and snapshots
// that are written while they do. It counts its digest anew each time.
type oldServer struct {
	r        *rand.Rand
	zxid     jute.Zxid
	nodes    map[string]*zkdata.Node
	sessions map[jute.SessionID]int32
	log      []byte
	from     jute.Zxid // of the first transaction in log
	digests  bool
}

// newOldServer returns an empty server.
func newOldServer(r *rand.Rand) *oldServer {
	o := &oldServer{r: r, nodes: map[string]*zkdata.Node{}, sessions: map[jute.SessionID]int32{}, digests: true}
	for _, n := range defaultTree() {
		o.nodes[n.Path] = &zkdata.Node{Path: n.Path, Data: []byte{}, ACL: n.ACL, Aversion: n.Aversion}
	}
	o.begin()
	return o
}

// begin begins a log.
func (o *oldServer) begin() {
	o.log = jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, 0x5a4b4c47), 2), 0)
	o.from = o.zxid + 1
}

// children returns the paths of the children of path, in an order of chance.
func (o *oldServer) children(path string) []string {
	var found []string
	for _, p := range slices.Sorted(maps.Keys(o.nodes)) {
		if p != schema.RootPath && o.parent(p) == path {
			found = append(found, p)
		}
	}
	o.r.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found
}

// parent returns the path of a parent.
func (o *oldServer) parent(p string) string {
	if p = schema.ParentOf(p); p == "" {
		return schema.RootPath
	}
	return p
}

// digest sums up the tree.
func (o *oldServer) digest() (sum uint64) {
	for _, n := range o.nodes { // order does not matter: a sum
		z := schema.Znode{Path: n.Path, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
			Version: n.Version, Aversion: n.Aversion, Creations: n.Creations, Owner: n.Owner}
		z.SetData(n.Data)
		sum += z.Digest(new([schema.DigestStatBytes]byte))
	}
	return sum
}

// A path of chance, few enough that they are made and deleted again and again.
func (o *oldServer) path() string {
	path := ""
	for range 1 + o.r.IntN(3) {
		path += "/" + string(rune('a'+o.r.IntN(3)))
	}
	return path
}

// modelACLs are the lists that znodes get.
var modelACLs = [][]jute.ACL{
	{{Perms: 31, ID: jute.ID{Scheme: "world", ID: "anyone"}}}, {{Perms: 1, ID: jute.ID{Scheme: "ip", ID: "10.0.0.1"}}},
	{{Perms: 31, ID: jute.ID{Scheme: "digest", ID: "a:b"}}, {Perms: 1, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
}

// operation returns the opcode and the body of a transaction of chance that can be done, and does it.
func (o *oldServer) operation(session jute.SessionID) (jute.Op, []byte, bool) {
	path := o.path()
	n, parent := o.nodes[path], o.nodes[o.parent(path)]
	data := []byte(strings.Repeat("x", o.r.IntN(2)*o.r.IntN(300)))
	list := modelACLs[o.r.IntN(len(modelACLs))]
	acls := jute.AppendInt(nil, int32(len(list)))
	for i := range list {
		acls = list[i].Append(acls)
	}
	switch o.r.IntN(6) {
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
		n.Data, n.Mzxid, n.Mtime = data, o.zxid, jute.Millis(o.zxid)
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
func (o *oldServer) create(session jute.SessionID, path string, data []byte, list []jute.ACL, acls []byte,
) (jute.Op, []byte, bool) {
	parent := o.nodes[o.parent(path)]
	parent.Creations++
	parent.Pzxid = o.zxid
	n := &zkdata.Node{Path: path, Data: data, ACL: list, Czxid: o.zxid, Mzxid: o.zxid, Pzxid: o.zxid,
		Ctime: jute.Millis(o.zxid), Mtime: jute.Millis(o.zxid)}
	o.nodes[path] = n
	body := append(jute.AppendBuffer(jute.AppendString(nil, path), data), acls...)
	switch o.r.IntN(6) {
	case 0:
		n.Owner = schema.ContainerOwner
		return jute.OpCreateContainer, jute.AppendInt(body, int32(parent.Creations)), true
	case 1:
		n.Owner = schema.TTLOwnerMask | 7
		return jute.OpCreateTTL, jute.AppendLong(jute.AppendInt(body, int32(parent.Creations)), 7), true
	case 2:
		if _, ok := o.sessions[session]; ok {
			n.Owner = session
			return jute.OpCreate, jute.AppendInt(jute.AppendBool(body, true), int32(parent.Creations)), true
		}
	}
	op := []jute.Op{jute.OpCreate, jute.OpCreate2}[o.r.IntN(2)]
	return op, jute.AppendInt(jute.AppendBool(body, false), int32(parent.Creations)), true
}

// remove deletes a znode.
func (o *oldServer) remove(path string) {
	delete(o.nodes, path)
	o.nodes[o.parent(path)].Pzxid = o.zxid
}

// step does one transaction of chance and logs it.
func (o *oldServer) step() {
	o.zxid++
	session := jute.SessionID(1 + o.r.IntN(3))
	op, body := jute.OpError, jute.AppendInt(nil, int32(jute.NoNode))
	_, lives := o.sessions[session]
	switch kind := o.r.IntN(12); {
	case kind == 0 && !lives:
		o.sessions[session] = 1000 * int32(session)
		op, body = jute.OpCreateSession, jute.AppendInt(nil, o.sessions[session])
	case kind == 0:
		delete(o.sessions, session)
		paths := []string{}
		for _, p := range slices.Sorted(maps.Keys(o.nodes)) {
			if o.nodes[p].Owner == session {
				o.remove(p)
				paths = append(paths, p)
			}
		}
		op, body = jute.OpCloseSession, nil
		if o.digests {
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
	b = jute.AppendLong(b, int64(o.zxid))
	b = jute.AppendLong(b, int64(o.zxid))
	b = append(jute.AppendInt(b, int32(op)), body...)
	if o.digests && op != jute.OpError {
		b = jute.AppendLong(jute.AppendInt(b, zkdata.DigestVersion), int64(o.digest()))
	}
	o.log = jute.AppendLong(o.log, int64(adler32.Checksum(b)))
	o.log = jute.AppendInt(o.log, int32(len(b)))
	o.log = append(append(o.log, b...), 'B')
}

// multi does some operations in one.
func (o *oldServer) multi(session jute.SessionID) []byte {
	var parts []byte
	count := int32(0)
	for range 1 + o.r.IntN(5) {
		if op, body, ok := o.operation(session); ok { // ZooKeeper has no setACL in a multi; here one does no harm
			parts = jute.AppendBuffer(jute.AppendInt(parts, int32(op)), body)
			count++
		}
	}
	return append(jute.AppendInt(nil, count), parts...)
}

// snapshot is one that is written while transactions go on.
type snapshot struct {
	o        *oldServer
	sessions []zkdata.Session
	nodes    []zkdata.Node
	zxid     jute.Zxid // at its end
	digest   uint64
}

// snapshot walks over the tree as DataTree.serializeNode does, with transactions in between.
func (o *oldServer) snapshot(busy int) *snapshot {
	s := &snapshot{o: o}
	for _, id := range slices.Sorted(maps.Keys(o.sessions)) {
		s.sessions = append(s.sessions, zkdata.Session{ID: id, TimeoutMillis: o.sessions[id]})
	}
	s.visit(schema.RootPath, busy)
	s.zxid, s.digest = o.zxid, o.digest()
	return s
}

func (s *snapshot) visit(path string, busy int) {
	n, ok := s.o.nodes[path]
	if !ok {
		return
	}
	s.nodes = append(s.nodes, *n)
	children := s.o.children(path)
	for range s.o.r.IntN(busy + 1) {
		s.o.step()
	}
	for _, c := range children {
		s.visit(c, busy)
	}
}

func (s *snapshot) Zxid() jute.Zxid                     { return s.zxid }
func (s *snapshot) Digest() uint64                      { return s.digest }
func (s *snapshot) Sessions() ([]zkdata.Session, error) { return s.sessions, nil }
func (s *snapshot) Nodes(_ bool, f func(*zkdata.Node) error) error {
	for i := range s.nodes {
		if err := f(&s.nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the tree as walkLines does.
func (o *oldServer) lines() []string {
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

// files writes what the server has.
func (o *oldServer) files(t *testing.T, fs vfs.FS, s *snapshot, at jute.Zxid) {
	t.Helper()
	if _, err := zkdata.WriteDir(fs, "/old", s, zkdata.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := "/old/version-2/"
	if err := errors.Join(fs.Rename(dir+zkdata.SnapshotName(s.zxid, zkdata.Plain),
		dir+zkdata.SnapshotName(at, zkdata.Plain)), disk.WriteFile(fs, fmt.Sprintf("%slog.%x", dir, int64(o.from)),
		string(o.log))); err != nil {
		t.Fatal(err)
	}
}

// TestImportAgainstModel imports what a server of chance has written, with a snapshot that is fuzzy, and compares the
// tree, the sessions and all that the store counts with the server's own.
func TestImportAgainstModel(t *testing.T) {
	worlds := envNumber(t, "ZKD_IMPORT_WORLDS", 60)
	seed := uint64(envNumber(t, "ZKD_MODEL_SEED", 1))
	for ; worlds > 0; worlds-- {
		o := newOldServer(rand.New(rand.NewPCG(seed, 1)))
		o.digests = seed%5 != 0 // as before 3.6
		for range o.r.IntN(150) {
			o.step()
		}
		if seed%3 == 0 {
			o.begin() // older logs were purged
		}
		at := o.zxid
		s := o.snapshot(int(seed % 8))
		for range o.r.IntN(100) {
			o.step()
		}
		fs := vfs.NewMem()
		o.files(t, fs, s, at)
		report, err := Import(context.Background(), importOptions(fs))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		m := imported(t, fs)
		if diff := cmp.Diff(o.lines(), walkLines(t, m)); diff != "" {
			t.Fatalf("seed %d: server -, import +\n%s", seed, diff)
		}
		sessions := map[jute.SessionID]int32{}
		for id, info := range m.mu.sessions { // order does not matter: a map to a map
			sessions[id] = info.TimeoutMillis
		}
		if diff := cmp.Diff(o.sessions, sessions); diff != "" {
			t.Fatalf("seed %d: sessions of the server -, of the import +\n%s", seed, diff)
		}
		if !report.Verified || report.Digest != o.digest() || report.Zxid != o.zxid || m.LastZxid() != o.zxid ||
			importNote(t, fs) != o.zxid {
			t.Fatalf("seed %d: report %+v, digest %#x, zxid %d", seed, report, o.digest(), o.zxid)
		}
		checkStore(t, m)
		checkCounters(t, m)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		seed++
	}
}
