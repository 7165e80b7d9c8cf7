package apply

import (
	"fmt"
	"strings"
	"testing"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// looked is a store in which every path but the znodes of quotas is there, and which counts what is asked for.
type looked struct {
	owned
	znodes, bytes int
}

// Znode implements Store.
func (l *looked) Znode(path string) (*schema.Znode, error) {
	l.znodes++
	l.bytes += len(path)
	if _, ok := schema.QuotaOf(path); ok {
		return nil, nil
	}
	return &schema.Znode{Path: path, DataLoaded: true}, nil
}

// changeBelow evaluates a multi that makes a quota and changes a znode so far below it, and returns what is read of the
// state for it.
func changeBelow(t *testing.T, depth int) *looked {
	t.Helper()
	const limits = "/zookeeper/quota/d/zookeeper_limits"
	path := strings.Repeat("/d", depth)
	var body []byte
	open := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	for _, part := range []struct {
		op     jute.Op
		record interface{ Append([]byte) []byte }
	}{
		{jute.OpCreate, &jute.CreateRequest{Path: limits, ACL: open}},
		{jute.OpSetData, &jute.SetDataRequest{Path: path, Data: []byte("x"), Version: jute.AnyVersion}},
		{jute.OpDelete, &jute.PathVersionRequest{Path: limits, Version: jute.AnyVersion}},
		{jute.OpSetData, &jute.SetDataRequest{Path: path, Data: []byte("y"), Version: jute.AnyVersion}},
	} {
		h := jute.MultiHeader{Type: part.op, Err: -1}
		body = part.record.Append(h.Append(body))
	}
	var quotas Quotas
	for n := range depth { // one of each that is above
		quotas.put(strings.Repeat("/d", n+1) + "/elsewhere")
	}
	store := &looked{}
	txn := New(Options{Base: &Base{Level: entry.LevelPieces, Quotas: quotas,
		Sessions: map[jute.SessionID]*schema.SessionInfo{1: {ID: 1}}}, Store: store})
	p := entry.Proposal{Op: jute.OpMulti, Session: 1, Body: jute.AppendMultiEnd(body)}
	txn.Begin(1, 1)
	if err := txn.Evaluate(entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &p)); err != nil {
		t.Fatal(err)
	}
	if code := txn.Results[0].Code; code != jute.OK {
		t.Fatalf("the multi: %v", code)
	}
	txn.End()
	return store
}

// TestQuotasAreFoundInOnePass: what is above a znode is not looked up one by one for a quota, however deep it is.
func TestQuotasAreFoundInOnePass(t *testing.T) {
	shallow, deep := changeBelow(t, 10), changeBelow(t, 3000)
	if deep.znodes > shallow.znodes+20 { // who administers the path is searched for by halves
		t.Errorf("3,000 znodes deep %d are looked up, ten deep %d", deep.znodes, shallow.znodes)
	}
	if most := 50 * 2 * 3000; deep.bytes > most {
		t.Errorf("the paths that are looked up have %d bytes, more than %d", deep.bytes, most)
	}
}

// BenchmarkFarBelow is a change of a znode that is many others deep, with a quota above that the entry has made.
func BenchmarkFarBelow(b *testing.B) {
	for _, depth := range []int{5, 3000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			path := strings.Repeat("/d", depth)
			var all Quotas
			all.put("/d")
			q := &quotas{base: &Base{Quotas: all}, changes: &Changes{}}
			for b.Loop() {
				if q.of(path) != "/d" {
					b.Fatal("the quota is not found")
				}
			}
		})
	}
}
