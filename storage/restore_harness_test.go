package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/entry"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// restoreProposal is one of the proposals of a restore.
func restoreProposal(op jute.Op, txn entry.RestoreTxn) *entry.Proposal {
	return &entry.Proposal{Op: op, Body: txn.Append(nil)}
}

// uploadOf returns the proposals that bring content in pieces of a size, and the one that makes it the state.
func uploadOf(id uint64, content []byte, piece int) (upload []*entry.Proposal, commit *entry.Proposal) {
	upload = append(upload, restoreProposal(entry.OpRestoreBegin, entry.RestoreTxn{Upload: id}))
	for at := 0; at < len(content); at += piece {
		upload = append(upload, restoreProposal(entry.OpRestoreChunk, entry.RestoreTxn{Upload: id, Offset: int64(at),
			Data: content[at:min(at+piece, len(content))]}))
	}
	return upload, restoreProposal(entry.OpRestoreCommit, entry.RestoreTxn{Upload: id, Offset: int64(len(content)),
		Sum: xxhash.Sum64(content)})
}

// upload applies a restore of content, in two entries, and returns the result of the second one.
func (h *harness) upload(content []byte) string {
	h.t.Helper()
	upload, commit := uploadOf(7, content, 100)
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
	if _, _, err := h.m.Checkpoint(context.Background(), "snapshot"); err != nil {
		h.t.Fatal(err)
	}
	source, err := OpenStateSource(h.fs, "snapshot")
	if err != nil {
		h.t.Fatal(err)
	}
	content := snapshotBytes(h.t, source, o)
	if err := source.Close(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.fs.RemoveAll("snapshot"); err != nil {
		h.t.Fatal(err)
	}
	return content
}

// treeContent returns what the store holds, but for what is one server's or ensemble's own: the position, the format,
// the ensemble, and /zookeeper/config.
func treeContent(t *testing.T, m *Machine) map[string]string {
	t.Helper()
	all := storeContent(t, m)
	for key := range all { // order does not matter: a set is made smaller
		if key[0] == schema.KindMeta {
			delete(all, key)
		}
	}
	delete(all, string(schema.AppendNodeKey(nil, schema.KindNode, schema.ConfigPath)))
	delete(all, string(schema.AppendNodeKey(nil, schema.KindData, schema.ConfigPath)))
	return all
}

// fences is a sink that writes down what it is told, and what a View shows then.
type fences struct {
	m    *Machine
	told []string
}

var _ Fence = (*fences)(nil)

func (f *fences) Result(_, _ uint64, _ int, r *Result) {
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
	for _, suffix := range []string{"", datadir.RestoringSuffix, datadir.RestoredSuffix, datadir.ReplacedSuffix} {
		if _, err := fs.Stat("state" + suffix); err == nil {
			found = append(found, "state"+suffix)
		}
	}
	return found
}

// wholeFile returns what a file holds.
func wholeFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	return io.ReadAll(file)
}
