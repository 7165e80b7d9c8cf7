package apply

import (
	"slices"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// verdictsFrom is from how many pairs of an entry and an identity on an answer is kept. A guess: below it the answer
// costs as much as to look for it.
const verdictsFrom = 64

// access is who the caller of a proposal is, and what he may do.
type access struct {
	p   *entry.Proposal
	who *acl.Proven // the caller, if somebody has asked; made of p's identities
	// verdicts are what allowed has found out in the entry, of lists that are long for those who asked.
	verdicts acl.Verdicts
	// grown is how many bytes the lists of the proposal have that name auth.
	grown int
}

// begin starts a proposal.
func (a *access) begin() { a.who, a.grown = nil, 0 }

// end forgets the entry.
func (a *access) end() {
	a.begin()
	a.verdicts.Forget()
}

// allowed reports whether the caller may do perm to n. An entry may ask thousands of times about one znode, with a list
// and identities that clients have made long.
func (a *access) allowed(n *schema.Znode, perm jute.Perms) bool {
	if a.p.Flags&entry.FlagSkipACL != 0 {
		return true
	}
	if len(n.ACL)*len(a.p.Identities) < verdictsFrom {
		return acl.Allowed(n.ACL, perm, a.p.Identities)
	}
	if a.who == nil {
		a.who = acl.NewProven(slices.Clone(a.p.Identities)) // the slice is the next proposal's, too
	}
	return a.verdicts.Allowed(n.ACL, perm, a.who)
}

// Bounds of what auth may make of the lists of one proposal, in bytes: so much in any case, and so many times what the
// proposal itself has. Guesses: a client has one or two identities, and a thousand at most.
const (
	grownACLLeast = 1 << 20
	grownACLTimes = 16
)

// fixed returns the list that a znode gets when the caller asks for list. It fails with InvalidACL where ZooKeeper
// does, and where auth would make more of the lists of a multi than this server can be asked to keep.
func (a *access) fixed(list []jute.ACL) ([]jute.ACL, jute.Code) {
	fixed, code := acl.Fix(list, a.p.Identities, a.schemes())
	auth := func(one jute.ACL) bool { return one.ID.Scheme == acl.SchemeAuth }
	if code != jute.OK || !slices.ContainsFunc(list, auth) {
		return fixed, code
	}
	a.grown += listBytes(fixed)
	if a.grown > max(grownACLLeast, grownACLTimes*len(a.p.Body)) {
		return nil, jute.InvalidACL
	}
	return fixed, jute.OK
}

// schemes returns the ACL schemes that have a provider.
func (a *access) schemes() acl.Schemes {
	s := acl.Digest
	if a.p.Flags&entry.FlagDigestDisabled != 0 {
		s = 0
	}
	if a.p.Flags&entry.FlagSASL != 0 {
		s |= acl.SASL
	}
	if a.p.Flags&entry.FlagX509 != 0 {
		s |= acl.X509
	}
	return s
}

// listBytes is about what a list takes in a state.
func listBytes(list []jute.ACL) (n int) {
	const others = 12 // permissions and the lengths of two texts
	for i := range list {
		n += others + len(list[i].ID.Scheme) + len(list[i].ID.ID)
	}
	return n
}
