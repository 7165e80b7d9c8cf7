package entry_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/entry"
)

// proven returns n identities of 45 bytes.
func proven(n int) []jute.ID {
	ids := make([]jute.ID, n)
	for i := range ids {
		ids[i] = jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%03d:%027d=", i, i)}
	}
	return ids
}

// TestAReferenceStandsForIdentities: what is decoded is what was encoded, and it is small.
func TestAReferenceStandsForIdentities(t *testing.T) {
	list := entry.ListIdentities(proven(64))
	p := entry.Proposal{Op: jute.OpDelete, Session: 7, Reference: list.Reference(), Body: []byte("body")}
	b := p.Append(nil)
	inline := p
	inline.Identities, inline.Reference = proven(64), 0
	if refers, carries := len(b), len(inline.Append(nil)); refers > 60 || carries < 2900 {
		t.Errorf("%d bytes with a reference, %d with 64 identities", refers, carries)
	}
	if p.Level() != entry.LevelIdentities || inline.Level() != entry.LevelOldest {
		t.Errorf("levels %d and %d", p.Level(), inline.Level())
	}
	got := entry.Proposal{Identities: proven(3)}
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	got.Identities = nil
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if err := got.Decode(inline.Append(nil)); err != nil || got.Reference != 0 {
		t.Errorf("identities behind a reference: %v, reference %#x", err, got.Reference)
	}
	if diff := cmp.Diff(proven(64), got.Identities); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
	for n := range len(b) - len(p.Body) { // the body may be empty
		if got.Decode(b[:n]) == nil {
			t.Errorf("the first %d bytes can be read", n)
		}
	}
	none := p
	none.Reference = 0
	zero := none.Append(nil)
	zero[38], zero[39] = 0xff, 0xff
	if got.Decode(append(zero[:40], make([]byte, 8)...)) == nil {
		t.Error("a reference of 0 can be read")
	}
}

// TestListsOfIdentities: damaged ones are refused, and lists that differ have other references.
func TestListsOfIdentities(t *testing.T) {
	for _, n := range []int{0, 1, 64} {
		list := entry.ListIdentities(proven(n))
		got, err := list.Decode()
		if err != nil || len(got) != n || n > 0 && got[n-1] != proven(n)[n-1] {
			t.Errorf("list of %d: %v (%v)", n, got, err)
		}
		for cut := range list {
			if _, err := list[:cut].Decode(); err == nil {
				t.Errorf("%d of the bytes of a list of %d can be read", cut, n)
			}
		}
		if _, err := append(list[:len(list):len(list)], 0).Decode(); err == nil {
			t.Errorf("a list of %d with a byte behind can be read", n)
		}
		if list.Reference() == 0 || list.Reference() == entry.ListIdentities(proven(n+1)).Reference() {
			t.Errorf("reference %#x of %d", list.Reference(), n)
		}
	}
}
