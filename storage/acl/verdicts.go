package acl

import "zkd/jute"

// Verdicts answers, as Allowed does, what many ask about the same lists: a list that is long for who asks is indexed
// once, and an answer given once. So a question costs no more than its identities or its entries, whichever are fewer,
// but for the first about a list. The zero Verdicts is ready. It is for one goroutine.
//
// Lists and identities that it is asked about must never change; it keeps them alive until Forget.
type Verdicts struct {
	lists map[listKey]*listVerdicts
	size  int
	work  int
}

// listKey is one list: lists that have the same entries in other memory are others.
type listKey struct {
	first *jute.ACL
	n     int
}

// listVerdicts is what is known of one list.
type listVerdicts struct {
	index   index
	answers map[question]bool
}

// question is who asks for what.
type question struct {
	who  *Proven
	perm jute.Perms
}

// directMax is up to how many pairs of an entry and an identity nothing is kept. A guess: below it the answer costs as
// much as to look for it.
const directMax = 64

// Allowed is the function Allowed for who.
func (v *Verdicts) Allowed(list []jute.ACL, perm jute.Perms, who *Proven) bool {
	if len(list)*len(who.ids) <= directMax {
		v.work += len(list) * len(who.ids)
		return Allowed(list, perm, who.ids)
	}
	key := listKey{&list[0], len(list)}
	l := v.lists[key]
	if l == nil {
		if v.lists == nil {
			v.lists = make(map[listKey]*listVerdicts)
		}
		l = &listVerdicts{index: newIndex(list), answers: make(map[question]bool)}
		v.lists[key] = l
		v.size += len(list)
		v.work += len(list)
	}
	q := question{who, perm}
	allowed, known := l.answers[q]
	if !known {
		allowed = l.index.allows(perm, who)
		l.answers[q] = allowed
		v.size++
		v.work += len(who.ids) + len(l.index.prefixes)
	}
	return allowed
}

// Size is how many entries and answers v holds.
func (v *Verdicts) Size() int { return v.size }

// Work is how many entries and identities v has looked at since it was made, where nothing was kept as pairs.
func (v *Verdicts) Work() int { return v.work }

// Forget drops what v holds.
func (v *Verdicts) Forget() { v.lists, v.size = nil, 0 }

// index is a list in which what it gives to an identity is found at once.
type index struct {
	anyone   jute.Perms
	names    map[name]jute.Perms    // of digest, x509 and sasl
	anySASL  jute.Perms             // of all entries of sasl together
	networks map[network]jute.Perms // of ip
	prefixes map[prefix]struct{}    // that networks has
}

// network is the first bits of an address, the others zero.
type network struct {
	address
	bits int
}

// prefix is a kind of networks. There are 162 at most.
type prefix struct{ size, bits int }

// newIndex makes the index of list.
func newIndex(list []jute.ACL) index {
	x := index{names: make(map[name]jute.Perms, len(list))}
	for i := range list {
		id, perms := &list[i].ID, list[i].Perms
		switch id.Scheme {
		case SchemeDigest, SchemeX509:
			x.names[name{id.Scheme, id.ID}] |= perms
		case SchemeSASL:
			x.names[name{id.Scheme, id.ID}] |= perms
			x.anySASL |= perms
		case SchemeIP:
			x.addNetwork(id.ID, perms)
		default:
			if isAnyone(id) {
				x.anyone |= perms
			}
		}
	}
	return x
}

// addNetwork adds an entry of ip. What is no address matches nobody.
func (x *index) addNetwork(expr string, perms jute.Perms) {
	a, bits, ok := parseIPExpr(expr)
	if !ok {
		return
	}
	n := network{a, bits}
	n.clip()
	if x.networks == nil {
		x.networks, x.prefixes = make(map[network]jute.Perms), make(map[prefix]struct{})
	}
	x.networks[n] |= perms
	x.prefixes[prefix{a.size, bits}] = struct{}{}
}

// clip makes the bits behind the first ones zero.
func (n *network) clip() {
	for i := range n.size {
		switch left := n.bits - 8*i; {
		case left <= 0:
			n.bytes[i] = 0
		case left < 8:
			n.bytes[i] &= 0xff << (8 - left)
		}
	}
}

// allows reports whether the list gives perm to one of the identities.
func (x *index) allows(perm jute.Perms, who *Proven) bool {
	if who.super || x.anyone&perm != 0 {
		return true
	}
	for i := range who.ids {
		if x.gives(&who.ids[i])&perm != 0 {
			return true
		}
	}
	for _, ip := range who.ips {
		for p := range x.prefixes { // in any order: one suffices
			n := network{ip, p.bits}
			if n.clip(); p.size == ip.size && x.networks[n]&perm != 0 {
				return true
			}
		}
	}
	return false
}

// gives returns what the entries give to an identity that is no address: those that matches tells.
func (x *index) gives(id *jute.ID) jute.Perms {
	switch id.Scheme {
	case SchemeDigest, SchemeX509:
		return x.names[name{id.Scheme, id.ID}]
	case SchemeSASL:
		if id.ID == SchemeSuper {
			return x.anySASL
		}
		return x.names[name{SchemeSASL, id.ID}]
	case SchemeSASLAny:
		return x.names[name{SchemeSASL, id.ID}]
	}
	return 0
}
