package apply

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// owned is a store of a session's ephemerals, which counts what is read of their list.
type owned struct {
	keys [][]byte // sorted
	read int
}

// newOwned returns the store of a session that owns these paths.
func newOwned(id jute.SessionID, paths []string) *owned {
	var o owned
	for _, path := range paths {
		o.keys = append(o.keys, schema.AppendEphemeralKey(nil, id, path))
	}
	return &o
}

// Znode implements Store.
func (o *owned) Znode(path string) (*schema.Znode, error) {
	n := &schema.Znode{Path: path, DataLoaded: true}
	if path != schema.RootPath {
		n.Owner = 1
	}
	return n, nil
}

// Data implements Store.
func (o *owned) Data(*schema.Znode) ([]byte, error) { return nil, nil }

// Scan implements Store.
func (o *owned) Scan(lower, upper []byte) (Cursor, error) {
	from, _ := slices.BinarySearchFunc(o.keys, lower, bytes.Compare)
	to, _ := slices.BinarySearchFunc(o.keys, upper, bytes.Compare)
	return &ownedCursor{o, o.keys[from:to]}, nil
}

// ownedCursor stands on the first of the keys that are left.
type ownedCursor struct {
	*owned
	left [][]byte
}

// First implements Cursor.
func (c *ownedCursor) First() bool {
	if len(c.left) > 0 {
		c.read++
	}
	return len(c.left) > 0
}

// Next implements Cursor.
func (c *ownedCursor) Next() bool {
	c.left = c.left[1:]
	return c.First()
}

// Key implements Cursor.
func (c *ownedCursor) Key() []byte { return c.left[0] }

// ValueAndErr implements Cursor.
func (c *ownedCursor) ValueAndErr() ([]byte, error) { return nil, nil }

// Close implements Cursor.
func (c *ownedCursor) Close() error { return nil }

// nothing is a Batch that keeps nothing: what is deleted stays in the list, as tombstones do.
type nothing struct{}

// Set implements Batch.
func (nothing) Set([]byte, []byte) error { return nil }

// Delete implements Batch.
func (nothing) Delete([]byte) error { return nil }

// DeleteRange implements Batch.
func (nothing) DeleteRange([]byte, []byte) error { return nil }

// endInPieces ends session 1, and returns how many ephemerals each piece has deleted, and how much of the list it has
// read.
func endInPieces(t *testing.T, store *owned, most int) (deleted, read []int) {
	t.Helper()
	base := &Base{Level: entry.LevelPieces,
		Sessions: map[jute.SessionID]*schema.SessionInfo{1: {ID: 1}}}
	txn := New(Options{Base: base, Store: store, EndZnodes: most})
	p := entry.Proposal{Op: jute.OpCloseSession, Session: 1, Flags: entry.FlagInPieces}
	data := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &p)
	for index, goesOn := uint64(1), true; goesOn; index++ {
		if index > uint64(len(store.keys)+1) {
			t.Fatalf("no end after %d pieces: %v", index, deleted)
		}
		store.read = 0
		txn.Begin(index, 1)
		if err := txn.Evaluate(data); err != nil {
			t.Fatal(err)
		}
		if err := txn.Prepare(nothing{}); err != nil {
			t.Fatal(err)
		}
		base.Take(&txn.Changes)
		r := txn.Results[0]
		if r.Code != jute.OK {
			t.Fatalf("piece %d: %v", index, r.Code)
		}
		deleted, read = append(deleted, len(r.Events)/2), append(read, store.read)
		goesOn = r.Unfinished
		txn.End()
	}
	return deleted, read
}

// TestPiecesOfAnEndAreBounded in number, and in bytes of the paths.
func TestPiecesOfAnEndAreBounded(t *testing.T) {
	long := strings.Repeat("x", endBytesMax*3/5)
	for _, one := range []struct {
		paths []string
		most  int
		want  []int
	}{
		{[]string{"/a", "/b", "/c", "/d", "/e"}, 2, []int{2, 2, 1}},
		{[]string{"/a", "/b"}, 2, []int{2}},
		{nil, 2, []int{0}},
		{[]string{"/a" + long, "/b" + long, "/c" + long}, 100, []int{2, 1}},
		{[]string{"/a" + long + long, "/b" + long}, 100, []int{1, 1}},
	} {
		if got, _ := endInPieces(t, newOwned(1, one.paths), one.most); !slices.Equal(got, one.want) {
			t.Errorf("%d ephemerals in pieces of %d: %v, want %v", len(one.paths), one.most, got, one.want)
		}
	}
}

// TestPiecesOfAnEndDoNotWalkOverThoseBefore: a piece reads what it deletes, and two more to find its end.
func TestPiecesOfAnEndDoNotWalkOverThoseBefore(t *testing.T) {
	var paths []string
	for i := range 100 {
		paths = append(paths, fmt.Sprintf("/%03d", i))
	}
	if _, read := endInPieces(t, newOwned(1, paths), 10); slices.Max(read) > 12 {
		t.Errorf("pieces of 10 have read %v keys", read)
	}
}
