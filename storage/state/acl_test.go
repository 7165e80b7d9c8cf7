package state

import (
	"fmt"
	"slices"
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// many returns n identities of the scheme digest, from the first on.
func many(first, n int) []jute.ID {
	ids := make([]jute.ID, n)
	for i := range ids {
		ids[i] = jute.ID{Scheme: acl.SchemeDigest, ID: fmt.Sprintf("user%d:hash", first+i)}
	}
	return ids
}

// listOf is a list that lets ids do everything.
func listOf(ids []jute.ID) []jute.ACL {
	list := make([]jute.ACL, len(ids))
	for i := range list {
		list[i] = jute.ACL{Perms: jute.PermAll, ID: ids[i]}
	}
	return list
}

// createWith is a create of path with a list, by somebody.
func createWith(path string, list []jute.ACL, ids []jute.ID) *entry.Proposal {
	r := jute.CreateRequest{Path: path, ACL: list}
	return &entry.Proposal{Op: jute.OpCreate, Session: 1, Identities: ids, Body: r.Append(nil)}
}

// setAll sets the data of paths, in a multi, by somebody.
func setAll(ids []jute.ID, paths ...string) *entry.Proposal {
	p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: ids}
	for _, path := range paths {
		p.Body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(p.Body)
		p.Body = (&jute.SetDataRequest{Path: path, Version: -1}).Append(p.Body)
	}
	p.Body = jute.AppendMultiEnd(p.Body)
	return p
}

// codes takes in how proposals went.
type codes []jute.Code

// Result implements Sink.
func (c *codes) Result(_, _ uint64, _ int, r *apply.Result) { *c = append(*c, r.Code) }

// expectCodes applies proposals in one entry and compares how they went.
func expectCodes(t *testing.T, proposals []*entry.Proposal, want codes) {
	t.Helper()
	m := benchMachine(t, MachineOptions{})
	var got codes
	entry := entrytest.Entries(len(proposals), proposals)[0]
	if err := m.Apply(m.AppliedIndex()+1, 1, entry, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLongListsAndManyIdentities: who may do what is found out for each znode and each permission, however often a
// multi asks.
func TestLongListsAndManyIdentities(t *testing.T) {
	own, others := many(0, 300), many(1000, 300)
	readers := listOf(others)
	for i := range readers {
		readers[i].Perms = jute.PermRead
	}
	withOne := append(listOf(others[:299]), jute.ACL{Perms: jute.PermWrite, ID: own[299]})
	proposals := []*entry.Proposal{
		createWith("/own", listOf(own), own), createWith("/others", listOf(others), own),
		createWith("/one", withOne, own), createWith("/readers", slices.Concat(readers, listOf(own)), own),
		setAll(own, "/own", "/one", "/readers", "/own", "/one", "/readers"),
		setAll(own, "/own", "/others"), setAll(others, "/others", "/others"), setAll(others, "/readers"),
		setAll(append(many(5000, 300), jute.ID{Scheme: acl.SchemeSuper}), "/own", "/others", "/one"),
	}
	expectCodes(t, proposals, codes{jute.OK, jute.OK, jute.OK, jute.OK, jute.OK, jute.NoAuth, jute.OK, jute.NoAuth,
		jute.OK})
}

// TestAuthDoesNotMultiply: auth in the lists of one proposal becomes no more than a bounded number of entries, and what
// is beyond fails as a list that is none.
func TestAuthDoesNotMultiply(t *testing.T) {
	ids := many(0, 1000)
	auth := func(n int) []jute.ACL {
		list := make([]jute.ACL, n)
		for i := range list {
			list[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: acl.SchemeAuth, ID: fmt.Sprint(i)}}
		}
		return list
	}
	creates := func(n int, ids []jute.ID) *entry.Proposal {
		p := &entry.Proposal{Op: jute.OpMulti, Session: 1, Identities: ids}
		for i := range n {
			p.Body = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(p.Body)
			p.Body = (&jute.CreateRequest{Path: fmt.Sprintf("/m%d-%d-%d", len(ids), n, i), ACL: auth(1)}).Append(p.Body)
		}
		p.Body = jute.AppendMultiEnd(p.Body)
		return p
	}
	proposals := []*entry.Proposal{
		createWith("/two", auth(2), ids), createWith("/three", auth(3), ids), createWith("/most", auth(2000), ids),
		createWith("/long", listOf(many(0, acl.EntriesMax)), nil),
		createWith("/longer", listOf(many(0, acl.EntriesMax+1)), nil),
		creates(10, ids), creates(1000, ids), creates(5000, ids[:1]),
		createWith("/two/again", auth(2), ids),
	}
	expectCodes(t, proposals, codes{jute.OK, jute.InvalidACL, jute.InvalidACL, jute.OK, jute.InvalidACL, jute.OK,
		jute.InvalidACL, jute.OK, jute.OK})
}
