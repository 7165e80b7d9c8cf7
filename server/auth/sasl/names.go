package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// NameOptions says what identities become of proven names.
type NameOptions struct {
	// AuthToLocal are the rules of zookeeper.security.auth_to_local; "" is DEFAULT.
	AuthToLocal string
	// DefaultRealm is the realm whose principals the rule DEFAULT takes, from krb5.conf; "" where there is none.
	DefaultRealm string
	// RemoveHost and RemoveRealm leave /host and @realm out of identities (zookeeper.kerberos.removeHostFromPrincipal
	// and .removeRealmFromPrincipal).
	RemoveHost, RemoveRealm bool
}

// Names turns proven names into identities (org.apache.zookeeper.server.auth.SaslServerCallbackHandler and
// KerberosName). Immutable after NewNames.
type Names struct {
	options NameOptions
	rules   []rule
}

// NewNames checks the rules.
func NewNames(o NameOptions) (*Names, error) {
	if o.AuthToLocal == "" {
		o.AuthToLocal = "DEFAULT"
	}
	rules, err := parseRules(o.AuthToLocal)
	if err != nil {
		return nil, fmt.Errorf("security.auth_to_local: %w", err)
	}
	return &Names{options: o, rules: rules}, nil
}

// principal is the parts of user[/host][@realm].
type principal struct {
	user, host, realm string
	hasHost, hasRealm bool
}

// parsePrincipal is KerberosName's constructor: without a realm all is the user; else there is at most one slash, which
// stands before the only at sign.
func parsePrincipal(name string) (principal, bool) {
	first, realm, found := strings.Cut(name, "@")
	if !found {
		return principal{user: name}, true
	}
	p := principal{realm: realm, hasRealm: true}
	p.user, p.host, p.hasHost = strings.Cut(first, "/")
	return p, !strings.ContainsAny(realm, "/@") && !strings.Contains(p.host, "/")
}

// identity returns the id of the scheme sasl for a proven name. Where no rule applies it is the whole name, as on 3.9.5
// if the client asks for no authorization id; with one, 3.9.5 lets such a client be whoever it says.
func (n *Names) identity(name string) (string, error) {
	p, ok := parsePrincipal(name)
	if !ok {
		return "", fmt.Errorf("%w: name %q is malformed", ErrBroken, name)
	}
	id, err := n.short(p)
	switch {
	case errors.Is(err, errNoRule):
		return name, nil
	case err != nil:
		return "", err
	}
	if p.hasHost && !n.options.RemoveHost {
		id += "/" + p.host
	}
	if p.hasRealm && !n.options.RemoveRealm {
		id += "@" + p.realm
	}
	return id, nil
}

// errNoRule means that no rule gives a name (KerberosName.NoMatchingRule).
var errNoRule = errors.New("no rule of security.auth_to_local applies")

// short is KerberosName.getShortName.
func (n *Names) short(p principal) (string, error) {
	if !p.hasHost && !p.hasRealm {
		return p.user, nil
	}
	parts := []string{p.realm, p.user}
	if p.hasHost {
		parts = append(parts, p.host)
	}
	for i := range n.rules {
		r := &n.rules[i]
		name, ok := r.apply(parts, n.options.DefaultRealm)
		if !ok {
			continue
		}
		if strings.ContainsAny(name, "/@") {
			return "", errNoRule
		}
		return name, nil
	}
	return "", errNoRule
}
