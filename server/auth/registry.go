package auth

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
)

// Scheme names of ZooKeeper.
const (
	SchemeWorld  = "world"
	SchemeAuth   = "auth"
	SchemeDigest = "digest"
	SchemeIP     = "ip"
	SchemeX509   = "x509"
	SchemeSASL   = "sasl"
	SchemeSuper  = "super"
	// SchemeSASLAny is of identities that stand for an entry of ACLs which every SASL user satisfies
	// (zookeeper.letAnySaslUserDoX). No client sees them.
	SchemeSASLAny = acl.SchemeSASLAny
)

// Provider is one authentication scheme (org.apache.zookeeper.server.auth.AuthenticationProvider). It is used by many
// connections at once.
type Provider interface {
	// Scheme returns the name in auth packets and identities.
	Scheme() string
	// Authenticate returns what the data of an auth packet proves for a client of that address. No identities with ok
	// mean that there was nothing to add. data is a view of the frame, nil for null: what is kept of it is copied.
	Authenticate(remote netip.Addr, data []byte) (ids []jute.ID, ok bool)
	// User returns the part of one of its identities that whoAmI and the audit log show
	// (AuthenticationProvider.getUserName).
	User(id string) string
}

// refuser is a Provider whose refusals have another code than AuthFailed.
type refuser interface {
	// Refusal returns what Identities.Add returns in place of AuthFailed.
	Refusal() jute.Code
}

// Options sets up a Registry.
type Options struct {
	// DigestDisabled takes the digest scheme away (DigestAuthenticationProvider.enabled=false).
	DigestDisabled bool
	// DigestAlgorithm is DigestAuthenticationProvider.digestAlg: SHA1 (the default, also for ""), SHA-256, SHA-512 and
	// the others of Java's MessageDigest that Go has.
	DigestAlgorithm string
	// SuperDigest is DigestAuthenticationProvider.superDigest, "super:<base64 digest>"; "" means that nobody is super
	// by it.
	SuperDigest string
	// Extra are further schemes. One that is named as a built-in scheme replaces it.
	Extra []Provider
	// EnforcedSchemes are those of which a connection must have proven one before anything but authentication is
	// answered (enforce.auth.schemes, or sasl for sessionRequireClientSASLAuth). Empty means that nothing is enforced.
	EnforcedSchemes []string
}

// Registry is the schemes of one server. Immutable after New.
type Registry struct {
	providers []Provider
	enforced  []string
}

// New checks the options and returns the schemes they describe. It fails for an unknown digest algorithm and for an
// enforced scheme that there is no provider for (AuthenticationHelper.validateConfiguredProperties).
func New(o Options) (*Registry, error) {
	r := &Registry{enforced: slices.Clone(o.EnforcedSchemes)}
	r.providers = append(r.providers, ipProvider{})
	if !o.DigestDisabled {
		p, err := newDigest(o.DigestAlgorithm, o.SuperDigest)
		if err != nil {
			return nil, err
		}
		r.providers = append(r.providers, p)
	}
	for _, p := range o.Extra {
		r.providers = slices.DeleteFunc(r.providers, func(old Provider) bool { return old.Scheme() == p.Scheme() })
		r.providers = append(r.providers, p)
	}
	for _, scheme := range r.enforced {
		if r.Provider(scheme) == nil {
			return nil, fmt.Errorf("enforced authentication scheme %q is not available; available are %s: "+
				"configure its provider or take it out of enforce.auth.schemes",
				scheme, strings.Join(r.Schemes(), ", "))
		}
	}
	return r, nil
}

// Schemes returns the names of all schemes, sorted.
func (r *Registry) Schemes() []string {
	names := make([]string, 0, len(r.providers))
	for _, p := range r.providers {
		names = append(names, p.Scheme())
	}
	slices.Sort(names)
	return names
}

// Provider returns the provider of a scheme, or nil. Names are compared exactly.
func (r *Registry) Provider(scheme string) Provider {
	for _, p := range r.providers {
		if p.Scheme() == scheme {
			return p
		}
	}
	return nil
}

// Requires reports whether a scheme is among those that are enforced (AuthenticationHelper.isSaslAuthRequired).
func (r *Registry) Requires(scheme string) bool { return slices.Contains(r.enforced, scheme) }

// Enforces reports whether any scheme is enforced.
func (r *Registry) Enforces() bool { return len(r.enforced) > 0 }

// Admits reports whether a connection with these identities may be answered: nothing is enforced, or it has proven an
// enforced scheme (AuthenticationHelper.enforceAuthentication). Everyone else gets SessionClosedAuth and is closed.
func (r *Registry) Admits(ids []jute.ID) bool {
	if len(r.enforced) == 0 {
		return true
	}
	for i := range ids {
		if slices.Contains(r.enforced, ids[i].Scheme) {
			return true
		}
	}
	return false
}

// WhoAmI appends to dst what whoAmI answers for these identities, one entry each, in their order. An identity whose
// scheme has no provider (super) has the user "" (org.apache.zookeeper.server.util.AuthUtil.getClientInfos).
func (r *Registry) WhoAmI(dst []jute.ClientInfo, ids []jute.ID) []jute.ClientInfo {
	for i := range ids {
		if ids[i].Scheme == SchemeSASLAny {
			continue
		}
		info := jute.ClientInfo{AuthScheme: ids[i].Scheme}
		if p := r.Provider(ids[i].Scheme); p != nil {
			info.User = p.User(ids[i].ID)
		}
		dst = append(dst, info)
	}
	return dst
}
