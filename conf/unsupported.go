package conf

import (
	"maps"
	"slices"
	"strings"
)

// Unsupported lists what the configuration asks for that this release cannot do and must not pass over: hierarchical
// quorums, TLS with clients, SASL, enforced authentication, an audit log. A server must refuse to start while the list
// is not empty. Each Problem says in Allowed what to change.
func (c *Config) Unsupported() []Problem {
	u := unsupported{config: c}
	u.ensemble()
	u.tls()
	u.authentication()
	u.add(c.Tree.AuditLog, "audit.enable", "the audit log is not built yet; set it to false")
	slices.SortStableFunc(u.found, func(a, b Problem) int { return compareOrder(a.order, b.order) })
	return u.found
}

// unsupported collects the list.
type unsupported struct {
	config *Config
	found  []Problem
}

// add adds a problem about a key when wanted is true.
func (u *unsupported) add(wanted bool, name, remedy string) {
	if !wanted {
		return
	}
	s, ok := u.config.settings[name]
	if !ok {
		u.found = append(u.found, Problem{Key: name, Allowed: remedy})
		return
	}
	u.found = append(u.found, s.problem(remedy))
}

func (u *unsupported) ensemble() {
	for _, s := range u.config.members {
		if s.row.kind != kindMember {
			u.found = append(u.found, s.problem(notWithRaft))
		}
	}
}

func (u *unsupported) tls() {
	c := u.config
	const remedy = "TLS with clients is not built yet; remove it"
	u.add(c.Client.SecureAddr != "", "secureClientPort", remedy)
	u.add(c.Client.PortUnification, "client.portUnification", remedy)
	admin := c.Admin.Enabled && (c.Admin.ForceHTTPS || c.Admin.PortUnification)
	if admin || c.Ensemble.Distributed && (c.TLS.QuorumEnabled || c.TLS.QuorumPortUnification) {
		u.quorumTLS()
	}
}

// quorumTLS refuses what would make connections between members weaker than they are asked to be.
func (u *unsupported) quorumTLS() {
	end := &u.config.TLS.Quorum
	const revoked = "revoked certificates are not looked for yet; set it to false, " +
		"and take a certificate back by a new trust store"
	u.add(end.CRL, "ssl.quorum.crl", revoked)
	u.add(end.OCSP, "ssl.quorum.ocsp", revoked)
	const bouncy = "the format of Bouncy Castle cannot be read; convert the file to PKCS12 with keytool -importkeystore"
	u.add(end.KeyStore.isBCFKS(), "ssl.quorum.keyStore."+end.KeyStore.typedBy(), bouncy)
	u.add(end.TrustStore.isBCFKS(), "ssl.quorum.trustStore."+end.TrustStore.typedBy(), bouncy)
}

func (u *unsupported) authentication() {
	a := &u.config.Auth
	const remedy = "SASL is not built yet; remove it"
	u.add(a.RequireSASL, "sessionRequireClientSASLAuth", remedy)
	u.add(a.JAASFile != "", "java.security.auth.login.config", remedy)
	u.add(a.QuorumSASL, "quorum.auth.enableSasl", remedy)
	u.add(a.Enforce, "enforce.auth.enabled", "enforced authentication is not built yet; set it to false")
	for _, name := range slices.Sorted(maps.Keys(a.Providers)) {
		u.provider(name, a.Providers[name])
	}
}

// provider refuses a scheme that only a class of the user or a scheme still to be built could serve. The class of X509
// does nothing without TLS.
func (u *unsupported) provider(name, class string) {
	switch {
	case strings.HasSuffix(class, ".X509AuthenticationProvider"):
	case strings.HasPrefix(class, "org.apache.zookeeper.server.auth."):
		u.add(true, "authProvider."+name, "this scheme is not built yet; remove it")
	default:
		u.add(true, "authProvider."+name, "classes of one's own cannot be loaded; remove it")
	}
}
