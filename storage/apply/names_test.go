package apply

import (
	"fmt"
	"strings"
	"testing"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// families is a store of parents with as many children as are read of one at the most. It counts what is read.
type families struct{ owned }

// Znode implements Store.
func (f *families) Znode(path string) (*schema.Znode, error) {
	if strings.Count(path, "/") > 1 {
		return nil, nil
	}
	return &schema.Znode{Path: path, DataLoaded: true, Children: namesScanMax}, nil
}

// Scan implements Store.
func (f *families) Scan(lower, _ []byte) (Cursor, error) {
	keys := make([][]byte, namesScanMax)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%s%03d", lower, i)
	}
	return &ownedCursor{&f.owned, keys}, nil
}

// TestAnEntryReadsFewNames: who makes a child of each of many parents has the entry read the children of few of these,
// and the next entry of others.
func TestAnEntryReadsFewNames(t *testing.T) {
	store := &families{}
	base := &Base{Level: entry.LevelPieces, Sessions: map[jute.SessionID]*schema.SessionInfo{1: {ID: 1}}}
	txn := New(Options{Base: base, Store: store})
	const parents = 1000
	open := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	for index := range uint64(3) {
		data := entry.AppendEntryHeader(nil, 1, 1)
		for i := range parents {
			p := entry.Proposal{Op: jute.OpCreate, Session: 1, Body: (&jute.CreateRequest{
				Path: fmt.Sprintf("/p%d/new%d", i, index), ACL: open}).Append(nil)}
			data = entry.AppendProposal(data, &p)
		}
		store.read = 0
		txn.Begin(index+1, 1)
		if err := txn.Evaluate(data); err != nil {
			t.Fatal(err)
		}
		for i, r := range txn.Results {
			if r.Code != jute.OK {
				t.Fatalf("create %d: %v", i, r.Code)
			}
		}
		txn.End()
		if store.read == 0 || store.read > namesEntryMax {
			t.Errorf("entry %d reads %d names, want some, and %d at the most", index, store.read, namesEntryMax)
		}
	}
}
