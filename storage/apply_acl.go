package storage

import (
	"slices"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// verdict is a question that allowed has answered: may the caller do that to a znode with that list? A list has its own
// memory for as long as the proposal is evaluated.
type verdict struct {
	list *jute.ACL // the first entry
	n    int
	perm jute.Perms
}

// verdictsFrom is from how many pairs of an entry and an identity on an answer is kept. A guess: below it the answer
// costs as much as to look for it.
const verdictsFrom = 64

// allowed reports whether the caller may do perm to n. A multi may ask thousands of times about one znode, with a list
// and identities that its client has made long.
func (t *txn) allowed(n *schema.Znode, perm jute.Perms) bool {
	if t.p.Flags&entry.FlagSkipACL != 0 {
		return true
	}
	if len(n.ACL)*len(t.p.Identities) < verdictsFrom {
		return acl.Allowed(n.ACL, perm, t.p.Identities)
	}
	asked := verdict{list: &n.ACL[0], n: len(n.ACL), perm: perm}
	allowed, known := t.verdicts[asked]
	if !known {
		allowed = acl.Allowed(n.ACL, perm, t.p.Identities)
		if t.verdicts == nil {
			t.verdicts = map[verdict]bool{}
		}
		t.verdicts[asked] = allowed
	}
	return allowed
}

// Bounds of what auth may make of the lists of one proposal, in bytes: so much in any case, and so many times what the
// proposal itself has. Guesses: a client has one or two identities, and a thousand at most.
const (
	grownACLLeast = 1 << 20
	grownACLTimes = 16
)

// fixedACL returns the list that a znode gets when the caller asks for list. It fails with InvalidACL where ZooKeeper
// does, and where auth would make more of the lists of a multi than this server can be asked to keep.
func (t *txn) fixedACL(list []jute.ACL) ([]jute.ACL, jute.Code) {
	fixed, code := acl.Fix(list, t.p.Identities, t.schemes())
	if code != jute.OK || !slices.ContainsFunc(list, func(a jute.ACL) bool { return a.ID.Scheme == acl.SchemeAuth }) {
		return fixed, code
	}
	t.grownACL += listBytes(fixed)
	if t.grownACL > max(grownACLLeast, grownACLTimes*len(t.p.Body)) {
		return nil, jute.InvalidACL
	}
	return fixed, jute.OK
}

// listBytes is about what a list takes in a state.
func listBytes(list []jute.ACL) (n int) {
	const others = 12 // permissions and the lengths of two texts
	for i := range list {
		n += others + len(list[i].ID.Scheme) + len(list[i].ID.ID)
	}
	return n
}
