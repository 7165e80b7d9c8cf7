package acl

import (
	"slices"

	"zkd/jute"
)

// compareMax is up to how many pairs of an entry and an identity are compared each with each. Above it one side is
// looked up in an index of the other, for clients choose both numbers. A guess: the lookup table costs about as much.
const compareMax = 256

// fewIdentities is up to how many identities are not looked up, but compared with each entry. A guess: clients have one
// or two, and all connections keep what is made for lookups.
const fewIdentities = 8

// Proven is what one connection has proven: a list of identities that is asked about often, so that what can be known
// of it beforehand is found out once. It is immutable, and any goroutine may ask.
type Proven struct {
	ids   []jute.ID
	super bool
	ips   []address // of the identities of ip that are addresses
	exact *exact    // nil: they are few
}

// NewProven returns ids as a Proven, which keeps them: nobody may change them.
func NewProven(ids []jute.ID) *Proven {
	p := &Proven{ids: ids}
	if len(ids) > fewIdentities {
		p.exact = newExact(ids)
	}
	for i := range ids {
		switch ids[i].Scheme {
		case SchemeSuper:
			p.super = true
		case SchemeIP:
			if ip, ok := parseAddress(ids[i].ID); ok {
				p.ips = append(p.ips, ip)
			}
		}
	}
	return p
}

// IDs returns the identities. They must not be changed.
func (p *Proven) IDs() []jute.ID { return p.ids }

// Allowed is the function Allowed for someone with these identities.
func (p *Proven) Allowed(list []jute.ACL, perm jute.Perms) bool {
	switch {
	case len(list) == 0 || p.super || anyoneMay(list, perm):
		return true
	case p.exact == nil || len(list)*len(p.ids) <= compareMax:
		return compare(list, perm, p.ids)
	default:
		return p.exact.allow(list, perm)
	}
}

// anyoneMay reports whether an entry gives perm to everybody.
func anyoneMay(list []jute.ACL, perm jute.Perms) bool {
	for i := range list {
		if list[i].Perms&perm != 0 && isAnyone(&list[i].ID) {
			return true
		}
	}
	return false
}

// compare is the end of Allowed: it compares each with each.
func compare(list []jute.ACL, perm jute.Perms, ids []jute.ID) bool {
	for i := range list {
		if list[i].Perms&perm == 0 {
			continue
		}
		for j := range ids {
			if matches(&ids[j], &list[i].ID) {
				return true
			}
		}
	}
	return false
}

// name is a scheme and an id.
type name struct{ scheme, id string }

// exact is a set of identities in which the one that an entry names is found at once.
type exact struct {
	names   map[name]struct{} // all but those of ip
	ips     []string          // a connection has one
	anySASL bool              // see matches
}

// newExact makes the set of ids.
func newExact(ids []jute.ID) *exact {
	x := &exact{names: make(map[name]struct{}, len(ids))}
	for i := range ids {
		id := &ids[i]
		if id.Scheme == SchemeIP {
			x.ips = append(x.ips, id.ID)
			continue
		}
		x.anySASL = x.anySASL || id.Scheme == SchemeSASL && id.ID == SchemeSuper
		x.names[name{id.Scheme, id.ID}] = struct{}{}
	}
	return x
}

// has reports whether an identity has that scheme and id.
func (x *exact) has(scheme, id string) bool {
	_, ok := x.names[name{scheme, id}]
	return ok
}

// allow is the end of Allowed.
func (x *exact) allow(list []jute.ACL, perm jute.Perms) bool {
	for i := range list {
		if list[i].Perms&perm != 0 && x.match(&list[i].ID) {
			return true
		}
	}
	return false
}

// match reports whether one of the identities is the one that an ACL entry names: matches for all of them.
func (x *exact) match(entry *jute.ID) bool {
	switch entry.Scheme {
	case SchemeDigest, SchemeX509:
		return x.has(entry.Scheme, entry.ID)
	case SchemeSASL:
		return x.anySASL || x.has(SchemeSASL, entry.ID) || x.has(SchemeSASLAny, entry.ID)
	case SchemeIP:
		return slices.ContainsFunc(x.ips, func(ip string) bool { return ipMatches(ip, entry.ID) })
	}
	return false
}
