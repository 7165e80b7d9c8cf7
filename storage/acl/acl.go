package acl

import (
	"slices"
	"strings"

	"zkd/jute"
)

// The schemes that this package knows.
const (
	SchemeWorld  = "world"
	SchemeAuth   = "auth" // stands for the identities of the caller; never stored
	SchemeDigest = "digest"
	SchemeIP     = "ip"
	SchemeSASL   = "sasl"
	SchemeX509   = "x509"
	SchemeSuper  = "super" // an identity only: no ACL may hold it
	anyone       = "anyone"
	// SchemeSASLAny is of an identity that satisfies the entry of the scheme sasl with its id: that of
	// zookeeper.letAnySaslUserDoX, which the proposer gives every SASL user, as apply knows no configuration. No ACL
	// may hold it, and auth does not become it.
	SchemeSASLAny = "sasl-any"
)

// Schemes is the set of schemes that have a provider. ip always has one.
type Schemes uint8

// The schemes that configuration switches.
const (
	Digest Schemes = 1 << iota
	SASL
	X509
)

// Open is the list that allows everything to everyone (ZooDefs.Ids.OPEN_ACL_UNSAFE), and ReadOnly the one that lets
// everyone read. They are immutable.
var (
	Open     = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: SchemeWorld, ID: anyone}}}
	ReadOnly = []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: SchemeWorld, ID: anyone}}}
)

// Allowed reports whether someone with the identities ids may do perm to a znode with this list
// (org.apache.zookeeper.server.ZooKeeperServer.checkACL). An empty list allows everything. Of perm, one bit suffices.
func Allowed(list []jute.ACL, perm jute.Perms, ids []jute.ID) bool {
	if len(list) == 0 || anyoneMay(list, perm) {
		return true
	}
	for i := range ids {
		if ids[i].Scheme == SchemeSuper {
			return true
		}
	}
	if len(list)*len(ids) > compareMax {
		return newExact(ids).allow(list, perm)
	}
	return compare(list, perm, ids)
}

// isAnyone reports whether id is world:anyone.
func isAnyone(id *jute.ID) bool { return id.Scheme == SchemeWorld && id.ID == anyone }

// matches reports whether the identity id is the one that an ACL entry names.
func matches(id, entry *jute.ID) bool {
	if id.Scheme != entry.Scheme {
		return id.Scheme == SchemeSASLAny && entry.Scheme == SchemeSASL && id.ID == entry.ID
	}
	switch entry.Scheme {
	case SchemeDigest, SchemeX509:
		return id.ID == entry.ID
	case SchemeSASL:
		// Quirk: a SASL user with the name super matches every sasl entry (SASLAuthenticationProvider.matches).
		return id.ID == entry.ID || id.ID == SchemeSuper
	case SchemeIP:
		return ipMatches(id.ID, entry.ID)
	}
	return false
}

// EntriesMax is how many entries the list of a znode may have that a client makes: every access looks through it, those
// of all clients on one goroutine. A guess, many times what anybody needs. ZooKeeper has no bound.
const EntriesMax = 2048

// Fix returns the list that a znode gets when a client with the identities ids asks for list
// (org.apache.zookeeper.server.PrepRequestProcessor.fixupACL): exact duplicates are dropped, auth is replaced by the
// caller's identities, the order is kept. It fails with InvalidACL, also for more than EntriesMax entries; with
// MarshallingError where ZooKeeper trips over a null id.
//
// The result shares no memory with list or ids; for the commonest list it is Open and costs no allocation.
func Fix(list []jute.ACL, ids []jute.ID, schemes Schemes) ([]jute.ACL, jute.Code) {
	if len(list) == 0 || len(list) > EntriesMax {
		return nil, jute.InvalidACL
	}
	if len(list) == 1 && list[0].Perms == jute.PermAll && isAnyone(&list[0].ID) {
		return Open, jute.OK
	}
	fixed := make([]jute.ACL, 0, len(list))
	var seen seenEntries
	for i := range list {
		entry := &list[i]
		if seen.repeats(list[:i], entry) {
			continue
		}
		if entry.ID.Nulls.Has(0) {
			return nil, jute.InvalidACL
		}
		if entry.ID.Scheme == SchemeAuth {
			expanded := appendAuthenticated(fixed, entry.Perms, ids, schemes)
			if len(expanded) == len(fixed) || len(expanded) > EntriesMax {
				return nil, jute.InvalidACL
			}
			fixed = expanded
			continue
		}
		if code := validID(&entry.ID, schemes); code != jute.OK {
			return nil, code
		}
		fixed = append(fixed, cloned(entry.Perms, &entry.ID))
	}
	if len(fixed) > EntriesMax {
		return nil, jute.InvalidACL
	}
	return fixed, jute.OK
}

// seenEntries finds entries that were there before, in a map as soon as there are more than a few: a client chooses how
// many, and the time would grow with their square.
type seenEntries map[jute.ACL]struct{}

// fewEntries is up to how many are compared one by one.
const fewEntries = 16

// repeats reports whether entry is among before. It is asked for all entries in their order.
func (s *seenEntries) repeats(before []jute.ACL, entry *jute.ACL) bool {
	if len(before) < fewEntries {
		return slices.ContainsFunc(before, func(a jute.ACL) bool { return a == *entry })
	}
	if *s == nil {
		*s = make(seenEntries)
		for i := range before {
			(*s)[before[i]] = struct{}{}
		}
	}
	_, ok := (*s)[*entry]
	(*s)[*entry] = struct{}{}
	return ok
}

// cloned returns an entry in memory of its own.
func cloned(perms jute.Perms, id *jute.ID) jute.ACL {
	// The schemes are few: those that are known need no copy.
	scheme := id.Scheme
	switch scheme {
	case SchemeWorld:
		scheme = SchemeWorld
	case SchemeDigest:
		scheme = SchemeDigest
	case SchemeIP:
		scheme = SchemeIP
	case SchemeSASL:
		scheme = SchemeSASL
	default:
		scheme = strings.Clone(scheme)
	}
	return jute.ACL{Perms: perms, ID: jute.ID{Scheme: scheme, ID: strings.Clone(id.ID)}}
}

// appendAuthenticated adds an entry for each of ids whose provider counts as authenticated: not ip, not super.
func appendAuthenticated(fixed []jute.ACL, perms jute.Perms, ids []jute.ID, schemes Schemes) []jute.ACL {
	for i := range ids {
		if bit, ok := schemeBit(ids[i].Scheme); ok && schemes&bit != 0 {
			fixed = append(fixed, cloned(perms, &ids[i]))
		}
	}
	return fixed
}

// schemeBit returns the bit of a scheme that configuration switches.
func schemeBit(scheme string) (Schemes, bool) {
	switch scheme {
	case SchemeDigest:
		return Digest, true
	case SchemeSASL:
		return SASL, true
	case SchemeX509:
		return X509, true
	}
	return 0, false
}

// validID asks the scheme's provider whether an ACL may name id.
func validID(id *jute.ID, schemes Schemes) jute.Code {
	bit, switched := schemeBit(id.Scheme)
	if switched && schemes&bit == 0 {
		return jute.InvalidACL
	}
	if !switched && id.Scheme != SchemeIP && id.Scheme != SchemeWorld {
		return jute.InvalidACL
	}
	if id.Nulls.Has(1) {
		// Quirk: ZooKeeper dereferences the null and reports what its catch-all reports.
		return jute.MarshallingError
	}
	var ok bool
	switch id.Scheme {
	case SchemeWorld:
		ok = id.ID == anyone
	case SchemeDigest:
		ok = validDigest(id.ID)
	case SchemeIP:
		_, _, ok = parseIPExpr(id.ID)
	case SchemeSASL:
		ok = validKerberosName(id.ID)
	case SchemeX509:
		ok = validX500Name(id.ID)
	}
	if !ok {
		return jute.InvalidACL
	}
	return jute.OK
}

// validDigest reports whether id is "user:hash" (DigestAuthenticationProvider.isValid): Java splits it at ':' into
// two parts, and forgets empty parts at the end.
func validDigest(id string) bool {
	return strings.Count(strings.TrimRight(id, ":"), ":") == 1
}

// validKerberosName reports whether id is user, or user[/host]@realm (KerberosName's constructor).
func validKerberosName(id string) bool {
	principal, realm, found := strings.Cut(id, "@")
	if !found {
		return true
	}
	return !strings.ContainsAny(realm, "/@") && strings.Count(principal, "/") <= 1
}

// Redact returns list with the secret part of each digest id replaced, as getACL shows it to who may not administer
// the znode (org.apache.zookeeper.server.FinalRequestProcessor). list itself stays as it is; without a digest it is
// the result.
func Redact(list []jute.ACL) []jute.ACL {
	if !slices.ContainsFunc(list, func(a jute.ACL) bool { return a.ID.Scheme == SchemeDigest }) {
		return list
	}
	redacted := slices.Clone(list)
	for i := range redacted {
		if id := &redacted[i].ID; id.Scheme == SchemeDigest {
			user, _, _ := strings.Cut(id.ID, ":")
			id.ID = user + ":x"
		}
	}
	return redacted
}
