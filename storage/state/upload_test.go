package state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// TestUploadDamageIsRefused sends a snapshot with bytes changed and the end cut off, in all its parts, and with more
// behind it: nothing changes, and nothing is left of the upload. The tests of zkdata go through all bytes.
func TestUploadDamageIsRefused(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", []byte("data"), 0))
	content := h.snapshotOf(zkdata.WriteOptions{})
	h.apply(entrytest.Create("/before", nil, 0))
	before := treeContent(t, h.m)
	// Without the last zxid, and without the digest, it is what servers before 3.9 and 3.6 write: the sender's to know.
	const last, digest = 8 + 8 + 5, 8 + 4 + 8 + 8 + 5
	whole := map[int]bool{len(content) - last: true, len(content) - last - digest: true}
	refused := func(what string, content []byte) {
		out := h.upload(content)
		if !strings.Contains(out, "DataInconsistency") && !strings.Contains(out, "dataInconsistency") {
			t.Fatalf("%s: %s", what, out)
		}
	}
	for i := 0; i < len(content); i += 5 {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= byte(1 + i%255)
		refused(fmt.Sprint("byte ", i), damaged)
		if !whole[i] {
			refused(fmt.Sprint("end ", i), content[:i])
		}
	}
	refused("more behind it", append(append([]byte(nil), content...), 0))
	refused("nothing", nil)
	if diff := cmp.Diff(before, treeContent(t, h.m)); diff != "" {
		t.Error(diff)
	}
	checkStore(t, h.m)
	if dirs := stateDirs(h.fs); len(dirs) != 1 {
		t.Errorf("left behind: %v", dirs)
	}
}

// TestUploadThatHoldsNoTree: a snapshot that is whole and yet cannot be a state is refused when it is built.
func TestUploadThatHoldsNoTree(t *testing.T) {
	o := zkdatatest.NewServer(rand.New(rand.NewPCG(1, 1)))
	for range 200 {
		o.Step()
	}
	for _, c := range []struct {
		name, want string
		spoil      func(s *zkdatatest.Snapshot)
	}{
		{"another digest", "the digest of the tree does not fit", func(s *zkdatatest.Snapshot) { s.Sum++ }},
		{"a child without parent", "comes before its parent", func(s *zkdatatest.Snapshot) {
			s.Tree = append(s.Tree, zkdata.Node{Path: "/none/x"})
		}},
		{"a znode twice", "comes twice", func(s *zkdatatest.Snapshot) {
			s.Tree = append(s.Tree, s.Tree[len(s.Tree)-1])
		}},
		{"a session that is a container", "has an id that reads as", func(s *zkdatatest.Snapshot) {
			s.Living = append(s.Living, zkdata.Session{ID: schema.ContainerOwner})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := o.Snapshot(0)
			c.spoil(s)
			h := newHarness(t, MachineOptions{})
			h.apply(entrytest.Session(1), entrytest.Create("/before", nil, 0))
			before := treeContent(t, h.m)
			if out := h.upload(snapshotBytes(t, s, zkdata.WriteOptions{})); !strings.Contains(out, c.want) {
				t.Error(out)
			}
			if diff := cmp.Diff(before, treeContent(t, h.m)); diff != "" {
				t.Error(diff)
			}
			if h.m.LastZxid() != 2 || len(stateDirs(h.fs)) != 1 {
				t.Errorf("zxid %d, %v", h.m.LastZxid(), stateDirs(h.fs))
			}
		})
	}
}

// TestUploadsOutOfOrderAreRefused goes through the ways in which the pieces of an upload may not fit.
func TestUploadsOutOfOrderAreRefused(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/after", nil, 0))
	content := h.snapshotOf(zkdata.WriteOptions{})
	empty := storeContent(t, h.m)
	upload, commit := entrytest.Upload(1, content, 200)
	only := func(op jute.Op, id uint64) *entry.Proposal {
		return entrytest.Load(op, entry.LoadTxn{Upload: id})
	}
	piece := func(id uint64, offset int64, n int) *entry.Proposal {
		return entrytest.Load(entry.OpLoadChunk,
			entry.LoadTxn{Upload: id, Offset: offset, Data: make([]byte, n)})
	}
	end := func(id uint64, offset int64, sum uint64) *entry.Proposal {
		return entrytest.Load(entry.OpLoadCommit, entry.LoadTxn{Upload: id, Offset: offset, Sum: sum})
	}
	for _, c := range []struct {
		name string
		p    []*entry.Proposal
		want string
	}{
		{"a piece of none", []*entry.Proposal{piece(1, 0, 1)}, "the upload is gone"},
		{"the end of none", []*entry.Proposal{end(1, 0, 0)}, "the upload is gone"},
		{"no upload to give up", []*entry.Proposal{only(entry.OpLoadAbort, 1)}, "gone"},
		{"no record", []*entry.Proposal{{Op: entry.OpLoadBegin, Body: []byte{1}}}, "load transaction of 1 bytes"},
		{"", upload, "ok"},
		{"another upload's piece", []*entry.Proposal{piece(2, int64(len(content)), 1)}, "the upload is gone"},
		{"a piece again", []*entry.Proposal{upload[1]}, "a piece for offset 0"},
		{"an empty piece", []*entry.Proposal{piece(1, int64(len(content)), 0)}, "a piece of 0 bytes"},
		{"a large piece", []*entry.Proposal{piece(1, int64(len(content)), entry.LoadChunkBytesMax+1)}, "are taken"},
		{"the end too early", []*entry.Proposal{end(1, 5, 0)}, "ends at 5"},
		{"with others before it", []*entry.Proposal{entrytest.Create("/x", nil, 0), commit}, "not alone"},
		{"with others behind it", []*entry.Proposal{commit, entrytest.Create("/y", nil, 0)}, "not alone"},
		{"another upload", []*entry.Proposal{only(entry.OpLoadBegin, 2)}, "ok"},
		{"the one before", []*entry.Proposal{commit}, "the upload is gone"},
		{"given up", []*entry.Proposal{piece(2, 0, 10), only(entry.OpLoadAbort, 2)}, "ok"},
		{"after that", []*entry.Proposal{piece(2, 10, 1)}, "the upload is gone"},
		{"clear", []*entry.Proposal{entrytest.Delete("/x"), entrytest.Delete("/y")}, "ok"},
		{"the sum", []*entry.Proposal{only(entry.OpLoadBegin, 3), piece(3, 0, 9)}, "ok"},
		{"another sum", []*entry.Proposal{end(3, 9, 5)}, "the checksum of the upload"},
	} {
		if out := h.apply(c.p...); !strings.Contains(out, c.want) {
			t.Errorf("%s: %s", c.name, out)
		}
	}
	got := storeContent(t, h.m)
	for _, key := range []string{string(schema.KeyApplied), string(schema.KeySums),
		string(schema.AppendNodeKey(nil, schema.KindNode, schema.RootPath))} {
		delete(empty, key)
		delete(got, key)
	}
	if diff := cmp.Diff(empty, got); diff != "" {
		t.Error(diff)
	}
	if h.m.LastZxid() != 6 {
		t.Errorf("zxid %d: a proposal of a restore took one", h.m.LastZxid())
	}
}
