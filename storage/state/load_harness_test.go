package state

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/schema/schematest"
	"zkd/storage/zkdata"
)

// upload applies a restore of content, in two entries, and returns the result of the second one.
func (h *harness) upload(content []byte) string {
	h.t.Helper()
	upload, commit := entrytest.Upload(7, content, 100)
	h.apply(upload...)
	return h.apply(commit)
}

// snapshotBytes writes a snapshot as Apache ZooKeeper does.
func snapshotBytes(t testing.TB, src zkdata.Source, o zkdata.WriteOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := zkdata.WriteSnapshot(&b, src, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// snapshotOf returns the snapshot that zkd gives of the present state.
func (h *harness) snapshotOf(o zkdata.WriteOptions) []byte {
	h.t.Helper()
	r, err := h.m.ReadCheckpoint(context.Background(), "snapshot")
	if err != nil {
		h.t.Fatal(err)
	}
	content := snapshotBytes(h.t, ownTree{r}, o)
	if err := r.Close(); err != nil {
		h.t.Fatal(err)
	}
	return content
}

// ownTree is what a Reader reads, to be written as a snapshot; package migrate has one for everybody else.
type ownTree struct{ r *Reader }

func (o ownTree) Zxid() jute.Zxid { return o.r.Position().Zxid }

func (o ownTree) Digest() uint64 { return o.r.Position().Digest }

func (o ownTree) Sessions() (list []zkdata.Session, err error) {
	err = o.r.Sessions(func(s *schema.SessionInfo) error {
		list = append(list, zkdata.Session{ID: s.ID, TimeoutMillis: s.TimeoutMillis})
		return nil
	})
	return list, err
}

func (o ownTree) Nodes(_ bool, f func(*zkdata.Node) error) error {
	return o.r.Each(func(n *schema.Znode, _ []byte) error {
		return f(&zkdata.Node{Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid,
			Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion, Creations: n.Creations,
			Owner: n.Owner})
	}, nil)
}

// treeContent returns what the store holds, but for what is one server's or ensemble's own.
func treeContent(t *testing.T, m *Machine) map[string]string {
	t.Helper()
	return schematest.Tree(storeContent(t, m))
}

// fences is a sink that writes down what it is told, and what a View shows then.
type fences struct {
	m    *Machine
	told []string
}

var _ ReplaceObserver = (*fences)(nil)

func (f *fences) Result(_, _ uint64, _ int, r *apply.Result) {
	f.told = append(f.told, fmt.Sprintf("result %v", r.Code))
}

func (f *fences) Replacing() { f.see("replacing") }
func (f *fences) Replaced()  { f.see("replaced") }

// see notes whether /before and /after are there.
func (f *fences) see(what string) {
	v := f.m.View()
	defer v.Close()
	for _, path := range []string{"/before", "/after"} {
		if _, ok := v.Exists(path); ok {
			what += " " + path
		}
	}
	f.told = append(f.told, what)
}

// stateDirs returns the directories of states that there are.
func stateDirs(fs vfs.FS) []string {
	var found []string
	for _, suffix := range []string{"", datadir.BuildingSuffix, datadir.ReplacementSuffix, datadir.ReplacedSuffix} {
		if _, err := fs.Stat("state" + suffix); err == nil {
			found = append(found, "state"+suffix)
		}
	}
	return found
}
