package apply

import (
	"fmt"
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// digests returns n identities, from the first on.
func digests(first, n int) []jute.ID {
	ids := make([]jute.ID, n)
	for i := range ids {
		ids[i] = jute.ID{Scheme: acl.SchemeDigest, ID: fmt.Sprintf("user%d:hash", first+i)}
	}
	return ids
}

// TestLongListsAreReadOnceInAnEntry: however many proposals of an entry ask about a znode, its list is read once, and
// the identities of each of them.
func TestLongListsAreReadOnceInAnEntry(t *testing.T) {
	const entries, identities, proposals = 2000, 64, 500
	var list []jute.ACL
	for _, id := range digests(0, entries) {
		list = append(list, jute.ACL{Perms: jute.PermWrite, ID: id})
	}
	var p entry.Proposal
	a, n := access{p: &p}, schema.Znode{ACL: list}
	ask := func(ids []jute.ID, want bool) {
		t.Helper()
		a.begin()
		p.Identities = append(p.Identities[:0], ids...)
		for range 10 {
			if a.allowed(&n, jute.PermWrite) != want || a.allowed(&n, jute.PermAdmin) {
				t.Fatal("not what the list gives")
			}
		}
	}
	for range proposals {
		ask(digests(entries, identities), false)
		ask(digests(entries-1, identities), true)
	}
	if work, most := a.verdicts.Work(), entries+proposals*2*2*identities; work > most {
		t.Errorf("looked at %d entries and identities, want at most %d", work, most)
	}
	if a.end(); a.verdicts.Size() != 0 {
		t.Error("the entry is not forgotten")
	}
}
