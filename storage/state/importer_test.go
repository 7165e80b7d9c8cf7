package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// TestImportResolvesACLs imports znodes whose lists came after the snapshot's table was written, and refuses one whose
// list never comes.
func TestImportResolvesACLs(t *testing.T) {
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // in memory
	im := newImport(m, nil, raftlog.ImportedIndex, raftlog.ImportedTerm)
	for _, p := range []string{"/created", "/set", "/deleted", "/never"} {
		im.Add(&zkdata.Node{Path: p, ACLMissing: true, Czxid: 5})
	}
	list := zkdatatest.ACLs[1]
	im.Replay(&zkdata.Txn{Zxid: 5, Op: jute.OpCreate, Path: "/created", ACL: list, ParentCversion: 1})
	im.Replay(&zkdata.Txn{Zxid: 6, Op: jute.OpSetACL, Path: "/set", ACL: list, Version: 1})
	im.Replay(&zkdata.Txn{Zxid: 7, Op: jute.OpDelete, Path: "/deleted"})
	if _, err := im.Finish(); !errors.Is(err, apply.ErrTree) || !strings.Contains(err.Error(), "1 znodes") {
		t.Errorf("a list that never comes: %v", err)
	}
	im.Replay(&zkdata.Txn{Zxid: 8, Op: jute.OpDelete, Path: "/never"})
	if _, err := im.Finish(); err != nil {
		t.Fatal(err)
	}
	v := m.View()
	defer v.Close()
	for _, p := range []string{"/created", "/set"} {
		if n, ok := v.Get(p); !ok || n.ACL()[0] != list[0] {
			t.Errorf("%s: %v", p, ok)
		}
	}
}

// TestImportRemovesOrphans imports ephemerals of a session that is gone, as ZooKeeper does at its start, and refuses
// sessions that would read as something else.
func TestImportRemovesOrphans(t *testing.T) {
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // in memory
	im := newImport(m, nil, raftlog.ImportedIndex, raftlog.ImportedTerm)
	im.Session(1, 1000)
	for i, p := range []string{"/kept", "/gone"} {
		im.Add(&zkdata.Node{Path: p, ACL: zkdatatest.ACLs[0], Owner: jute.SessionID(i + 1)})
	}
	im.At(9)
	if n, err := im.Finish(); n != 1 || err != nil {
		t.Fatalf("%d orphans, %v", n, err)
	}
	v := m.View()
	root, _ := v.Get("/")
	_, kept := v.Get("/kept")
	_, gone := v.Get("/gone")
	v.Close()
	if !kept || gone || root.Stat().Pzxid != 9 || root.Stat().NumChildren != 2 {
		t.Errorf("kept %v, gone %v, root %+v", kept, gone, root.Stat())
	}
	im.Session(schema.TTLOwnerMask|5, 1000)
	if im.Settle() == nil {
		t.Error("a session whose id reads as a TTL znode was taken")
	}
}
